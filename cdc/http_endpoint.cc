#include "cdc/http_endpoint.h"

#include <civetweb.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "cdc/exit_codes.h"

namespace outbox {

namespace {

constexpr std::chrono::seconds longest_turn{30};

struct Answer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

std::string address(const HttpConfig& config) {
  const bool v6 = config.host.find(':') != std::string::npos;
  return fmt::format(fmt::runtime(v6 ? "[{}]:{}" : "{}:{}"), config.host, config.port);
}

std::string to_json(const Status& status) {
  nlohmann::ordered_json json;
  json["state"] = to_string(status.state);
  json["reason"] = status.reason;
  json["received_lsn"] = to_string(status.received_lsn);
  json["acked_lsn"] = to_string(status.flushed_lsn);
  json["confirmed_lsn"] = to_string(status.confirmed_lsn);
  json["events_in_flight"] = status.events_in_flight;
  json["transactions_in_flight"] = status.transactions_in_flight;
  json["events_delivered"] = status.events_delivered;
  json["events_per_second"] = status.events_per_second;
  json["commit_to_ack_seconds"] = status.commit_to_ack_seconds;
  json["oldest_unacked_seconds"] = status.oldest_unacked_seconds;
  return json.dump() + "\n";
}

// Where a client on this machine finds what is bound to `host`.
const char* reachable(const std::string& host) {
  if (host == "0.0.0.0") return "127.0.0.1";
  if (host == "::") return "::1";
  return host.c_str();
}

mg_connection* connect_to(const HttpConfig& config) {
  std::array<char, 256> error{};
  return mg_connect_client(reachable(config.host), config.port, 0, error.data(), error.size());
}

// civetweb's initialisation is counted; one for the process is enough.
void init_library() {
  static const unsigned features = mg_init_library(0);
  (void)features;
}

}  // namespace

struct HttpEndpoint::Server {
  const HttpConfig config;
  const StatusBoard& board;
  const Metrics& metrics;
  mg_context* context = nullptr;

  Answer answer(std::string_view path) const {
    const auto now = std::chrono::steady_clock::now();
    const bool turning = board.since_turn(now) < longest_turn;
    if (path == "/metrics") {
      return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics.scrape()};
    }
    if (path == "/status") return {.content_type = "application/json", .body = to_json(board.read())};
    if (path == "/livez" || path == "/readyz") {
      std::string problem = turning ? "" : "the loop does not turn";
      if (turning && path == "/readyz") problem = unready_reason(board.read(), config.unready_after);
      if (problem.empty()) return {.body = "ok\n"};
      return {.status = 503, .body = problem + "\n"};
    }
    return {.status = 404, .body = "there are /metrics, /livez, /readyz and /status\n"};
  }

  int handle(mg_connection* connection) const {
    const auto* request = mg_get_request_info(connection);
    const std::string_view method = request->request_method;
    const bool head = method == "HEAD";
    const auto reply =
        head || method == "GET" ? answer(request->local_uri) : Answer{.status = 405, .body = "GET and HEAD only\n"};
    mg_printf(connection,
              "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
              "Connection: close\r\n\r\n",
              reply.status, mg_get_response_code_text(connection, reply.status), reply.content_type.c_str(),
              reply.body.size());
    if (!head) mg_write(connection, reply.body.data(), reply.body.size());
    return reply.status;
  }
};

HttpEndpoint::HttpEndpoint(const HttpConfig& config, const StatusBoard& board, const Metrics& metrics)
    : server_(new Server{.config = config, .board = board, .metrics = metrics}) {
  init_library();
  const auto listen = address(config);
  // Short requests, no files: what a scraper and a probe need. A client that dawdles holds a thread until the timeout,
  // so there are more of them than scrapers, and the timeout is short: sixty such clients delay a scrape by seconds.
  const std::array<const char*, 15> options{"listening_ports",
                                            listen.c_str(),
                                            "num_threads",
                                            "16",
                                            "request_timeout_ms",
                                            "1000",
                                            "max_request_size",
                                            "8192",
                                            "enable_keep_alive",
                                            "no",
                                            "enable_directory_listing",
                                            "no",
                                            "linger_timeout_ms",
                                            "100",
                                            nullptr};
  mg_callbacks callbacks{};
  // Its own complaints about clients are not the relay's news.
  callbacks.log_message = [](const mg_connection*, const char*) { return 1; };
  // Before civetweb has an opinion of its own: it would answer a WebSocket upgrade without an HTTP header.
  callbacks.begin_request = [](mg_connection* connection) {
    const auto* server = static_cast<Server*>(mg_get_user_data(mg_get_context(connection)));
    return server->handle(connection);
  };
  std::array<char, 256> error{};
  mg_error_data details{.code = nullptr, .text = error.data(), .text_buffer_size = error.size()};
  unsigned code = 0;
  details.code = &code;
  mg_init_data init{.callbacks = &callbacks,
                    .user_data = server_.get(),
                    .configuration_options = const_cast<const char**>(options.data())};
  server_->context = mg_start2(&init, &details);
  if (server_->context == nullptr) {
    throw FatalError(ExitCode::config,
                     fmt::format("http.listen {}: {}. Is another process there? Choose another port, or `off`", listen,
                                 error[0] != 0 ? error.data() : "cannot be listened on"));
  }
}

HttpEndpoint::~HttpEndpoint() {
  // civetweb looks whether it should stop when a connection comes, or else after a second or two: so one comes.
  std::atomic<bool> stopped = false;
  std::thread knocking([&] {
    while (!stopped) {
      if (auto* connection = connect_to(server_->config)) mg_close_connection(connection);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  mg_stop(server_->context);
  stopped = true;
  knocking.join();
}

std::string http_get(const HttpConfig& config, const char* path) {
  init_library();
  std::array<char, 256> error{};
  const char* host = reachable(config.host);
  mg_connection* connection =
      mg_download(host, config.port, 0, error.data(), error.size(), "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path, host);
  if (connection == nullptr) return {};
  std::string body;
  std::array<char, 4096> piece{};
  int size = 0;
  while ((size = mg_read(connection, piece.data(), piece.size())) > 0)
    body.append(piece.data(), static_cast<std::size_t>(size));
  const auto* response = mg_get_response_info(connection);
  const bool fine = response != nullptr && response->status_code == 200;
  mg_close_connection(connection);
  return fine ? body : std::string();
}

}  // namespace outbox
