// SPDX-License-Identifier: Apache-2.0
#include "group/codec.hpp"

#include "catch.hpp"

using namespace nacre::group;  // NOLINT
using nacre::exits::Record;
using nacre::value::Idset;
using nacre::value::WaitStatus;

namespace {

JobException sent(const JobException& exception) { return decode(encode(exception)); }

}  // namespace

TEST_CASE("an exception arrives as it was sent") {
  JobException out = sent({"exec", 0, "it fails", 42, 7, true});
  CHECK(out.type == "exec");
  CHECK(out.severity == 0);
  CHECK(out.message == "it fails");
  CHECK(out.exit_code == 42);
  CHECK(out.origin == 7);
  CHECK(out.of_shell);
  CHECK_FALSE(sent({"exec", 2, "it fails", std::nullopt, 7}).exit_code);
}

TEST_CASE("a code that a process cannot exit with arrives as the one that it counts as") {
  CHECK(sent({"exec", 0, "", 300, 0}).exit_code == 44);
  CHECK(sent({"exec", 0, "", 256, 0}).exit_code == 255);
  CHECK(sent({"exec", 0, "", -1, 0}).exit_code == 255);
  CHECK(sent({"exec", 0, "", 0, 0}).exit_code == 1);
}

TEST_CASE("of a note that no shell wrote, what can be understood is taken") {
  JobException out = decode(overlay::ExceptionEntry{"exec", 0, "no JSON"});
  CHECK(out.message == "no JSON");
  CHECK_FALSE(out.exit_code);
  CHECK_FALSE(decode(overlay::ExceptionEntry{"exec", 0, R"({"message": "m", "exit_code": 256})"}).exit_code);
}

TEST_CASE("how tasks ended arrives as it was sent") {
  Ended out{Idset::range(3, 5), Record::victim(WaitStatus::killed(15))};
  auto back = decode(overlay::TaskReport{out.tasks, encode(out)});
  REQUIRE(back);
  CHECK(back->tasks == out.tasks);
  CHECK(back->record == out.record);
  CHECK_FALSE(decode(overlay::TaskReport{out.tasks, "y3"}));
}
