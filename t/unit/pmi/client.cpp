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
  CHECK(loop.ask(0, sessions[0].get_universe_size())->number == -1);
  CHECK(loop.ask(0, sessions[0].get_appnum())->number == 0);
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
  CHECK(loop.ask(1, sessions[1].publish("s", "tag#0$x=1$"))->request == "publish_name");
  CHECK(loop.ask(0, sessions[0].lookup("s"))->text == "tag#0$x=1$");
  CHECK(loop.ask(0, sessions[0].unpublish("s"))->request == "unpublish_name");
  CHECK(error_of(loop.ask(0, sessions[0].lookup("s"))) ==
        "lookup_name: refused by the server: the_name_s_is_not_published");
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
  CHECK(session.get_appnum());
}

TEST_CASE("client: a spawn is what the server takes it for") {
  Looped loop(1);
  loop.start(0);
  ClientSession& session = loop.sessions[0];
  Spawn spawn;
  spawn.programs = {{2, {"./a b", "x=1 y", "endcmd"}, {{"wdir", "/tmp"}, {"path", "/bin"}}}, {1, {"b"}, {}}};
  spawn.preput = {{"port", "tag#0 $"}};
  const std::string meant = " [2: './a b' 'x=1 y' 'endcmd' with wdir=/tmp path=/bin] [1: 'b'] preput port=tag#0 $";
  loop.send(0, session.spawn(spawn));
  CHECK(loop.events == std::vector<std::string>{"spawn 0:" + meant});
  CHECK(error_of(session.get_appnum()) == "get_appnum: spawn has not been answered yet");
  loop.world.server.spawned(0, std::string("kvs_2"), {0, -1, 3});
  CHECK(loop.reply(0)->error_codes == std::vector<int>{0, -1, 3});
  loop.send(0, session.spawn(spawn));
  loop.world.server.spawned(0, invalid("no room"), {});
  CHECK(error_of(loop.reply(0)) == "spawn: refused by the server: no_room");
  CHECK_FALSE(session.is_over());
}

TEST_CASE("client: the lines of a spawn") {
  Scripted script;
  script.start();
  Spawn spawn;
  CHECK(error_of(script.session.spawn(spawn)) == "spawn: expected a program");
  spawn.programs = {{2, {"a", "x"}, {}}};
  const std::string lines =
      "mcmd=spawn\nnprocs=2\nexecname=a\ntotspawns=1\nspawnssofar=1\narg1=x\nargcnt=1\npreput_num=0\ninfo_num=0\n"
      "endcmd\n";
  CHECK(script.ask(script.session.spawn(spawn), lines, "cmd=spawn_result rc=0\n")->error_codes ==
        std::vector<int>{0, 0});
  CHECK(error_of(script.ask(script.session.spawn(spawn), lines, "cmd=spawn_result rc=-1 msg=no such thing\n")) ==
        "spawn: refused by the server: no such thing");
  struct Case {
    SpawnProgram program;
    std::string error;
  };
  for (const Case& each :
       {Case{{1, {}, {}}, "spawn: a program is missing"}, Case{{1, {""}, {}}, "spawn: the program is empty"},
        Case{{1, {"a\nb"}, {}}, "spawn: the program is not one line: 'a\\x0ab'"},
        Case{{1, {"a", "b", "c\nendcmd"}, {}}, "spawn: argument 2 is not one line: 'c\\x0aendcmd'"},
        Case{{1, {"a"}, {{"k", ""}}}, "spawn: info_val is empty"},
        Case{{1, {"a"}, {{"", "v"}}}, "spawn: info_key is empty"},
        Case{{1, {"a", std::string(kMaxSpawn, 'x')}, {}}, "spawn: a program of more than 1048576 bytes"}}) {
    spawn.programs = {each.program};
    CHECK(error_of(script.session.spawn(spawn)) == each.error);
    CHECK_FALSE(script.session.is_waiting());
  }
  spawn.programs = {{2, {"a", "x"}, {}}};
  for (const char* codes : {"0", "0,0,0", "0,x", "", "0,2147483648"}) {
    Scripted other;
    other.start();
    auto reply = other.ask(other.session.spawn(spawn), lines, fmt::format("cmd=spawn_result errcodes={}\n", codes));
    REQUIRE_FALSE(reply);
    CHECK(reply.error().code == EPROTO);
    CHECK(other.session.is_over());
  }
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
  CHECK(error_of(session.get_appnum()) == "get_appnum: barrier_in has not been answered yet");
  CHECK(*session.receive("cmd=barrier_out\n"));
  CHECK(session.get_appnum());
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
  CHECK(error_of(session.publish("s", "1234567890123")) ==
        "publish_name: the port has 13 bytes, the server takes 12");
  CHECK(error_of(session.put("", "v")) == "put: the key is empty");
  CHECK(error_of(session.put("a b", "v")) == "put: the key is not one word: 'a b'");
  CHECK(error_of(session.put("a=b", "v")) == "put: the key is not one word: 'a=b'");
  CHECK(error_of(session.get("a\x7f")) == "get: the key is not one word: 'a\\x7f'");
  CHECK(error_of(session.put("k", "")) == "put: k: the value is empty");
  CHECK(error_of(session.put("k", "a\nb")) == "put: k: the value is not one line: 'a\\x0ab'");
  CHECK(error_of(session.put("k", std::string_view("a\0b", 3))) == "put: k: the value is not one line: 'a\\x00b'");
  CHECK(error_of(session.publish("a b", "p")) == "publish_name: the service is not one word: 'a b'");
  CHECK(error_of(session.publish("s", "p q")) == "publish_name: the port is not one word: 'p q'");
  CHECK(error_of(session.lookup("")) == "lookup_name: the service is empty");
  CHECK(error_of(session.unpublish("a\nb")) == "unpublish_name: the service is not one word: 'a\\x0ab'");
  CHECK_FALSE(session.is_waiting());
  CHECK(script.ask(session.publish("s", "p=1"), "cmd=publish_name service=s port=p=1\n",
                   "cmd=publish_result rc=0 msg=success\n"));
  CHECK(script.ask(session.lookup("s"), "cmd=lookup_name service=s\n", "cmd=lookup_result rc=0 port=p=1\n")->text ==
        "p=1");
  CHECK(script.ask(session.unpublish("s"), "cmd=unpublish_name service=s\n", "cmd=unpublish_result\n"));
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
       {Case{"cmd=put_result rc=0\n", "get_appnum: expected appnum, got 'cmd=put_result rc=0'"},
        Case{"hello\n", "get_appnum: expected cmd=NAME, got 'hello'"},
        Case{"\n", "get_appnum: expected cmd=NAME, got an empty message"},
        Case{"cmd=appnum rc=0\n", "get_appnum: appnum: no field 'appnum'"},
        Case{"cmd=appnum rc=0 appnum=x\n", "get_appnum: appnum: appnum: expected a number, got 'x'"},
        Case{"cmd=appnum appnum=1\ncmd=x", "get_appnum: more than one reply: 'cmd=x'"},
        Case{"mcmd=spawn\nendcmd\n", "get_appnum: expected cmd=NAME, got 'mcmd=spawn'"},
        Case{std::string(kMaxMessage + 1, 'x'), "get_appnum: 65536 bytes without a newline"},
        Case{"", "get_appnum: the server has closed the connection"}}) {
    Scripted script;
    script.start();
    auto reply = script.ask(script.session.get_appnum(), "cmd=get_appnum\n", each.answer);
    CHECK(error_of(reply) == each.error);
    CHECK(reply.error().code == EPROTO);
    CHECK(script.session.is_over());
    CHECK_FALSE(script.session.is_waiting());
    CHECK(error_of(script.session.get_appnum()) == "get_appnum: the session is over");
    CHECK(is_none(script.session.receive("cmd=appnum appnum=1\n")));
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
