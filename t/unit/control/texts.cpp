// SPDX-License-Identifier: Apache-2.0
//
// The bytes of what front ends and the leader of a job tell each other: other programs also write and read them.
#include "catch.hpp"

#include "control/message.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::control;  // NOLINT

TEST_CASE("the texts of messages between a front end and the leader") {
  CHECK(line_of(ControlHello{"1.0"}) == fmt::format(R"({{"control":{},"nacre":"1.0"}})", kProtocol) + "\n");
  CHECK(line_of(ControlHello{"1.0", "no"}) ==
        fmt::format(R"({{"control":{},"error":"no","nacre":"1.0"}})", kProtocol) + "\n");
  CHECK(line_of(Answer{1, {{"x", 2}}}) == "{\"id\":1,\"ok\":{\"x\":2}}\n");
  CHECK(line_of(Answer{1, Json::object(), {}, true}) == "{\"id\":1,\"more\":true,\"ok\":{}}\n");
  CHECK(line_of(Answer{1, {}, Error{ESRCH, "gone"}}) ==
        fmt::format(R"({{"error":{{"code":{},"message":"gone"}},"id":1}})", ESRCH) + "\n");
  CHECK(line_of(Answer{1, {}, Error{0, "gone"}}) ==
        fmt::format(R"({{"error":{{"code":{},"message":"gone"}},"id":1}})", EINVAL) + "\n");
  CHECK(line_of(ControlEvent{1.5, "n"}) == "{\"context\":{},\"name\":\"n\",\"timestamp\":1.5}\n");
  CHECK(line_of(StreamCredit{1, 5}) == "{\"credit\":5,\"id\":1}\n");
  auto why = [](const Json& frame) {
    auto read = from_leader(frame);
    return read ? "fine" : read.error().message;
  };
  CHECK(why({{"id", 1}, {"ok", 2}}) == "fine");
  CHECK(why({{"id", 1}}) == "missing key 'ok'");
  CHECK(
      why({{"id", 1}, {"error", {{"code", 0}, {"message", "m"}}}}).starts_with("error.code: expected an integer"));
  CHECK(why({{"id", 1}, {"credit", -1}}).starts_with("credit: expected an integer from 0"));
  CHECK(why({{"name", "n"}}) == "missing key 'timestamp'");
  auto hello = hello_of({{"nacre", "9"}, {"control", kProtocol + 1}});
  REQUIRE_FALSE(hello);
  CHECK(hello.error().code == EPROTONOSUPPORT);
}
