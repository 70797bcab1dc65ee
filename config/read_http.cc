// The `http` section: where the relay can be asked how it is.
#include "config/address.h"
#include "config/sections.h"

namespace outbox {

void read_http(const MapReader& http, HttpConfig& into) {
  std::string listen;
  if (const auto value = http.text("listen", listen)) {
    if (listen == "off") {
      into.enabled = false;
    } else if (const auto address = parse_address(listen)) {
      into.host = address->host;
      into.port = address->port;
    } else {
      value->refuse_found("expected host:port such as 127.0.0.1:9464 or [::1]:9464, or off");
    }
  }
  if (const auto value = http.duration("unready_after", into.unready_after)) {
    if (into.unready_after == std::chrono::milliseconds::zero()) {
      value->refuse("must be more than nothing: every record waits for its acknowledgement for a while");
    }
  }
}

}  // namespace outbox
