// SPDX-License-Identifier: Apache-2.0
//
// The plugin `output`: when all of a task's output has come out, and its last bytes.
#include <csignal>

#include <fmt/format.h>
#include "catch.hpp"

#include "base/bytes.hpp"
#include "folder.hpp"
#include "output_tasks.hpp"
#include "quiet_port.hpp"

using namespace nacre;
using kit::kErr;
using kit::kOut;
using kit::Tasks;

TEST_CASE("it is known of failed tasks whether all that they have written has come out") {
  Tasks tasks(4);
  auto left = [&] { return tasks.host.task_output()->come_out().str(); };
  tasks.start();
  CHECK(left().empty());
  tasks.exit(0);
  tasks.poll();
  CHECK(left().empty());
  REQUIRE(tasks.host.end_task(0, value::WaitStatus::exited(3)));
  CHECK(left() == "0");
  tasks.end(1, kOut).reset();  // a process that it has left behind holds the other
  REQUIRE(tasks.host.end_task(1, value::WaitStatus::killed(SIGSEGV)));
  tasks.poll();
  CHECK(left() == "0");
  tasks.exit(1);
  tasks.poll();
  CHECK(left() == "0-1");
  tasks.exit(2);
  REQUIRE(tasks.host.end_task(2, value::WaitStatus::exited(0)));
  tasks.poll();
  CHECK(left() == "0-1");
  tasks.run_to_end();
}

TEST_CASE("what a failed task has written has not come out while its reader does not read") {
  Tasks tasks(2);
  Pipe pipe = *make_pipe(O_CLOEXEC);
  tasks.out = std::move(pipe.write);
  auto left = [&] { return tasks.host.task_output()->come_out().str(); };
  tasks.start();
  std::string line(60001, 'x');
  line.back() = '\n';
  for (int i = 0; i < 3; ++i) {
    REQUIRE(tasks.write(0, kOut, line));
    tasks.poll();
  }
  tasks.exit(0);
  tasks.poll();
  REQUIRE(tasks.host.end_task(0, value::WaitStatus::exited(3)));
  CHECK(left().empty());
  REQUIRE(tasks.write(1, kOut, line));  // waits behind it
  tasks.poll();
  std::string text;
  while (text.size() < 3 * 60001) {
    char bytes[4096];
    ssize_t got = ::read(pipe.read.get(), bytes, sizeof bytes);
    REQUIRE(got > 0);
    text.append(bytes, static_cast<std::size_t>(got));
    tasks.poll();
  }
  CHECK(left() == "0");
  pipe.read.reset();
  tasks.run_to_end();
}

TEST_CASE("the last bytes of what a task has written are kept") {
  Tasks tasks(2);
  auto tail = [&](std::uint32_t rank) { return tasks.host.task_output()->tail(rank).value(); };
  tasks.start();
  CHECK(tail(1).err.empty());
  for (int i = 0; i < 2000; ++i) {
    REQUIRE(tasks.write(0, kOut, fmt::format("out {}\n", i)));
    REQUIRE(tasks.write(0, kErr, fmt::format("err {}\n", i)));
    tasks.poll();
  }
  REQUIRE(tasks.write(1, kErr, "why\n"));
  tasks.exit(0);
  tasks.exit(1);
  tasks.run();  // what comes fast may have been left in the pipe for a moment
  REQUIRE(tasks.host.end_task(1, value::WaitStatus::exited(3)));
  CHECK(tail(0).out.size() == 1024);
  CHECK(tail(0).err.size() == 4096);
  CHECK(tail(0).err.ends_with("err 1998\nerr 1999\n"));
  CHECK_FALSE(tail(0).is_complete);
  CHECK(tail(1).err == "why\n");
  CHECK(tail(1).is_complete);
  CHECK_FALSE(tasks.host.task_output()->tail(7));
}

TEST_CASE("of a file that the task itself writes the last bytes are read") {
  kit::TemporaryFolder folder;
  Tasks tasks(1);
  tasks.host.options().set("output.stderr.type", "file");
  tasks.host.options().set("output.stderr.path", folder.path("{{taskid}}.err"));
  tasks.start();
  REQUIRE(tasks.write(0, kErr, std::string(5000, 'x') + "why\n"));
  CHECK(tasks.host.task_output()->tail(0)->err == std::string(4092, 'x') + "why\n");
  tasks.run_to_end();
  // What a job before has written there does not count.
  Tasks next(1);
  next.host.options() = tasks.host.options();
  next.host.options().set("output.mode", "append");
  next.start();
  CHECK(next.host.task_output()->tail(0)->err.empty());
  REQUIRE(next.write(0, kErr, "what\n"));
  CHECK(next.host.task_output()->tail(0)->err == "what\n");
  REQUIRE(::ftruncate(next.end(0, kErr).get(), 0) == 0);
  REQUIRE(next.write(0, kErr, "else\n"));
  CHECK(next.host.task_output()->tail(0)->err == "else\n");
  next.run_to_end();
}

namespace {

// What shell 1 has sent before the leader serves the channel, which comes at once.
class EarlyPort final : public kit::QuietPort {
 public:
  void serve(bulk::Channel channel, Upward owner) override {
    if (channel == bulk::up::kOutput) owner.on_record(1, 1, records());
  }
  using QuietPort::serve;

 private:
  // doc/protocol.md, "Output": a source of task 1, then a batch.
  static std::string records() {
    std::string out;
    auto head = [&out](char kind, std::uint32_t size) {
      out += kind;
      append_number<std::uint32_t>(out, 0);
      append_number<std::uint32_t>(out, size);
    };
    head(1, 5);
    append_number<std::uint32_t>(out, 1);
    out += '\0';
    head(2, 15);
    append_number<std::uint64_t>(out, 0);
    out += '\0';
    return out + "early\n";
  }
};

struct Follower final : plugin::OutputFollower {
  void put(const io::Batch& batch) override { text += std::string(batch.head) + std::string(batch.body); }
  void all_out() override {}
  std::string text;
};

}  // namespace

TEST_CASE("who follows the output from shell.init on gets what other shells have sent before the places are open") {
  EarlyPort port;
  Follower follower;
  kit::FakeHost host(
      R"({"version": 1, "resources": [{"type": "slot", "label": "task", "count": 2, "with": [{"type": "core", "count": 1}]}],
          "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}], "attributes": {"system": {"duration": 0}}})",
      R"({"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0"}}], "nodelist": ["n[0-1]"],
          "starttime": 0, "expiration": 0}})");
  host.port = &port;
  host.stack().push(plugins::make_output(host));
  host.make_tasks();
  REQUIRE(host.call("shell.init"));
  REQUIRE(host.task_output() != nullptr);
  CHECK(host.task_output()->come_out().str() == "0-1");
  host.task_output()->follow(&follower);
  UniqueFd out(::memfd_create("out", MFD_CLOEXEC));
  {
    kit::Redirection redirect(kOut, out.get());
    REQUIRE(host.call("shell.post-init"));
  }
  CHECK(follower.text == "early\n");
  host.task_output()->follow(nullptr);
}
