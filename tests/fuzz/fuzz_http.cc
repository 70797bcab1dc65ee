// libFuzzer target: arbitrary bytes as what one client sends to the HTTP endpoint, over a loopback connection.
//
// It is answered in HTTP or hung up on, within a bound; and the next well-behaved client still gets its answer.
// Input: a u8 that says after how many bytes the client pauses, then its bytes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cdc/http_endpoint.h"

namespace outbox {
namespace {

constexpr int answer_within_ms = 10000;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

std::uint16_t free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  auto address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(probe, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no loopback port");
  }
  close(probe);
  return ntohs(address.sin_port);
}

class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    // Closing leaves no TIME_WAIT behind, or thousands of connections a second would use up the ports.
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    const auto address = loopback(port);
    if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) __builtin_trap();
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The server may hang up in the middle: what is left is then not sent.
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  void no_more() { shutdown(socket_, SHUT_WR); }

  std::string answer() {
    std::string all;
    std::array<char, 4096> piece{};
    for (;;) {
      pollfd one{.fd = socket_, .events = POLLIN, .revents = 0};
      if (poll(&one, 1, answer_within_ms) <= 0) __builtin_trap();
      const auto size = recv(socket_, piece.data(), piece.size(), 0);
      if (size <= 0) return all;
      all.append(piece.data(), static_cast<std::size_t>(size));
    }
  }

 private:
  int socket_;
};

// libFuzzer's alarm would interrupt every wait; that nothing takes too long is seen by those who wait.
bool without_alarms() {
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  return pthread_sigmask(SIG_BLOCK, &alarms, nullptr) == 0;
}

struct Endpoint {
  HttpConfig config{.host = "127.0.0.1", .port = free_port()};
  StatusBoard board;
  Metrics metrics{"fuzz"};
  HttpEndpoint http{config, board, metrics};
};

void fuzz_http(std::string_view input) {
  static const bool undisturbed = without_alarms();  // Threads that are started later inherit it.
  if (!undisturbed) __builtin_trap();
  static Endpoint endpoint;
  if (input.empty()) return;
  const std::size_t pause_after = static_cast<std::uint8_t>(input[0]);
  const auto bytes = input.substr(1);
  // The loop of a relay turns; else /livez would say 503 after a while.
  endpoint.board.turned(std::chrono::steady_clock::now());
  {
    Client client(endpoint.config.port);
    client.send(bytes.substr(0, pause_after));
    if (bytes.size() > pause_after) client.send(bytes.substr(pause_after));
    client.no_more();
    const auto answer = client.answer();
    // No further: civetweb repeats the version that it does not understand.
    if (!answer.empty() && answer.substr(0, 5) != "HTTP/") __builtin_trap();
  }
  Client next(endpoint.config.port);
  next.send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
  if (next.answer().substr(0, 15) != "HTTP/1.1 200 OK") __builtin_trap();
}

}  // namespace
}  // namespace outbox

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  outbox::fuzz_http({reinterpret_cast<const char*>(data), size});
  return 0;
}
