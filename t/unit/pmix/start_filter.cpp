// SPDX-License-Identifier: Apache-2.0
#include "peer_message.hpp"

#include "catch.hpp"

using namespace nacre::pmix;  // NOLINT

namespace {

PeerMessage about(std::uint64_t start, std::uint64_t number = 0) {
  return {.start = start, .number = number, .texts = {}};
}

std::vector<std::uint64_t> numbers(const std::vector<PeerMessage>& messages) {
  std::vector<std::uint64_t> out;
  for (const PeerMessage& each : messages) out.push_back(each.number);
  return out;
}

using Numbers = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a message is for the start that it is about: later ones are kept, former ones dropped") {
  StartFilter filter;
  CHECK_FALSE(filter.pass(about(1, 7)));  // a shell that has begun before this one
  CHECK(numbers(filter.begin(1)) == Numbers{7});
  CHECK(filter.pass(about(1)));
  CHECK_FALSE(filter.pass(about(4, 1)));
  CHECK_FALSE(filter.pass(about(5, 2)));
  CHECK_FALSE(filter.pass(about(4, 3)));
  CHECK(filter.pass(about(1)));  // the shell's tasks are still ending
  CHECK(numbers(filter.begin(4)) == Numbers{1, 3});
  CHECK(filter.current() == 4);
  CHECK_FALSE(filter.pass(about(1)));
  CHECK_FALSE(filter.pass(about(3)));
  CHECK(filter.pass(about(4)));
  CHECK(numbers(filter.begin(5)) == Numbers{2});
  CHECK(numbers(filter.begin(6)).empty());
}

TEST_CASE("a start that is given up for a later one, before it has begun here, leaves nothing behind") {
  StartFilter filter;
  filter.begin(1);
  filter.await(2);
  CHECK_FALSE(filter.pass(about(2, 1)));  // other shells have begun that start
  filter.await(3);
  CHECK_FALSE(filter.pass(about(2, 2)));
  CHECK_FALSE(filter.pass(about(3, 3)));
  CHECK(filter.pass(about(1)));
  filter.await(2);  // older news changes nothing
  CHECK(numbers(filter.begin(3)) == Numbers{3});
}

TEST_CASE("a shell that has had no tasks begins with the start that brings some") {
  StartFilter filter;
  filter.await(3);
  CHECK_FALSE(filter.pass(about(1, 1)));
  CHECK_FALSE(filter.pass(about(3, 2)));
  CHECK(numbers(filter.begin(3)) == Numbers{2});
}
