// SPDX-License-Identifier: Apache-2.0
#include "boot/allocation.hpp"

#include "folder.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::kit;   // NOLINT
using namespace nacre::boot;  // NOLINT

namespace {

using Environment = std::map<std::string, std::string>;

// "a:4 b", or the error.
std::string shown_hosts(const Result<Allocation>& found) {
  if (!found) return found.error().message;
  std::string out;
  for (const auto& [name, slots] : found->hosts) {
    out += fmt::format("{}{}{}", out.empty() ? "" : " ", name, slots > 0 ? fmt::format(":{}", slots) : "");
  }
  return out;
}

Result<std::optional<Allocation>> find_in(const Environment& environment) {
  return allocation_of([&](const char* name) -> std::optional<std::string> {
    auto found = environment.find(name);
    return found != environment.end() ? std::optional(found->second) : std::nullopt;
  });
}

// As shown_hosts(), with the source in front; "none" if no manager has set variables.
std::string in_environment(const Environment& environment) {
  auto found = find_in(environment);
  if (!found) return found.error().message;
  return *found ? fmt::format("{}: {}", (*found)->source, shown_hosts(**found)) : "none";
}

}  // namespace

TEST_CASE("no manager, no allocation") {
  CHECK(in_environment({}) == "none");
  CHECK(in_environment({{"HOSTNAME", "a"}, {"SLURM_TASKS_PER_NODE", "4"}}) == "none");
}

TEST_CASE("Slurm's allocation: nodes, and slots by tasks or else by cpus") {
  CHECK(in_environment({{"SLURM_JOB_NODELIST", "n[1-3],login"}}) == "SLURM_JOB_NODELIST: n1 n2 n3 login");
  CHECK(in_environment({{"SLURM_NODELIST", "a"}}) == "SLURM_NODELIST: a");
  Environment job{{"SLURM_JOB_NODELIST", "n[1-4]"}, {"SLURM_JOB_CPUS_PER_NODE", "72(x3),36"}};
  CHECK(in_environment(job) == "SLURM_JOB_NODELIST: n1:72 n2:72 n3:72 n4:36");
  job["SLURM_TASKS_PER_NODE"] = "2,1(x3)";
  CHECK(in_environment(job) == "SLURM_JOB_NODELIST: n1:2 n2:1 n3:1 n4:1");
}

TEST_CASE("Flux: an instance that is a job, with a host for each broker") {
  auto is_there = [](const Environment& environment) {
    return is_flux_allocation([&](const char* name) -> std::optional<std::string> {
      auto found = environment.find(name);
      return found != environment.end() ? std::optional(found->second) : std::nullopt;
    });
  };
  Environment batch{{"FLUX_URI", "local:///x"}, {"FLUX_ENCLOSING_ID", "fA"}};
  CHECK(is_there(batch));
  CHECK_FALSE(is_there({{"FLUX_URI", "local:///x"}}));
  batch["FLUX_JOB_ID"] = "fB";
  CHECK_FALSE(is_there(batch));
  constexpr std::string_view kR =
      R"({"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0-3"}},
    {"rank": "2", "children": {"core": "0"}}], "nslots": 5, "starttime": 0, "expiration": 0, "nodelist": ["a,a,b"]}})";
  auto found = flux_allocation(kR);
  CHECK(shown_hosts(found) == "a:4 a:4 b:1");
  CHECK(found->tasks == 5);
  CHECK(shown_hosts(flux_allocation("{}")).find("version") != std::string::npos);
  CHECK(shown_hosts(
            flux_allocation(R"({"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0"}}],
    "starttime": 0, "expiration": 0}})")) == "execution.nodelist is missing: the hosts have no names");
}

TEST_CASE("the launcher of an MPIJob: its hostfile, in the forms of all MPIs") {
  TemporaryFolder folder;
  std::string path = folder.file("hostfile", "job-worker-0.job.ns.svc slots=2\njob-worker-1.job.ns.svc:3\n");
  Environment launcher{{"K_MPI_JOB_ROLE", "launcher"}, {"OMPI_MCA_orte_default_hostfile", path}};
  const std::string hosts = "job-worker-0.job.ns.svc:2 job-worker-1.job.ns.svc:3";
  CHECK(in_environment(launcher) == fmt::format("K_MPI_JOB_ROLE ({}): {}", path, hosts));
  for (const char* each : {"I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE"}) {
    CHECK(in_environment({{"K_MPI_JOB_ROLE", "launcher"}, {each, path}}) ==
          fmt::format("K_MPI_JOB_ROLE ({}): {}", path, hosts));
  }
  CHECK(in_environment({{"K_MPI_JOB_ROLE", "worker"}, {"HYDRA_HOST_FILE", path}}) == "none");
  CHECK(in_environment({{"HYDRA_HOST_FILE", path}}) == "none");
  launcher["SLURM_JOB_NODELIST"] = "a";
  CHECK(in_environment(launcher) == "SLURM_JOB_NODELIST: a");
  CHECK(in_environment({{"K_MPI_JOB_ROLE", "launcher"}, {"HYDRA_HOST_FILE", folder.path("none")}}) ==
        fmt::format("K_MPI_JOB_ROLE: {}: No such file or directory", folder.path("none")));
}

TEST_CASE("how many tasks were asked for: by Slurm's variable, else by slots") {
  auto asked = [](const Environment& environment) {
    auto found = find_in(environment);
    REQUIRE(found);
    const Allocation& out = **found;
    return out.tasks ? fmt::format("{} {}", *out.tasks, out.tasks_source) : "open";
  };
  Environment job{{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_JOB_CPUS_PER_NODE", "8(x2)"}};
  CHECK(asked(job) == "open");
  job["SLURM_NTASKS"] = "6";
  CHECK(asked(job) == "6 SLURM_NTASKS");
  job["SLURM_NTASKS"] = "x";
  CHECK(in_environment(job).starts_with("SLURM_NTASKS: expected a number of slots"));
  CHECK(asked({{"LSB_MCPU_HOSTS", "a 4 b 2"}}) == "6 LSB_MCPU_HOSTS");
  CHECK(asked({{"LSB_HOSTS", "a a b"}}) == "3 LSB_HOSTS");
  CHECK_FALSE(hosts_of_list("n[1-4]").value().tasks);
  CHECK(hosts_of_list("n[1-2]:4,c").value().tasks == 9U);
}

TEST_CASE("a heterogeneous job of Slurm has hosts of all its components") {
  Environment job{{"SLURM_JOB_NODELIST", "a1"},
                  {"SLURM_HET_SIZE", "2"},
                  {"SLURM_JOB_NODELIST_HET_GROUP_0", "a1"},
                  {"SLURM_JOB_NODELIST_HET_GROUP_1", "b[1-2]"}};
  CHECK(find_in(job).value().value().all_components == "a1,b[1-2]");
  job.erase("SLURM_JOB_NODELIST_HET_GROUP_1");
  CHECK(find_in(job).value().value().all_components.empty());
  job["SLURM_HET_SIZE"] = "1";
  CHECK(find_in(job).value().value().all_components.empty());
}

TEST_CASE("what is wrong with Slurm's allocation is named") {
  CHECK(in_environment({{"SLURM_JOB_NODELIST", ""}}) == "SLURM_JOB_NODELIST: it names no host");
  CHECK_THAT(in_environment({{"SLURM_JOB_NODELIST", "n[1-"}}),
             Catch::Matchers::StartsWith("SLURM_JOB_NODELIST: hostlist: "));
  auto tasks = [](const char* counts) {
    return in_environment({{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_TASKS_PER_NODE", counts}});
  };
  const std::string front = "SLURM_TASKS_PER_NODE: ";
  for (const char* other : {"1", "1,2", "1(x2)", "1,2,3,4", "1(x3),1", "1(x2),1(x2)"}) {
    CHECK(tasks(other) == front + "it is not for the 3 nodes of the node list");
  }
  CHECK(tasks("1(x4)") == front + "expected N or N(xTIMES), got '1(x4)'");
  CHECK(tasks("1(x2,3") == front + "expected N or N(xTIMES), got '1(x2'");
  CHECK(tasks("1(xx),3") == front + "expected N or N(xTIMES), got '1(xx)'");
  CHECK(tasks("1,0,1") == front + "expected a number of slots from 1 to 1048576, got '0'");
  CHECK(tasks("1,,1") == front + "expected a number of slots from 1 to 1048576, got ''");
  CHECK(tasks("1,1048577,1") == front + "expected a number of slots from 1 to 1048576, got '1048577'");
}

TEST_CASE("files with a line for each slot: PBS, LSF, OAR, Cobalt") {
  TemporaryFolder folder;
  std::string path = folder.file("nodes", "n1\nn0\nn1\r\n\n  n2.site\nn0\nn1\n");
  for (const char* name : {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "OAR_NODEFILE", "COBALT_NODEFILE"}) {
    CHECK(in_environment({{name, path}}) == fmt::format("{} ({}): n1:3 n0:2 n2.site:1", name, path));
  }
  std::string bad = folder.file("bad", "n1\nn2 4\n");
  CHECK(in_environment({{"PBS_NODEFILE", bad}}) ==
        fmt::format("PBS_NODEFILE: {}: line 2: 'n2 4' is no name of a host", bad));
  std::string empty = folder.file("empty", "\n\n");
  CHECK(in_environment({{"OAR_NODEFILE", empty}}) == fmt::format("OAR_NODEFILE: {}: it names no host", empty));
  CHECK_THAT(in_environment({{"PBS_NODEFILE", folder.path("none")}}),
             Catch::Matchers::EndsWith("No such file or directory"));
}

TEST_CASE("LSF's hosts without a file") {
  CHECK(in_environment({{"LSB_HOSTS", "a a b a"}}) == "LSB_HOSTS: a:3 b:1");
  CHECK(in_environment({{"LSB_MCPU_HOSTS", " a 4  b 2 "}, {"LSB_HOSTS", "c"}}) == "LSB_MCPU_HOSTS: a:4 b:2");
  CHECK(in_environment({{"LSB_MCPU_HOSTS", "a 4 b"}}) ==
        "LSB_MCPU_HOSTS: expected a number of slots after each host");
  CHECK(in_environment({{"LSB_MCPU_HOSTS", "a b"}}) ==
        "LSB_MCPU_HOSTS: expected a number of slots from 1 to 1048576, got 'b'");
}

TEST_CASE("Grid Engine's file") {
  TemporaryFolder folder;
  std::string path = folder.file("pe", "n1.site 4 all.q@n1 UNDEFINED\nn2.site 2 all.q@n2 <NULL>\n");
  CHECK(in_environment({{"PE_HOSTFILE", path}}) == fmt::format("PE_HOSTFILE ({}): n1.site:4 n2.site:2", path));
  std::string bad = folder.file("bad", "n1\n");
  CHECK(in_environment({{"PE_HOSTFILE", bad}}) ==
        fmt::format("PE_HOSTFILE: {}: line 1: expected a host and its slots", bad));
}

TEST_CASE("of several managers the innermost, Slurm, is asked first") {
  TemporaryFolder folder;
  Environment both{{"PBS_NODEFILE", folder.file("nodes", "p\n")}, {"SLURM_JOB_NODELIST", "s"}};
  CHECK(in_environment(both) == "SLURM_JOB_NODELIST: s");
}

TEST_CASE("a list of the user's") {
  CHECK(shown_hosts(hosts_of_list("a")) == "a");
  CHECK(shown_hosts(hosts_of_list("n[0-2,7],login:4, n1:2")) == "n0 n1:2 n2 n7 login:4");
  CHECK(shown_hosts(hosts_of_list("n[1-2]:8,n2:8")) == "n1:8 n2:16");
  CHECK(shown_hosts(hosts_of_list("a,b,a")) == "a:2 b:1");
  CHECK(shown_hosts(hosts_of_list("a:3,b,a")) == "a:4 b:1");
  CHECK(hosts_of_list("a,a,b").value().tasks == 3U);
  CHECK(hosts_of_list("a")->source == "the list of hosts");
  const std::string front = "the list of hosts: ";
  CHECK(shown_hosts(hosts_of_list("")) == front + "it names no host");
  CHECK(shown_hosts(hosts_of_list(" , ,")) == front + "it names no host");
  CHECK(shown_hosts(hosts_of_list("a:b")) == front + "expected a number of slots from 1 to 1048576, got 'b'");
  CHECK(shown_hosts(hosts_of_list("a:1048576,a:1")) == front + "a has more than 1048576 slots");
  CHECK_THAT(shown_hosts(hosts_of_list("n[0-")), Catch::Matchers::StartsWith(front + "hostlist: "));
}

TEST_CASE("a file of the user's") {
  TemporaryFolder folder;
  std::string path =
      folder.file("hosts", "# ours\nn0\nn1:4 # fast\n\nn2 slots=2 max_slots=8\nn3\tmax-slots = 3\nn0 slots =1\n");
  CHECK(shown_hosts(hosts_of_file(path)) == "n0:1 n1:4 n2:2 n3");
  CHECK(hosts_of_file(path)->source == path);
  CHECK(shown_hosts(hosts_of_file(folder.file("nodes", "n0\nn0\nn1\nn1\n"))) == "n0:2 n1:2");
  auto line = [&](const char* text) { return shown_hosts(hosts_of_file(folder.file("bad", text))); };
  std::string front = folder.path("bad") + ": line 1: ";
  CHECK(line("n0 =4") == front + "'n0=4' is no name of a host");
  CHECK(line("n0 4") == front + "expected slots=N or max_slots=N after the host, got '4'");
  CHECK(line("n0 slots") == front + "expected a number of slots from 1 to 1048576, got ''");
  CHECK(line("n0 max_slots=x") == front + "expected a number of slots from 1 to 1048576, got 'x'");
  CHECK(line("n[0-3]") == front + "'n[0-3]' is no name of a host");
  CHECK(line("# none") == folder.path("bad") + ": it names no host");
}
