// SPDX-License-Identifier: Apache-2.0
//
// Hostlists for tests, from text or names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"

#include "value/hostlist.hpp"

using nacre::value::Hostlist;
using Names = std::vector<std::string>;

inline Hostlist list_of(std::string_view text) {
  INFO(text.substr(0, 100));
  auto list = Hostlist::parse(text);
  if (!list) FAIL(list.error().message);
  return *list;
}

inline Hostlist list_of(const Names& names) {
  Hostlist list;
  for (const std::string& name : names) list.append(name);
  return list;
}
