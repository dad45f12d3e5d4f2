// SPDX-License-Identifier: Apache-2.0
//
// What a job may store: a limit over all that its clients put, publish and get from other nodes.

#include "world.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::pmi;  // NOLINT

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
