// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "job/job.hpp"

using namespace nacre;  // NOLINT
using nacre::Json;
using nacre::job::Environment;
using nacre::job::Job;
using nacre::job::Jobspec;
using nacre::job::PerResource;
using nacre::job::Resources;
using nacre::value::Idset;
using nacre::value::JobId;
using value::Idset;
using value::ShrinkOrder;

namespace {

Jobspec five_on_two_nodes() {
  return Jobspec::parse(R"({"version": 1, "resources": [{"type": "node", "count": 2, "exclusive": true, "with": [
    {"type": "slot", "count": 3, "label": "x", "with": [{"type": "core", "count": 2}, {"type": "gpu", "count": 1}]}]}],
    "tasks": [{"command": ["app"], "slot": "x", "count": {"total": 5}}], "attributes": {}})")
      .value();
}

Resources two_nodes() {
  return Resources::parse(R"({"version": 1, "execution": {"nodelist": ["n[10-11]"], "R_lite": [
    {"rank": "8", "children": {"core": "0-5,8-9", "gpu": "0-2"}}, {"rank": "3", "children": {"core": "0-7", "gpu": "1-3"}}]}})")
      .value();
}

Job job_of(std::uint32_t shell_rank) {
  return Job::create(JobId(1234), shell_rank, five_on_two_nodes(), two_nodes(), std::nullopt).value();
}

}  // namespace

TEST_CASE("a job has its tasks in blocks over the nodes") {
  Job job = job_of(1);
  CHECK(job.shells() == 2);
  CHECK(job.tasks() == 5);
  CHECK(job.node().broker_rank == 8);
  CHECK(job.taskmap.raw() == "0-2;3-4");
  REQUIRE(job.shares.size() == 2);
  CHECK(job.shares[0].slots == 3);
  CHECK(job.shares[1].slots == 3);
}

TEST_CASE("tasks that a spare takes over are there, and the spare is none any more") {
  Resources four = Resources::parse(R"({"version": 1, "execution": {"nodelist": ["n[0-3]"], "R_lite": [
    {"rank": "0-3", "children": {"core": "0-5", "gpu": "0-2"}}]}})")
                       .value();
  Job job = Job::create(JobId(1), 0, five_on_two_nodes(), four, std::nullopt, false, 2).value();
  CHECK(job.spare_shells().str() == "2-3");
  CHECK(job.attempt_of(3) == 1);
  job.move({Idset::parse("3-4").value(), 1, 2, 2});
  CHECK(job.taskmap.raw() == "0-2;;3-4");
  CHECK(job.spare_shells().str() == "3");
  CHECK(job.nodes() == 2);
  job.move({Idset::parse("4").value(), 2, 3, 3});
  CHECK(job.taskmap.raw() == "0-2;;3;4");
  CHECK(job.spare_shells().empty());
  CHECK(job.attempt_of(0) == 1);
  CHECK(job.attempt_of(3) == 2);
  CHECK(job.attempt_of(4) == 3);
  CHECK(job.stands_for(3) == 1);
  CHECK(job.stands_for(0) == 0);
  CHECK(job.has_had(1, 4));
  CHECK(job.has_had(2, 4));
  CHECK(job.has_had(3, 4));
  CHECK_FALSE(job.has_had(3, 3));
  CHECK_FALSE(job.has_had(0, 4));
  CHECK(job.tasks_have_left(1));
  CHECK(job.tasks_have_left(2));
  CHECK_FALSE(job.tasks_have_left(3));
  CHECK(job.restarts == 2);
  job.move({Idset::parse("3").value(), 2, 0, 4});  // to a shell that has tasks of its own
  job.move({Idset::parse("4").value(), 3, 0, 4});
  CHECK(job.taskmap.raw() == "0-4");
  CHECK(job.stands_for(0) == 0);
  CHECK(job.stands_for(3) == 1);
}

TEST_CASE("tasks that start again where they are count their starts on, wherever they were before") {
  Resources three = Resources::parse(R"({"version": 1, "execution": {"nodelist": ["n[0-2]"], "R_lite": [
    {"rank": "0-2", "children": {"core": "0-5", "gpu": "0-2"}}]}})")
                        .value();
  Job job = Job::create(JobId(1), 0, five_on_two_nodes(), three, std::nullopt, false, 1).value();
  job.start_again(Idset::parse("1,4").value());
  CHECK(job.attempt_of(0) == 1);
  CHECK(job.attempt_of(1) == 2);
  CHECK(job.restarts == 1);
  job.move({Idset::parse("3-4").value(), 1, 2, 3});
  CHECK(job.attempt_of(3) == 3);
  job.start_again(Idset::parse("0-4").value());
  CHECK(job.attempt_of(0) == 2);
  CHECK(job.attempt_of(1) == 3);
  CHECK(job.attempt_of(4) == 4);
  CHECK(job.restarts == 3);
}

TEST_CASE("per-resource makes the tasks of a job") {
  auto job =
      Job::create(JobId(1), 0, five_on_two_nodes(), two_nodes(), PerResource{PerResource::Type::core, 1}).value();
  CHECK(job.taskmap.raw() == "0-7;8-15");
}

TEST_CASE("a job that cannot be") {
  CHECK(Job::create(JobId(1), 2, five_on_two_nodes(), two_nodes(), std::nullopt).error().message ==
        "no shell rank 2: R has 2 nodes");
  Jobspec large = five_on_two_nodes();
  large.slots_per_node = 4;
  CHECK(Job::create(JobId(1), 0, large, two_nodes(), std::nullopt).error().message ==
        "jobspec asks for 2 nodes with 4 slots of 2 cores and 1 gpu each; R has 0 such; "
        "n10 has 8 cores and 3 gpus, n11 has 8 cores and 3 gpus: fewer tasks (-n) or fewer gpus a task (-g)");
}

TEST_CASE("jobspec_info has the keys of flux_shell_get_jobspec_info") {
  CHECK(job_of(0).jobspec_info() == Json::parse(R"({"version": 1, "ntasks": 5, "nslots": 6, "cores_per_slot": 2,
    "gpus_per_slot": 1, "nnodes": 2, "slots_per_node": 3, "node_exclusive": true})"));
  Jobspec spec = five_on_two_nodes();
  spec.nodes.reset();
  spec.slots_per_node.reset();
  spec.node_exclusive = false;
  auto info = Job::create(JobId(1), 0, spec, two_nodes(), std::nullopt).value().jobspec_info();
  CHECK(info["nnodes"] == -1);
  CHECK(info["slots_per_node"] == -1);
  CHECK(info["node_exclusive"] == false);
}

TEST_CASE("rank_info has the keys of flux_shell_get_rank_info") {
  Job job = job_of(0);
  CHECK(job.rank_info(0).value() == Json::parse(R"({"id": 0, "name": "n10", "broker_rank": 3, "ntasks": 3,
    "taskids": "0-2", "resources": {"ncores": 8, "cores": "0-7", "gpus": "1-3"}})"));
  CHECK(job.rank_info(1).value() == Json::parse(R"({"id": 1, "name": "n11", "broker_rank": 8, "ntasks": 2,
    "taskids": "3-4", "resources": {"ncores": 8, "cores": "0-5,8-9", "gpus": "0-2"}})"));
  CHECK(job.rank_info(2).error().message == "no shell rank 2: R has 2 nodes");
}

TEST_CASE("rank_info follows a new taskmap") {
  Job job = job_of(0);
  job.taskmap = nacre::value::Taskmap::of({0, 1, 0, 1, 0});
  CHECK(job.rank_info(0).value()["taskids"] == "0,2,4");
  CHECK(job.rank_info(1).value()["taskids"] == "1,3");
}

TEST_CASE("the job's variables are set under both names") {
  Environment env;
  env.set("FLUX_JOB_SIZE", "99");
  nacre::job::set_job_variables(env, job_of(0), "/tmp/x");
  const std::string id = JobId(1234).f58();
  for (std::string prefix : {"FLUX_", "NACRE_"}) {
    CHECK(env.get(prefix + "JOB_ID") == id);
    CHECK(env.get(prefix + "JOB_ID_PATH") == "/" + id);
    CHECK(env.get(prefix + "JOB_SIZE") == "5");
    CHECK(env.get(prefix + "JOB_NNODES") == "2");
    CHECK(env.get(prefix + "JOB_TMPDIR") == "/tmp/x");
  }
  CHECK(env.get("NACRE_SHELL_ID") == JobId(1234).f58_plain() + ".0");
  CHECK(env.all().size() == 11);
}

TEST_CASE("without a temporary directory its variable is not set") {
  Environment env;
  nacre::job::set_job_variables(env, job_of(0), "");
  CHECK_FALSE(env.get("FLUX_JOB_TMPDIR"));
  CHECK_FALSE(env.get("NACRE_JOB_TMPDIR"));
  CHECK(env.all().size() == 9);
}

TEST_CASE("a task's variables are set under both names") {
  Environment env;
  nacre::job::set_task_variables(env, 7, 3);
  CHECK(env.get("FLUX_TASK_RANK") == "7");
  CHECK(env.get("NACRE_TASK_RANK") == "7");
  CHECK(env.get("FLUX_TASK_LOCAL_ID") == "3");
  CHECK(env.get("NACRE_TASK_LOCAL_ID") == "3");
  CHECK(env.all().size() == 4);
}

// ---- as flux-shell does ----------------------------------------------------

TEST_CASE("slots without tasks give no cores and gpus to the tasks of their node, unless it is exclusive") {
  Jobspec spec = five_on_two_nodes();
  CHECK(Job::create(JobId(1), 1, spec, two_nodes(), std::nullopt).value().node().cores.str() == "0-5,8-9");
  spec.node_exclusive = false;
  Job job = Job::create(JobId(1), 1, spec, two_nodes(), std::nullopt).value();
  CHECK(job.node().cores.str() == "0-3");
  CHECK(job.node().gpus.str() == "0-1");
  CHECK(job.resources.nodes[0].cores.str() == "0-5");
  CHECK(job.resources.nodes[0].gpus.str() == "1-3");
  // The jobspec asks for no gpus: each of two nodes has three, for six slots.
  Jobspec none = spec;
  none.gpus_per_slot = 0;
  CHECK(Job::create(JobId(1), 1, none, two_nodes(), std::nullopt).value().node().gpus.str() == "0-1");
  Resources made = two_nodes();
  made.is_made = true;
  CHECK(Job::create(JobId(1), 1, spec, made, std::nullopt).value().node().cores.str() == "0-5,8-9");
}

// ---- of what nodes offer -----------------------------------------------------

TEST_CASE("of what nodes offer the job has what its slots ask for, and spares keep all") {
  Jobspec spec = Jobspec::parse(R"({"version":1,"resources":[{"type":"slot","count":3,"label":"task",
    "with":[{"type":"core","count":2},{"type":"gpu","count":1}]}],
    "tasks":[{"command":["true"],"slot":"task","count":{"per_slot":1}}],
    "attributes":{"system":{"duration":0}}})")
                     .value();
  Resources offered = Resources::parse(R"({"version":1,"execution":{"R_lite":[
    {"rank":"0-2","children":{"core":"0-7","gpu":"0-3"}}],"nodelist":["n[0-2]"],"starttime":0,"expiration":0}})")
                          .value();
  Job job = Job::create(JobId(1), 0, spec, offered, std::nullopt, false, 1).value();
  Job shared = job;
  job.take_what_was_asked(true, false);
  CHECK(job.cores_each == 2);
  CHECK(job.gpus_each == 1);
  const auto& nodes = job.resources.nodes;
  CHECK(nodes[0].cores.str() == "0-3");
  CHECK(nodes[0].more_cores.str() == "4-7");
  CHECK(nodes[0].gpus.str() == "0-1");
  CHECK(nodes[1].cores.str() == "0-1");
  CHECK(nodes[1].gpus.str() == "0");
  CHECK(nodes[1].all_gpus().str() == "0-3");
  CHECK(nodes[2].cores.str() == "0-7");
  CHECK(nodes[2].gpus.str() == "0-3");
  CHECK(nacre::job::taken_document(job.resources)["execution"]["R_lite"] ==
        Json::parse(R"([{"rank":"1","children":{"core":"0-1","gpu":"0"}},
          {"rank":"0","children":{"core":"0-3","gpu":"0-1"}},{"rank":"2","children":{"core":"0-7","gpu":"0-3"}}])"));

  job.choose_cores(Idset::parse("0-1,6-7").value());
  CHECK(job.node().cores.str() == "0-1,6-7");
  CHECK(job.node().more_cores.str() == "2-5");
  job.choose_cores(Idset::parse("0-2").value());  // fewer than R has
  job.choose_gpus(Idset::parse("2,9").value());   // one is not there
  CHECK(job.node().cores.str() == "0-1,6-7");
  CHECK(job.node().gpus.str() == "0-1");

  shared.take_what_was_asked(false, true);  // without -c
  CHECK(shared.cores_each == 0);
  CHECK(shared.node().cores.str() == "0-7");
  CHECK(shared.node().gpus.str() == "0-1");
}

TEST_CASE("the job id begins with f where the job's locale is not of UTF-8, or where that is forced") {
  auto id_with = [](std::vector<std::pair<std::string, std::string>> environment) {
    Jobspec spec = five_on_two_nodes();
    spec.environment = std::move(environment);
    return Job::create(JobId(1234), 0, spec, two_nodes(), std::nullopt).value().f58();
  };
  for (const char* locale : {"C.UTF-8", "en_GB.utf8", "de_DE.UTF-8@euro"})
    CHECK(id_with({{"LANG", locale}}) == "ƒNH");
  for (const char* locale : {"C", "POSIX", "de_DE", "de_DE.ISO-8859-1"})
    CHECK(id_with({{"LANG", locale}}) == "fNH");
  CHECK(id_with({}) == "ƒNH");
  CHECK(id_with({{"LANG", "C.UTF-8"}, {"LC_ALL", "C"}}) == "fNH");
  CHECK(id_with({{"LANG", "C"}, {"LC_CTYPE", "C.UTF-8"}, {"LC_ALL", ""}}) == "ƒNH");
  CHECK(id_with({{"LANG", "C.UTF-8"}, {"FLUX_F58_FORCE_ASCII", "1"}}) == "fNH");
}

// ---- spares --------------------------------------------------------------------

namespace {

// Five nodes of four cores, and a job whose jobspec is `resources` with `count` as the tasks' count.
nacre::Result<Job> with_spares(std::uint32_t spares, const char* resources,
                               const char* count = R"({"per_slot": 1})",
                               std::optional<PerResource> per_resource = std::nullopt) {
  Json spec{{"version", 1},
            {"resources", Json::parse(resources)},
            {"tasks", Json::array({{{"command", {"app"}}, {"slot", "x"}, {"count", Json::parse(count)}}})},
            {"attributes", Json::object()}};
  auto five = Resources::parse(R"({"version": 1, "execution": {"nodelist": ["n[0-4]"], "R_lite": [
    {"rank": "0-4", "children": {"core": "0-3", "gpu": "0-1"}}]}})");
  return Job::create(JobId(1), 0, Jobspec::from_json(spec).value(), five.value(), per_resource, false, spares);
}

constexpr const char* kSlots =
    R"([{"type": "slot", "count": 5, "label": "x", "with": [{"type": "core", "count": 1}]}])";

std::string on_nodes(int nodes, int slots = 2) {
  return R"([{"type": "node", "count": )" + std::to_string(nodes) + R"(, "with": [{"type": "slot", "count": )" +
         std::to_string(slots) + R"(, "label": "x", "with": [{"type": "core", "count": 1}]}]}])";
}

}  // namespace

TEST_CASE("nodes that join later are spares, behind the others, and in R") {
  Job job = with_spares(1, kSlots).value();
  std::uint32_t before = job.shells();
  std::uint32_t with_tasks = job.nodes();
  job.grow({{0, "late0", Idset::range(0, 1), {}, {}}, {0, "late1", {}, {}, {}}});
  CHECK(job.shells() == before + 2);
  CHECK(job.nodes() == with_tasks);
  CHECK(job.spare_shells().contains(before));
  CHECK(job.taskmap.ranks_on(before).empty());
  CHECK(job.resources.nodes[before].broker_rank > job.resources.nodes[before - 1].broker_rank);
  CHECK(job.rank_info(before)->at("name") == "late0");
  // A spare that has not come is not in R.
  nacre::Json lite = job.resources.document["execution"]["R_lite"];
  CHECK(lite.back()["rank"] == std::to_string(job.resources.nodes[before].broker_rank));
  nacre::Json less = nacre::job::without_nodes(job.resources, Idset::range(before, before + 1));
  CHECK(less["execution"]["R_lite"].size() == lite.size() - 1);
}

TEST_CASE("the last nodes of R are spares, and get no slots and no tasks") {
  Job job = with_spares(2, kSlots).value();
  CHECK(job.taskmap.raw() == "0-1;2-3;4");
  CHECK(job.shells() == 5);
  CHECK(job.nodes() == 3);
  CHECK(job.spare_shells().str() == "3-4");
  CHECK_FALSE(job.is_spare(2));
  CHECK(job.is_spare(3));
  CHECK_FALSE(job.is_spare(5));
  REQUIRE(job.shares.size() == 5);
  CHECK(job.shares[4].slots == 0);
  CHECK(job.shares[4].tasks == 0);
  CHECK(job.resources.nodes.size() == 5);
  CHECK(job.resources.nodes[4].hostname == "n4");
  CHECK(job.resources.nodes[4].cores.str() == "0-3");
  Job none = with_spares(0, kSlots).value();
  CHECK(none.nodes() == 5);
  CHECK(none.spare_shells().empty());
  CHECK_FALSE(none.is_spare(4));
  nacre::job::Environment env;
  nacre::job::set_job_variables(env, job, "");
  CHECK(env.get("FLUX_JOB_NNODES") == "3");
}

TEST_CASE("a jobspec's nodes are beside the spares where R has so many, else the spares are among them") {
  CHECK(with_spares(1, on_nodes(3).c_str()).value().taskmap.raw() == "0-1;2-3;4-5");
  CHECK(with_spares(1, on_nodes(4).c_str()).value().taskmap.raw() == "0-1;2-3;4-5;6-7");
  Job all = with_spares(1, on_nodes(5).c_str()).value();
  CHECK(all.taskmap.raw() == "0-1;2-3;4-5;6-7");
  CHECK(all.jobspec_info()["nnodes"] == 4);
  CHECK(all.jobspec_info()["nslots"] == 8);
  CHECK(with_spares(4, on_nodes(5).c_str()).value().taskmap.raw() == "0-1");
  CHECK(with_spares(1, on_nodes(5).c_str(), R"({"total": 9})").value().taskmap.raw() == "0-2;3-4;5-6;7-8");
  CHECK(with_spares(2, kSlots, R"({"per_slot": 1})", PerResource{PerResource::Type::node, 1}).value().tasks() == 3);
}

TEST_CASE("spares for which there is no room are refused") {
  CHECK(with_spares(5, kSlots).error().message ==
        "spares: 5, but R has 5 nodes: at least one has to be left for tasks");
  CHECK(with_spares(1, on_nodes(6).c_str()).error().message == "jobspec asks for 6 nodes; R has 4 (and 1 spare)");
  CHECK(with_spares(4, kSlots).error().message ==
        "jobspec asks for 5 slots of 1 core; R has room for 4; n0 has 4 cores: "
        "fewer tasks (-n), fewer cores a task (-c), or --oversubscribe (and 4 spares)");
}

TEST_CASE("the option spares is a number") {
  auto of = [](const char* options) { return nacre::job::spares_of(nacre::job::Options(Json::parse(options))); };
  CHECK(of("{}").value() == 0);
  CHECK(of(R"({"spares": 3})").value() == 3);
  CHECK(of(R"({"spares": -1})").error().message.starts_with("spares: "));
  CHECK(of(R"({"spares": "x"})").error().message.starts_with("spares: "));
  CHECK(of(R"({"spares": 1048576})").error().message.starts_with("spares: "));
}

namespace {

Idset set_of(const char* text) { return Idset::parse(text).value(); }

// Shells 0 to 4 on n0 to n3 and, for shell 4, n3 again; a task on each of the first four.
struct Fixture {
  job::Job job = job::Job::create(
                     value::JobId(1), 0,
                     job::Jobspec::parse(R"({"version": 1, "resources": [{"type": "slot", "count": 4, "label": "t",
              "with": [{"type": "core", "count": 1}]}], "tasks": [{"command": ["true"], "slot": "t",
              "count": {"per_slot": 1}}], "attributes": {"system": {"duration": 0}}})")
                         .value(),
                     job::Resources::parse(R"({"version": 1, "execution": {"nodelist": ["n[0-3],n3"], "R_lite": [
              {"rank": "0-4", "children": {"core": "0"}}]}})")
                         .value(),
                     std::nullopt)
                     .value();

  std::string chosen(const ShrinkOrder& order, const char* gone = "", const char* leaving = "") {
    auto shells = job::leavers(order, job, set_of(gone), set_of(leaving));
    return shells ? shells->str() : shells.error().message;
  }
  std::string by_shells(const char* shells, const char* gone = "", const char* leaving = "") {
    ShrinkOrder order;
    order.shells = set_of(shells);
    return chosen(order, gone, leaving);
  }
  std::string by_hosts(const char* hosts, const char* gone = "", const char* leaving = "") {
    ShrinkOrder order;
    order.hosts = value::Hostlist::parse(hosts).value();
    return chosen(order, gone, leaving);
  }
  std::string by_count(std::uint64_t count, const char* gone = "", const char* leaving = "") {
    ShrinkOrder order;
    order.count = count;
    return chosen(order, gone, leaving);
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "shells leave by number, host and count") {
  CHECK(by_shells("1,3") == "1,3");
  CHECK(by_shells("1", "", "1") == "1");
  CHECK(by_hosts("n3") == "3-4");
  CHECK(by_hosts("n1,n1,n2") == "1-2");
  CHECK(by_hosts("n3", "4") == "3");
  CHECK(by_hosts("n3", "", "4") == "3-4");
  CHECK(job::hosts_of(set_of("1,3"), job).str() == "n[1,3]");
}

TEST_CASE_METHOD(Fixture,
                 "by count those without tasks come first, then the last ones, and none that leaves already") {
  REQUIRE(job.taskmap.ranks_on(4).empty());
  CHECK(by_count(1) == "4");
  CHECK(by_count(2) == "3-4");
  CHECK(by_count(2, "3", "4") == "1-2");
  CHECK(by_count(4) == "1-4");
  CHECK(by_count(5) == "4 shells can leave this job, not 5; shell 0, which leads it, stays");
  CHECK(by_count(2, "2", "3-4") == "1 shells can leave this job, not 2; shell 0, which leads it, stays");
}

TEST_CASE_METHOD(Fixture, "by count spares come first") {
  auto document = job.spec.document;
  document["resources"][0]["count"] = 2;
  job = job::Job::create(value::JobId(1), 0, job::Jobspec::from_json(document).value(), job.resources, std::nullopt,
                         false, 1)
            .value();
  REQUIRE(job.taskmap.raw() == "0;1");
  REQUIRE(job.spare_shells().str() == "4");
  CHECK(by_count(1) == "4");
  CHECK(by_count(2) == "3-4");
  CHECK(by_count(2, "4") == "2-3");
  CHECK(by_count(4) == "1-4");
}

TEST_CASE_METHOD(Fixture, "of those that are named who has gone already is passed over, and the rest leaves") {
  CHECK(by_shells("1-3", "2") == "1,3");
  CHECK(by_hosts("n[1-3]", "2") == "1,3-4");
}

TEST_CASE_METHOD(Fixture, "what cannot leave is refused in words") {
  CHECK(by_shells("0-1") == "shell 0 on n0 leads the job, and cannot leave it");
  CHECK(by_hosts("n0") == "shell 0 on n0 leads the job, and cannot leave it");
  CHECK(by_shells("5-6") == "shell 5-6: the job has shells 0 to 4");
  CHECK(by_shells("2", "2") == "shell 2 is not of the job any more");
  CHECK(by_shells("1-2", "1-2") == "shell 1-2 is not of the job any more");
  CHECK(by_hosts("m1") == "m1 is no host of this job");
  CHECK(by_hosts("n1", "1") == "n1 is not of the job any more");
  ShrinkOrder order;
  order.shells = set_of("1");
  order.refuse_tasks = true;
  CHECK(chosen(order) == "shell 1 on n1 has tasks 1; tasks=end ends them");
  CHECK(job::leavers(order, job, {}, {}).error().code == EBUSY);
}

namespace {

job::Jobspec spec_of(const char* nodes, std::uint32_t slots) {
  Json text = Json::parse(R"({"version": 1, "resources": [{"type": "node", "count": 1, "with": [{"type": "slot",
      "count": 1, "label": "t", "with": [{"type": "core", "count": 1}]}]}],
      "tasks": [{"command": ["a"], "slot": "t", "count": {"per_slot": 1}}],
      "attributes": {"system": {"duration": 0}}})");
  text["resources"][0]["count"] = nodes;
  text["resources"][0]["with"][0]["count"] = slots;
  return job::Jobspec::from_json(text).value();
}

job::Resources nodes(std::uint32_t count) {
  job::Resources out;
  for (std::uint32_t i = 0; i < count; ++i) out.nodes.push_back({i, "n", Idset::range(0, 3), {}, {}});
  return out;
}

// Two tasks on each of `count` nodes.
job::Job job_of(const char* range, std::uint32_t count) {
  job::Job out = job::Job::create(value::JobId(1), 0, spec_of(range, 2), nodes(count), std::nullopt).value();
  REQUIRE(out.allow_resizes());
  return out;
}

}  // namespace

TEST_CASE("a job of one size has as many tasks as it may get") {
  job::Job job = job::Job::create(value::JobId(1), 0, spec_of("3", 2), nodes(3), std::nullopt).value();
  CHECK(job.most_tasks() == 6);
  CHECK(job.nodes_in_use() == 3);
  CHECK(job.allow_resizes().error().message ==
        "resize: the jobspec asks for one number of nodes; a range is needed, as -N 2:8 has it");
}

TEST_CASE("a job is resized: ranks without gaps, later starts, and no numbers of the starts before") {
  job::Job job = job_of("2-4", 4);
  CHECK(job.most_tasks() == 8);
  job.start_again(Idset::range(3, 3));  // for the second time
  job.resize(Idset::parse("0,2-3").value());
  CHECK(job.tasks() == 6);
  CHECK(job.most_tasks() == 8);
  CHECK(job.taskmap.raw() == "0-1;;2-3;4-5");
  CHECK(job.nodes_in_use() == 3);
  CHECK(job.shells_in_use().str() == "0,2-3");
  CHECK(job.restarts == 2);
  for (Idset::Id rank = 0; rank < 8; ++rank) CHECK(job.attempt_of(rank) == 3);
  CHECK(job.jobspec_info()["nnodes"] == 3);
  CHECK(job.jobspec_info()["nslots"] == 6);
  CHECK(job.jobspec_info()["ntasks"] == 6);
  CHECK(job.stands_for(0) == 0);
  CHECK(job.stands_for(3) == 2);
  // Late messages of a shell may be about its former ranks.
  CHECK(job.has_had(3, 7));
  CHECK(job.has_had(1, 2));
  CHECK(job.has_had(3, 4));
  CHECK_FALSE(job.has_had(0, 7));
  CHECK(job.is_left_out(1));
  CHECK_FALSE(job.is_left_out(2));
}

TEST_CASE("it gets more, a spare stands in, and what that has moved counts until the next resize") {
  job::Job job = job_of("1-4", 2);
  job.grow({{0, "n", Idset::range(0, 3), {}, {}}, {0, "n", Idset::range(0, 3), {}, {}}});
  CHECK(job.spare_shells().str() == "2-3");
  job.resize(Idset::range(0, 2));
  CHECK(job.tasks() == 6);
  CHECK(job.spare_shells().str() == "3");
  job.move({Idset::range(2, 3), 1, 3, 3});
  CHECK(job.attempt_of(2) == 3);
  CHECK(job.shells_in_use().str() == "0,2-3");
  CHECK(job.stands_for(3) == 1);
  CHECK_FALSE(job.is_spare(3));
  job.resize(Idset::parse("2-3").value());
  CHECK(job.taskmap.raw() == ";;0-1;2-3");
  CHECK(job.attempt_of(0) == 4);
  CHECK(job.attempt_of(5) == 4);
  CHECK(job.has_had(1, 3));
  CHECK(job.stands_for(2) == 0);
  CHECK(job.stands_for(3) == 1);
  CHECK(job.is_spare(0));
}

TEST_CASE("which shells: those with tasks first, as many as the range has; too few are one line") {
  job::Job job = job_of("2-4", 4);
  job.grow({{0, "n", Idset::range(0, 3), {}, {}}});
  CHECK(job.shells_for(Idset::range(0, 4)).value().str() == "0-3");
  CHECK(job.shells_for(Idset::parse("1,3-4").value()).value().str() == "1,3-4");
  auto few = job.shells_for(Idset::parse("3").value());
  CHECK(few.error().code == ENOSPC);
  CHECK(few.error().message == "1 node is left, and the job needs at least 2 (-N 2:4)");
  CHECK(job.shells_for({}).error().message == "no node is left, and the job needs at least 2 (-N 2:4)");
  job::Job doubled = job_of("1-8:2:*", 4);
  CHECK(doubled.shells_for(Idset::range(1, 3)).value().str() == "1-2");
}

TEST_CASE("nodes that do not have as many tasks each are refused") {
  auto of = [](job::Jobspec spec, std::optional<job::PerResource> each) {
    return job::Job::create(value::JobId(1), 0, std::move(spec), nodes(3), each).value();
  };
  auto total = spec_of("2-4", 2);
  total.count = job::Jobspec::Count::total;
  total.count_value = 4;
  const char* uneven =
      "resize: each node has to have as many tasks as the jobspec has slots for it, and as another";
  CHECK(of(total, {}).allow_resizes().error().message == uneven);
  CHECK(of(spec_of("2-4", 2), job::PerResource{job::PerResource::Type::core, 1}).allow_resizes().error().message ==
        uneven);
  auto spares = job::Job::create(value::JobId(1), 0, spec_of("2-4", 2), nodes(3), std::nullopt, false, 1).value();
  CHECK(spares.allow_resizes().error().message.starts_with("resize: a job whose size changes has no spares"));
}
