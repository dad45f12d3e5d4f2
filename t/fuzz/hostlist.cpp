// SPDX-License-Identifier: Apache-2.0
//
// A hostlist that parses is shown as text that parses to the same names in the same order.
#include "value/hostlist.hpp"

#include "require.hpp"

using nacre::fuzz::require;
using nacre::value::Hostlist;

namespace {

constexpr std::uint64_t kMaxExpanded = 1 << 9;  // names that are looked at one by one

void require_same(const Hostlist& list, const std::string& text) {
  auto again = Hostlist::parse(text);
  require(again.has_value(), "parses: " + text);
  require(again->size() == list.size(), "same size: " + text);
  if (list.size() <= kMaxExpanded) require(again->names() == list.names(), "same names: " + text);
  require(*again == list, "equal: " + text);
}

void require_names(const Hostlist& list, const std::vector<std::string>& names) {
  Hostlist built;
  for (const std::string& name : names) built.append(name);
  require(built == list, "same list from its names");
  require_same(built, built.str());
  for (std::size_t i = 0; i < names.size(); ++i) {
    require(list.nth(i) == names[i], "nth is the name: " + names[i]);
  }
  if (!names.empty()) require(names[list.find(names.back()).value()] == names.back(), "find has the name");
}

// Takes away the names at the front, so that runs are cut.
void require_rest(const Hostlist& list, const std::vector<std::string>& names) {
  Hostlist front;
  for (std::size_t i = 0; i < names.size() / 2; ++i) front.append(names[i]);
  Hostlist rest = list;
  require(rest.remove(front) == front.size(), "each name at the front is removed");
  require(rest.names() == std::vector<std::string>(names.begin() + names.size() / 2, names.end()),
          "the names behind are left");
  require_same(rest, rest.str());
}

void require_changes(const Hostlist& list, std::vector<std::string> names) {
  Hostlist sorted = list;
  sorted.sort();
  require_same(sorted, sorted.str());
  std::vector<std::string> sorted_names = sorted.names();
  Hostlist unique = list;
  unique.uniq();
  require_same(unique, unique.str());
  Hostlist rest = list;
  require(rest.remove(unique) == unique.size(), "one of each name is removed");
  require_same(rest, rest.str());
  rest.remove(list);
  require(rest.empty(), "a list takes away all of its own names");

  std::sort(names.begin(), names.end());
  std::sort(sorted_names.begin(), sorted_names.end());
  require(sorted_names == names, "sorting keeps the names");
  names.erase(std::unique(names.begin(), names.end()), names.end());
  require(unique.size() == names.size(), "uniq keeps one of each name");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto list = Hostlist::parse({reinterpret_cast<const char*>(data), size});
  if (!list) {
    require(list.error().message.starts_with("hostlist: "), list.error().message);
    return 0;
  }
  require(list->size() <= Hostlist::kMaxHosts, "within the limit");
  require_same(*list, list->str());
  if (list->size() > kMaxExpanded) return 0;
  std::vector<std::string> names = list->names();
  require_names(*list, names);
  require_rest(*list, names);
  require_changes(*list, names);
  return 0;
}
