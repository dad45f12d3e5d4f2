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

// What a job may store: a limit over all that its clients put, publish and get from other nodes.

namespace {

constexpr std::uint64_t kEach = Kvs::kEntryCost;

ClientGroup group_with(Quota& quota, std::uint32_t clients = 2) {
  ClientGroup group = World::group_of(clients);
  group.quota = &quota;
  return group;
}

std::string put(World& world, std::uint32_t client, char key, std::size_t size) {
  return world.say(client, fmt::format("cmd=put key={} value={}", key, std::string(size, 'x')));
}

}  // namespace

TEST_CASE("a put up to the limit is taken; one byte more is refused, and reported once") {
  Quota quota{2 * (kEach + 1 + 100)};
  World world(group_with(quota));
  world.join(0, 1);
  world.join(1, 1);
  CHECK(put(world, 0, 'a', 100) == "cmd=put_result rc=0");
  CHECK(put(world, 1, 'b', 101) ==
        "cmd=put_result rc=-1 msg=the_keys_of_the_job_would_have_331_bytes,_and_may_have_330");
  CHECK(world.events() == "full 1: 331 of 330");
  CHECK(world.say(0, "cmd=get key=b").starts_with("cmd=get_result rc=4 "));
  CHECK(put(world, 0, 'b', 101).starts_with("cmd=put_result rc=-1"));
  CHECK(world.events().empty());
  CHECK(put(world, 1, 'b', 100) == "cmd=put_result rc=0");
  CHECK(quota.used == quota.limit);
  CHECK(put(world, 1, 'c', 0).starts_with("cmd=put_result rc=-1"));
  world.enter(0);
  world.enter(1);
  CHECK(world.events() == fmt::format("fence a={0} b={0}", std::string(100, 'x')));
}

TEST_CASE("many at once are taken up to the limit") {
  Quota quota{2 * (kEach + 2)};
  World world(group_with(quota, 1));
  world.join(0, 1);
  CHECK(world.say(0, "cmd=mput a=1 b=2 c=3").starts_with("cmd=mput_result rc=-1 msg=the_keys_of_the_job"));
  CHECK(world.say(0, "cmd=get key=b") == "cmd=get_result rc=0 value=2");
  CHECK(world.say(0, "cmd=get key=c").starts_with("cmd=get_result rc=4 "));
}

TEST_CASE("PMI-2: keys, attributes of the node and names count, and are refused with a message") {
  Quota quota{4 * (kEach + 2)};
  World world(group_with(quota, 1));
  world.join(0, 2);
  CHECK(world.say(0, "cmd=info-putnodeattr;key=n;value=1;") == "cmd=info-putnodeattr-response;rc=0;");
  CHECK(world.say(0, "cmd=info-putnodeattr;key=n;value=2;") == "cmd=info-putnodeattr-response;rc=0;");
  CHECK(quota.used == kEach + 2);  // not twice
  CHECK(world.say(0, "cmd=name-publish;name=s;port=p;") == "cmd=name-publish-response;rc=0;");
  CHECK(world.say(0, "cmd=kvs-put;key=a;value=1;") == "cmd=kvs-put-response;rc=0;");
  CHECK(world.say(0, "cmd=kvs-put;key=b;value=1;") == "cmd=kvs-put-response;rc=0;");
  constexpr const char* kRefused = "rc=-1;errmsg=the keys of the job would have 330 bytes, and may have 264;";
  CHECK(world.say(0, "cmd=kvs-put;key=c;value=1;") == fmt::format("cmd=kvs-put-response;{}", kRefused));
  CHECK(world.say(0, "cmd=info-putnodeattr;key=o;value=1;") ==
        fmt::format("cmd=info-putnodeattr-response;{}", kRefused));
  CHECK(world.say(0, "cmd=name-publish;name=t;port=p;") == fmt::format("cmd=name-publish-response;{}", kRefused));
  CHECK(world.say(0, "cmd=name-unpublish;name=s;") == "cmd=name-unpublish-response;rc=0;");
  CHECK(world.say(0, "cmd=kvs-put;key=c;value=1;") == "cmd=kvs-put-response;rc=0;");
}

TEST_CASE("a barrier fails if it brings more keys of other nodes than the limit, and none is taken over") {
  Quota quota{3 * (kEach + 2)};
  World world(group_with(quota, 1));
  world.join(0, 1);
  CHECK(world.say(0, "cmd=put key=a value=1").ends_with("rc=0"));
  world.enter(0);
  CHECK(world.events() == "fence a=1");
  world.server.fenced(Entries{{"b", "2"}, {"c", "3"}});
  CHECK(world.heard(0) == "cmd=barrier_out rc=0");
  world.enter(0);
  CHECK(world.events() == "fence");
  world.server.fenced(Entries{{"d", ""}});
  CHECK(world.events() == "full others: 263 of 198");
  CHECK(world.heard(0) == "cmd=barrier_out rc=-1");
  CHECK(world.say(0, "cmd=get key=d").starts_with("cmd=get_result rc=4 "));
  CHECK(world.say(0, "cmd=get key=c") == "cmd=get_result rc=0 value=3");
  world.enter(0);
  world.server.fenced(Entries());
  CHECK(world.heard(0) == "cmd=barrier_out rc=0");
}

TEST_CASE("groups of one job share a limit, and one that ends gives back what it had") {
  Quota quota{2 * (kEach + 2)};
  World first(group_with(quota, 1));
  first.join(0, 1);
  {
    World second(group_with(quota, 1));
    second.join(0, 1);
    CHECK(second.say(0, "cmd=put key=a value=1").ends_with("rc=0"));
    CHECK(second.say(0, "cmd=put key=b value=1").ends_with("rc=0"));
    CHECK(first.say(0, "cmd=put key=a value=1").starts_with("cmd=put_result rc=-1"));
  }
  CHECK(quota.used == 0);
  CHECK(first.say(0, "cmd=put key=a value=1").ends_with("rc=0"));
}

TEST_CASE("a key is stored once, and its entry stays where it is") {
  Kvs kvs;
  EntryRefs entries;
  for (int i = 0; i < 1000; ++i) entries.push_back(kvs.add(fmt::format("key {}", i), "value"));
  CHECK(kvs.add("key 7", "other") == nullptr);
  for (int i = 0; i < 1000; ++i) CHECK(entries[i]->first == fmt::format("key {}", i));
  CHECK(kvs.find("key 7") == &entries[7]->second);
  CHECK(kvs.bytes() == 1000 * (kEach + 5) + 10 + 90 * 2 + 900 * 3 + 1000 * 4);
  CHECK(decode_entries(encode_refs({entries[3]})).value() == Entries{{"key 3", "value"}});
}
