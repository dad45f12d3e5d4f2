// SPDX-License-Identifier: Apache-2.0
//
// Each command of PMI-2, good and bad.
#include "world.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::pmi;  // NOLINT

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
