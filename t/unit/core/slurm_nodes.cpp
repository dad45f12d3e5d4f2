// SPDX-License-Identifier: Apache-2.0
//
// With stand-ins for Slurm's programs, which record how they are called.
#include "core/slurm_nodes.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "variable.hpp"

using namespace nacre;  // NOLINT
using core::SlurmNodes;

namespace {

// salloc waits while there is the file `full`, until there is `withdrawn`.
constexpr const char* kSalloc = R"sh(echo "salloc $*" >>"$0.called"
test ! -e "$D/refuse" || { echo "salloc: error: Job submit/allocate failed: $(cat "$D/refuse")" >&2; exit 1; }
while test -e "$D/full"; do
  test ! -e "$D/withdrawn" || { echo "salloc: Job allocation 9 has been revoked." >&2; exit 1; }
  sleep 0.01
done
echo "salloc: Granted job allocation 9" >&2)sh";
constexpr const char* kFacts =
    "echo 'JobId=7 Partition=p Account=(null) QOS=N/A NumNodes=2 NumCPUs=8 OverSubscribe=OK'";
constexpr const char* kSqueue = R"sh(case "$*" in
*"%i %N"*) cat "$D/list" ;;
*%L*) echo 1:02:03 ;;
*%N*) echo 'n[4-5]' ;;
*%r*) echo Resources ;;
*%j*) cat "$D/name" ;;
*-s*) cat "$D/steps" ;;
esac)sh";
constexpr const char* kScancel = R"sh(echo "scancel $*" >>"$D/called"
test ! -e "$D/full" || touch "$D/withdrawn")sh";

struct Slurm {
  Slurm() {
    program("salloc", kSalloc);
    program("scontrol", kFacts);
    program("squeue", kSqueue);
    program("scancel", kScancel);
    program("srun", "");
    // PATH has nothing else, as this machine may have Slurm's commands.
    for (const char* each :
         {"sh", "tr", "sed", "grep", "head", "tail", "uname", "env", "sleep", "cat", "touch", "paste", "sort"}) {
      std::string place = ::access(fmt::format("/usr/bin/{}", each).c_str(), X_OK) == 0 ? "/usr/bin/" : "/bin/";
      std::filesystem::create_symlink(place + each, folder.path(each));
    }
  }

  void program(const std::string& command, const std::string& text) {
    std::string file = folder.file(command, fmt::format("#!/bin/sh\nD='{}'\n{}\n", folder.path(""), text));
    REQUIRE(::chmod(file.c_str(), 0755) == 0);
  }
  [[nodiscard]] std::string said(const char* file) const { return read_file(folder.path(file)).value_or(""); }

  SlurmNodes::Wanted wanted(double wait = 30) const {
    SlurmNodes::Wanted out;
    out.count = 2;
    out.without = value::Hostlist::parse("n[0-1]").value();
    out.wait = event::Seconds(wait);
    return out;
  }
  Result<SlurmNodes::Nodes> ask(double wait = 30) {
    std::optional<Result<SlurmNodes::Nodes>> got;
    nodes.ask(wanted(wait), [&](Result<SlurmNodes::Nodes> given) { got = std::move(given); });
    CHECK_FALSE(killed.empty());
    REQUIRE(host.serve([&] { return got.has_value(); }));
    return *std::move(got);
  }
  Json give_back(const char* hosts) {
    Json out = Json::array();
    bool done = false;
    nodes.give_back(value::Hostlist::parse(hosts).value(),
                    [&](const Json& outcome) { outcome.is_null() ? void(done = true) : out.push_back(outcome); });
    REQUIRE(host.serve([&] { return done; }));
    return out;
  }

  kit::TemporaryFolder folder;
  kit::Variable path{"PATH", folder.path("")};
  kit::Variable inherited{"SALLOC_PARTITION", "other"};
  kit::FakeHost host;
  std::vector<std::string> killed;
  SlurmNodes nodes{host, "7", false, [this](const std::vector<std::string>& command) { killed = command; }};
  std::string name = "nacre-" + host.job().id.f58_plain();
};

}  // namespace

TEST_CASE("nodes of Slurm: asked for like the first ones, given back, the last by scancel") {
  Slurm it;
  auto nodes = it.ask();
  REQUIRE(nodes);
  CHECK(nodes->hosts == std::vector<std::string>{"n4", "n5"});
  CHECK(nodes->agent.back() == "9");
  CHECK(it.said("salloc.called") ==
        "salloc --no-shell --no-bell --nodes=2 --ntasks-per-node=1 --job-name=" + it.name +
            " --time=1:02:03 --cpus-per-task=4 --partition=p --exclude=n[0-1]\n");
  CHECK(it.killed == std::vector<std::string>{"scancel", "--name=" + it.name});
  CHECK(it.nodes.held(value::Hostlist::parse("n[3-4]").value()).str() == "n4");
  // These hosts are of no allocation here.
  CHECK(it.give_back("n[0-1]").empty());
  // scontrol shows no host of the allocation here, so that does not get smaller.
  Json smaller = it.give_back("n4");
  REQUIRE(smaller.size() == 1);
  CHECK(smaller[0].value("hosts", "") == "n4");
  CHECK_FALSE(smaller[0].value("released", true));
  CHECK(it.nodes.held(value::Hostlist::parse("n[3-5]").value()).str() == "n5");
  CHECK(it.give_back("n[4-5]") == Json::parse(R"([{"name": "Slurm", "hosts": "n5", "released": true}])"));
  CHECK(it.said("called") == "scancel 9\n");
  CHECK(it.killed.empty());
  CHECK(it.nodes.end());
  CHECK(it.said("called") == "scancel 9\n");
}

TEST_CASE("nodes of Slurm end with the job") {
  Slurm it;
  REQUIRE(it.ask());
  REQUIRE(it.nodes.end());
  CHECK(it.said("called") == "scancel --name=" + it.name + "\n");
  CHECK(it.killed.empty());
  std::optional<Result<SlurmNodes::Nodes>> got;
  it.nodes.ask(it.wanted(), [&](Result<SlurmNodes::Nodes> given) { got = std::move(given); });
  REQUIRE(got);
  CHECK(got->error().message == "the job is ending");
}

TEST_CASE("the next leader takes on the nodes of Slurm, and ends none with itself") {
  Slurm it;
  static_cast<void>(it.folder.file("list", "9 n[4-5]\n12 n9\n"));  // the second one is a user's
  SlurmNodes next(it.host, "7", true, [&](const std::vector<std::string>& command) { it.killed = command; });
  next.adopt(value::Hostlist::parse("n[0-1,4]").value());
  const value::Hostlist all = value::Hostlist::parse("n[0-9]").value();
  REQUIRE(it.host.serve([&] { return !next.held(all).empty(); }));
  CHECK(next.held(all).str() == "n4");
  REQUIRE(it.killed.size() == 5);
  CHECK(it.killed == core::slurm_withdraw(it.name).argv);
  REQUIRE(next.end());
  CHECK(it.said("called") ==
        fmt::format("scancel --name={} --state=PENDING\nscancel --name={}\n", it.name, it.name));
  CHECK(it.killed.empty());
}

TEST_CASE("Slurm refuses, in its own words; and no such commands are there") {
  Slurm it;
  static_cast<void>(it.folder.file("refuse", "Too many nodes"));
  auto nodes = it.ask();
  REQUIRE_FALSE(nodes);
  CHECK(nodes.error().message ==
        "salloc --no-shell -N 2 -J " + it.name +
            ": exited with code 1: salloc: error: Job submit/allocate failed: Too many nodes");
  CHECK(it.killed.empty());
  std::filesystem::remove(it.folder.path("salloc"));
  nodes = it.ask();
  REQUIRE_FALSE(nodes);
  CHECK_THAT(nodes.error().message,
             Catch::Matchers::ContainsSubstring("has no salloc on its PATH: install Slurm's commands there"));
}

TEST_CASE("what Slurm does not give in time is withdrawn, and what waits when the job ends") {
  Slurm it;
  static_cast<void>(it.folder.file("full", ""));
  auto nodes = it.ask(0.2);
  REQUIRE_FALSE(nodes);
  CHECK(nodes.error().message ==
        "Slurm has not given 2 nodes within 0.2 s (pending: Resources): the request is withdrawn; give a longer "
        "--wait, or fewer nodes");
  CHECK(it.killed.empty());
  std::filesystem::remove(it.folder.path("withdrawn"));
  std::vector<std::string> told;
  for (int i = 0; i < 2; ++i) {
    it.nodes.ask(it.wanted(),
                 [&](const Result<SlurmNodes::Nodes>& given) { told.push_back(given.error().message); });
  }
  REQUIRE(it.nodes.end());
  CHECK(told == std::vector<std::string>(2, "the job is ending"));
  CHECK(it.killed.empty());
}

// ---- a shell whose leader is lost ----------------------------------------------------------------

namespace {

// The calls of Slurm's programs by the end.
std::string end_left(Slurm& it, const std::string& name, const std::string& steps, const std::string& step) {
  static_cast<void>(it.folder.file("name", name + "\n"));
  static_cast<void>(it.folder.file("steps", steps));
  task::CommandRun run(it.host.loop(), it.host.children());
  bool is_over = false;
  REQUIRE(run.start(core::slurm_end_left("9", it.name, step), [&](const Result<std::string>& answer) {
    CHECK(answer);
    is_over = true;
  }));
  REQUIRE(it.host.serve([&] { return is_over; }));
  return it.said("called");
}

}  // namespace

TEST_CASE("the last shell of an allocation ends it, and none that has another name") {
  Slurm it;
  CHECK(end_left(it, it.name, "9.extern\n9.0\n9.1\n", "1").empty());  // step 0 waits for it
  CHECK(end_left(it, it.name, "9.extern\n9.1\n", "0").empty());       // it has gone already
  CHECK(end_left(it, "mine", "9.extern\n9.0\n", "0").empty());        // the allocation is a user's
  CHECK(end_left(it, it.name, "9.extern\n9.10\n", "10") == "scancel --name=" + it.name + " 9\n");
}

TEST_CASE("the first shell waits for the others of its allocation") {
  Slurm it;
  auto later = event::Timer::create(it.host.loop(), [&] { static_cast<void>(it.folder.file("steps", "9.2\n")); });
  REQUIRE(later);
  later->start(event::Seconds(0.2));
  CHECK(end_left(it, it.name, "9.2\n9.11\n", "2") == "scancel --name=" + it.name + " 9\n");
}
