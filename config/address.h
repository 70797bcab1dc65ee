// `host:port` and `[ipv6]:port`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace outbox {

struct Address {
  std::string host;  // Without the brackets.
  std::uint16_t port;
};

// Nothing unless both parts are there and the port is from 1 to 65535.
std::optional<Address> parse_address(std::string_view text);

// From 1 to 65535, in plain digits.
std::optional<std::uint16_t> parse_port(std::string_view text);

}  // namespace outbox
