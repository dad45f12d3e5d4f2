// SPDX-License-Identifier: Apache-2.0
#include "cli/initrc_findings.hpp"

#include <algorithm>
#include <regex>
#include <set>

#include "base/nearest.hpp"
#include "base/text.hpp"
#include "job/option_table.hpp"

namespace nacre::cli {
namespace {

constexpr const char* kNamed = R"(shell\.options(?:\.([A-Za-z_]\w*)|\s*\[\s*["']([^"']+)["']\s*\]))";
constexpr const char* kDeclared = R"(nacre\.option\s*\{[^}]*?\bname\s*=\s*["']([^"']+)["'])";

// Replaces comments by blanks, so that positions do not change.
std::string without_comments(std::string_view text) {
  std::string out(text);
  for (std::size_t at = out.find("--"); at != std::string::npos; at = out.find("--", at)) {
    std::size_t end = out.compare(at + 2, 2, "[[") == 0 ? out.find("]]", at) : out.find('\n', at);
    for (; at < std::min(end, out.size()); ++at) {
      if (out[at] != '\n') out[at] = ' ';
    }
  }
  return out;
}

void add_matches(const std::string& text, const char* pattern, bool is_declared, std::vector<NamedOption>& out) {
  const std::regex expression(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match) {
    std::string name = (*match)[1].matched ? (*match)[1].str() : (*match)[2].str();
    auto line = 1 + std::count(text.begin(), text.begin() + match->position(), '\n');
    out.push_back({std::move(name), static_cast<int>(line), is_declared});
  }
}

std::string nearest_option(const std::string& name) {
  if (name.find('.') == std::string::npos) return nearest(name, job::known_options()).value_or("");
  std::vector<std::string> whole;
  for (const auto& each : job::option_table()) whole.emplace_back(each.name);
  return nearest(name, whole).value_or("");
}

}  // namespace

std::vector<NamedOption> named_options(std::string_view text) {
  std::vector<NamedOption> out;
  std::string code = without_comments(text);
  add_matches(code, kNamed, false, out);
  add_matches(code, kDeclared, true, out);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  return out;
}

std::vector<UnknownOption> unknown_options(std::string_view text) {
  std::vector<NamedOption> named = named_options(text);
  std::set<std::string> known{"standalone"};  // a member of shell.options, but not an option
  for (const NamedOption& each : named) {
    if (each.is_declared) known.insert(each.name);
  }
  std::vector<UnknownOption> out;
  for (const NamedOption& each : named) {
    std::string top(split(each.name, '.').front());
    if (known.contains(top) || job::is_known_option(each.name) || !known.insert(each.name).second) continue;
    out.push_back({each.name, each.line, nearest_option(each.name)});
  }
  return out;
}

}  // namespace nacre::cli
