// SPDX-License-Identifier: Apache-2.0
//
// The bytes of the question, before shells leave, which tasks are connected to PMI, and of its answer.
#include "catch.hpp"

#include "core/shell_shrink.hpp"
#include "fake_host.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::core;  // NOLINT

TEST_CASE("who is asked before shells leave the job answers, and who is not does not") {
  kit::FakeHost host;
  ShrinkQuestion question(host);
  CHECK(question.answer(R"({"leave":true,"number":4,"shells":"0,2"})") ==
        R"({"connected":"","number":4,"spawned":false})");
  CHECK(question.answer(R"({"leave":true,"number":4,"shells":"1"})").empty());
  CHECK(question.answer("garbage").empty());
  CHECK(question.answer(R"({"leave":true,"shells":"0"})").empty());
  CHECK(ShrinkQuestion::leaving_in(R"({"leave":true,"number":1,"shells":"1-2"})").str() == "1-2");
  CHECK(ShrinkQuestion::leaving_in(R"({"leave":false,"number":1,"shells":"1-2"})").empty());
  CHECK(ShrinkQuestion::leaving_in("[]").empty());
}
