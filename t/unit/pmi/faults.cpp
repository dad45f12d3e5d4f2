// SPDX-License-Identifier: Apache-2.0
//
// Version negotiation, and what clients do that they should not: no other client is hurt.
#include "world.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::pmi;  // NOLINT

namespace {

ClientGroup offering(bool pmi1, bool pmi2) {
  ClientGroup group = World::group_of(2);
  group.pmi1 = pmi1;
  group.pmi2 = pmi2;
  return group;
}

std::string init_answer(ClientGroup group, int version, std::int64_t minor) {
  World world(std::move(group));
  std::string answer = world.say(0, fmt::format("cmd=init pmi_version={} pmi_subversion={}", version, minor));
  bool offered = answer.ends_with("rc=0");
  CHECK(world.server.clients()[0].asked == fmt::format("{}.{}", version, minor));
  CHECK(world.server.clients()[0].version == (offered ? version : 0));
  CHECK(world.stage(0) == (!offered       ? ClientStage::silent
                           : version == 1 ? ClientStage::joined
                                          : ClientStage::greeted));
  CHECK(world.server.in_use() == (offered && version == 1));
  CHECK(world.server.clients()[0].has_joined == (offered && version == 1));
  return answer;
}

// Checks that a client is still served, whatever another one has done.
void check_unhurt(World& world, std::uint32_t client) {
  CHECK(world.say(client, "cmd=get_appnum") == "cmd=appnum rc=0 appnum=0");
}

}  // namespace

TEST_CASE("the version is the client's if it is offered, else one that is") {
  auto answer = [](const char* version, int rc) {
    return fmt::format("cmd=response_to_init pmi_version={} rc={}", version, rc);
  };
  for (bool pmi2 : {true, false}) {
    CHECK(init_answer(offering(true, pmi2), 1, 1) == answer("1 pmi_subversion=1", 0));
    CHECK(init_answer(offering(true, pmi2), 1, 0) == answer("1 pmi_subversion=0", 0));
    CHECK(init_answer(offering(true, pmi2), 1, 2) == answer("1 pmi_subversion=1", 0));
    CHECK(init_answer(offering(true, pmi2), 1, -1) == answer("1 pmi_subversion=0", 0));
    CHECK(init_answer(offering(true, pmi2), 3, 0) == answer("1 pmi_subversion=0", -1));
    CHECK(init_answer(offering(true, pmi2), 0, 1) == answer("1 pmi_subversion=1", -1));
  }
  for (bool pmi1 : {true, false}) {
    CHECK(init_answer(offering(pmi1, true), 2, 0) == answer("2 pmi_subversion=0", 0));
    CHECK(init_answer(offering(pmi1, true), 2, 1) == answer("2 pmi_subversion=0", 0));
  }
  CHECK(init_answer(offering(true, false), 2, 0) == answer("1 pmi_subversion=0", -1));
  CHECK(init_answer(offering(false, true), 1, 1) == answer("2 pmi_subversion=0", -1));
  CHECK(init_answer(offering(false, true), 3, 1) == answer("2 pmi_subversion=0", -1));
}

TEST_CASE("a client whose version is refused may ask for another, or give up") {
  World world(offering(true, false));
  CHECK(world.say(0, "cmd=init pmi_version=2 pmi_subversion=0").ends_with("rc=-1"));
  CHECK(world.say(0, "cmd=get_maxes") == "cmd=maxes rc=-1 msg=get_maxes_before_init");
  world.join(0);
  CHECK(world.server.clients()[0].asked == "1.1");
  CHECK(world.say(1, "cmd=init pmi_version=2 pmi_subversion=0").ends_with("rc=-1"));
  CHECK(world.say(1, "cmd=abort exitcode=-1").empty());
  CHECK(world.events() == "abort 1: -1 ''");
}

TEST_CASE("an init that is none, or a second one, ends the connection") {
  struct Case {
    std::string line;
    std::string why;
  };
  for (const Case& each :
       {Case{"cmd=init", "init: no field 'pmi_version'"},
        Case{"cmd=init pmi_version=1", "init: no field 'pmi_subversion'"},
        Case{"cmd=init pmi_version=x pmi_subversion=1", "init: pmi_version: expected a number, got 'x'"}}) {
    World world(2);
    world.join(1);
    CHECK(world.say(0, each.line).empty());
    CHECK(world.events() == "dropped 0: " + each.why);
    CHECK(world.stage(0) == ClientStage::left);
    check_unhurt(world, 1);
  }
  Joined world(1, 2);
  CHECK(world.say(0, "cmd=init pmi_version=1 pmi_subversion=1").empty());
  CHECK(world.events() == "dropped 0: init: it has been called before");
  check_unhurt(world, 1);
}

TEST_CASE("what no answer fits ends the connection, and only that one") {
  struct Case {
    std::string bytes;
    std::string why;
  };
  int count = 0;
  const std::string binary("\x00\x1b\x7f\x01", 4);
  for (const Case& each :
       {Case{"cmd=frobnicate a=b\n", "unknown command 'frobnicate'"},
        Case{"GET / HTTP/1.1\r\n", "expected cmd=NAME, got 'GET / HTTP/1.1\\x0d'"},
        Case{"\n", "expected cmd=NAME, got an empty message"},
        Case{binary + "\n", "expected cmd=NAME, got '\\x00\\x1b\\x7f\\x01'"},
        Case{"mcmd=finalize\nendcmd\n", "expected cmd=NAME, got 'mcmd=finalize'"},
        Case{"mcmd=spawn\n\nendcmd\n", "mcmd=spawn: expected KEY=VALUE, got ''"},
        Case{std::string(std::size_t{1} << 20, 'x'), "65536 bytes without a newline"},
        Case{"mcmd=" + std::string(std::size_t{1} << 20, 'x'), "1048576 bytes without endcmd"}}) {
    World world(2);
    if (++count % 2 == 0) world.join(0);
    world.join(1);
    CHECK(world.raw(0, each.bytes).empty());
    CHECK(world.events() == "dropped 0: " + each.why);
    CHECK(world.stage(0) == ClientStage::left);
    CHECK(world.raw(0, "cmd=get_appnum\n" + each.bytes).empty());
    world.server.closed(0);
    world.server.ended(0);
    CHECK(world.events().empty());
    check_unhurt(world, 1);
    world.enter(1);
    CHECK(world.events() == "fence");
  }
}

TEST_CASE("the same in PMI-2") {
  struct Case {
    std::string bytes;
    std::string why;
  };
  for (const Case& each : {Case{framed("cmd=frobnicate;"), "unknown command 'frobnicate'"},
                           Case{"cmd=get_maxes\n", "expected a length of 6 digits, got 'cmd=ge'"},
                           Case{framed(""), "expected cmd=NAME, got an empty message"},
                           Case{framed("key=a;"), "expected cmd=NAME, got 'key=a;'"},
                           Case{framed("cmd=init;"), "unknown command 'init'"},
                           Case{"70000 ", "a message of 70000 bytes; at most 65536 are allowed"}}) {
    World world(2);
    world.join(0, 2);
    world.join(1);
    CHECK(world.raw(0, each.bytes).empty());
    CHECK(world.events() == "dropped 0: " + each.why);
    check_unhurt(world, 1);
  }
}

TEST_CASE("what comes before the fault in the same bytes is answered, what comes after is not") {
  Joined world(1, 1);
  CHECK(world.raw(0, "cmd=get_appnum\ngarbage\ncmd=get_appnum\n") == "cmd=appnum rc=0 appnum=0");
  CHECK(world.events() == "dropped 0: expected cmd=NAME, got 'garbage'");
}

TEST_CASE("a client that is dropped after finalize is heard no more, and has not left") {
  for (int version : {1, 2}) {
    Joined world(version, 2);
    CHECK(world.say(0, version == 1 ? "cmd=finalize" : "cmd=finalize;").ends_with(version == 1 ? "rc=0" : "rc=0;"));
    CHECK(world.say(0, "garbage").empty());
    CHECK(world.events() == "dropped 0: expected cmd=NAME, got 'garbage'");
    CHECK(world.say(0, version == 1 ? "cmd=get_appnum" : "cmd=job-getid;").empty());
    CHECK(world.say(0, "garbage").empty());
    world.server.closed(0);
    CHECK(world.events().empty());
    CHECK(world.stage(0) == ClientStage::finalized);
    world.enter(1);
    CHECK(world.events() == "fence");
  }
}

TEST_CASE("a connection that ends between messages has left, in the middle of one it is dropped") {
  World world(5);
  world.server.closed(0);
  CHECK(world.stage(0) == ClientStage::left);
  CHECK_FALSE(world.server.clients()[0].has_joined);
  world.join(1);
  world.server.closed(1);
  CHECK(world.stage(1) == ClientStage::left);
  CHECK(world.server.clients()[1].has_joined);
  CHECK(world.events().empty());
  world.join(2, 2);
  world.server.receive(2, "12    cmd=");
  world.server.closed(2);
  CHECK(world.events() == "dropped 2: the connection ended in the middle of a message: '12    cmd='");
  world.server.receive(3, "mcmd=spawn\n" + std::string(100, 'x'));
  world.server.closed(3);
  CHECK(world.events() == "dropped 3: the connection ended in the middle of a message: 'mcmd=spawn\\x0a" +
                              std::string(29, 'x') + "'");
  world.join(4);
  CHECK(world.say(4, "cmd=finalize") == "cmd=finalize_ack rc=0");
  world.server.closed(4);
  world.server.ended(4);
  CHECK(world.stage(4) == ClientStage::finalized);
  CHECK(world.events().empty());
}

TEST_CASE("what a client of PMI-2 puts cannot break the lines of one of PMI-1") {
  World world(2);
  world.join(0, 2);
  world.join(1, 1);
  CHECK(world.say(0, "cmd=kvs-put;key=a;value=1\ncmd=barrier_out rc=0;") == "cmd=kvs-put-response;rc=0;");
  CHECK(world.say(1, "cmd=get key=a") == "cmd=get_result rc=-1 msg=its_value_has_several_lines");
  CHECK(world.say(0, "cmd=name-publish;name=s;port=p\nq;") == "cmd=name-publish-response;rc=0;");
  CHECK(world.say(1, "cmd=lookup_name service=s") == "cmd=lookup_result rc=-1 msg=its_value_has_several_lines");
}

TEST_CASE("a spawn that is announced in parts without end is refused") {
  Joined world;
  CHECK(world.say(0, "mcmd=spawn\nexecname=a\nnprocs=0\ntotspawns=1000000\nspawnssofar=1\nendcmd") ==
        "cmd=spawn_result rc=-1 msg=spawn:_totspawns:_more_than_4096");
}
