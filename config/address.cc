// `host:port` and `[ipv6]:port`.
#include "config/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace outbox {
namespace {

bool is_ipv6(const std::string& host) {
  in6_addr ignored;
  return inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &ignored) == 1;
}

bool fits_in_host(unsigned char c) { return std::isalnum(c) || c == '.' || c == '-' || c == '_' || c >= 0x80; }

}  // namespace

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || rest != end || port == 0) return std::nullopt;
  return port;
}

std::optional<Address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = parse_port(text.substr(colon + 1));
  std::string host(text.substr(0, colon));
  if (!port) return std::nullopt;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (!is_ipv6(host)) return std::nullopt;
  } else if (host.empty() || !std::all_of(host.begin(), host.end(), fits_in_host)) {
    return std::nullopt;
  }
  return Address{.host = std::move(host), .port = *port};
}

}  // namespace outbox
