// /metrics, /livez, /readyz and /status over HTTP, by civetweb.
#pragma once

#include <memory>

#include "cdc/metrics.h"
#include "cdc/status_board.h"
#include "config/config.h"

namespace outbox {

// Answers from threads of its own, from what the loop has published: a scrape waits for nothing. GET and HEAD alone,
// no body is read, no file is served.
class HttpEndpoint {
 public:
  // Borrows the board and the metrics. Throws FatalError where the address cannot be had.
  HttpEndpoint(const HttpConfig& config, const StatusBoard& board, const Metrics& metrics);
  ~HttpEndpoint();

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

// The body of a GET from a running relay's endpoint; empty where none answers.
std::string http_get(const HttpConfig& config, const char* path);

}  // namespace outbox
