// SPDX-License-Identifier: Apache-2.0
#include "pmi/client.hpp"

#include "world.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::pmi;  // NOLINT

namespace {

// A session that talks to a script: what it sends is compared, and the script gives the answers.
class Scripted {
 public:
  using Reply = ClientSession::Reply;

  Result<Reply> ask(const Result<std::string>& sent, const std::string& expected, const std::string& answer) {
    if (!sent) return Error(sent.error());
    CHECK(*sent == expected);
    auto reply = session.receive(answer);
    if (!reply) return Error(reply.error());
    REQUIRE(*reply);
    return std::move(**reply);
  }
  void start() {
    REQUIRE(ask(session.init(), "cmd=init pmi_version=1 pmi_subversion=1\n",
                "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"));
    REQUIRE(ask(session.get_maxes(), "cmd=get_maxes\n", "cmd=maxes kvsname_max=16 keylen_max=9 vallen_max=13\n"));
    REQUIRE(ask(session.get_kvsname(), "cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=space_1\n"));
  }

  ClientSession session;
};

template <typename T>
std::string error_of(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

bool is_none(const Result<std::optional<ClientSession::Reply>>& reply) { return reply && !*reply; }

// Sessions that talk to the server, one for each client.
class Looped {
 public:
  explicit Looped(std::uint32_t clients) : world(clients), sessions(clients) {}

  // Sends a client's request; then all clients get the server's messages.
  void send(std::uint32_t client, const Result<std::string>& bytes) {
    REQUIRE(bytes);
    world.server.receive(client, *bytes);
    for (Event& event : world.server.take_events()) {
      if (auto* fence = std::get_if<Fence>(&event)) {
        NoExchange().fence(fence->entries, [this](const Result<Entries>& others) { world.server.fenced(others); });
      } else {
        events.push_back(text_of(event));
      }
    }
  }
  Result<ClientSession::Reply> reply(std::uint32_t client) {
    auto reply = sessions[client].receive(std::exchange(world.server.output(client), {}));
    if (!reply) return Error(reply.error());
    REQUIRE(*reply);
    return std::move(**reply);
  }
  Result<ClientSession::Reply> ask(std::uint32_t client, const Result<std::string>& bytes) {
    send(client, bytes);
    return reply(client);
  }
  void start(std::uint32_t client) {
    REQUIRE(ask(client, sessions[client].init()));
    REQUIRE(ask(client, sessions[client].get_maxes()));
    REQUIRE(ask(client, sessions[client].get_kvsname()));
  }

  World world;
  std::vector<ClientSession> sessions;
  std::vector<std::string> events;
};

}  // namespace

TEST_CASE("client: a session with a server, from init to finalize") {
  Looped loop(2);
  loop.world.server.set_attribute("PMI_process_mapping", "(vector,(0,1,2))");
  auto& sessions = loop.sessions;
  for (std::uint32_t client : {0, 1}) loop.start(client);
  CHECK(sessions[0].kvsname() == "kvs_1");
  CHECK(sessions[0].maxes()->name == kMaxName);
  CHECK(sessions[0].maxes()->key == kMaxKey);
  CHECK(sessions[0].maxes()->value == kMaxValue);
  CHECK(loop.ask(0, sessions[0].get("PMI_process_mapping"))->text == "(vector,(0,1,2))");
  CHECK(loop.ask(0, sessions[0].put("a", "x  y=z\t"))->request == "put");
  CHECK(error_of(loop.ask(0, sessions[0].put("a", "2"))) ==
        "put: refused by the server: the_key_a_is_there_already,_with_another_value");
  loop.send(0, sessions[0].barrier());
  CHECK(is_none(sessions[0].receive("cmd=")));
  CHECK(sessions[0].is_waiting());
  loop.send(1, sessions[1].barrier());
  auto rest = std::exchange(loop.world.server.output(0), {}).substr(4);
  CHECK((**sessions[0].receive(rest)).request == "barrier_in");
  CHECK(loop.reply(1)->request == "barrier_in");
  CHECK(loop.ask(1, sessions[1].get("a"))->text == "x  y=z\t");
  CHECK(error_of(loop.ask(1, sessions[1].get("b"))) == "get: refused by the server: there_is_no_key_b");
  CHECK(loop.ask(0, sessions[0].finalize())->request == "finalize");
  CHECK(sessions[0].is_over());
  CHECK(loop.world.stage(0) == ClientStage::finalized);
  CHECK(error_of(sessions[0].barrier()) == "barrier_in: the session is over");
  CHECK(loop.events.empty());
}

TEST_CASE("client: a barrier that fails is an error, and the session goes on") {
  World world(1);
  ClientSession session;
  world.server.receive(0, session.init().value());
  REQUIRE(session.receive(std::exchange(world.server.output(0), {})));
  world.server.receive(0, session.barrier().value());
  world.server.fenced(invalid("no"));
  CHECK(error_of(session.receive(std::exchange(world.server.output(0), {}))) ==
        "barrier_in: refused by the server: without a reason");
  CHECK(session.get_maxes());
}

TEST_CASE("client: one request at a time, and init first") {
  ClientSession session;
  CHECK(error_of(session.get_maxes()) == "get_maxes: call init first");
  CHECK(error_of(session.put("a", "b")) == "put: call init first");
  CHECK(error_of(session.finalize()) == "finalize: call init first");
  CHECK(session.init());
  CHECK(error_of(session.init()) == "init: init has not been answered yet");
  CHECK(session.get_maxes().error().code == EBUSY);
  for (char byte : std::string("cmd=response_to_init pmi_version=1 pmi_subversion=1")) {
    REQUIRE(is_none(session.receive({&byte, 1})));
  }
  CHECK(*session.receive("\n"));
  CHECK(error_of(session.init()) == "init: it has been called before");
  CHECK(error_of(session.put("a", "b")) == "put: call get_maxes first");
  CHECK(error_of(session.get("a")) == "get: call get_maxes first");
  CHECK(session.get_maxes());
  CHECK(*session.receive("cmd=maxes kvsname_max=16 keylen_max=32 vallen_max=64\n"));
  CHECK(error_of(session.get("a")) == "get: call get_kvsname first");
  CHECK(session.barrier());
  CHECK(error_of(session.get_kvsname()) == "get_my_kvsname: barrier_in has not been answered yet");
  CHECK(*session.receive("cmd=barrier_out\n"));
  CHECK(session.get_kvsname());
}

TEST_CASE("client: the limits of the server and of the protocol hold before anything is sent") {
  Scripted script;
  script.start();
  ClientSession& session = script.session;
  CHECK(script.ask(session.put("12345678", "123456789012"),
                   "cmd=put kvsname=space_1 key=12345678 value=123456789012\n", "cmd=put_result rc=0\n"));
  CHECK(error_of(session.put("123456789", "v")) == "put: the key has 9 bytes, the server takes 8");
  CHECK(session.put("123456789", "v").error().code == EMSGSIZE);
  CHECK(error_of(session.get("123456789")) == "get: the key has 9 bytes, the server takes 8");
  CHECK(error_of(session.put("k", "1234567890123")) == "put: k: the value has 13 bytes, the server takes 12");
  CHECK(error_of(session.put("", "v")) == "put: the key is empty");
  CHECK(error_of(session.put("a b", "v")) == "put: the key is not one word: 'a b'");
  CHECK(error_of(session.put("a=b", "v")) == "put: the key is not one word: 'a=b'");
  CHECK(error_of(session.get("a\x7f")) == "get: the key is not one word: 'a\\x7f'");
  CHECK(error_of(session.put("k", "")) == "put: k: the value is empty");
  CHECK(error_of(session.put("k", "a\nb")) == "put: k: the value is not one line: 'a\\x0ab'");
  CHECK(error_of(session.put("k", std::string_view("a\0b", 3))) == "put: k: the value is not one line: 'a\\x00b'");
  CHECK_FALSE(session.is_waiting());
  CHECK(
      script
          .ask(session.get("k"), "cmd=get kvsname=space_1 key=k\n", "cmd=get_result rc=0 msg=success value=a  b \n")
          ->text == "a  b ");
}

TEST_CASE("client: the words of a server that refuses") {
  Scripted script;
  script.start();
  auto refused = [&](const std::string& answer) {
    auto reply = script.ask(script.session.get("k"), "cmd=get kvsname=space_1 key=k\n", answer);
    REQUIRE_FALSE(reply);
    CHECK(reply.error().code == EREMOTEIO);
    CHECK_FALSE(script.session.is_over());
    return reply.error().message;
  };
  CHECK(refused("cmd=get_result rc=-1 msg=key k is unknown\r\n") == "get: refused by the server: key k is unknown");
  CHECK(refused("cmd=get_result rc=-1 msg=key_k value=unknown\n") ==
        "get: refused by the server: key_k value=unknown");
  CHECK(refused("cmd=get_result rc=1\n") == "get: refused by the server: without a reason");
}

TEST_CASE("client: a server that does not keep to the protocol ends the session") {
  struct Case {
    std::string answer;
    std::string error;
  };
  for (const Case& each :
       {Case{"cmd=put_result rc=0\n", "get_maxes: expected maxes, got 'cmd=put_result rc=0'"},
        Case{"hello\n", "get_maxes: expected cmd=NAME, got 'hello'"},
        Case{"\n", "get_maxes: expected cmd=NAME, got an empty message"},
        Case{"cmd=maxes rc=0\n", "get_maxes: maxes: no field 'kvsname_max'"},
        Case{"cmd=maxes kvsname_max=x\n", "get_maxes: maxes: kvsname_max: expected a number, got 'x'"},
        Case{"cmd=maxes rc=0\ncmd=x", "get_maxes: more than one reply: 'cmd=x'"},
        Case{"mcmd=spawn\nendcmd\n", "get_maxes: expected cmd=NAME, got 'mcmd=spawn'"},
        Case{std::string(kMaxMessage + 1, 'x'), "get_maxes: 65536 bytes without a newline"},
        Case{"", "get_maxes: the server has closed the connection"}}) {
    Scripted script;
    script.start();
    auto reply = script.ask(script.session.get_maxes(), "cmd=get_maxes\n", each.answer);
    CHECK(error_of(reply) == each.error);
    CHECK(reply.error().code == EPROTO);
    CHECK(script.session.is_over());
    CHECK_FALSE(script.session.is_waiting());
    CHECK(error_of(script.session.get_maxes()) == "get_maxes: the session is over");
    CHECK(is_none(script.session.receive("cmd=maxes rc=0\n")));
  }
  Scripted script;
  script.start();
  CHECK(error_of(script.session.receive("cmd=barrier_out rc=0\n")) ==
        "the PMI server: not asked for: 'cmd=barrier_out rc=0'");
  CHECK(script.session.is_over());
}

TEST_CASE("client: limits and a name that are none end the session") {
  for (const char* maxes :
       {"kvsname_max=16 keylen_max=32", "kvsname_max=16 keylen_max=1 vallen_max=64",
        "kvsname_max=16 keylen_max=32 vallen_max=-5", "kvsname_max=x keylen_max=32 vallen_max=64"}) {
    ClientSession session;
    REQUIRE(session.init());
    REQUIRE(session.receive("cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"));
    REQUIRE(session.get_maxes());
    CHECK_FALSE(session.receive(fmt::format("cmd=maxes {}\n", maxes)));
    CHECK_FALSE(session.maxes());
    CHECK(session.is_over());
  }
  ClientSession session;
  REQUIRE(session.init());
  REQUIRE(session.receive("cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"));
  REQUIRE(session.get_kvsname());
  CHECK(error_of(session.receive("cmd=my_kvsname rc=0 kvsname=\n")) ==
        "get_my_kvsname: my_kvsname: the field 'kvsname' is empty");
}

TEST_CASE("client: a server of another version is refused") {
  for (const char* answer :
       {"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=-1",
        "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0", "cmd=response_to_init rc=0"}) {
    ClientSession session;
    REQUIRE(session.init());
    auto reply = session.receive(std::string(answer) + "\n");
    CHECK(error_of(reply) == "init: the server refuses PMI 1.1: " + fmt::format("'{}'", answer));
    CHECK(session.is_over());
  }
}

TEST_CASE("client: abort is said at any time, in one line") {
  Looped loop(1);
  loop.start(0);
  REQUIRE(loop.sessions[0].barrier());
  loop.send(0, loop.sessions[0].abort(-3, "out of\\luck \n= end"));
  CHECK(loop.events == std::vector<std::string>{"abort 0: -3 'out of\\luck _= end'"});
  CHECK(loop.sessions[0].is_over());
  CHECK_FALSE(loop.sessions[0].is_waiting());
  CHECK(error_of(loop.sessions[0].barrier()) == "barrier_in: the session is over");
  CHECK(is_none(loop.sessions[0].receive("\n")));
  CHECK(ClientSession().abort(1, "") == "cmd=abort exitcode=1\n");
  CHECK(ClientSession().abort(2, "a b") == "cmd=abort exitcode=2 message=a\\ b\n");
}
