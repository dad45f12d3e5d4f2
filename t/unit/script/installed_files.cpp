// SPDX-License-Identifier: Apache-2.0
//
// The Lua files that are installed do what they say.

#include "lua_fixture.hpp"

namespace {

struct Installed : LuaFixture {
  explicit Installed(std::uint32_t tasks = 4) : LuaFixture(tasks) { host.plugin_searchpath() = directory; }
  std::string run_initrc() {
    auto ran = interpreter->run_file(std::string(NACRE_SOURCE_DIR) + "/etc/initrc.lua");
    return ran ? "ok" : ran.error().message;
  }
};

}  // namespace

TEST_CASE_METHOD(Installed, "without options the initrc changes nothing") {
  CHECK(run_initrc() == "ok");
  CHECK(host.stack().plugins().empty());
  CHECK(host.environment().all().empty());
  CHECK(host.logged.empty());
}

TEST_CASE_METHOD(Installed, "userrc is read, and must exist") {
  host.options().set("userrc", write("user.lua", "shell.setenv ('USERRC', shell.rcpath)"));
  CHECK(run_initrc() == "ok");
  CHECK(env("USERRC") == directory);
  host.options().set("userrc", "/nowhere/user.lua");
  CHECK(run_initrc().find("source: /nowhere/user.lua: No such file or directory") != std::string::npos);
}

TEST_CASE_METHOD(Installed, "omp-threads sets a number, unless the user has") {
  host.options().set("omp-threads", 3);
  CHECK(run_initrc() == "ok");
  CHECK(env("OMP_NUM_THREADS") == "3");
  host.options().set("omp-threads", 5);
  CHECK(run_initrc() == "ok");
  CHECK(env("OMP_NUM_THREADS") == "3");
}

TEST_CASE_METHOD(Installed, "omp-threads=per-task divides the cores") {
  host.options().set("omp-threads", "per-task");
  CHECK(run_initrc() == "ok");
  CHECK(env("OMP_NUM_THREADS") == "1");
  const char* jobspec = R"({"version":1,"resources":[{"type":"slot","count":2,"label":"task",
    "with":[{"type":"core","count":3}]}],"tasks":[{"command":["a"],"slot":"task","count":{"per_slot":1}}],
    "attributes":{"system":{"duration":0,"shell":{"options":{"omp-threads":"per-task"}}}}})";
  const char* resources = R"({"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0-6"}}],
    "nodelist":["n0"],"starttime":0,"expiration":0}})";
  LuaFixture wide(jobspec, resources, 0);
  auto ran = wide.interpreter->run_file(std::string(NACRE_SOURCE_DIR) + "/etc/initrc.lua");
  CHECK(ran.has_value());
  CHECK(wide.env("OMP_NUM_THREADS") == "3");
}

TEST_CASE_METHOD(Installed, "omp-threads refuses what is no number") {
  host.options().set("omp-threads", "many");
  CHECK(run_initrc() == "omp-threads: expected a number of threads or per-task, got many");
  CHECK(host.deaths.size() == 1);
}

namespace {

struct Mpi : Installed {
  std::string with(const char* name) {
    host.options().set("mpi", name);
    host.make_tasks();
    return run_initrc();
  }
  void leave_behind(std::initializer_list<const char*> names) {
    for (const char* each : names) host.environment().set(each, "left");
  }
  // Which of the variables are still set.
  std::string kept(std::initializer_list<const char*> names) {
    std::string text;
    for (const char* each : names) {
      if (host.environment().get(each)) text += std::string(each) + " ";
    }
    return text;
  }
};

}  // namespace

TEST_CASE_METHOD(Mpi, "mpi=none, and no mpi, leave all as it is") {
  leave_behind({"OMPI_COMM_WORLD_RANK", "PMI_RANK"});
  CHECK(with("none") == "ok");
  CHECK(host.stack().plugins().empty());
  CHECK(env("OMPI_COMM_WORLD_RANK") == "left");
  CHECK(env("PMI_RANK") == "left");
}

TEST_CASE_METHOD(Mpi, "mpi of an unknown name gets those that there are") {
  CHECK(
      with("opnmpi").find("initrc.lua:14: shell option mpi: unknown 'opnmpi'; known: intel, mpich, mvapich, none, "
                          "openmpi, openmpi@5, spectrum") != std::string::npos);
}

TEST_CASE_METHOD(Mpi, "mpi=openmpi drops what an mpirun has left, and keeps the user's settings") {
  auto left = {"OMPI_COMM_WORLD_RANK", "OMPI_COMMAND",  "OMPI_UNIVERSE_SIZE", "OMPI_MCA_orte_hnp_uri",
               "OMPI_MCA_ess",         "OMPI_MCA_pmix", "PMIX_NAMESPACE",     "PMIX_RANK",
               "PMIX_SERVER_URI41",    "PRTE_LAUNCHED", "PMIX_MEMORY"};
  auto settings = {"OMPI_MCA_btl", "OMPI_MCA_pml", "PMIX_MCA_gds", "PRTE_MCA_x", "MY_PMIX_RANK"};
  leave_behind(left);
  leave_behind(settings);
  CHECK(with("openmpi") == "ok");
  CHECK(kept(left).empty());
  CHECK(kept(settings) == "OMPI_MCA_btl OMPI_MCA_pml PMIX_MCA_gds PRTE_MCA_x MY_PMIX_RANK ");
  CHECK(host.options().find("pmi") == nullptr);
  host.environment().set("FLUX_JOB_TMPDIR", "/job");
  host.environment().set("OMPI_MCA_btl_sm_backing_directory", "/mine");
  CHECK(call("shell.init") == "ok 1");
  CHECK(env("OMPI_MCA_btl_vader_backing_directory") == "/job");
  CHECK(env("OMPI_MCA_btl_sm_backing_directory") == "/mine");
}

TEST_CASE_METHOD(Mpi, "mpi=openmpi@5 is openmpi, and asks for PMIx unless the user has chosen") {
  leave_behind({"OMPI_COMM_WORLD_RANK"});
  CHECK(with("openmpi@5") == "ok");
  CHECK(env("OMPI_COMM_WORLD_RANK") == "(unset)");
  CHECK(*host.options().find("pmi") == "pmix");
  host.options().set("pmi", "simple");
  CHECK(with("openmpi@5") == "ok");
  CHECK(*host.options().find("pmi") == "simple");
}

TEST_CASE_METHOD(Mpi, "mpi=mpich drops what Hydra and others have left") {
  auto left = {"PMI_FD",
               "PMI_RANK",
               "PMI_SIZE",
               "HYDI_CONTROL_FD",
               "MPI_LOCALRANKID",
               "MPI_LOCALNRANKS",
               "MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
               "PMIX_RANK"};
  leave_behind(left);
  leave_behind({"MPIR_CVAR_CH4_OFI", "I_MPI_PMI_LIBRARY", "PMIX_MCA_gds"});
  CHECK(with("mpich") == "ok");
  CHECK(kept(left).empty());
  CHECK(kept({"MPIR_CVAR_CH4_OFI", "I_MPI_PMI_LIBRARY", "PMIX_MCA_gds"}) ==
        "MPIR_CVAR_CH4_OFI I_MPI_PMI_LIBRARY PMIX_MCA_gds ");
}

TEST_CASE_METHOD(Mpi, "mpi=intel has Intel MPI speak PMI itself") {
  leave_behind({"I_MPI_PMI_LIBRARY", "SLURM_PROCID", "SLURM_NPROCS", "PMI_RANK", "I_MPI_DEBUG", "SLURM_JOB_ID"});
  CHECK(with("intel@2021") == "ok");
  CHECK(kept({"I_MPI_PMI_LIBRARY", "SLURM_PROCID", "SLURM_NPROCS", "PMI_RANK", "I_MPI_DEBUG", "SLURM_JOB_ID"}) ==
        "I_MPI_DEBUG SLURM_JOB_ID ");
}

TEST_CASE_METHOD(Mpi, "mpi=mvapich gives tasks the ranks that programs look at") {
  leave_behind({"MPISPAWN_ID", "MPIRUN_RANK", "MV2_COMM_WORLD_RANK", "PMI_ID", "MV2_DEBUG"});
  CHECK(with("mvapich") == "ok");
  CHECK(kept({"MPISPAWN_ID", "MPIRUN_RANK", "MV2_COMM_WORLD_RANK", "PMI_ID", "MV2_DEBUG"}) == "MV2_DEBUG ");
  CHECK(env("MV2_USE_MPIRUN_MAPPING") == "0");
  CHECK(call_task("task.init", 2) == "ok 1");
  const auto& of_task = host.tasks()[2]->command().env;
  CHECK(of_task.get("MV2_COMM_WORLD_RANK") == "2");
  CHECK(of_task.get("MV2_COMM_WORLD_LOCAL_RANK") == "2");
  CHECK(of_task.get("MV2_COMM_WORLD_SIZE") == "4");
  CHECK(of_task.get("MV2_COMM_WORLD_LOCAL_SIZE") == "4");
}

TEST_CASE_METHOD(Mpi, "mpi=spectrum is told where it is, and otherwise as openmpi") {
  leave_behind({"OMPI_COMM_WORLD_RANK", "PMIX_RANK"});
  host.environment().set("LD_LIBRARY_PATH", "/a");
  host.environment().set("OMPI_MCA_pml", "pami");
  CHECK(with("spectrum") == "ok");
  CHECK(kept({"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}).empty());
  CHECK(env("MPI_ROOT") == "/opt/ibm/spectrum_mpi");
  CHECK(env("OPAL_PREFIX") == "/opt/ibm/spectrum_mpi");
  CHECK(env("OPAL_LIBDIR") == "/opt/ibm/spectrum_mpi/lib");
  CHECK(env("PMIX_INSTALL_PREFIX") == "/opt/ibm/spectrum_mpi");
  CHECK(env("LD_LIBRARY_PATH") == "/opt/ibm/spectrum_mpi/lib/pami_port:/opt/ibm/spectrum_mpi/lib:/a");
  CHECK(env("OMPI_MCA_pml") == "pami");
  CHECK(env("OMPI_MCA_osc") == "pt2pt");
  CHECK(env("OMPI_MCA_btl") == "self");
  CHECK(env("OMPI_MCA_coll_hcoll_enable") == "0");
}

TEST_CASE_METHOD(Mpi, "mpi=spectrum is where MPI_ROOT says") {
  host.environment().set("MPI_ROOT", "/site/smpi");
  CHECK(with("spectrum") == "ok");
  CHECK(env("OPAL_PREFIX") == "/site/smpi");
}

TEST_CASE_METHOD(Installed, "what an option of lua.d does not know is refused with the nearest name") {
  host.options().set("node-health.memroy", "1G");
  CHECK(run_initrc() == "node-health.memroy: there is no such member; did you mean node-health.memory?");
  CHECK(host.deaths.size() == 1);
}

TEST_CASE_METHOD(Installed, "failure-summary says how tasks ended once the job has") {
  host.options().set("failure-summary", 1);
  host.make_tasks();
  CHECK(run_initrc() == "ok");
  nacre::plugin::Call ended("job.tasks-exited");
  ended.in = {{"ranks", "1-2"}, {"record", "s11+"}};
  CHECK(host.stack().call(ended).has_value());
  CHECK(call("shell.exit") == "ok 1");
  REQUIRE(host.logged.size() == 2);
  CHECK(host.logged[0] == "notice failure-summary: 2 of 4 tasks failed");
  CHECK(host.logged[1] == "notice failure-summary: killed by signal 11 (core dumped): tasks 1-2 on fake0");
}

TEST_CASE_METHOD(Installed, "scratch gives the tasks a directory for the time of the job") {
  host.options().set("scratch.dir", directory.string());
  CHECK(run_initrc() == "ok");
  CHECK(call("shell.init") == "ok 1");
  std::filesystem::path scratch = env("NACRE_SCRATCH");
  CHECK(scratch.parent_path() == directory);
  CHECK(std::filesystem::is_directory(scratch));
  CHECK(call("shell.exit") == "ok 1");
  CHECK_FALSE(std::filesystem::exists(scratch));
}
