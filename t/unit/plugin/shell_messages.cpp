// SPDX-License-Identifier: Apache-2.0
#include "plugin/shell_messages.hpp"

#include "catch.hpp"

#include "fake_job.hpp"

using nacre::Result;
using nacre::kit::FakeJob;
using nacre::plugin::Registration;
using nacre::plugin::ShellMessages;

namespace {

// What one shell gets.
struct Receiver {
  explicit Receiver(ShellMessages& of)
      : messages(of.on_message([this](ShellMessages::Message& message) {
          message.is_taken = takes;
          got.push_back(fmt::format("{}:{}{}", message.from, message.bytes, message.is_taken ? "" : "?"));
        })),
        unreachable(of.on_unreachable(
            [this](std::uint32_t shell, int code) { got.push_back(fmt::format("{}!{}", shell, code)); })) {}

  bool takes = true;
  std::vector<std::string> got;
  Registration messages;
  Registration unreachable;
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("messages reach the shell that they are for, in their order") {
  FakeJob job(3, 1);
  Receiver one(job[1].messages());
  Receiver two(job[2].messages());
  for (std::uint32_t shell = 0; shell < 3; ++shell) job[shell].messages().initialized();
  CHECK(job[0].messages().send(2, "a"));
  CHECK(job[1].messages().send(2, std::string("\0b", 2)));
  CHECK(job[0].messages().send(2, ""));
  job.deliver();
  CHECK(job[1].messages().announcements() == 3);
  CHECK(one.got.empty());
  CHECK(two.got == Lines{"0:a", std::string("1:\0b", 4), "0:"});
}

TEST_CASE("no message to oneself, to no shell, beyond the limit, or to a lost shell") {
  FakeJob job(3, 1);
  CHECK(job[1].messages().send(1, "a").error().code == EINVAL);
  CHECK(job[1].messages().send(3, "a").error().code == EINVAL);
  CHECK(job[1].messages().send(2, std::string(ShellMessages::kMaxMessage, 'x')));
  CHECK(job[1].messages().send(2, std::string(ShellMessages::kMaxMessage + 1, 'x')).error().code == EMSGSIZE);
  Receiver one(job[1].messages());
  job.lose(2);
  CHECK(one.got == Lines{fmt::format("2!{}", EHOSTUNREACH)});
  CHECK(job[1].messages().send(2, "a").error().code == EHOSTUNREACH);
  CHECK(job[1].messages().send(0, "a"));
}

TEST_CASE("a shell that is cut off reaches nobody") {
  FakeJob job(3, 1);
  Receiver one(job[1].messages());
  job.lose(2);
  job.cut_off(1);
  CHECK(one.got == Lines{fmt::format("2!{}", EHOSTUNREACH), fmt::format("0!{}", EHOSTUNREACH)});
  CHECK(job[1].messages().send(0, "a").error().code == EHOSTUNREACH);
}

TEST_CASE("what nobody takes waits until shell.init has been run, and is then refused") {
  FakeJob job(2, 1);
  Receiver zero(job[0].messages());
  job[0].messages().initialized();
  {
    Receiver one(job[1].messages());
    one.takes = false;
    REQUIRE(job[0].messages().send(1, "a"));
    REQUIRE(job[0].messages().send(1, "b"));
    job.deliver();
    one.takes = true;
    job[1].messages().offer();
    job[1].messages().offer();
    CHECK(one.got == Lines{"0:a?", "0:b?", "0:a", "0:b"});
  }
  REQUIRE(job[0].messages().send(1, "c"));
  job.deliver();
  CHECK(zero.got.empty());
  job[1].messages().initialized();
  job.deliver();
  CHECK(zero.got == Lines{fmt::format("1!{}", ENOSYS)});
  REQUIRE(job[0].messages().send(1, "d"));
  job.deliver();
  CHECK(zero.got.size() == 2);
}

TEST_CASE("of the messages that wait one too many is refused") {
  FakeJob job(2, 1);
  Receiver zero(job[0].messages());
  for (std::size_t i = 0; i <= ShellMessages::kMaxKept; ++i) REQUIRE(job[0].messages().send(1, "a"));
  job.deliver();
  CHECK(zero.got == Lines{fmt::format("1!{}", ENOBUFS)});
}

TEST_CASE("announcements that are no messages are left to others, and broken ones do nothing") {
  FakeJob job(2, 1);
  Receiver one(job[1].messages());
  CHECK_FALSE(job[1].messages().take("other", "abc"));
  for (const char* topic : {"shell.message", "shell.refused"}) {
    CHECK(job[1].messages().take(topic, ""));
    CHECK(job[1].messages().take(topic, "1234567"));
  }
  CHECK(job[1].messages().take("shell.refused", std::string("\0\0\0\0\0\0\0\1", 8)));
  CHECK(job[1].messages().take("shell.refused", std::string("\0\0\0\0\0\0\0\1\1", 9)));
  CHECK(one.got.empty());
}
