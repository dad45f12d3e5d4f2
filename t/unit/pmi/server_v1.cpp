// SPDX-License-Identifier: Apache-2.0
//
// Each command of PMI-1.1, good and bad.
#include "world.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::pmi;  // NOLINT

namespace {

const std::string kPut = "cmd=put kvsname=kvs_1 key=";

}  // namespace

TEST_CASE("PMI-1: what the group is") {
  Joined world;
  CHECK(world.say(0, "cmd=get_maxes") == "cmd=maxes rc=0 kvsname_max=64 keylen_max=64 vallen_max=1024");
  CHECK(world.say(0, "cmd=get_appnum") == "cmd=appnum rc=0 appnum=0");
  CHECK(world.say(0, "cmd=get_universe_size") == "cmd=universe_size rc=0 size=-1");
  CHECK(world.say(0, "cmd=get_my_kvsname") == "cmd=my_kvsname rc=0 kvsname=kvs_1");
  ClientGroup group = World::group_of(1);
  group.universe_size = 4000000000;
  group.appnums = {3};
  World other(group);
  other.join(0);
  CHECK(other.say(0, "cmd=get_appnum") == "cmd=appnum rc=0 appnum=3");
  CHECK(other.say(0, "cmd=get_universe_size") == "cmd=universe_size rc=0 size=4000000000");
  group = World::group_of(3);
  group.appnums = {0, 0, 1};
  World several(group);
  for (std::uint32_t client = 0; client < 3; ++client) {
    several.join(client);
    CHECK(several.say(client, "cmd=get_appnum") == fmt::format("cmd=appnum rc=0 appnum={}", client / 2));
  }
}

TEST_CASE("PMI-1: what is put can be got, as it is") {
  Joined world;
  CHECK(world.say(0, kPut + "a value= x  y=z\t") == "cmd=put_result rc=0");
  CHECK(world.say(0, "cmd=get kvsname=kvs_1 key=a") == "cmd=get_result rc=0 value= x  y=z\t");
  CHECK(world.say(0, kPut + "empty value=") == "cmd=put_result rc=0");
  CHECK(world.say(0, "cmd=get key=empty kvsname=kvs_1") == "cmd=get_result rc=0 value=");
  CHECK(world.say(0, "cmd=get key=a") == "cmd=get_result rc=0 value= x  y=z\t");
  CHECK(world.say(0, "cmd=get kvsname=kvs_1 key=b") == "cmd=get_result rc=4 msg=there_is_no_key_b");
  CHECK(world.say(0, "cmd=get kvsname=kvs_1") == "cmd=get_result rc=-1 msg=get:_no_field_'key'");
  CHECK(world.say(0, kPut + "b") == "cmd=put_result rc=-1 msg=put:_no_field_'value'");
  CHECK(world.say(0, kPut + " value=x") == "cmd=put_result rc=-1 msg=put:_the_field_'key'_is_empty");
  CHECK(world.events().empty());
}

TEST_CASE("PMI-1: all keys can be asked for, one by one") {
  Joined world;
  CHECK(world.say(0, "cmd=getbyidx kvsname=kvs_1 idx=0") == "cmd=getbyidx_results rc=-1 reason=no_more_keyvals");
  CHECK(world.say(0, kPut + "b value=2 3") == "cmd=put_result rc=0");
  CHECK(world.say(0, kPut + "a value=1") == "cmd=put_result rc=0");
  CHECK(world.say(0, "cmd=getbyidx kvsname=kvs_1 idx=0") == "cmd=getbyidx_results rc=0 nextidx=1 key=b val=2 3");
  CHECK(world.say(0, "cmd=getbyidx idx=1") == "cmd=getbyidx_results rc=0 nextidx=2 key=a val=1");
  CHECK(world.say(0, "cmd=getbyidx kvsname=kvs_1 idx=2") == "cmd=getbyidx_results rc=-1 reason=no_more_keyvals");
  CHECK(world.say(0, "cmd=getbyidx kvsname=kvs_1 idx=-1") == "cmd=getbyidx_results rc=-1 msg=idx_is_no_index:_-1");
  CHECK(world.say(0, "cmd=getbyidx kvsname=kvs_1") == "cmd=getbyidx_results rc=-1 msg=getbyidx:_no_field_'idx'");
  CHECK(world.say(0, "cmd=getbyidx kvsname=other idx=0") ==
        "cmd=getbyidx_results rc=-1 msg=there_is_no_space_other");
}

TEST_CASE("PMI-1: a key is put once, and another space does not exist") {
  Joined world;
  world.server.set_attribute("PMI_process_mapping", "(vector,(0,1,1))");
  CHECK(world.say(0, "cmd=get kvsname=kvs_1 key=PMI_process_mapping") ==
        "cmd=get_result rc=0 value=(vector,(0,1,1))");
  world.server.set_attribute("PMI_process_mapping", "x");
  CHECK(world.say(0, "cmd=get kvsname=kvs_1 key=PMI_process_mapping") == "cmd=get_result rc=0 value=x");
  CHECK(world.say(0, kPut + "PMI_process_mapping value=y") ==
        "cmd=put_result rc=-1 msg=the_key_PMI_process_mapping_is_there_already,_with_another_value");
  CHECK(world.say(0, kPut + "a value=1") == "cmd=put_result rc=0");
  CHECK(world.say(0, kPut + "a value=2") ==
        "cmd=put_result rc=-1 msg=the_key_a_is_there_already,_with_another_value");
  CHECK(world.say(0, "cmd=get kvsname=kvs_1 key=a") == "cmd=get_result rc=0 value=1");
  for (const std::string command : {"put", "get", "mput"}) {
    CHECK(world.say(0, "cmd=" + command + " kvsname=kvs_2 key=a value=1") ==
          "cmd=" + command + "_result rc=-1 msg=there_is_no_space_kvs_2");
    CHECK(world.say(0, "cmd=" + command + " kvsname= key=a value=1") ==
          "cmd=" + command + "_result rc=-1 msg=there_is_no_space_");
  }
  CHECK(world.events().empty());
  CHECK(world.stage(0) == ClientStage::joined);
}

TEST_CASE("PMI-1: keys have at most 63 bytes, values 1023") {
  Joined world;
  const std::string key(63, 'k');
  const std::string value(1023, 'v');
  CHECK(world.say(0, kPut + key + " value=" + value) == "cmd=put_result rc=0");
  CHECK(world.say(0, "cmd=get key=" + key) == "cmd=get_result rc=0 value=" + value);
  CHECK(world.say(0, kPut + key + "k value=") == "cmd=put_result rc=-1 msg=a_key_has_at_most_63_bytes");
  CHECK(world.say(0, kPut + "b value=" + value + "v") == "cmd=put_result rc=-1 msg=a_value_has_at_most_1023_bytes");
  CHECK(world.say(0, "cmd=publish_name service=s port=" + value) == "cmd=publish_result rc=0 msg=success");
  CHECK(world.say(0, "cmd=publish_name service=t port=" + value + "v") ==
        "cmd=publish_result rc=-1 msg=a_port_has_at_most_1023_bytes");
  CHECK(world.say(0, "cmd=get key=b") == "cmd=get_result rc=4 msg=there_is_no_key_b");
}

TEST_CASE("PMI-1: mput puts several, all but kvsname") {
  Joined world;
  CHECK(world.say(0, "cmd=mput kvsname=kvs_1 a=1 b=2 c=") == "cmd=mput_result rc=0");
  CHECK(world.say(0, "cmd=mput d=4") == "cmd=mput_result rc=0");
  CHECK(world.say(0, "cmd=mput e=5 a=6 f=7") ==
        "cmd=mput_result rc=-1 msg=the_key_a_is_there_already,_with_another_value");
  CHECK(world.say(0, "cmd=get key=a") == "cmd=get_result rc=0 value=1");
  CHECK(world.say(0, "cmd=get key=kvsname") == "cmd=get_result rc=4 msg=there_is_no_key_kvsname");
  CHECK(world.say(0, "cmd=get key=f") == "cmd=get_result rc=4 msg=there_is_no_key_f");
  world.enter(0);
  CHECK(world.events() == "fence a=1 b=2 c= d=4 e=5");
}

TEST_CASE("PMI-1: names are published, looked up and taken back, by all groups of a job") {
  World world(2);
  world.join_all();
  Server other(World::group_of(1), world.names);
  other.receive(0, "cmd=init pmi_version=1 pmi_subversion=1\n");
  CHECK(world.say(0, "cmd=lookup_name service=s") == "cmd=lookup_result rc=-1 msg=the_name_s_is_not_published");
  CHECK(world.say(0, "cmd=publish_name service=s port=tag#0$x=1$") == "cmd=publish_result rc=0 msg=success");
  CHECK(world.say(1, "cmd=publish_name service=s port=b") ==
        "cmd=publish_result rc=-1 msg=the_name_s_is_published_already");
  CHECK(world.say(1, "cmd=lookup_name service=s") == "cmd=lookup_result rc=0 port=tag#0$x=1$ msg=success");
  other.output(0).clear();
  other.receive(0, "cmd=lookup_name service=s\n");
  CHECK(other.output(0) == "cmd=lookup_result rc=0 port=tag#0$x=1$ msg=success\n");
  CHECK(world.say(1, "cmd=unpublish_name service=s") == "cmd=unpublish_result rc=0 msg=success");
  CHECK(world.say(0, "cmd=unpublish_name service=s") ==
        "cmd=unpublish_result rc=-1 msg=the_name_s_is_not_published");
  CHECK(world.say(0, "cmd=lookup_name service=s") == "cmd=lookup_result rc=-1 msg=the_name_s_is_not_published");
  CHECK(world.say(0, "cmd=publish_name port=b") == "cmd=publish_result rc=-1 msg=publish_name:_no_field_'service'");
  CHECK(world.say(0, "cmd=publish_name service=s") == "cmd=publish_result rc=-1 msg=publish_name:_no_field_'port'");
  CHECK(world.say(0, "cmd=publish_name service=s port=") ==
        "cmd=publish_result rc=-1 msg=publish_name:_the_field_'port'_is_empty");
  CHECK(world.say(0, "cmd=lookup_name") == "cmd=lookup_result rc=-1 msg=lookup_name:_no_field_'service'");
  CHECK(world.say(0, "cmd=unpublish_name") == "cmd=unpublish_result rc=-1 msg=unpublish_name:_no_field_'service'");
}

TEST_CASE("PMI-1: abort tells the code and the message, and is not answered") {
  struct Case {
    std::string fields;
    std::string event;
  };
  for (const Case& each :
       {Case{"", "1 ''"}, Case{" exitcode=3", "3 ''"}, Case{" exitcode=-1", "-1 ''"},
        Case{" exitcode=7 message=out\\ of luck: a=b", "7 'out of luck: a=b'"},
        Case{" exitcode=7 error_msg=of\\ Flux", "7 'of Flux'"}, Case{" message=no code", "1 'no code'"},
        Case{" exitcode=x message=m", "1 'm'"}, Case{" exitcode=2147483647", "2147483647 ''"},
        Case{" exitcode=-2147483648", "-2147483648 ''"}, Case{" exitcode=2147483648", "1 ''"},
        Case{" exitcode=-2147483649", "1 ''"}, Case{" exitcode=4294967296", "1 ''"}}) {
    Joined world;
    CHECK(world.say(0, "cmd=abort" + each.fields).empty());
    CHECK(world.events() == "abort 0: " + each.event);
    CHECK(world.server.clients()[0].last_command == "abort");
    CHECK(world.stage(0) == ClientStage::joined);
  }
}

TEST_CASE("PMI-1: the text of abort may go on in other lines") {
  World world(2);
  world.join(0);
  CHECK(world.say(0, "cmd=abort exitcode=1 message=Fatal error in MPI_Send:\ninternal_Send(1): failed\n\n x=1")
            .empty());
  CHECK(world.say(0, "mcmd=spawn\nendcmd").empty());
  CHECK(world.events() == "abort 0: 1 'Fatal error in MPI_Send:'");
  CHECK(world.say(0, "cmd=get_appnum") == "cmd=appnum rc=0 appnum=0");
  CHECK(world.say(1, "x=1").empty());
  CHECK(world.events() == "dropped 1: expected cmd=NAME, got 'x=1'");
}

TEST_CASE("PMI-1: abort is honoured before init, in a barrier and after finalize") {
  World world(2);
  CHECK(world.say(1, "cmd=abort exitcode=2").empty());
  CHECK(world.events() == "abort 1: 2 ''");
  world.join_all();
  world.enter(0);
  CHECK(world.say(0, "cmd=abort exitcode=3").empty());
  CHECK(world.events() == "abort 0: 3 ''");
  CHECK(world.say(1, "cmd=finalize") == "cmd=finalize_ack rc=0");
  CHECK(world.events() == "fence");
  CHECK(world.say(1, "cmd=abort exitcode=4").empty());
  CHECK(world.events() == "abort 1: 4 ''");
}

TEST_CASE("PMI-1: commands before init and after finalize are refused") {
  World world(2);
  struct Case {
    std::string command;
    std::string answer;
  };
  const Case cases[] = {{"cmd=get_maxes", "maxes"},
                        {"cmd=get_appnum", "appnum"},
                        {"cmd=get_universe_size", "universe_size"},
                        {"cmd=get_my_kvsname", "my_kvsname"},
                        {"cmd=put key=a value=1", "put_result"},
                        {"cmd=mput a=1", "mput_result"},
                        {"cmd=get key=a", "get_result"},
                        {"cmd=publish_name service=s port=p", "publish_result"},
                        {"cmd=unpublish_name service=s", "unpublish_result"},
                        {"cmd=lookup_name service=s", "lookup_result"},
                        {"mcmd=spawn\nexecname=a\ntotspawns=1\nspawnssofar=1\nendcmd", "spawn_result"},
                        {"cmd=finalize", "finalize_ack"}};
  auto name = [](const std::string& command) {
    return command.starts_with("m") ? "spawn" : command.substr(4, command.find(' ') - 4);
  };
  for (const Case& each : cases) {
    CHECK(world.say(0, each.command) ==
          fmt::format("cmd={} rc=-1 msg={}_before_init", each.answer, name(each.command)));
    CHECK(world.server.clients()[0].last_command == name(each.command));
  }
  world.join_all();
  CHECK(world.say(0, "cmd=finalize") == "cmd=finalize_ack rc=0");
  for (const Case& each : cases) {
    CHECK(world.say(0, each.command) ==
          fmt::format("cmd={} rc=-1 msg={}_after_finalize", each.answer, name(each.command)));
  }
  CHECK(world.events().empty());
  CHECK(world.stage(0) == ClientStage::finalized);
  CHECK(world.say(1, "cmd=get key=a") == "cmd=get_result rc=4 msg=there_is_no_key_a");
}

TEST_CASE("PMI-1: a spawn is asked of the owner when its last block has come") {
  Joined world;
  auto block = [](int number, int total, const std::string& more) {
    return fmt::format("mcmd=spawn\nexecname=p{}\ntotspawns={}\nspawnssofar={}\n{}endcmd", number, total, number,
                       more);
  };
  CHECK(world.say(0, block(1, 2, "nprocs=2\n")).empty());
  CHECK(world.events().empty());
  CHECK(world.say(0, block(2, 2, "")).empty());
  CHECK(world.events() == "spawn 0: [2: 'p1'] [1: 'p2']");
  world.server.spawned(0, std::string("kvs_2"), {0, 0, -1});
  CHECK(world.heard(0) == "cmd=spawn_result rc=0 errcodes=0,0,-1");
  SECTION("the next one starts anew") {
    CHECK(world.say(0, block(1, 1, "")).empty());
    CHECK(world.events() == "spawn 0: [1: 'p1']");
    world.server.spawned(0, invalid("no room for it"), {});
    CHECK(world.heard(0) == "cmd=spawn_result rc=-1 msg=no_room_for_it");
  }
  SECTION("so does one after a bad block") {
    CHECK(world.say(0, block(1, 2, "")).empty());
    CHECK(world.say(0, block(1, 2, "")) ==
          "cmd=spawn_result rc=-1 msg=spawn:_spawnssofar:_block_1_of_2_is_out_of_turn");
    CHECK(world.say(0, block(2, 2, "")) ==
          "cmd=spawn_result rc=-1 msg=spawn:_spawnssofar:_block_2_of_2_is_out_of_turn");
    CHECK(world.say(0, block(1, 1, "")).empty());
    CHECK(world.events() == "spawn 0: [1: 'p1']");
  }
  SECTION("one at a time") {
    CHECK(world.say(0, block(1, 1, "")).empty());
    CHECK(world.say(0, block(1, 1, "")) == "cmd=spawn_result rc=-1 msg=spawn:_the_one_before_is_not_over");
    CHECK(world.events() == "spawn 0: [1: 'p1']");
    world.server.spawned(0, std::string("kvs_3"), {0});
    CHECK(world.heard(0) == "cmd=spawn_result rc=0 errcodes=0");
    world.server.spawned(0, std::string("kvs_3"), {0});
    CHECK(world.heard(0).empty());
  }
  SECTION("who has gone is not answered") {
    CHECK(world.say(0, block(1, 1, "")).empty());
    world.server.closed(0);
    world.server.spawned(0, std::string("kvs_3"), {0});
    CHECK(world.heard(0).empty());
  }
}
