// The one list of the keys a file may have.
//
// The walk may ask only for keys that stand here, the messages about unknown keys are made from it,
// and tests compare it with the example file: a key that is added here and forgotten elsewhere
// fails a test.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outbox {

// Every key as a path, such as `source.slot.name`, `defaults.route.topic` or `outbox[].table.name`,
// parents before children.
const std::vector<std::string>& known_keys();

// The keys of one mapping, by its path; the empty path is the top level.
std::vector<std::string_view> keys_of(std::string_view path);

// The path of another mapping's key of that name, as one writes it; empty where there is none or
// more than one.
std::string_view find_elsewhere(std::string_view key);

}  // namespace outbox
