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
