// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include "catch.hpp"

using nacre::Fingerprint;

namespace {

std::string of(std::initializer_list<std::string_view> pieces) {
  Fingerprint print;
  for (std::string_view each : pieces) print.add(each);
  return print.str();
}

}  // namespace

TEST_CASE("a fingerprint tells other bytes, other pieces and another order") {
  CHECK(of({}) == "-");
  CHECK(of({"a"}) == of({"a"}));
  CHECK(of({"a"}).size() == 16);
  CHECK(of({"a"}) != of({"b"}));
  CHECK(of({""}) != of({}));
  CHECK(of({"ab", "c"}) != of({"a", "bc"}));
  CHECK(of({"a", "b"}) != of({"b", "a"}));
}
