// SPDX-License-Identifier: Apache-2.0
#include "job/job.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using value::Idset;
using value::ShrinkOrder;

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
