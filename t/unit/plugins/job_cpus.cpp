// SPDX-License-Identifier: Apache-2.0
#include "plugins/affinity/job_cpus.hpp"

#include <sched.h>

#include <thread>

#include "catch.hpp"

#include "fake_host.hpp"
#include "fake_machine.hpp"

using namespace nacre;
using kit::set;
using plugins::CpuRights;
using plugins::pick_cores;
using value::Idset;

namespace {

using Texts = std::vector<std::string>;

// Four cores with two threads each.
std::vector<Idset> four_cores() { return {set("0,4"), set("1,5"), set("2,6"), set("3,7")}; }

CpuRights rights(std::string_view cgroup, std::string_view allowed) {
  return {set("0-7"), set(cgroup), set(allowed)};
}

Texts pick(std::string_view ids, const CpuRights& rights) {
  auto picked = pick_cores(set(ids), four_cores(), rights);
  if (!picked) return {picked.error().message};
  return kit::texts(*picked);
}

}  // namespace

TEST_CASE("the ids of R are logical cores: all threads of each") {
  CHECK(pick("0-3", rights("0-7", "0-7")) == Texts{"0,4", "1,5", "2,6", "3,7"});
  CHECK(pick("1,3", rights("0-7", "0-7")) == Texts{"1,5", "3,7"});
  CHECK(pick("", rights("0-7", "0-7")).empty());
}

TEST_CASE("a core that the node does not have is named") {
  CHECK(pick("2-4", rights("0-7", "0-7")) == Texts{"R gives core 4 of this node, which has 4 cores (0-3)"});
  auto one = pick_cores(set("1"), {set("0")}, {set("0"), set("0"), set("0")});
  REQUIRE_FALSE(one);
  CHECK(one.error().message == "R gives core 1 of this node, which has 1 core (0)");
}

TEST_CASE("ids do not count cores that the cgroup excludes") {
  CHECK(pick("0", rights("2-3,6-7", "2-3,6-7")) == Texts{"2,6"});
  CHECK(pick("2", rights("2-3,6-7", "2-3,6-7")) == Texts{"R gives core 2 of this node, which has 2 cores (0-1)"});
  CHECK(pick("0-1", rights("0-3", "0-3")) == Texts{"0", "1"});
}

TEST_CASE("ids do count cores that the shell's own binding excludes") {
  CHECK(pick("1-2", rights("0-7", "1-7")) == Texts{"1,5", "2,6"});
  CHECK(pick("0-1", rights("0-7", "1-3,5-7")) == Texts{"1,5"});
  CHECK(pick("1", rights("0-7", "5-7")) == Texts{"5"});
}

TEST_CASE("a shell confined to as many cores as R gives is confined to the job's") {
  CHECK(pick("0-1", rights("2-3,6-7", "2-3,6-7")) == Texts{"2,6", "3,7"});
  CHECK(pick("2-3", rights("2-3,6-7", "2-3,6-7")) == Texts{"2,6", "3,7"});
  CHECK(pick("10-11", rights("0-7", "2-3")) == Texts{"2", "3"});
}

TEST_CASE("cores of which the shell may use nothing are an error") {
  CHECK(pick("0", rights("0-7", "2-3,6-7")) ==
        Texts{"the job has core 0, of which the shell may use nothing: it is confined to cpus 2-3,6-7"});
  CHECK(pick("1-3", rights("0-7", "4")) ==
        Texts{"the job has cores 1-3, of which the shell may use nothing: it is confined to cpu 4"});
}

TEST_CASE("the rights of a thread: its own binding, within what the cgroup grants") {
  auto before = plugins::read_cpu_rights();
  REQUIRE(before);
  CHECK_FALSE(before->allowed.empty());
  CHECK((before->allowed - before->cgroup).empty());
  CHECK((before->cgroup - before->online).empty());
  Idset one = Idset::range(*before->allowed.first(), *before->allowed.first());
  Result<CpuRights> bound = before;
  // In a thread, so that no binding is left behind.
  std::thread([&] {
    task::CpuMask mask = plugins::mask_of(one);
    ::sched_setaffinity(0, mask.size() * sizeof(mask[0]), reinterpret_cast<cpu_set_t*>(mask.data()));
    bound = plugins::read_cpu_rights();
  }).join();
  REQUIRE(bound);
  CHECK(bound->allowed == one);
  CHECK(bound->cgroup == before->cgroup);
  CHECK(plugins::read_cpu_rights()->allowed == before->allowed);
}

TEST_CASE("the cpus of a job that has all cores are all that the shell may use") {
  auto rights = plugins::read_cpu_rights();
  REQUIRE(rights);
  auto cores = plugins::read_cores(rights->online);
  REQUIRE(cores);
  if (!*cores) return;
  kit::FakeHost host(static_cast<std::uint32_t>((*cores)->size()));
  auto cpus = plugins::job_cpus(host, *rights);
  INFO((cpus ? "" : cpus.error().message));
  REQUIRE(cpus);
  CHECK(*cpus == rights->allowed);
}

TEST_CASE("a mask has a bit for each cpu") {
  CHECK(plugins::mask_of({}).empty());
  CHECK(plugins::mask_of(set("0-1,63")) == task::CpuMask{0x8000000000000003UL});
  CHECK(plugins::mask_of(set("64,129")) == task::CpuMask{0, 1, 2});
}
