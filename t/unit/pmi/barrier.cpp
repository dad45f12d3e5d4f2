// SPDX-License-Identifier: Apache-2.0
//
// Barriers and fences, with clients that come, wait and go.
#include "world.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::pmi;  // NOLINT

namespace {

const std::string kOut = "cmd=barrier_out rc=0";

}  // namespace

TEST_CASE("a barrier is over when all have come, and each is told once") {
  Joined world(1, 3);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    for (std::uint32_t client : {2, 0, 1}) {
      CHECK(world.events().empty());
      world.enter(client);
      CHECK(world.server.clients()[client].waits);
    }
    CHECK(world.events() == "fence");
    CHECK(world.heard(0).empty());
    world.server.fenced(Entries());
    for (std::uint32_t client = 0; client < 3; ++client) {
      CHECK(world.heard(client) == kOut);
      CHECK_FALSE(world.server.clients()[client].waits);
      CHECK(world.server.clients()[client].barriers == round);
    }
  }
}

TEST_CASE("a fence takes what was put since the last one, and brings the others' keys") {
  Joined world(1, 2);
  CHECK(world.say(0, "cmd=put key=a value=1").ends_with("rc=0"));
  world.enter(0);
  CHECK(world.say(1, "cmd=mput b=2 c=3").ends_with("rc=0"));
  world.enter(1);
  CHECK(world.events() == "fence a=1 b=2 c=3");
  CHECK(world.say(1, "cmd=put key=late value=4").ends_with("rc=0"));
  world.server.fenced(Entries{{"x", "9"}, {"a", "other"}});
  CHECK(world.heard(0) == kOut);
  CHECK(world.heard(1) == kOut);
  CHECK(world.say(0, "cmd=get key=x") == "cmd=get_result rc=0 value=9");
  CHECK(world.say(0, "cmd=get key=a") == "cmd=get_result rc=0 value=1");
  world.enter(0);
  world.enter(1);
  CHECK(world.events() == "fence late=4");
}

TEST_CASE("a barrier of clients of both protocols") {
  World world(3);
  world.join(0, 1);
  world.join(1, 2);
  world.join(2, 2);
  CHECK(world.say(1, "cmd=kvs-put;key=a;value=b;") == "cmd=kvs-put-response;rc=0;");
  world.enter(0);
  world.enter(1);
  CHECK(world.say(2, "cmd=kvs-fence;thrid=7;").empty());
  CHECK(world.events() == "fence a=b");
  SECTION("that goes well") {
    NoExchange().fence({}, [&](const Result<Entries>& others) { world.server.fenced(others); });
    CHECK(world.heard(0) == kOut);
    CHECK(world.heard(1) == "cmd=kvs-fence-response;rc=0;");
    CHECK(world.heard(2) == "cmd=kvs-fence-response;thrid=7;rc=0;");
    CHECK(world.say(0, "cmd=get key=a") == "cmd=get_result rc=0 value=b");
  }
  SECTION("that fails, and the next one that does not") {
    BrokenExchange broken(invalid("no; not; connected"));
    broken.fence({}, [&](const Result<Entries>& others) { world.server.fenced(others); });
    CHECK(world.heard(0) == "cmd=barrier_out rc=-1");
    CHECK(world.heard(1) == "cmd=kvs-fence-response;rc=-1;errmsg=no;; not;; connected;");
    CHECK(world.heard(2) == "cmd=kvs-fence-response;thrid=7;rc=-1;errmsg=no;; not;; connected;");
    for (std::uint32_t client = 0; client < 3; ++client) world.enter(client);
    CHECK(world.events() == "fence");
    world.server.fenced(Entries());
    CHECK(world.heard(2) == "cmd=kvs-fence-response;rc=0;");
  }
}

TEST_CASE("a barrier waits for those that have not called init yet") {
  World world(3);
  world.join(0);
  world.enter(0);
  world.join(1);
  world.enter(1);
  CHECK(world.events().empty());
  world.join(2);
  CHECK(world.events().empty());
  world.enter(2);
  CHECK(world.events() == "fence");
}

TEST_CASE("a barrier does without those that finalize, close, end or are dropped") {
  World world(3);
  world.join(0);
  world.join(1);
  auto go = [&](const std::string& how) {
    if (how == "finalize") {
      CHECK(world.say(1, "cmd=finalize") == "cmd=finalize_ack rc=0");
    } else if (how == "close") {
      world.server.closed(1);
    } else if (how == "end") {
      world.server.ended(1);
    } else if (how == "half") {
      world.server.receive(1, "cmd=ba");
      world.server.closed(1);
    } else {
      CHECK(world.say(1, "garbage").empty());
    }
    // The owner is first told of the dropped client.
    std::string events = world.events();
    CHECK(events.starts_with("dropped 1: ") == (how == "half" || how == "garbage"));
    return events.ends_with("fence");
  };
  const std::string how = GENERATE("finalize", "close", "end", "half", "garbage");
  SECTION("before it") {
    CHECK_FALSE(go(how));
    world.enter(0);
    CHECK(world.events().empty());
    world.join(2);
    world.enter(2);
    CHECK(world.events() == "fence");
  }
  SECTION("while others wait in it") {
    world.enter(0);
    world.join(2);
    world.enter(2);
    CHECK(go(how));
    world.server.fenced(Entries());
    CHECK(world.heard(0) == kOut);
    CHECK(world.heard(1).empty());
    CHECK(world.heard(2) == kOut);
  }
  SECTION("as the last one of all") {
    world.server.ended(0);
    world.server.ended(2);
    CHECK_FALSE(go(how));
  }
}

TEST_CASE("who goes while it waits is neither counted nor told") {
  Joined world(1, 3);
  world.enter(0);
  const bool closes = GENERATE(true, false);
  if (closes) {
    world.server.closed(0);
  } else {
    CHECK(world.say(0, "cmd=barrier_in").empty());
    CHECK(world.events() == "dropped 0: barrier_in: the one before is not over");
  }
  CHECK(world.stage(0) == ClientStage::left);
  world.enter(1);
  CHECK(world.events().empty());
  world.enter(2);
  CHECK(world.events() == "fence");
  world.server.fenced(Entries());
  CHECK(world.heard(0).empty());
  CHECK(world.heard(1) == kOut);
  CHECK(world.server.clients()[0].barriers == 0);
}

TEST_CASE("who closes, or is dropped, and then ends is missed once") {
  Joined world(1, 4);
  world.server.closed(0);
  world.server.ended(0);
  world.server.closed(0);
  CHECK(world.say(1, "garbage").empty());
  world.server.ended(1);
  CHECK(world.events() == "dropped 1: expected cmd=NAME, got 'garbage'");
  world.enter(2);
  CHECK(world.events().empty());
  world.enter(3);
  CHECK(world.events() == "fence");
}

TEST_CASE("who goes while the nodes agree is not told, and the next barrier does without it") {
  Joined world(1, 3);
  for (std::uint32_t client = 0; client < 3; ++client) world.enter(client);
  CHECK(world.events() == "fence");
  world.server.ended(1);
  CHECK(world.events().empty());
  world.server.fenced(Entries());
  CHECK(world.heard(0) == kOut);
  CHECK(world.heard(1).empty());
  CHECK(world.heard(2) == kOut);
  world.enter(0);
  CHECK(world.events().empty());
  world.enter(2);
  CHECK(world.events() == "fence");
  world.server.ended(0);
  world.server.ended(2);
  world.server.fenced(Entries());
  CHECK((world.heard(0) + world.heard(2)).empty());
  CHECK(world.events().empty());
}

TEST_CASE("a barrier is not finalized in: it would count for two") {
  World world(3);
  world.join(0, 1);
  world.join(1, 2);
  world.join(2, 1);
  world.enter(0);
  world.enter(1);
  CHECK(world.say(0, "cmd=finalize") == "cmd=finalize_ack rc=-1 msg=finalize:_a_barrier_is_not_over");
  CHECK(world.say(1, "cmd=finalize;") == "cmd=finalize-response;rc=-1;errmsg=finalize: a barrier is not over;");
  CHECK(world.events().empty());
  world.enter(2);
  CHECK(world.events() == "fence");
  world.server.fenced(Entries());
  CHECK(world.say(0, "cmd=finalize") == kOut + "\ncmd=finalize_ack rc=0");
  CHECK(world.say(1, "cmd=finalize;") == "cmd=kvs-fence-response;rc=0;\ncmd=finalize-response;rc=0;");
}

TEST_CASE("a second fence of PMI-2 before the first is over ends the connection") {
  Joined world(2, 2);
  world.enter(0);
  CHECK(world.say(0, "cmd=kvs-fence;thrid=2;").empty());
  CHECK(world.events() == "dropped 0: kvs-fence: the one before is not over");
  world.enter(1);
  CHECK(world.events() == "fence");
}

TEST_CASE("other commands are answered while a fence of PMI-2 is under way") {
  Joined world(2, 2);
  world.enter(0);
  CHECK(world.say(0, "cmd=kvs-put;key=a;value=1;") == "cmd=kvs-put-response;rc=0;");
  world.enter(1);
  CHECK(world.events() == "fence a=1");
}

TEST_CASE("a barrier of a client that has not called init or has finalized ends its connection") {
  World world(2);
  CHECK(world.say(0, "cmd=barrier_in").empty());
  CHECK(world.events() == "dropped 0: barrier_in before init");
  world.join(1);
  world.enter(1);
  CHECK(world.events() == "fence");
  world.server.fenced(Entries());
  CHECK(world.say(1, "cmd=finalize") == kOut + "\ncmd=finalize_ack rc=0");
  CHECK(world.say(1, "cmd=barrier_in").empty());
  CHECK(world.events() == "dropped 1: barrier_in after finalize");
  CHECK(world.stage(1) == ClientStage::finalized);
}

TEST_CASE("each client is named once among those that something is to be sent to") {
  Joined world(1, 3);
  std::vector<std::uint32_t> pending = {9, 9};
  world.server.take_pending(pending);
  CHECK(pending == std::vector<std::uint32_t>{0, 1, 2});
  world.server.take_pending(pending);
  CHECK(pending.empty());
  world.server.receive(2, "cmd=get_maxes\ncmd=get_appnum\n");
  world.server.receive(1, "cmd=barrier_in\n");
  world.server.receive(0, "cmd=get_appnum\ncmd=barrier_in\n");
  world.server.receive(2, "cmd=barrier_in\n");
  world.server.fenced(Entries());
  world.server.take_pending(pending);
  CHECK(pending == std::vector<std::uint32_t>{2, 0, 1});
  world.server.take_pending(pending);
  CHECK(pending.empty());
  CHECK(world.heard(2) ==
        "cmd=maxes rc=0 kvsname_max=64 keylen_max=64 vallen_max=1024\ncmd=appnum rc=0 appnum=0\n" + kOut);
}

// Barriers of some processes, of PMI 1.2: which clients are waited for, what is exchanged, and the answers.

namespace {

std::string name_of(std::string_view text, std::uint32_t size) {
  auto group = BarrierGroup::parse(text, size);
  return group ? group->name() : group.error().message;
}

// Clients of ranks 0, 1 and 4 of 8, all after init.
class Groups : public World {
 public:
  Groups() : World(facts()) {
    for (std::uint32_t client = 0; client < 3; ++client) {
      REQUIRE(raw(client, "cmd=init pmi_version=1 pmi_subversion=1\n") ==
              "cmd=response_to_init pmi_version=1 pmi_subversion=2 rc=0");
    }
  }
  static ClientGroup facts() {
    ClientGroup group = group_of(3);
    group.size = 8;
    group.ranks = {0, 1, 4};
    group.takes_groups = [](std::uint32_t) { return true; };
    return group;
  }
  std::string come(std::uint32_t client, std::string_view group) {
    return say(client, fmt::format("cmd=barrier_in group={}", group));
  }
};

}  // namespace

TEST_CASE("groups: how they are named") {
  CHECK(name_of("0,2,5:17", 6) == "0,2,5:17");
  CHECK(name_of("5,4,3,0,1:0", 6) == "0-1,3-5:0");
  CHECK(name_of("0-1,3-5:0", 6) == "0-1,3-5:0");
  CHECK(name_of("3,3,3", 6) == "3:0");
  CHECK(name_of("WORLD:3", 6) == "WORLD:3");
  CHECK(name_of("NODE", 6) == "NODE:0");
  CHECK(name_of("0,1:-4", 6) == "0-1:-4");
  CHECK(name_of("0,6:1", 6) == "group: there is no rank 6");
  CHECK(name_of("0,a:1", 6) == "group: expected ranks, got 'a'");
  CHECK(name_of("2-1", 6) == "group: expected ranks, got '2-1'");
  CHECK(name_of("0,-1:1", 6) == "group: expected ranks, got '-1'");
  CHECK(name_of(":1", 6) == "group: expected ranks, got ''");
  CHECK(name_of("", 6) == "group: expected ranks, got ''");
  CHECK(name_of("0:x", 6) == "group: expected a number as tag, got 'x'");
  CHECK(name_of("0:", 6) == "group: expected a number as tag, got ''");
  CHECK(name_of("0:2147483648", 6) == "group: expected a number as tag, got '2147483648'");
}

TEST_CASE("groups: a client that asks for less than 1.1, or may not have 1.2, gets no tags") {
  ClientGroup facts = World::group_of(2);
  facts.takes_groups = [](std::uint32_t client) { return client == 0; };
  World world(facts);
  CHECK(world.raw(0, "cmd=init pmi_version=1 pmi_subversion=0\n") ==
        "cmd=response_to_init pmi_version=1 pmi_subversion=0 rc=0");
  CHECK(world.raw(1, "cmd=init pmi_version=1 pmi_subversion=1\n") ==
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
  world.enter(0);
  world.enter(1);
  world.server.fenced(Entries());
  CHECK(world.heard(0) == "cmd=barrier_out rc=0");
  CHECK(world.heard(1) == "cmd=barrier_out rc=0");
}

TEST_CASE("groups: it is fenced once all of its own that are here have come, with the keys since its last fence") {
  Groups world;
  CHECK(world.say(2, "cmd=put key=a value=1").ends_with("rc=0"));
  CHECK(world.come(0, "5,4,0:3").empty());
  CHECK(world.events().empty());
  CHECK(world.server.group_barrier_begun());
  CHECK_FALSE(world.server.barrier_begun());
  CHECK(world.come(2, "0,4,5:3").empty());
  CHECK(world.events() == "group 0,4-5:3 of 0 2: a=1");
  CHECK(world.say(0, "cmd=put key=b value=2").ends_with("rc=0"));  // too late for this barrier
  world.server.group_fenced("0,4-5:3", Entries{{"x", "9"}});
  CHECK(world.heard(0) == "cmd=barrier_out rc=0 tag=3");
  CHECK(world.heard(2) == "cmd=barrier_out rc=0 tag=3");
  CHECK(world.heard(1).empty());
  CHECK(world.say(1, "cmd=get key=x") == "cmd=get_result rc=0 value=9");
  CHECK_FALSE(world.server.group_barrier_begun());
  // The same ranks with another tag have a.
  CHECK(world.come(2, "0,4,5:4").empty());
  CHECK(world.come(0, "0,4,5:4").empty());
  CHECK(world.events() == "group 0,4-5:4 of 0 2: b=2");
  world.server.group_fenced("0,4-5:4", Entries());
  // Other ranks have neither key, and all have both once all are fenced.
  CHECK(world.heard(0) == "cmd=barrier_out rc=0 tag=4");
  CHECK(world.come(0, "0,7:4").empty());
  CHECK(world.events() == "group 0,7:4 of 0: a=1 b=2");
  for (std::uint32_t client = 0; client < 3; ++client) world.say(client, "cmd=barrier_in");
  CHECK(world.events() == "fence a=1 b=2");
  world.server.group_fenced("0,7:4", Entries());
  world.server.fenced(Entries());
  CHECK(world.say(1, "cmd=put key=c value=3").ends_with("rc=0"));
  world.heard(0);
  CHECK(world.come(0, "0,7:5").empty());
  CHECK(world.events() == "group 0,7:5 of 0: c=3");
}

TEST_CASE("groups: a fence that fails is an error for those who wait, and its keys are given again") {
  Groups world;
  CHECK(world.say(0, "cmd=put key=a value=1").ends_with("rc=0"));
  for (int round = 0; round < 2; ++round) {
    CHECK(world.come(0, "0,7:1").empty());
    CHECK(world.events() == "group 0,7:1 of 0: a=1");
    world.server.group_fenced("0,7:1", Error{EMSGSIZE, "too many"});
    CHECK(world.heard(0) == "cmd=barrier_out rc=-1 tag=1");
  }
}

TEST_CASE("groups: the same one twice is one after the other") {
  Groups world;
  CHECK(world.come(0, "0,1:1").empty());
  CHECK(world.come(0, "0,1:1").empty());
  CHECK(world.events().empty());
  CHECK(world.come(1, "0,1:1").empty());
  CHECK(world.events() == "group 0-1:1 of 0 1:");
  CHECK(world.come(1, "0,1:1").empty());
  CHECK(world.events().empty());
  world.server.group_fenced("0-1:1", Entries());
  CHECK(world.heard(0) == "cmd=barrier_out rc=0 tag=1");
  CHECK(world.heard(1) == "cmd=barrier_out rc=0 tag=1");
  CHECK(world.events() == "group 0-1:1 of 0 1:");
  world.server.group_fenced("0-1:1", Entries());
  CHECK(world.heard(0) == "cmd=barrier_out rc=0 tag=1");
  CHECK(world.heard(1) == "cmd=barrier_out rc=0 tag=1");
  world.server.group_fenced("0-1:1", Entries());  // no client is in it
  CHECK(world.heard(0).empty());
}

TEST_CASE("groups: who has finalized, or has gone, is not waited for") {
  Groups world;
  CHECK(world.come(0, "0,1,4:1").empty());
  CHECK(world.come(1, "0,1:2").empty());
  CHECK(world.say(1, "cmd=finalize") == "cmd=finalize_ack rc=-1 msg=finalize:_a_barrier_is_not_over");
  CHECK(world.say(2, "cmd=finalize") == "cmd=finalize_ack rc=0");
  CHECK(world.events().empty());
  world.server.closed(1);
  CHECK(world.events() == "group 0-1,4:1 of 0 1 2:");
  CHECK(world.server.clients()[1].left_waiting);
  world.server.group_fenced("0-1,4:1", Entries());
  CHECK(world.heard(0) == "cmd=barrier_out rc=0 tag=1");
  CHECK(world.heard(1).empty());
  CHECK(world.come(0, "0,1:2").empty());
  CHECK(world.events() == "group 0-1:2 of 0 1:");
}

TEST_CASE("groups: others wait for this node") {
  Groups world;
  const BarrierGroup both = BarrierGroup::parse("1,4,7:1", 8).value();
  world.server.group_awaited(both);
  CHECK(world.events().empty());
  CHECK(world.come(1, "1,4,7:1").empty());
  CHECK(world.say(2, "cmd=finalize").ends_with("rc=0"));
  CHECK(world.events() == "group 1,4,7:1 of 1 2:");
  world.server.group_fenced("1,4,7:1", Entries());
  CHECK(world.heard(1) == "cmd=barrier_out rc=0 tag=1");
  CHECK(world.say(1, "cmd=finalize").ends_with("rc=0"));
  CHECK(world.events().empty());
  world.server.group_awaited(both);
  CHECK(world.events() == "group 1,4,7:1 of 1 2:");
  world.server.group_awaited(both);
  CHECK(world.events().empty());
  world.server.group_fenced("1,4,7:1", Entries());
}

TEST_CASE("groups: faults are answered, and the client stays") {
  Groups world;
  CHECK(world.come(0, "1,4:5") == "cmd=barrier_out rc=-1 msg=rank_0_is_not_in_its_own_group tag=5");
  CHECK(world.come(0, "0,8:5") == "cmd=barrier_out rc=-1 msg=group:_there_is_no_rank_8 tag=5");
  CHECK(world.come(0, "0,1:x") == "cmd=barrier_out rc=-1 msg=group:_expected_a_number_as_tag,_got_'x' tag=0");
  CHECK(world.come(0, "") == "cmd=barrier_out rc=-1 msg=group:_expected_ranks,_got_'' tag=0");
  CHECK(world.events().empty());
  CHECK(world.come(0, "0:5").empty());
  CHECK(world.events() == "group 0:5 of 0:");
  CHECK(world.come(0, "WORLD").empty());  // as without a group
  CHECK(world.server.clients()[0].waits);
}

TEST_CASE("groups: a client may wait in 1,024 barriers, and a line for one may have a mebibyte") {
  Groups world;
  for (int tag = 0; tag < 1024; ++tag) REQUIRE(world.come(0, fmt::format("0,1:{}", tag)).empty());
  CHECK(world.come(0, "0,1:1024").empty());
  CHECK(world.events() == "dropped 0: 1024 barriers are not over");
  std::string many = "cmd=barrier_in group=1";
  while (many.size() < kMaxMessage + 10) many += ",1";
  CHECK(world.say(1, many).empty());
  CHECK(world.events() == "group 1:0 of 1:");
  while (many.size() <= kMaxGroup) many += ",1";
  world.say(1, many);
  CHECK(world.events() == "dropped 1: 1048576 bytes without a newline");
}
