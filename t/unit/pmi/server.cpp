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

// Each command of PMI-2, good and bad.

namespace {

std::string failed(const std::string& command, const std::string& why) {
  return "cmd=" + command + "-response;rc=-1;errmsg=" + why + ";";
}

}  // namespace

TEST_CASE("PMI-2: fullinit says who the client is") {
  ClientGroup group = World::group_of(2);
  group.ranks = {7, 9};
  group.size = 16;
  group.appnums.assign(group.ranks.size(), 2);
  World world(group);
  const std::string init = "cmd=init pmi_version=2 pmi_subversion=0\n";
  CHECK(world.raw(1, init) == "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0");
  CHECK_FALSE(world.server.in_use());
  CHECK(world.stage(1) == ClientStage::greeted);
  CHECK(world.say(1, "cmd=fullinit;pmijobid=x;pmirank=1;threaded=FALSE;") ==
        "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=9;size=16;appnum=2;debugged=FALSE;"
        "pmiverbose=FALSE;");
  CHECK(world.server.in_use());
  CHECK(world.server.clients()[1].has_joined);
  CHECK(world.say(1, "cmd=fullinit;") == failed("fullinit", "fullinit a second time"));
  group.spawner = "kvs;0";
  World spawned(group);
  CHECK(spawned.raw(0, init + framed("cmd=fullinit;")) ==
        "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n"
        "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=7;size=16;appnum=2;spawner-jobid=kvs;;0;"
        "debugged=FALSE;pmiverbose=FALSE;");
}

TEST_CASE("PMI-2: keys are put and got") {
  Joined world(2);
  world.server.set_attribute("PMI_process_mapping", "(vector,(0,1,1))");
  CHECK(world.say(0, "cmd=kvs-put;key=a;value=1;;2=3 \n4;") == "cmd=kvs-put-response;rc=0;");
  CHECK(world.say(0, "cmd=kvs-get;jobid=kvs_1;srcid=-1;key=a;") ==
        "cmd=kvs-get-response;rc=0;found=TRUE;value=1;;2=3 \n4;");
  CHECK(world.say(0, "cmd=kvs-get;jobid=;key=a;").starts_with("cmd=kvs-get-response;rc=0;found=TRUE;"));
  CHECK(world.say(0, "cmd=kvs-get;key=b;") == "cmd=kvs-get-response;rc=0;found=FALSE;");
  CHECK(world.say(0, "cmd=kvs-get;key=PMI_process_mapping;") ==
        "cmd=kvs-get-response;rc=0;found=TRUE;value=(vector,(0,1,1));");
  CHECK(world.say(0, "cmd=kvs-get;jobid=kvs_2;key=a;") == failed("kvs-get", "there is no job kvs_2"));
  CHECK(world.say(0, "cmd=kvs-get;") == failed("kvs-get", "kvs-get: no field 'key'"));
  CHECK(world.say(0, "cmd=kvs-put;key=a;value=1;;2=3 \n4;") == "cmd=kvs-put-response;rc=0;");
  CHECK(world.say(0, "cmd=kvs-put;key=a;value=2;") ==
        failed("kvs-put", "the key a is there already, with another value"));
  CHECK(world.say(0, "cmd=kvs-put;key=PMI_process_mapping;value=2;") ==
        failed("kvs-put", "the key PMI_process_mapping is there already, with another value"));
  CHECK(world.say(0, "cmd=kvs-put;key=;value=2;") == failed("kvs-put", "kvs-put: the field 'key' is empty"));
  CHECK(world.say(0, "cmd=kvs-put;key=b;") == failed("kvs-put", "kvs-put: no field 'value'"));
  CHECK(world.say(0, "cmd=kvs-put;key=b;value=;") == "cmd=kvs-put-response;rc=0;");
  const std::string key(64, 'k');
  const std::string value(1024, 'v');
  CHECK(world.say(0, "cmd=kvs-put;key=" + key.substr(1) + ";value=" + value.substr(1) + ";") ==
        "cmd=kvs-put-response;rc=0;");
  CHECK(world.say(0, "cmd=kvs-put;key=" + key + ";value=v;") == failed("kvs-put", "a key has at most 63 bytes"));
  CHECK(world.say(0, "cmd=kvs-put;key=c;value=" + value + ";") ==
        failed("kvs-put", "a value has at most 1023 bytes"));
}

TEST_CASE("PMI-2: attributes of the job are read") {
  Joined world(2);
  world.server.set_attribute("universeSize", "8");
  CHECK(world.say(0, "cmd=info-getjobattr;key=universeSize;") ==
        "cmd=info-getjobattr-response;rc=0;found=TRUE;value=8;");
  CHECK(world.say(0, "cmd=info-getjobattr;key=x;") == "cmd=info-getjobattr-response;rc=0;found=FALSE;");
  CHECK(world.say(0, "cmd=info-getjobattr;") == failed("info-getjobattr", "info-getjobattr: no field 'key'"));
}

TEST_CASE("PMI-2: attributes of the node are put, replaced and read") {
  Joined world(2, 2);
  CHECK(world.say(0, "cmd=info-getnodeattr;key=a;wait=FALSE;") ==
        "cmd=info-getnodeattr-response;rc=0;found=FALSE;");
  CHECK(world.say(0, "cmd=info-getnodeattr;key=a;") == "cmd=info-getnodeattr-response;rc=0;found=FALSE;");
  CHECK(world.say(0, "cmd=info-putnodeattr;key=a;value=1;;;") == "cmd=info-putnodeattr-response;rc=0;");
  CHECK(world.say(1, "cmd=info-getnodeattr;key=a;wait=TRUE;") ==
        "cmd=info-getnodeattr-response;rc=0;found=TRUE;value=1;;;");
  CHECK(world.say(1, "cmd=info-putnodeattr;key=a;value=2;") == "cmd=info-putnodeattr-response;rc=0;");
  CHECK(world.say(0, "cmd=info-getnodeattr;key=a;") == "cmd=info-getnodeattr-response;rc=0;found=TRUE;value=2;");
  CHECK(world.say(0, "cmd=info-putnodeattr;key=a;") ==
        failed("info-putnodeattr", "info-putnodeattr: no field 'value'"));
  CHECK(world.say(0, "cmd=info-putnodeattr;key=" + std::string(64, 'k') + ";value=1;") ==
        failed("info-putnodeattr", "a key has at most 63 bytes"));
  for (const std::string wait : {"TRUE", "FALSE"}) {
    CHECK(world.say(0, "cmd=info-getnodeattr;key=;wait=" + wait + ";") ==
          failed("info-getnodeattr", "info-getnodeattr: the field 'key' is empty"));
    CHECK(world.say(0, "cmd=info-getnodeattr;wait=" + wait + ";") ==
          failed("info-getnodeattr", "info-getnodeattr: no field 'key'"));
  }
}

TEST_CASE("PMI-2: who waits for an attribute of the node is told when it is put") {
  Joined world(2, 4);
  CHECK(world.say(0, "cmd=info-getnodeattr;thrid=0x1;key=a;wait=TRUE;").empty());
  CHECK(world.say(0, "cmd=info-getnodeattr;thrid=0x2;key=a;wait=TRUE;").empty());
  CHECK(world.say(0, "cmd=info-getnodeattr;thrid=0x3;key=b;wait=TRUE;").empty());
  CHECK(world.say(1, "cmd=info-getnodeattr;key=a;wait=TRUE;").empty());
  CHECK(world.say(2, "cmd=info-getnodeattr;key=a;wait=TRUE;").empty());
  world.server.closed(2);
  CHECK(world.say(0, "cmd=job-getid;thrid=0x4;") == "cmd=job-getid-response;thrid=0x4;rc=0;jobid=kvs_1;");
  CHECK(world.say(3, "cmd=info-putnodeattr;key=a;value=v;") == "cmd=info-putnodeattr-response;rc=0;");
  const std::string found = "rc=0;found=TRUE;value=v;";
  CHECK(world.heard(0) ==
        "cmd=info-getnodeattr-response;thrid=0x1;" + found + "\ncmd=info-getnodeattr-response;thrid=0x2;" + found);
  CHECK(world.heard(1) == "cmd=info-getnodeattr-response;" + found);
  CHECK(world.heard(2).empty());
  CHECK(world.say(3, "cmd=info-putnodeattr;key=a;value=w;") == "cmd=info-putnodeattr-response;rc=0;");
  CHECK((world.heard(0) + world.heard(1)).empty());
  CHECK(world.say(0, "cmd=info-putnodeattr;thrid=0x5;key=b;value=v;") ==
        "cmd=info-putnodeattr-response;thrid=0x5;rc=0;\ncmd=info-getnodeattr-response;thrid=0x3;" + found);
}

TEST_CASE("PMI-2: who was dropped is told nothing when the attribute comes") {
  Joined world(2, 2);
  CHECK(world.say(0, "cmd=info-getnodeattr;key=a;wait=TRUE;").empty());
  CHECK(world.say(0, "cmd=nonsense;").empty());
  CHECK(world.events() == "dropped 0: unknown command 'nonsense'");
  CHECK(world.say(1, "cmd=info-putnodeattr;key=a;value=v;") == "cmd=info-putnodeattr-response;rc=0;");
  CHECK(world.heard(0).empty());
}

TEST_CASE("PMI-2: names") {
  Joined world(2);
  CHECK(world.say(0, "cmd=name-lookup;name=s t;") == failed("name-lookup", "the name s t is not published"));
  CHECK(world.say(0, "cmd=name-publish;name=s t;port=p;;q r;") == "cmd=name-publish-response;rc=0;");
  CHECK(world.say(0, "cmd=name-publish;name=s t;port=q;") ==
        failed("name-publish", "the name s t is published already"));
  CHECK(world.say(0, "cmd=name-lookup;name=s t;") == "cmd=name-lookup-response;rc=0;port=p;;q r;value=p;;q r;");
  CHECK(world.say(0, "cmd=name-unpublish;name=s t;") == "cmd=name-unpublish-response;rc=0;");
  CHECK(world.say(0, "cmd=name-unpublish;name=s t;") == failed("name-unpublish", "the name s t is not published"));
  CHECK(world.say(0, "cmd=name-publish;name=s;") == failed("name-publish", "name-publish: no field 'port'"));
  CHECK(world.say(0, "cmd=name-publish;port=s;") == failed("name-publish", "name-publish: no field 'name'"));
  CHECK(world.say(0, "cmd=name-lookup;name=;") == failed("name-lookup", "name-lookup: the field 'name' is empty"));
}

TEST_CASE("PMI-2: jobs that it can connect to are its own and its spawner") {
  ClientGroup group = World::group_of(1);
  group.spawner = "kvs_0";
  World world(group);
  world.join(0, 2);
  CHECK(world.say(0, "cmd=job-getid;") == "cmd=job-getid-response;rc=0;jobid=kvs_1;");
  for (const std::string job : {"kvs_0", "kvs_1"}) {
    CHECK(world.say(0, "cmd=job-connect;jobid=" + job + ";") == "cmd=job-connect-response;rc=0;kvscopy=FALSE;");
    CHECK(world.say(0, "cmd=job-disconnect;jobid=" + job + ";") == "cmd=job-disconnect-response;rc=0;");
  }
  CHECK(world.say(0, "cmd=job-connect;jobid=kvs_2;") == failed("job-connect", "there is no job kvs_2"));
  CHECK(world.say(0, "cmd=job-connect;") == failed("job-connect", "job-connect: no field 'jobid'"));
  CHECK(world.say(0, "cmd=job-disconnect;jobid=;") ==
        failed("job-disconnect", "job-disconnect: the field 'jobid' is empty"));
}

TEST_CASE("PMI-2: a spawn is answered to the thread that has asked") {
  Joined world(2, 2);
  const std::string ask = "ncmds=1;preputcount=1;ppkey0=k;ppval0=v;subcmd=a;maxprocs=3;argc=1;argv0=x;";
  CHECK(world.say(0, "cmd=spawn;thrid=0x1;" + ask).empty());
  CHECK(world.events() == "spawn 0: [3: 'a' 'x'] preput k=v");
  CHECK(world.say(0, "cmd=kvs-fence;thrid=0x2;").empty());
  CHECK(world.say(0, "cmd=spawn;thrid=0x3;" + ask) ==
        "cmd=spawn-response;thrid=0x3;rc=-1;errmsg=spawn: the one before is not over;");
  CHECK(world.say(0, "cmd=spawn;thrid=0x4;ncmds=1;") ==
        "cmd=spawn-response;thrid=0x4;rc=-1;errmsg=spawn: ncmds: 1 were announced, 0 came;");
  CHECK(world.events().empty());
  world.server.spawned(0, std::string("kvs;2"), {0, -1, 5});
  CHECK(world.heard(0) == "cmd=spawn-response;thrid=0x1;rc=0;jobid=kvs;;2;nerrs=2;errcodes=0,-1,5;");
  world.server.spawned(0, std::string("kvs_2"), {0});
  CHECK(world.heard(0).empty());
  world.enter(1);
  CHECK(world.events() == "fence");
  world.server.fenced(Entries());
  CHECK(world.heard(0) == "cmd=kvs-fence-response;thrid=0x2;rc=0;");
  CHECK(world.heard(1) == "cmd=kvs-fence-response;rc=0;");
  CHECK(world.say(1, "cmd=spawn;" + ask).empty());
  world.server.spawned(1, invalid("no; not today"), {});
  CHECK(world.heard(1) == failed("spawn", "no;; not today"));
}

TEST_CASE("PMI-2: abort, whatever its fields, and at any stage") {
  World world(3);
  world.raw(0, "cmd=init pmi_version=2 pmi_subversion=0\n");
  CHECK(world.say(0, "cmd=abort;isworld=TRUE;msg=a\\ b;;c;").empty());
  CHECK(world.events() == "abort 0: 1 'a\\ b;c'");
  world.join(1, 2);
  CHECK(world.say(1, "cmd=abort;exitcode=3;message=m;").empty());
  CHECK(world.events() == "abort 1: 3 'm'");
  CHECK(world.say(1, "cmd=abort;exitcode=x;").empty());
  CHECK(world.events() == "abort 1: 1 ''");
  CHECK(world.say(1, "cmd=finalize;") == "cmd=finalize-response;rc=0;");
  CHECK(world.say(1, "cmd=abort;").empty());
  CHECK(world.events() == "abort 1: 1 ''");
}

TEST_CASE("PMI-2: commands before fullinit and after finalize are refused") {
  World world(1);
  world.raw(0, "cmd=init pmi_version=2 pmi_subversion=0\n");
  const std::string commands[] = {"job-getid",    "job-connect",      "job-disconnect",  "info-putnodeattr",
                                  "kvs-put",      "info-getnodeattr", "info-getjobattr", "kvs-get",
                                  "name-publish", "name-unpublish",   "name-lookup",     "spawn",
                                  "finalize",     "kvs-fence"};
  const std::string fields = ";thrid=1;key=a;value=b;jobid=kvs_1;name=n;port=p;ncmds=1;subcmd=s;wait=TRUE;";
  for (const std::string& each : commands) {
    CHECK(world.say(0, "cmd=" + each + fields) ==
          "cmd=" + each + "-response;thrid=1;rc=-1;errmsg=" + each + " before fullinit;");
    CHECK(world.server.clients()[0].last_command == each);
  }
  CHECK(world.say(0, "cmd=fullinit;").starts_with("cmd=fullinit-response;rc=0;"));
  CHECK(world.say(0, "cmd=finalize;") == "cmd=finalize-response;rc=0;");
  for (const std::string& each : commands) {
    CHECK(world.say(0, "cmd=" + each + fields) ==
          "cmd=" + each + "-response;thrid=1;rc=-1;errmsg=" + each + " after finalize;");
  }
  CHECK(world.say(0, "cmd=fullinit;") == failed("fullinit", "fullinit after finalize"));
  CHECK(world.events().empty());
  CHECK(world.stage(0) == ClientStage::finalized);
}
