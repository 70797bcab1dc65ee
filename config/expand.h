// `${…}` in the text of a scalar: environment variables are put in, column references are left as
// pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"

namespace outbox {

struct Expanded {
  std::vector<Template::Piece> pieces;  // No empty literal, no two literals side by side.
  std::vector<std::string> errors;
  bool used_environment = false;
};

// One pass from left to right; what a variable holds is never looked at again, so a `${` in it
// stays text.
//   ${env:VAR}           the variable; an error where it is unset
//   ${env:VAR:-default}  the text up to the `}` where the variable is unset or empty, as in a shell
//   $${                  a literal ${
//   ${name}              a column
Expanded expand(std::string_view text, const Environment& environment);

}  // namespace outbox
