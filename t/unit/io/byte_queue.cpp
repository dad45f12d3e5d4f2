// SPDX-License-Identifier: Apache-2.0
#include "io/sink.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "catch.hpp"

namespace {

using nacre::io::ByteQueue;

std::string all_of(const ByteQueue& queue) {
  std::array<std::string_view, 64> blocks;
  std::string out;
  for (std::string_view each : queue.first(blocks)) out += each;
  return out;
}

}  // namespace

TEST_CASE("a queue of bytes gives them in their order, block by block") {
  ByteQueue queue;
  CHECK(queue.empty());
  std::array<std::string_view, 2> two;
  CHECK(queue.first(two).empty());
  queue.add("");
  CHECK(queue.empty());
  queue.add("one ");
  queue.add("two");
  CHECK(queue.size() == 7);
  REQUIRE(queue.first(two).size() == 1);
  CHECK(two[0] == "one two");
  queue.drop(4);
  CHECK(all_of(queue) == "two");
  queue.drop(100);
  CHECK(queue.empty());
  CHECK(queue.size() == 0);
  CHECK(queue.first(two).empty());

  std::string text(ByteQueue::kBlock * 2 + 5, 'x');
  text.back() = 'y';
  queue.add(text);
  CHECK(queue.first(two).size() == 2);
  CHECK(two[0].size() == ByteQueue::kBlock);
  CHECK((all_of(queue) == text));
  queue.drop(ByteQueue::kBlock);
  queue.add("z");
  CHECK((all_of(queue) == text.substr(ByteQueue::kBlock) + "z"));
  queue.clear();
  CHECK(queue.empty());
  queue.add("again");
  CHECK(all_of(queue) == "again");
}

TEST_CASE("what is added to a queue of bytes and dropped in any sizes is as in a text") {
  std::mt19937 random(7);  // NOLINT: the same each time
  ByteQueue queue;
  std::string text;
  for (int round = 0; round < 300; ++round) {
    std::string part(random() % (ByteQueue::kBlock / 2), static_cast<char>('a' + round % 26));
    queue.add(part);
    text += part;
    std::size_t goes = random() % (round % 10 == 9 ? text.size() + 1 : ByteQueue::kBlock / 2);
    queue.drop(goes);
    text.erase(0, std::min(goes, text.size()));
    CHECK(queue.size() == text.size());
    CHECK((all_of(queue) == text));
  }
}
