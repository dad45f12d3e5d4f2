// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "control/message.hpp"
#include "control/session.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::control;  // NOLINT
using nacre::Error;
using nacre::Json;

namespace {

const std::string kHello = line_of(ControlHello{"1.0"});

// A session, the requests that it got, and what it has sent since its hello.
struct Side {
  Side() : session("2.0", callbacks()) { static_cast<void>(sent()); }

  Session::Callbacks callbacks() {
    Session::Callbacks out;
    out.on_request = [this](const ControlRequest& request) { asked.push_back(request); };
    out.on_data = [this](const StreamData& each) { data.push_back(each); };
    out.on_end = [this](const StreamEnd& end) { ended.push_back(end.stream); };
    out.on_room = [this](std::uint64_t id) { rooms.push_back(id); };
    return out;
  }

  std::vector<Json> sent() {
    std::vector<Json> out;
    FrameReader reader;
    reader.append(session.output());
    while (auto frame = reader.next().value()) out.push_back(*frame);
    session.sent(session.output().size());
    return out;
  }
  void ask(std::uint64_t id, const std::string& action = "status") {
    REQUIRE(session.receive(line_of(ControlRequest{id, action})));
  }

  void ask_for_data(std::uint64_t id, std::uint64_t credit) {
    REQUIRE(session.receive(line_of(ControlRequest{id, "attach", Json::object(), credit})));
  }

  std::vector<ControlRequest> asked;
  std::vector<StreamData> data;
  std::vector<std::string> ended;
  std::vector<std::uint64_t> rooms;
  Session session;
};

// One that has got a hello.
struct Greeted : Side {
  Greeted() { REQUIRE(session.receive(kHello)); }
};

const std::string kBlock(kMaxStreamData, 'x');

}  // namespace

TEST_CASE("each side begins with its version", "[control]") {
  Session session("2.0", {});
  CHECK(session.output() == "{\"control\":1,\"nacre\":\"2.0\"}\n");
  CHECK_FALSE(session.is_greeted());
  REQUIRE(session.receive(kHello));
  CHECK(session.is_greeted());
  CHECK(Session("2.0", {}).receive("{\"nacre\":\"9\",\"control\":2}\n").error().code == EPROTONOSUPPORT);
  CHECK_FALSE(Session("2.0", {}).receive("{\"id\":1,\"do\":\"status\"}\n"));
}

TEST_CASE("a request comes in pieces, with members of its own, and is answered once", "[control]") {
  Side side;
  std::string bytes = kHello + "{\"id\":7,\"do\":\"signal\",\"signal\":15,\"unknown\":{}}\n";
  for (char each : bytes) REQUIRE(side.session.receive({&each, 1}));
  REQUIRE(side.asked.size() == 1);
  CHECK(side.asked[0] == ControlRequest{7, "signal", {{"signal", 15}, {"unknown", Json::object()}}});
  CHECK(side.session.is_open(7));
  side.session.answer_part(7, 1);
  side.session.answer(7, Json(2));
  side.session.answer(7, Json(3));
  side.session.answer_part(7, 4);
  side.session.answer(8, Json(5));
  CHECK_FALSE(side.session.is_open(7));
  CHECK(side.sent() == std::vector<Json>{{{"id", 7}, {"ok", 1}, {"more", true}}, {{"id", 7}, {"ok", 2}}});
  side.ask(7);  // the number is free again
  side.session.answer(7, Error{ESRCH, "gone"});
  CHECK(side.sent()[0]["error"] == Json{{"code", ESRCH}, {"message", "gone"}});
}

TEST_CASE("what is no request ends the link", "[control]") {
  for (const char* line : {"", "1", "[]", "{", "{}", "{\"id\":0,\"do\":\"x\"}", "{\"id\":-1,\"do\":\"x\"}",
                           "{\"id\":1}", "{\"id\":1,\"do\":2}", "{\"id\":1e30,\"do\":\"x\"}", "\xff"}) {
    Greeted side;
    CHECK_FALSE(side.session.receive(line + std::string("\n")));
    CHECK(side.asked.empty());
  }
}

TEST_CASE("a request that is open cannot be made again", "[control]") {
  Greeted side;
  side.ask(1);
  CHECK_FALSE(side.session.receive(line_of(ControlRequest{1, "status"})));
}

TEST_CASE("sixteen requests may be open, one more is refused and the link goes on", "[control]") {
  Greeted side;
  static_cast<void>(side.sent());
  for (std::uint64_t id = 1; id <= kMaxOpen + 1; ++id) side.ask(id);
  CHECK(side.asked.size() == kMaxOpen);
  auto sent = side.sent();
  REQUIRE(sent.size() == 1);
  CHECK(sent[0]["id"] == kMaxOpen + 1);
  CHECK(sent[0]["error"]["code"] == EBUSY);
  side.session.answer(1, Json(1));
  side.ask(100);
  CHECK(side.asked.size() == kMaxOpen + 1);
}

TEST_CASE("a line of a megabyte is taken, one that is longer ends the link", "[control]") {
  auto line_of_size = [](std::size_t size) {
    std::string line = line_of(ControlRequest{1, "status", {{"x", ""}}});
    return line.insert(line.find("\"\"") + 1, size - line.size(), 'x');
  };
  Greeted side;
  std::string longest = line_of_size(kMaxFrame);
  REQUIRE(longest.size() == kMaxFrame);
  CHECK(side.session.receive(longest));
  CHECK(side.asked.size() == 1);
  CHECK(side.session.receive(line_of_size(kMaxFrame + 1)).error().code == EMSGSIZE);
  Greeted endless;
  REQUIRE(endless.session.receive(std::string(kMaxFrame - 1, 'x')));
  CHECK(endless.session.receive("x").error().code == EMSGSIZE);
}

TEST_CASE("an answer that is too long is an error, so that the link goes on", "[control]") {
  Greeted side;
  static_cast<void>(side.sent());
  side.ask(1);
  side.session.answer(1, Json(std::string(kMaxFrame, 'x')));
  CHECK(side.sent()[0]["error"]["code"] == EMSGSIZE);
}

TEST_CASE("events that a client does not take are dropped and counted", "[control]") {
  Side side;
  side.session.notify({1, "early", Json::object()});
  CHECK(side.sent().empty());  // before its hello
  REQUIRE(side.session.receive(kHello));
  ControlEvent large{1, "large", {{"text", std::string(100000, 'x')}}};
  for (int i = 0; i < 50; ++i) side.session.notify(large);
  CHECK(side.session.output().size() < kMaxEvents + 200000);
  CHECK_FALSE(side.session.is_full());
  std::size_t taken = side.sent().size();
  side.session.notify({2, "small", Json::object()});
  CHECK(side.sent()[0]["context"]["dropped"] == 50 - taken);
}

TEST_CASE("a client that takes no answers is let go", "[control][long]") {
  Greeted side;
  side.ask(1);
  for (int i = 0; i < 16; ++i) side.session.answer_part(1, std::string(1000000, 'x'));
  CHECK_FALSE(side.session.is_full());
  CHECK(side.session.output().size() > 16000000);
  for (int i = 0; i < 17; ++i) side.session.answer_part(1, std::string(1000000, 'x'));
  CHECK(side.session.is_full());
  CHECK(side.session.output().empty());  // nothing is kept for the client
  CHECK_FALSE(side.session.receive(line_of(ControlRequest{2, "status"})));
}

TEST_CASE("data goes as far as the client's credit", "[control]") {
  Greeted side;
  static_cast<void>(side.sent());
  side.ask_for_data(1, 10);
  CHECK(side.asked[0].arguments == Json::object());
  CHECK(side.session.room(1) == 10);
  CHECK(side.session.put({1, "output", "12345678"}));
  CHECK_FALSE(side.session.put({1, "output", "123"}));
  CHECK(side.sent() == std::vector<Json>{{{"id", 1}, {"stream", "output"}, {"data", "12345678"}}});
  CHECK(side.rooms.empty() == false);  // for the two bytes that are left
  side.rooms.clear();
  CHECK_FALSE(side.session.put({1, "output", "123"}));
  REQUIRE(side.session.receive(line_of(StreamCredit{1, 1})));
  CHECK(side.rooms == std::vector<std::uint64_t>{1});
  CHECK(side.session.put({1, "output", "123", {{"rank", 4}}}));
  side.session.put_end({1, "output"});
  CHECK(side.sent() == std::vector<Json>{{{"id", 1}, {"stream", "output"}, {"data", "123"}, {"rank", 4}},
                                         {{"id", 1}, {"stream", "output"}, {"eof", true}}});
  CHECK(side.session.room(1) == 0);
  CHECK_FALSE(side.session.put({1, "output", ""}));  // an empty frame costs a byte
  side.session.answer(1, Json(0));
  static_cast<void>(side.sent());
  CHECK(side.session.put({1, "output", "late"}));  // the data is dropped
  side.session.put_end({1, "output"});
  CHECK(side.sent().empty());
}

TEST_CASE("a client that takes no data has no room, whatever its credit is", "[control]") {
  Greeted side;
  side.ask_for_data(1, kMaxCredit);
  REQUIRE(side.session.receive(line_of(StreamCredit{1, kMaxCredit})));
  std::size_t taken = 0;
  while (side.session.put({1, "output", kBlock})) ++taken;
  CHECK(taken == 2);
  CHECK(side.session.output().size() < kMaxUnsentData + kMaxStreamData + 1000);
  CHECK(side.rooms.empty());
  static_cast<void>(side.sent());
  CHECK(side.rooms == std::vector<std::uint64_t>{1});
  CHECK(side.session.put({1, "output", kBlock}));
}

TEST_CASE("a client sends data within what it was granted", "[control]") {
  Greeted side;
  static_cast<void>(side.sent());
  side.ask(1);
  side.session.grant(1, 5);
  CHECK(side.sent() == std::vector<Json>{{{"id", 1}, {"credit", 5}}});
  REQUIRE(side.session.receive(line_of(StreamData{1, "input", "abc\xff", {{"rank", 2}}})));
  CHECK(side.data == std::vector<StreamData>{{1, "input", "abc\xff", {{"rank", 2}}}});
  REQUIRE(side.session.receive(line_of(StreamEnd{1, "input"})));
  CHECK(side.ended == std::vector<std::string>{"input"});
  // Data for a request that is not open, or not any more, is ignored.
  REQUIRE(side.session.receive(line_of(StreamData{9, "input", kBlock})));
  REQUIRE(side.session.receive(line_of(StreamEnd{9, "input"})));
  REQUIRE(side.session.receive(line_of(StreamCredit{9, 1})));
  CHECK(side.data.size() == 1);
  SECTION("more ends the link") {
    CHECK(side.session.receive(line_of(StreamData{1, "other", "de"})).error().code == EPROTO);
  }
  SECTION("data after the end ends the link") {
    CHECK(side.session.receive(line_of(StreamData{1, "input", "d"})).error().code == EPROTO);
  }
  SECTION("a second end ends the link") {
    CHECK(side.session.receive(line_of(StreamEnd{1, "input"})).error().code == EPROTO);
  }
  SECTION("a client cannot end any number of streams") {
    for (std::size_t i = 1; i < kMaxStreams; ++i)
      REQUIRE(side.session.receive(line_of(StreamEnd{1, std::to_string(i)})));
    CHECK(side.session.receive(line_of(StreamEnd{1, "one more"})).error().code == EPROTO);
  }
  SECTION("a quarter of a megabyte may be underway") {
    side.session.grant(1, kMaxGranted);
    side.session.grant(1, 1);
    CHECK(side.sent() == std::vector<Json>{{{"id", 1}, {"credit", kMaxGranted - 1}}});
  }
}

TEST_CASE("what is no frame of a stream ends the link", "[control]") {
  for (const char* line :
       {R"({"id":1,"stream":1,"data":"x"})", R"({"id":1,"stream":"","data":"x"})", R"({"id":1,"stream":"x"})",
        R"({"id":1,"stream":"x","data":1})", R"({"id":1,"stream":"x","base64":"x"})",
        R"({"stream":"x","data":"x"})", R"({"id":1,"stream":"x","eof":1})", R"({"id":1,"credit":-1})",
        R"({"id":1,"credit":1e30})", R"({"id":2,"do":"attach","credit":"x"})"}) {
    CAPTURE(line);
    Greeted side;
    side.ask(1);
    side.session.grant(1, 1000);
    CHECK_FALSE(side.session.receive(line + std::string("\n")));
  }
  Greeted side;
  side.ask(1);
  side.session.grant(1, kMaxGranted);
  CHECK(side.session.receive(line_of(StreamData{1, "x", kBlock})));
  CHECK_FALSE(side.session.receive(line_of(StreamData{1, "x", kBlock + 'x'})));
  Greeted named;
  named.ask(1);
  named.session.grant(1, 10);
  CHECK(named.session.receive(line_of(StreamData{1, std::string(kMaxStreamName, 'n'), "x"})));
  CHECK_FALSE(named.session.receive(line_of(StreamData{1, std::string(kMaxStreamName + 1, 'n'), "x"})));
}

TEST_CASE("what a leader sends reads back as it was", "[control]") {
  auto event = from_leader(Json::parse(line_of(ControlEvent{1.5, "end", {{"code", 3}}})));
  REQUIRE(event);
  CHECK(std::get<ControlEvent>(*event) == ControlEvent{1.5, "end", {{"code", 3}}});
  auto answer = from_leader(Json::parse(line_of(Answer{3, {{"a", 1}}, {}, true})));
  REQUIRE(answer);
  CHECK(std::get<Answer>(*answer).value == Json{{"a", 1}});
  CHECK(std::get<Answer>(*answer).more);
  auto error = from_leader(Json::parse(line_of(Answer{3, {}, Error{-4, "x"}, false})));
  REQUIRE(error);
  CHECK(std::get<Answer>(*error).error->code == EINVAL);
  StreamData data{3, "out\"put", std::string("\0\n\xff", 3), {{"rank", 1}, {"label", "1: "}}};
  CHECK(std::get<StreamData>(from_leader(Json::parse(line_of(data))).value()) == data);
  StreamEnd end{3, "output"};
  CHECK(std::get<StreamEnd>(from_leader(Json::parse(line_of(end))).value()) == end);
  CHECK(std::get<StreamCredit>(from_leader(Json::parse(line_of(StreamCredit{3, 5}))).value()).bytes == 5);
  CHECK_FALSE(from_leader(Json::parse("{\"id\":1}")));
  CHECK_FALSE(from_leader(Json::parse("{\"name\":1,\"timestamp\":1}")));
  auto refused = hello_of(Json::parse(line_of(ControlHello{"1.0", "full"})));
  REQUIRE(refused);
  CHECK(refused->error == "full");
}

// The bytes of what front ends and the leader of a job tell each other: other programs also write and read them.

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
