// SPDX-License-Identifier: Apache-2.0
#include "bulk/port.hpp"

#include "catch.hpp"

#include "quiet_port.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::bulk;  // NOLINT

namespace {

class NarrowPort final : public kit::QuietPort {
 public:
  void serve(Channel channel, Upward owner) override {
    CHECK(channel == up::kControl);
    upward = std::move(owner);
  }
  using QuietPort::serve;
  Result<bool> put(Channel /*channel*/, std::string_view bytes) override {
    if (is_cut_off) return Error{EPIPE, "cut off"};
    if (sent.size() == room) return false;
    sent.emplace_back(bytes);
    return true;
  }
  void taken(Id /*origin*/, Numbered /*number*/) override { seen.emplace_back("taken"); }

  Upward upward;
  std::size_t room = 1;
  bool is_cut_off = false;
  std::vector<std::string> sent, seen;
};

}  // namespace

TEST_CASE("records without room wait, and go in order once there is some") {
  NarrowPort port;
  RecordQueue queue(up::kControl);
  queue.serve(port, [](Id, std::string_view) {});
  for (const char* each : {"a", "b", "c"}) queue.put(each);
  CHECK(queue.waiting() == 2);
  port.room = 2;
  port.upward.on_room();
  CHECK(queue.waiting() == 1);
  port.room = 9;
  queue.put("d");
  CHECK(port.sent == std::vector<std::string>{"a", "b", "c", "d"});
}

TEST_CASE("records are dropped by a queue that serves no channel, and by one that is cut off") {
  RecordQueue unserved(up::kControl);
  unserved.put("a");
  CHECK(unserved.waiting() == 0);
  NarrowPort port;
  port.room = 0;
  RecordQueue queue(up::kControl);
  queue.serve(port, [](Id, std::string_view) {});
  queue.put("a");
  port.upward.on_end(Error{EPIPE, "cut off"});
  CHECK(queue.waiting() == 0);
  queue.put("b");
  CHECK(queue.waiting() == 1);
  port.is_cut_off = true;
  queue.put("c");
  CHECK(queue.waiting() == 0);
}

TEST_CASE("who waits for records to go is notified when none waits any more, by room or by the end") {
  NarrowPort port;
  port.room = 0;
  RecordQueue queue(up::kControl);
  queue.when_empty([&] { port.seen.emplace_back("empty"); });
  queue.serve(port, [](Id, std::string_view) {});
  queue.put("a");
  queue.put("b");
  port.room = 1;
  port.upward.on_room();
  CHECK(port.seen.empty());
  port.room = 2;
  port.upward.on_room();
  CHECK(port.seen == std::vector<std::string>{"empty"});
  queue.put("c");
  port.upward.on_end(Error{EPIPE, "cut off"});
  CHECK(port.seen.size() == 2);
}

TEST_CASE("the leader has a record before it is taken") {
  NarrowPort port;
  RecordQueue queue(up::kControl);
  queue.serve(port, [&](Id origin, std::string_view bytes) {
    port.seen.push_back(std::to_string(origin) + ":" + std::string(bytes));
  });
  port.upward.on_record(3, {}, "a");
  CHECK(port.seen == std::vector<std::string>{"3:a", "taken"});
}
