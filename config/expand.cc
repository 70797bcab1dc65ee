// `${…}` in the text of a scalar: environment variables are put in, column references are left as
// pieces.
#include "config/expand.h"

#include <algorithm>
#include <cctype>

#include "config/text.h"

namespace outbox {
namespace {

using Kind = Template::Piece::Kind;

constexpr std::string_view kOpen = "${";
constexpr std::string_view kEscapedOpen = "$${";
constexpr std::string_view kEnvironment = "env:";
constexpr std::string_view kDefault = ":-";

void append_literal(std::vector<Template::Piece>& pieces, std::string_view text) {
  if (text.empty()) return;
  if (pieces.empty() || pieces.back().kind != Kind::literal) pieces.push_back({Kind::literal, ""});
  pieces.back().text += text;
}

bool is_variable_name(std::string_view name) {
  auto is_word = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name.front())) &&
         std::all_of(name.begin(), name.end(), is_word);
}

// `inside` is what stands between `${env:` and `}`.
void expand_variable(std::string_view inside, const Environment& environment, Expanded& into) {
  into.used_environment = true;
  const std::size_t colon = inside.find(kDefault);
  const std::string name(inside.substr(0, colon));
  if (!is_variable_name(name)) {
    into.errors.push_back("${env:…} needs the name of a variable (letters, digits, _), as in ${env:HOME}");
    return;
  }
  const std::optional<std::string> value = environment(name);
  if (colon != std::string_view::npos && (!value || value->empty())) {
    append_literal(into.pieces, inside.substr(colon + kDefault.size()));
  } else if (value) {
    append_literal(into.pieces, *value);
  } else {
    into.errors.push_back("the environment variable " + name + " is not set; set it, or write ${env:" + name +
                          ":-default}");
  }
}

void expand_column(std::string_view name, Expanded& into) {
  if (name.empty()) {
    into.errors.push_back("${} names nothing; write $${} for the characters themselves");
  } else if (name.find(':') != std::string_view::npos) {
    into.errors.push_back("${…} with a colon is understood only as ${env:NAME} or ${env:NAME:-default}");
  } else if (name.front() == ' ' || name.back() == ' ') {
    into.errors.push_back("${…} takes the name without spaces around it");
  } else if (auto refusal = refuse_identifier(name)) {
    into.errors.push_back("${…} does not name a column: " + *refusal);
  } else {
    into.pieces.push_back({Kind::column, std::string(name)});
  }
}

}  // namespace

Expanded expand(std::string_view text, const Environment& environment) {
  Expanded expanded;
  while (!text.empty()) {
    const std::size_t dollar = text.find('$');
    append_literal(expanded.pieces, text.substr(0, dollar));
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar);
    if (text.starts_with(kEscapedOpen)) {
      append_literal(expanded.pieces, kOpen);
      text.remove_prefix(kEscapedOpen.size());
    } else if (!text.starts_with(kOpen)) {
      append_literal(expanded.pieces, "$");
      text.remove_prefix(1);
    } else {
      text.remove_prefix(kOpen.size());
      const std::size_t close = text.find('}');
      if (close == std::string_view::npos || text.substr(0, close).find(kOpen) != std::string_view::npos) {
        expanded.errors.push_back("a ${ is not closed by a }; write $${ for the characters themselves");
        break;
      }
      const std::string_view inside = text.substr(0, close);
      if (inside.starts_with(kEnvironment)) {
        expand_variable(inside.substr(kEnvironment.size()), environment, expanded);
      } else {
        expand_column(inside, expanded);
      }
      text.remove_prefix(close + 1);
    }
  }
  return expanded;
}

}  // namespace outbox
