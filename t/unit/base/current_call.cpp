// SPDX-License-Identifier: Apache-2.0
#include "base/current_call.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include "catch.hpp"

using namespace nacre;

TEST_CASE("the innermost call is named, and the outermost is one place") {
  const CallPage& page = CallPage::own();
  const std::string outer = "outer";
  const std::string inner = "inner";
  const std::string topic = "topic";
  const std::string other = "other";
  CallPage::Place before = page.place();
  CHECK_FALSE(before.within_call());
  {
    CurrentCall first(outer, topic);
    CallPage::Place within = page.place();
    CHECK(within.within_call());
    CHECK(page.plugin() == "outer");
    CHECK(page.topic() == "topic");
    {
      CurrentCall same(outer, topic);
      CurrentCall second(inner, other);
      CHECK(page.plugin() == "inner");
      CHECK(page.topic() == "other");
      CHECK(page.place() == within);
    }
    CHECK(page.plugin() == "outer");
    CHECK(page.topic() == "topic");
    CHECK(page.place() == within);
    std::int64_t began = page.moved_at();
    ::usleep(3000);
    CHECK(page.moved_at() == began);
    CallPage::own().turned();
    CHECK(page.moved_at() > began);
    CHECK(page.place() != within);
  }
  CHECK_FALSE(page.place().within_call());
  CHECK(page.place() != before);
  CHECK(page.moved_at() <= CallPage::clock());
}

TEST_CASE("names that are too long are cut") {
  const std::string plugin(CallPage::kPluginSize, 'p');
  const std::string topic(CallPage::kTopicSize, 't');
  CurrentCall call(plugin, topic);
  CHECK(CallPage::own().plugin() == plugin.substr(1));
  CHECK(CallPage::own().topic() == topic.substr(1));
}

TEST_CASE(
    "a forked process says in whose code it is, and what it leaves unfinished ends with the call of its parent") {
  const std::string waiting = "waiting";
  const std::string child = "child";
  {
    CurrentCall call(waiting, waiting);
    pid_t pid = ::fork();
    if (pid == 0) {
      CurrentCall own(child, child);
      ::_exit(0);
    }
    REQUIRE(::waitpid(pid, nullptr, 0) == pid);
    CHECK(CallPage::own().plugin() == "child");
    CHECK(CallPage::own().place().within_call());
  }
  CHECK_FALSE(CallPage::own().place().within_call());
}
