// The `source` section: where the events come from.
#include <algorithm>
#include <string>
#include <utility>

#include "config/address.h"
#include "config/properties.h"
#include "config/sections.h"
#include "config/text.h"

namespace outbox {
namespace {

void read_create(const MapReader& parent, CreatePolicy& into) {
  parent.choice("create", into, {{"never", CreatePolicy::never}, {"if_missing", CreatePolicy::if_missing}});
}

// What libpq takes: one port, or several with commas between them.
bool is_port_list(const std::string& ports) {
  for (std::size_t start = 0; start <= ports.size();) {
    const std::size_t comma = std::min(ports.find(',', start), ports.size());
    if (!parse_port(std::string_view(ports).substr(start, comma - start))) return false;
    start = comma + 1;
  }
  return true;
}

void read_port(const MapReader& source, SourceConfig& into) {
  const auto port = source.text("port", into.port);
  if (!port) return;
  auto commas = [](const std::string& list) { return std::count(list.begin(), list.end(), ','); };
  if (!is_port_list(into.port)) {
    port->refuse_found("expected a port from 1 to 65535, or one for each host with commas between them");
  } else if (commas(into.port) != 0 && commas(into.port) != commas(into.host)) {
    port->refuse("expected one port for all hosts or one for each of them");
  }
}

void read_slot(const MapReader& slot, SlotConfig& into) {
  if (const auto name = slot.text("name", into.name)) {
    const bool fits = into.name.size() <= 63 && std::all_of(into.name.begin(), into.name.end(), [](unsigned char c) {
                        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
                      });
    if (!fits) name->refuse_found("expected 1 to 63 of a-z, 0-9 and _ (what PostgreSQL allows in a slot's name)");
  }
  read_create(slot, into.create);
  slot.choice("failover", into.failover,
              {{"auto", FailoverSlot::automatic}, {"on", FailoverSlot::on}, {"off", FailoverSlot::off}});
}

void read_publication(const MapReader& publication, PublicationConfig& into) {
  publication.identifier("name", into.name);
  read_create(publication, into.create);
}

}  // namespace

void read_source(const MapReader& source, SourceConfig& into) {
  source.text("host", into.host);
  read_port(source, into);
  if (!source.find("database")) source.refuse("\"database\" is required: the database whose outbox is read");
  source.identifier("database", into.database);
  source.identifier("user", into.user);
  source.text("password", into.password);
  const auto password_file = source.text("password_file", into.password_file);
  if (source.find("password") && password_file) {
    password_file->refuse("stands beside \"password\"; keep one of the two");
  }
  if (const auto libpq = source.find("libpq"); libpq && !libpq->is_null()) {
    into.libpq = read_properties(*libpq, kLibpqRules);
  }
  if (const auto publication = source.map("publication")) read_publication(*publication, into.publication);
  if (const auto slot = source.map("slot")) read_slot(*slot, into.slot);
  source.duration("release_on_shutdown_after", into.release_on_shutdown_after);
}

}  // namespace outbox
