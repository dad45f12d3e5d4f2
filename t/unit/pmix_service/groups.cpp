// SPDX-License-Identifier: Apache-2.0
//
// The answers to members of groups, and what clients get about the processes of all shells.

#include "groups.hpp"
#include "group_calls.hpp"
#include "peers.hpp"
#include "served.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::pmix;  // NOLINT

namespace {

// The answers to one call.
struct Outcome {
  int answers = 0;
  pmix_status_t status = 1;
  InfoList results;

  InfoReply reply() {
    auto done = [](pmix_status_t result, pmix_info_t* infos, std::size_t count, void* self,
                   pmix_release_cbfunc_t release, void* kept) {
      auto& outcome = *static_cast<Outcome*>(self);
      ++outcome.answers;
      outcome.status = result;
      outcome.results = InfoList(infos, count);
      release(kept);
    };
    return {done, this};
  }
  [[nodiscard]] std::size_t id() const {
    const pmix_value_t* value = results.find(PMIX_GROUP_CONTEXT_ID);
    return value != nullptr ? value->data.size : 0;
  }
  [[nodiscard]] std::vector<pmix_rank_t> members() const {
    const pmix_value_t* value = results.find(PMIX_GROUP_MEMBERSHIP);
    std::vector<pmix_rank_t> out;
    for (std::size_t i = 0; value != nullptr && i < value->data.darray->size; ++i)
      out.push_back(static_cast<pmix_proc_t*>(value->data.darray->array)[i].rank);
    return out;
  }
  [[nodiscard]] std::string bytes() const {
    const pmix_value_t* value = results.find(PMIX_GROUP_ENDPT_DATA);
    return value != nullptr ? text_of(*value).value_or("") : "";
  }
};

// As libpmix calls when the members of this shell have come.
void call(Served& job, pmix_group_operation_t operation, const std::vector<pmix_rank_t>& ranks,
          const InfoList& directives, Outcome& outcome) {
  std::vector<pmix_proc_t> procs;
  for (pmix_rank_t rank : ranks) procs.push_back(proc_of("nacre-1", rank));
  char name[] = "g";
  InfoReply reply = outcome.reply();
  REQUIRE(server_module().group(operation, name, procs.data(), procs.size(), directives.data(), directives.size(),
                                reply.function, reply.data) == PMIX_SUCCESS);
  job.read();
}

void receive(Served& job, PeerMessage message) {
  message.start = 1;
  job.service->peers().receive(message);
}

// How many messages of one kind the shell has sent since the last call.
std::size_t sent(Served& job, PeerMessage::Kind kind) {
  std::string start = encode({.kind = kind, .start = 1, .shell = 0, .texts = {}}).substr(0, 1 + 8 + 4);
  auto has = [&](const std::string& text) { return text.find(start) != std::string::npos; };
  job.host.serve([&] { return std::any_of(job.said.begin(), job.said.end(), has); });
  return static_cast<std::size_t>(std::count_if(job.said.begin(), job.said.end(), has));
}

const std::string kName = Groups::name_of(Groups::Kind::construct, {0, 2}, "g");

InfoList directives() {
  InfoList out;
  out.flag(PMIX_GROUP_ASSIGN_CONTEXT_ID, true).bytes(PMIX_GROUP_ENDPT_DATA, "a");
  return out;
}

}  // namespace

TEST_CASE("a group of one shell needs no other; its id is no other's") {
  Served job(2, Json::object(), 2);
  job.start();
  Outcome first, second;
  call(job, PMIX_GROUP_CONSTRUCT, {0, 1}, directives(), first);
  call(job, PMIX_GROUP_CONSTRUCT, {0, 1}, directives(), second);
  CHECK(first.status == PMIX_SUCCESS);
  CHECK(first.members() == std::vector<pmix_rank_t>{0, 1});
  CHECK(first.bytes() == "a");
  CHECK(first.id() == context_id(1, 0));
  CHECK(second.id() == context_id(2, 0));
  job.connect(1), job.finalize(1), job.exit(1, 0);
  call(job, PMIX_GROUP_CONSTRUCT, {0, 1}, directives(), first);
  CHECK(first.status == PMIX_GROUP_CONSTRUCT_ABORT);
  CHECK(first.id() == 0);
  call(job, PMIX_GROUP_CONSTRUCT, {0, 1}, directives().flag(PMIX_GROUP_OPTIONAL, true), first);
  CHECK(first.status == PMIX_SUCCESS);
  CHECK(first.members() == std::vector<pmix_rank_t>{0});
  call(job, PMIX_GROUP_DESTRUCT, {0, 1}, {}, second);
  CHECK(second.status == PMIX_ERR_PARTIAL_SUCCESS);
}

TEST_CASE("a group of several is there once the parts of all have been received") {
  Served job(2, Json::object(), 2);
  job.start();
  Outcome outcome;
  call(job, PMIX_GROUP_CONSTRUCT, {0, 2}, directives(), outcome);
  CHECK(outcome.answers == 0);
  receive(job, Groups::message_of(kName, {.number = 1, .wants_id = true, .bytes = "b1:a"}));
  CHECK(outcome.answers == 0);
  PeerMessage other = Groups::message_of(kName, {.number = 5, .bytes = "b1:b"});
  other.shell = 1;
  receive(job, other);
  REQUIRE(outcome.answers == 1);
  CHECK(outcome.status == PMIX_SUCCESS);
  CHECK(outcome.id() == context_id(1, 0));
  CHECK(outcome.bytes() == "ab");
  CHECK(outcome.members() == std::vector<pmix_rank_t>{0, 2});
}

// As libpmix 6 has it: of each member what it has put, and what it has given for the group.
InfoList of_member(const char* key, const char* second, const void* value, pmix_data_type_t type) {
  pmix_proc_t member = proc_of("nacre-1", 1);
  InfoList members;
  members.proc(PMIX_PROCID, member).add(second, value, type).string("port", "tcp:1");
  InfoList out;
  out.array(key, std::move(members));
  return out;
}

TEST_CASE("infos of members: libpmix gets what they have put, and what they have given if the group has an id") {
  const pmix_scope_t scope = PMIX_REMOTE;
  InfoList infos = of_member(PMIX_PROC_DATA, PMIX_DATA_SCOPE, &scope, PMIX_SCOPE);
  for (const pmix_info_t& each : of_member(PMIX_GROUP_INFO, "color", "red", PMIX_STRING))
    infos.value(each.key, each.value);
  const InfoList with = resources_of(infos, 5);
  REQUIRE(with.size() == 3);
  CHECK(with.find(PMIX_GROUP_CONTEXT_ID)->data.size == 5);
  CHECK(with.find(PMIX_GROUP_ENDPT_DATA)->data.darray->size == 3);
  CHECK(with.find(PMIX_GROUP_INFO)->data.darray->size == 3);
  const InfoList without = resources_of(infos, 0);
  REQUIRE(without.size() == 1);
  CHECK(without.find(PMIX_GROUP_ENDPT_DATA) != nullptr);
  CHECK(resources_of({}, 5).empty());
}

TEST_CASE("infos that libpmix could not read are left out") {
  InfoList infos = of_member(PMIX_PROC_DATA, "no scope", "x", PMIX_STRING);
  infos.string(PMIX_PROC_DATA, "no array")
      .array(PMIX_GROUP_INFO, {})
      .array(PMIX_PROC_DATA, InfoList().string("a", "b"));
  CHECK(resources_of(infos, 5).empty());
  CHECK(group_data_of(infos).empty());
}

TEST_CASE("a group that libpmix calls to destruct twice for one request is answered once") {
  Served job(2);
  job.start();
  Outcome outcome;
  {
    GroupCallScope request;
    for (int round = 0; round < 2; ++round) call(job, PMIX_GROUP_DESTRUCT, {0, 1}, {}, outcome);
    CHECK(outcome.answers == 1);
  }
  for (int requests = 2; requests < 4; ++requests) {
    GroupCallScope request;
    call(job, PMIX_GROUP_DESTRUCT, {0, 1}, {}, outcome);
    CHECK(outcome.answers == requests);
  }
  for (int requests = 4; requests < 6; ++requests) {
    call(job, PMIX_GROUP_DESTRUCT, {0, 1}, {}, outcome);
    CHECK(outcome.answers == requests);
  }
}

TEST_CASE("groups whose members are to be found out there are none") {
  Served job(2, Json::object(), 2);
  job.start();
  const InfoList more = InfoList().procs(PMIX_GROUP_ADD_MEMBERS, {proc_of("nacre-1", 2)});
  pmix_proc_t own = proc_of("nacre-1", 0);
  char name[] = "g";
  auto* const group = server_module().group;
  CHECK(group(PMIX_GROUP_CONSTRUCT, name, &own, 1, more.data(), more.size(), nullptr, nullptr) ==
        PMIX_ERR_NOT_SUPPORTED);
  CHECK(group(PMIX_GROUP_CONSTRUCT, name, nullptr, 0, nullptr, 0, nullptr, nullptr) == PMIX_ERR_NOT_SUPPORTED);
}

TEST_CASE(
    "a shell that is lost is reported to all, and then ends the group; so does one's end here, which others wait "
    "for") {
  Served job(2, {{"fault-tolerance", true}}, 2);
  job.start();
  Outcome outcome;
  call(job, PMIX_GROUP_CONSTRUCT, {0, 2}, directives(), outcome);
  receive(job, Groups::message_of(kName, {.number = 1, .bytes = {}}));
  job.said.clear();
  job.service->ends().shell_lost(1);
  CHECK(outcome.answers == 0);
  CHECK(sent(job, PeerMessage::Kind::gone) == 1);
  receive(job, {.kind = PeerMessage::Kind::gone, .shell = 0, .to = 1, .texts = {}});
  CHECK(outcome.answers == 1);
  CHECK(outcome.status == PMIX_GROUP_CONSTRUCT_ABORT);
}

TEST_CASE("one that ends here is reported to others only where they wait for it in a group") {
  Served job(2, Json::object(), 2);
  job.start();
  for (pmix_rank_t rank : {0, 1}) job.connect(rank);
  job.finalize(1), job.exit(1, 0);
  job.said.clear();
  PeerMessage other =
      Groups::message_of(Groups::name_of(Groups::Kind::construct, {1, 2}, "g"), {.number = 1, .bytes = {}});
  other.shell = 1;
  receive(job, other);
  CHECK(sent(job, PeerMessage::Kind::ended) == 1);
}

TEST_CASE("a time-out is reported to all, and answered before libpmix's own runs out, whatever the others do") {
  Served job(2, Json::object(), 2);
  job.start();
  Outcome outcome;
  call(job, PMIX_GROUP_CONSTRUCT, {0, 2}, directives().number(PMIX_TIMEOUT, 1), outcome);
  job.said.clear();
  REQUIRE(job.host.serve([&] { return outcome.answers > 0; }));
  CHECK(outcome.status == PMIX_ERR_TIMEOUT);
  CHECK(sent(job, PeerMessage::Kind::leave) == 1);
  CHECK(outcome.answers == 1);
}

TEST_CASE("the table of all processes: what other shells answer, and of lost ones what is known") {
  Served job(1, {{"fault-tolerance", true}}, 3, {.list = 0.05});
  job.start();
  job.connect(0);
  bool is_lost = GENERATE(true, false);
  if (is_lost) job.service->ends().shell_lost(2);
  Outcome outcome;
  job.service->query({{{PMIX_QUERY_PROC_TABLE}, {}}}, outcome.reply());
  CHECK(outcome.answers == 0);
  receive(job, {.kind = PeerMessage::Kind::rows, .shell = 1, .to = 0, .number = 1, .texts = {"1 4711 20 3 ./a b"}});
  receive(job, {.kind = PeerMessage::Kind::list, .shell = 0, .number = 1, .texts = {"nacre-1"}});
  REQUIRE(job.host.serve([&] { return outcome.answers > 0; }));
  CHECK(outcome.status == PMIX_SUCCESS);
  const pmix_value_t* table = outcome.results.find(PMIX_QUERY_PROC_TABLE);
  REQUIRE(table != nullptr);
  REQUIRE(table->data.darray->size == 3);
  const auto* rows = static_cast<pmix_proc_info_t*>(table->data.darray->array);
  CHECK(rows[0].state == PMIX_PROC_STATE_CONNECTED);
  CHECK(rows[0].pid > 0);
  CHECK(std::string(rows[1].executable_name) == "./a b");
  CHECK(rows[1].pid == 4711);
  CHECK(rows[1].exit_code == 3);
  CHECK(std::string(rows[1].hostname) == "fake1");
  CHECK(rows[2].state == (is_lost ? PMIX_PROC_STATE_COMM_FAILED : PMIX_PROC_STATE_UNDEF));
  CHECK(std::string(rows[2].hostname) == "fake2");
}

TEST_CASE(
    "a set of processes: all shells define it, a name that is defined again is replaced, and queries find it") {
  Served job(2, Json::object(), 2);
  job.start();
  auto define = [&](const InfoList& how, const std::vector<pmix_proc_t>& targets) {
    Outcome outcome;
    job.service->control(proc_of("nacre-1", 0), targets, how, outcome.reply());
    REQUIRE(job.host.serve([&] { return outcome.answers > 0; }));  // it hears its own messages
    return outcome.status;
  };
  auto named = [](const std::string& name) { return std::move(InfoList().string("pmix.jctrl.defpset", name)); };
  auto ask = [&](const char* key, const InfoList& qualifiers) {
    auto outcome = std::make_unique<Outcome>();
    job.service->query({{{key}, qualifiers}}, outcome->reply());
    REQUIRE(outcome->answers == 1);
    return outcome;
  };
  CHECK(ask(PMIX_QUERY_PSET_NAMES, {})->status == PMIX_ERR_NOT_FOUND);
  job.server->calls.clear();
  CHECK(define(named("odd"), {proc_of("nacre-1", 3), proc_of("nacre-1", 1)}) == PMIX_SUCCESS);
  CHECK(define(named("all"), {}) == PMIX_SUCCESS);
  CHECK(define(named("odd"), {proc_of("nacre-1", 1)}) == PMIX_SUCCESS);
  CHECK(job.server->calls == std::vector<std::string>{"define_set odd nacre-1.3 nacre-1.1",
                                                      "define_set all nacre-1.0 nacre-1.1 nacre-1.2 nacre-1.3",
                                                      "delete_set odd", "define_set odd nacre-1.1"});
  const auto names = ask(PMIX_QUERY_PSET_NAMES, {});
  CHECK(text_of(*names->results.find(PMIX_QUERY_PSET_NAMES)) == "all,odd");
  const auto count = ask(PMIX_QUERY_NUM_PSETS, {});
  CHECK(count->results.find(PMIX_QUERY_NUM_PSETS)->data.size == 2);
  InfoList which;
  which.string(PMIX_PSET_NAME, "odd");
  const auto members = ask(PMIX_QUERY_PSET_MEMBERSHIP, which);
  const pmix_data_array_t* array = members->results.find(PMIX_QUERY_PSET_MEMBERSHIP)->data.darray;
  REQUIRE(array->size == 1);
  CHECK(static_cast<pmix_proc_t*>(array->array)->rank == 1);
  InfoList other;
  other.string(PMIX_PSET_NAME, "even");
  CHECK(ask(PMIX_QUERY_PSET_MEMBERSHIP, other)->status == PMIX_ERR_NOT_FOUND);
  CHECK(ask(PMIX_QUERY_PSET_MEMBERSHIP, {})->status == PMIX_ERR_NOT_FOUND);

  job.server->calls.clear();
  CHECK(define(named("none"), {proc_of("nacre-1", PMIX_RANK_WILDCARD), proc_of("nacre-1", 4)}) ==
        PMIX_ERR_NOT_FOUND);
  CHECK(define(named("none"), {proc_of("other", PMIX_RANK_WILDCARD)}) == PMIX_ERR_NOT_FOUND);
  for (const std::string& bad : {std::string(), std::string("a,b"), std::string(600, 'x')})
    CHECK(define(named(bad), {}) == PMIX_ERR_BAD_PARAM);
  CHECK(define(std::move(InfoList().number("pmix.jctrl.defpset", 7)), {}) == PMIX_ERR_BAD_PARAM);
  CHECK(define(std::move(named("x").integer(PMIX_JOB_CTRL_SIGNAL, SIGUSR1)), {}) == PMIX_ERR_NOT_SUPPORTED);
  CHECK(job.server->calls.empty());
}

TEST_CASE("a shell that is asked for its processes answers who asked") {
  Served job(2, Json::object(), 2);
  job.start();
  job.said.clear();
  receive(job, {.kind = PeerMessage::Kind::list, .shell = 1, .number = 4, .texts = {"nacre-1"}});
  CHECK(sent(job, PeerMessage::Kind::rows) == 1);
}

TEST_CASE("a server that does not answer when all is over is left as it is") {
  Served job(1);
  job.start();
  job.connect(0), job.finalize(0), job.exit(0, 0);
  job.server->errors["answers"] = "never";
  job.service->tasks_are_over();
  CHECK(job.server->calls == std::vector<std::string>{"start", "add_job nacre-1", "abandon"});
  CHECK(job.logged("error") == std::vector<std::string>{"libpmix does not answer any more, and is left as it is"});
}
