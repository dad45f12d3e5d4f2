// SPDX-License-Identifier: Apache-2.0
//
// Against a broker that a thread of the test plays.
#include "broker/broker.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <thread>

#include "base/bytes.hpp"
#include "broker/kvs.hpp"
#include "folder.hpp"

using namespace nacre;
using namespace nacre::broker;

namespace {

constexpr double kTimeout = 10;

// A broker for one client. `serve` gets each of its messages, and returns the answers; the stage ends with the
// client.
class Stage {
 public:
  using Answers = std::vector<BrokerMessage>;

  explicit Stage(std::function<Answers(const BrokerMessage&)> serve, unsigned char handshake = 0) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder_.path("local");
    std::strcpy(address.sun_path, path.c_str());
    listening_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM, 0));
    REQUIRE(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listening_.get(), 1) == 0);
    thread_ = std::thread([this, handshake, serve = std::move(serve)] { run(handshake, serve); });
  }
  ~Stage() { thread_.join(); }

  [[nodiscard]] std::string uri() const { return "local://" + folder_.path("local"); }

 private:
  void run(unsigned char handshake, const std::function<Answers(const BrokerMessage&)>& serve) const {
    UniqueFd fd(::accept(listening_.get(), nullptr, nullptr));
    if (::write(fd.get(), &handshake, 1) != 1 || handshake != 0) return;
    BrokerFrames frames;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(fd.get(), buffer, sizeof buffer)) > 0;) {
      frames.add({buffer, static_cast<std::size_t>(got)});
      while (auto message = *frames.next()) {
        std::string bytes;
        Answers answers = serve(*message);
        if (message->topic == "die") return;
        for (const BrokerMessage& each : answers) append_framed(bytes, each);
        if (::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return;
      }
    }
  }

  kit::TemporaryFolder folder_;
  UniqueFd listening_;
  std::thread thread_;
};

BrokerMessage answer(const BrokerMessage& request, const Json& payload) {
  BrokerMessage out = response_to(request);
  out.payload = payload.dump() + '\0';
  return out;
}

BrokerMessage failure(const BrokerMessage& request, int code, const std::string& why = "") {
  BrokerMessage out = response_to(request);
  out.first = static_cast<std::uint32_t>(code);
  if (!why.empty()) out.payload = why + '\0';
  return out;
}

// While this lives the loop runs on: a broker alone does not keep it running.
event::Timer keep_running(event::Loop& loop) {
  auto timer = *event::Timer::create(loop, [] {});
  timer.start(event::Seconds(3600));
  return timer;
}

}  // namespace

TEST_CASE("A broker is asked, several questions at a time, and answers in any order") {
  std::vector<BrokerMessage> kept;
  Stage stage([&](const BrokerMessage& request) -> Stage::Answers {
    kept.push_back(request);
    if (kept.size() < 2) return {};
    return {answer(kept[1], {{"value", "second"}}), answer(kept[0], {{"value", "first"}})};
  });
  auto broker = *Broker::connect(stage.uri(), kTimeout);
  CHECK(broker->owner() == ::getuid());
  const auto one = broker->begin("attr.get", {{"name", "rank"}});
  const auto two = broker->begin("attr.get", {{"name", "size"}});
  CHECK(broker->answer(one)->at("value") == "first");
  CHECK(broker->answer(two)->at("value") == "second");
}

TEST_CASE("The error of a broker's answer has the topic and the broker's words, or the errno's") {
  Stage stage([&](const BrokerMessage& request) -> Stage::Answers {
    return {failure(request, request.topic == "a" ? ENOENT : EPERM, request.topic == "a" ? "no such key" : "")};
  });
  auto broker = *Broker::connect(stage.uri(), kTimeout);
  auto first = broker->ask("a", {});
  CHECK(first.error().code == ENOENT);
  CHECK(first.error().message == "a: no such key");
  CHECK(broker->ask("b", {}).error().message == "b: Operation not permitted");
}

TEST_CASE("The hash in a blobref") {
  CHECK(*hash_of("sha1-000102030405060708090a0b0c0d0e0fABCDEFab") ==
        std::string("\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\xab\xcd\xef\xab", 20));
  CHECK(hash_of("sha256-" + std::string(64, 'f'))->size() == 32);
  for (const char* wrong : {"", "sha1-", "sha1-0", "md5-00", "sha1-0g0102030405060708090a0b0c0d0e0f10111213"})
    CHECK(hash_of(wrong).error().message.starts_with("expected sha1-HEX or sha256-HEX, got '"));
}

TEST_CASE("Archives of an instance, and content by its hash, of which several are asked for at a time") {
  std::vector<BrokerMessage> asked;
  const std::string gone(20, '\xff');
  Stage stage([&](const BrokerMessage& request) -> Stage::Answers {
    if (request.topic == "kvs.lookup") {
      const Json fields = *parse_json(request.text());
      if (fields.at("key") != "archive.red" || fields.at("namespace") != "primary")
        return {failure(request, ENOENT)};
      std::string data;
      append_base64(data, R"([{"path":"a"}])");
      return {answer(request, {{"val", {{"ver", 1}, {"type", "val"}, {"data", data}}}})};
    }
    if (request.payload == gone) return {failure(request, EINVAL, "it has changed")};
    asked.push_back(request);
    if (asked.size() % 3 != 0) return {};  // three at a time, the last one first
    Stage::Answers out;
    for (auto each = asked.rbegin(); out.size() < 3; ++each) {
      out.push_back(response_to(*each));
      out.back().payload = "bytes of " + *each->payload;
    }
    return out;
  });
  ContentStore store = *ContentStore::connect(stage.uri());
  CHECK((**store.archive("red")).at(0).at("path") == "a");
  CHECK_FALSE(store.archive("blue")->has_value());
  std::string taken;
  auto take = [&](std::size_t index, std::string_view bytes) -> Result<void> {
    taken += fmt::format("{} {}\n", index, bytes);
    return {};
  };
  auto blobref = [](char digit) { return "sha1-" + std::string(40, digit); };
  REQUIRE(store.load({blobref('4'), blobref('5'), blobref('6')}, take, {}));
  CHECK(taken == "0 bytes of " + std::string(20, 'D') + "\n1 bytes of " + std::string(20, 'U') + "\n2 bytes of " +
                     std::string(20, 'f') + "\n");
  CHECK(store.load({blobref('f')}, take, {}).error().message == blobref('f') + ": content.load: it has changed");
  int questions = 0;
  CHECK(store.load({blobref('4')}, take, [&] { return ++questions < 3; }).error().code == ECANCELED);
  CHECK(questions == 3);
}

TEST_CASE("A broker that is not there, refuses, or stays silent is named") {
  auto why = [](const std::string& uri) { return Broker::connect(uri, kTimeout).error().message; };
  CHECK(why("ssh://host/x") == "expected local://PATH, got 'ssh://host/x'");
  CHECK(why("local:///nowhere/local") == "/nowhere/local: no broker can be reached: No such file or directory");
  CHECK(why("local:///" + std::string(200, 'x')).ends_with("x: longer than 107 bytes"));
  Stage refuses([](const BrokerMessage&) -> Stage::Answers { return {}; }, EPERM);
  CHECK(why(refuses.uri()).ends_with("/local: the broker refuses this process: Operation not permitted"));
  Stage silent([](const BrokerMessage&) -> Stage::Answers { return {}; });
  auto broker = *Broker::connect(silent.uri(), 0.05);
  CHECK(broker->ask("attr.get", {}).error().message == "attr.get: the broker does not answer within 0.05 s");
}

TEST_CASE("With a loop calls, streams, requests and events come in their order") {
  Stage stage([&](const BrokerMessage& request) -> Stage::Answers {
    if (request.topic == "watch") {
      BrokerMessage one = answer(request, {{"n", 1}});
      BrokerMessage two = answer(request, {{"n", 2}});
      return {one, two, failure(request, ENODATA)};
    }
    if (request.topic == "ask-me") {
      BrokerMessage asked = request_of("our.method", {{"x", 1}});
      asked.route = std::vector<std::string>{"client"};
      asked.tag = 99;
      BrokerMessage event;
      event.kind = BrokerMessage::Kind::event;
      event.topic = "shell-1.kill";
      return {asked, event};
    }
    if (request.kind == BrokerMessage::Kind::response) {
      CHECK(request.tag == 99);
      CHECK(request.route == std::vector<std::string>{"client"});
      CHECK(request.text() == R"({"ok":true})");
      return {};
    }
    return {answer(request, nullptr)};
  });
  auto loop = *event::Loop::create();
  auto broker = *Broker::connect(stage.uri(), kTimeout);
  std::vector<std::string> seen;
  Broker::Receivers receivers;
  receivers.on_request = [&](const BrokerMessage& request) {
    seen.push_back(*request.topic);
    broker->respond(request, {{"ok", true}});
  };
  receivers.on_event = [&](const BrokerMessage& event) { seen.push_back(*event.topic); };
  const auto stream = broker->begin_stream("watch", {});
  CHECK(broker->answer(stream)->at("n") == 1);
  broker->follow(stream,
                 [&](const Result<Json>& each) { seen.push_back(each ? each->dump() : each.error().message); });
  REQUIRE(broker->attach(*loop, std::move(receivers)));
  const event::Timer awake = keep_running(*loop);
  static_cast<void>(broker->call("ask-me", {}, nullptr));
  loop->run_until([&] { return seen.size() == 4; });
  CHECK(seen == std::vector<std::string>{R"({"n":2})", "watch: No data available", "our.method", "shell-1.kill"});
}

TEST_CASE("An answer without a tag goes to the call of its topic") {
  Stage stage([&](const BrokerMessage& request) -> Stage::Answers {
    CHECK(request.tag == kNoTag);
    CHECK((request.flags & BrokerMessage::kNoResponse) != 0);
    return {answer(request, {{"n", 1}})};
  });
  auto loop = *event::Loop::create();
  auto broker = *Broker::connect(stage.uri(), kTimeout);
  REQUIRE(broker->attach(*loop, {}));
  const event::Timer awake = keep_running(*loop);
  bool passed = false;
  broker->call_by_topic("job-exec.shell-barrier", {},
                        [&](const Result<Json>& answer) { passed = answer.has_value(); });
  loop->run_until([&] { return passed; });
  CHECK(passed);
}

TEST_CASE("All calls fail once when a broker goes, and so does each later one") {
  Stage stage([&](const BrokerMessage&) -> Stage::Answers { return {}; });
  auto loop = *event::Loop::create();
  auto broker = *Broker::connect(stage.uri(), kTimeout);
  std::vector<std::string> seen;
  auto note = [&](const Result<Json>& answer) { seen.push_back(answer.error().message); };
  Broker::Receivers receivers;
  receivers.on_lost = [&](const Error& why) { seen.push_back("lost: " + why.message); };
  REQUIRE(broker->attach(*loop, std::move(receivers)));
  const event::Timer awake = keep_running(*loop);
  static_cast<void>(broker->call("one", {}, note));
  broker->call_by_topic("two", {}, note);
  static_cast<void>(broker->call("die", {}, note));
  loop->run_until([&] { return broker->is_lost(); });
  const std::string why = "the broker has closed the connection";
  CHECK(seen == std::vector<std::string>{why, why, why, "lost: " + why});
  static_cast<void>(broker->call("late", {}, note));
  CHECK(seen.size() == 5);
}

TEST_CASE("Eventlogs are committed one commit at a time, and in whole lines") {
  std::vector<std::string> commits;
  Stage stage([&](const BrokerMessage& request) -> Stage::Answers {
    const Json payload = Json::parse(request.text());
    std::string all;
    for (const Json& each : payload.at("ops")) {
      CHECK(each.at("flags") == 32);
      all += each.at("key").get<std::string>() + "=" + *bytes_of(each.at("dirent"));
    }
    commits.push_back(all);
    return {answer(request, {{"rootseq", commits.size()}})};
  });
  auto loop = *event::Loop::create();
  auto broker = *Broker::connect(stage.uri(), kTimeout);
  EventlogWriter logs(*broker, "job-1");
  REQUIRE(broker->attach(*loop, {}));
  const event::Timer awake = keep_running(*loop);
  logs.append("output", "a\n");
  logs.append("output", "b\n");
  logs.append("exec.eventlog", "c\n");
  CHECK_FALSE(logs.flushed());
  CHECK(logs.taken("output") == 4);
  CHECK(logs.stored("output") == 0);
  int rooms = 0;
  auto listener = logs.notify({[&] { ++rooms; }, nullptr});
  loop->run_until([&] { return logs.flushed(); });
  CHECK(commits == std::vector<std::string>{"output=a\n", "exec.eventlog=c\noutput=b\n"});
  CHECK(logs.stored("output") == 4);
  CHECK(rooms == 1);
}

TEST_CASE("An eventlog whose commit fails says so once, and takes no more") {
  Stage stage([&](const BrokerMessage& request) -> Stage::Answers { return {failure(request, ENOSPC)}; });
  auto loop = *event::Loop::create();
  auto broker = *Broker::connect(stage.uri(), kTimeout);
  EventlogWriter logs(*broker, "job-1");
  REQUIRE(broker->attach(*loop, {}));
  const event::Timer awake = keep_running(*loop);
  std::vector<std::string> errors;
  auto listener = logs.notify({nullptr, [&](const Error& why) { errors.push_back(why.message); }});
  logs.append("output", "a\n");
  logs.append("output", "b\n");
  loop->run_until([&] { return logs.failure().has_value(); });
  CHECK(errors == std::vector<std::string>{"kvs.commit: No space left on device"});
  CHECK(logs.flushed());
  logs.append("output", "c\n");
  CHECK(logs.flushed());
}

TEST_CASE("A response can be waited for beside the loop, which gets all else later") {
  for (bool attached : {false, true}) {
    auto loop = *event::Loop::create();
    Stage own([&](const BrokerMessage& request) -> Stage::Answers {
      if (request.topic == "silent") return {};
      BrokerMessage event;
      event.kind = BrokerMessage::Kind::event;
      event.topic = "shell-1.x";
      return {event, answer(request, {{"n", 1}})};
    });
    auto broker = *Broker::connect(own.uri(), kTimeout);
    std::vector<std::string> seen;
    Broker::Receivers receivers;
    receivers.on_event = [&](const BrokerMessage& each) { seen.push_back(*each.topic); };
    if (attached) REQUIRE(broker->attach(*loop, receivers));
    auto note = [&](const Result<Json>& given) { seen.push_back(given ? given->dump() : given.error().message); };
    const std::uint32_t tag = broker->call("ask", {}, note);
    auto is_it = [&](std::uint32_t each) { return each == tag; };
    REQUIRE(broker->wait_for_response(is_it, kTimeout));
    CHECK(seen == std::vector<std::string>{R"({"n":1})"});
    CHECK(broker->is_attached() == attached);
    if (!attached) REQUIRE(broker->attach(*loop, receivers));
    const event::Timer awake = keep_running(*loop);
    loop->run_until([&] { return seen.size() == 2; });
    CHECK(seen.back() == "shell-1.x");
    static_cast<void>(broker->call("silent", {}, note));
    CHECK(broker->wait_for_response([](std::uint32_t) { return true; }, 0.02).error().code == ETIMEDOUT);
  }
}

TEST_CASE("Who sends much learns when the broker has taken it") {
  std::size_t got = 0;
  Stage stage([&](const BrokerMessage& request) -> Stage::Answers {
    got += request.text().size();
    return {};
  });
  auto loop = *event::Loop::create();
  auto broker = *Broker::connect(stage.uri(), kTimeout);
  REQUIRE(broker->attach(*loop, {}));
  const event::Timer awake = keep_running(*loop);
  const std::string much(std::size_t{4} << 20, 'x');
  static_cast<void>(broker->call("much", {{"text", much}}, nullptr));
  CHECK(broker->unsent() > 0);
  bool taken = false;
  broker->when_sent([&] { taken = true; });
  loop->run_until([&] { return taken; });
  CHECK(broker->unsent() == 0);
  BrokerMessage request = request_of("x", {});
  CHECK(sender_of(request).empty());
  request.route = std::vector<std::string>{"hop", "client"};
  CHECK(sender_of(request) == "client");
}
