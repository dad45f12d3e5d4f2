// SPDX-License-Identifier: Apache-2.0
#include "front/mpiexec.hpp"

#include <fmt/ranges.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "folder.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::front;  // NOLINT

namespace {

std::optional<std::string> variable(const char* name) {
  return std::string_view(name) == "PATH" ? std::optional<std::string>("/bin") : std::nullopt;
}

std::vector<std::string> blank_separated(std::string_view text) {
  std::vector<std::string> out;
  for (std::string_view each : split(text, ' ')) out.emplace_back(each);
  return out;
}

// The words of nacre run, without those of each command line.
std::string words(std::string_view text) {
  auto read = read_mpiexec(blank_separated(text), variable);
  if (!read) return read.error().message;
  std::string out = fmt::format("{}", fmt::join(read->words, " "));
  for (const char* usual : {"--input-ranks=0 ", "--fail-fast ", "--tasks-per-node=slots "}) {
    if (auto at = out.find(usual); at != std::string::npos) out.erase(at, std::string_view(usual).size());
  }
  return out;
}

}  // namespace

TEST_CASE("mpiexec: what one program is given") {
  const std::vector<std::pair<const char*, const char*>> all{
      {"a", "-- a"},
      {"-n 4 a -n 5 --", "--ntasks=4 -- a -n 5 --"},
      {"--np 4 -- -a", "--ntasks=4 -- -a"},
      {"--np=4 a", "--ntasks=4 -- a"},
      {"-c 4 a", "--ntasks=4 -- a"},
      {"-N 2 a", "--tasks-per-node=2 -- a"},
      {"-setopt pmi=pmix a", "--setopt=pmi=pmix -- a"},
      {"-n 3 -ppn 2 a", "--tasks-per-node=2:round --ntasks=3 -- a"},
      {"-usize 8 a", "--setopt=pmi.universe=8 -- a"},
      {"-usize INFINITE a", "--setopt=pmi.universe=infinite -- a"},
      {"-usize many a", "-usize: expected a number from 1 to 16777216, got 'many'"},
      {"-n 7 -soft 2,4:6:2,8 a", "--ntasks=6 -- a"},
      {"-soft 2:8:3 -n 4 a", "--ntasks=2 -- a"},
      {"-soft 2:8:3 a", "--ntasks=8 -- a"},
      {"-soft 9:1:-3 -n 5 a", "--ntasks=3 -- a"},
      {"-n 2 -soft 4:8 a", "-soft: 4:8 has no number of tasks up to -n 2"},
      {"-soft 1:x a", "-soft: expected numbers, or FIRST:LAST or FIRST:LAST:STEP, got 1:x"},
      {"-soft 1:2:0 a", "-soft: expected numbers, or FIRST:LAST or FIRST:LAST:STEP, got 1:2:0"},
      {"-pernode a", "--tasks-per-node=1 -- a"},
      {"-host n0,n1 -H n2:3 a", "--hosts=n0,n1,n2:3 -- a"},
      {"-f hosts a", "--hostfile=hosts -- a"},
      {"-wdir /x -path /p a", "--chdir=/x --env=PATH=/p:/bin -- a"},
      {"-env A 1 -x B -x C=2 a", "--env=A=1 --env=B --env=C=2 -- a"},
      {"-genv A $x a", "--env=A=$$x -- a"},
      {"-genv A=1 -env B=x=y --genv=C=3 -genv D 4 a", "--env=A=1 --env=C=3 --env=D=4 --env=B=x=y -- a"},
      {"-genvlist A,B a", "--env-remove=* --env=A --env=B -- a"},
      {"-genv A 1 -genvnone -mca b 1 a", "--env-remove=* --env=A=1 --env=OMPI_MCA_b=1 -- a"},
      {"-genvlist A -x C=1 -genvlist B a", "--env-remove=* --env=A --env=B --env=C=1 -- a"},
      {"-genvnone a", "--env-remove=* -- a"},
      {"-genvall a", "-- a"},
      {"--mca btl self,tcp a", "--env=OMPI_MCA_btl=self,tcp -- a"},
      {"--mca plm_rsh_agent rsh a", "--agent=rsh -- a"},
      {"--mca plm_rsh_agent=ssh:rsh --mca plm_rsh_args -oUser=me a", "--agent=ssh --agent-arg=-oUser=me -- a"},
      {"--prtemca x 1 -pmixmca y 2 a", "--env=PRTE_MCA_x=1 --env=PMIX_MCA_y=2 -- a"},
      {"-bind-to core:overload-allowed a", "--cpu-bind=core -- a"},
      {"-bind-to socket a", "--cpu-bind=package -- a"},
      {"-map-by ppr:2:node:PE=3:OVERSUBSCRIBE a", "--tasks-per-node=2 --cores-per-task=3 --oversubscribe -- a"},
      {"-map-by node -rank-by slot a", "--taskmap=cyclic -- a"},
      {"-map-by socket:SPAN -rank-by core a", "-- a"},
      {"-ppr 2:node -map-by slot:DONOTLAUNCH a", "--tasks-per-node=2 --explain -- a"},
      {"-map-by node --rank-by=node -bynode a", "--taskmap=cyclic -- a"},
      {"-npernode 2 --map-by=ppr:3:node a", "-npernode and --map-by contradict each other: give one of them"},
      {"-bind-to core -bind-to none a", "-bind-to and -bind-to contradict each other: give one of them"},
      {"--bind-to core --report-bindings a", "--cpu-bind=core --setopt=cpu-affinity.verbose=true -- a"},
      {"-outfile-pattern o.%r.%h -errfile-pattern e%%%p a",
       "--output=o.{{task.rank}}.{{node.name}} --setopt=output.mkdir --error=e%{{node.id}} --setopt=output.mkdir "
       "-- a"},
      {"--output tag,timestamp a", "--label-io --setopt=output.stdout.timestamps=iso -- a"},
      {"--output dir=d:nocopy a",
       "--output=d/1/rank.{{task.rank}}/stdout --error=d/1/rank.{{task.rank}}/stderr --setopt=output.mkdir -- a"},
      {"-output-filename d a",
       "--tee --output=d/1/rank.{{task.rank}}/stdout --error=d/1/rank.{{task.rank}}/stderr --setopt=output.mkdir "
       "-- a"},
      {"-prepend-pattern %r@%h: a", "--setopt=output.stdout.label={{task.rank}}@{{node.name}}: -- a"},
      {"--output merge a", "--output: merge is not taken: 2>&1 behind mpiexec does that"},
      {"--output xml a", "--output: expected tag, timestamp or dir=DIR, got 'xml'"},
      {"--stream-buffering 0 --display map a", "--unbuffered -- a"},
      {"-timeout 3 a", "--time-limit=3s -- a"},
      {"-launcher slurm a", "--srun -- a"},
      {"-launcher-exec my-ssh a", "--agent=my-ssh -- a"},
      {"-launcher ssh a", "--agent=ssh -- a"},
      {"-launcher ssh -launcher-exec my-ssh a", "--agent=my-ssh -- a"},
      {"-gpus-per-proc AUTO a", "-- a"},
      {"-gpus-per-proc 2 a", "--gpus-per-task=2 -- a"},
      {"-l -q -v a", "--label-io --quiet --verbose -- a"},
      {"-max-restarts 2 a", "--restart=on-failure,max=2 -- a"},
      {"--allow-run-as-root -iface lo a", "-- a"},
      {"--with-ft ulfm --unset-env A a",
       "--env=OMPI_MCA_mpi_ft_enable=true --setopt=fault-tolerance --env-remove=A -- a"},
      {"-topolib hwloc -order-nodes UP a", "-- a"},
  };
  for (const auto& [given, expected] : all) CHECK(words(given) == expected);
}

TEST_CASE(
    "mpiexec: input is rank 0's, a failure ends the job, and slots are filled, unless it is asked otherwise") {
  auto has = [](const char* text, const char* word) {
    auto read = read_mpiexec(blank_separated(text), variable);
    REQUIRE(read);
    return std::count(read->words.begin(), read->words.end(), word) == 1;
  };
  CHECK(has("a", "--input-ranks=0"));
  CHECK(has("a", "--fail-fast"));
  CHECK(has("-n 2 -map-by slot a", "--tasks-per-node=slots"));
  CHECK_FALSE(has("-n 2 -map-by node a", "--tasks-per-node=slots"));
  CHECK_FALSE(has("-host n0 a : -host n1 b", "--tasks-per-node=slots"));
  CHECK(has("-stdin 3 a", "--input-ranks=3"));
  CHECK(has("-stdin none a", "--input=/dev/null"));
  CHECK_FALSE(has("-stdin all a", "--input-ranks=0"));
  CHECK_FALSE(has("-enable-recovery a", "--fail-fast"));
  CHECK(has("-disable-auto-cleanup a", "--setopt=fault-tolerance"));
}

TEST_CASE("mpiexec: several programs are an option multi-prog, in which % is escaped") {
  CHECK(words("-n 2 a %t : -wdir /x -env A 1 b") ==
        "--ntasks=3 --setopt=multi-prog=[{\"command\":[\"a\",\"%%t\"],\"ranks\":\"0-1\"},"
        "{\"command\":[\"b\"],\"cwd\":\"/x\",\"environment\":{\"A\":\"1\"},\"ranks\":\"2\"}] -- a %t");
  CHECK(words("-path /p -n 1 a : -x PATH b").find("\"environment\":{\"PATH\":\"/p:/bin\"}") != std::string::npos);
  CHECK(words("a : -x NOT_THERE b").find("environment") == std::string::npos);
  CHECK(words("-envlist A a") == "--env-remove=* --env=A -- a");
  CHECK(words("-envlist A a : b") ==
        "-envlist: of several programs one cannot have an environment of its own that is not all of this one; "
        "-genvlist and -genvnone are for all");
  CHECK(words("a : -envnone b").starts_with("-envnone: of several programs "));
  CHECK(words("-genvnone a : b").starts_with("--env-remove=* "));
  // Replacing bytes that are no UTF-8 would change the argument.
  CHECK(words("a : b \xff").find("no UTF-8") != std::string::npos);
  CHECK(words("a : -x A=\xff b") == "A: no UTF-8, which a jobspec has to be");
}

TEST_CASE("mpiexec: hosts of the first program are for all, or each has its own") {
  CHECK(words("-host n0,n1 -n 1 a : -n 3 b").find("--hosts=n0,n1 --setopt") != std::string::npos);
  CHECK(words("-host n0,n1 -n 3 a : -host n1,n2 -n 2 b")
            .find("--hosts=n0,n1,n2 --nodes=3 --taskmap=manual:0-1;2-3;4 ") != std::string::npos);
  // Slots are filled in order; further tasks go round.
  CHECK(words("-host n0:1,n1:3 -n 6 a : -host n2 b").find("--taskmap=manual:0-1;2-5;6 ") != std::string::npos);
  CHECK(words("a : -host n2 b") ==
        "-host: either the first program has hosts, which are for all then, or each has");
}

TEST_CASE("mpiexec: a program that PATH does not have may be in its directory") {
  const kit::TemporaryFolder folder;
  const std::string file = folder.file("no-such-program.out", "");
  const std::string here = "-wdir " + folder.path("");
  CHECK(words(here + " no-such-program.out").ends_with("-- no-such-program.out"));
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  CHECK(words(here + " no-such-program.out").ends_with("-- ./no-such-program.out"));
  CHECK(words(here + " no-such-program.out : no-such-program.out").find("[\"no-such-program.out\"]") !=
        std::string::npos);
  std::filesystem::create_directory(folder.path("folder"));
  CHECK(words(here + " folder").ends_with("-- folder"));
  CHECK(words(here + " sh").ends_with("-- sh"));
}

TEST_CASE("mpiexec: a file has programs, and what stands before it is for all of them") {
  const kit::TemporaryFolder folder;
  const std::string file = folder.file("programs", "# two\n-n 1 a 'b c'\n\n  -n 2 d\n");
  CHECK(words("-genv A 1 -configfile " + file) ==
        "--env=A=1 --ntasks=3 --setopt=multi-prog=[{\"command\":[\"a\",\"b c\"],\"ranks\":\"0\"},"
        "{\"command\":[\"d\"],\"ranks\":\"1-2\"}] -- a b c");
  CHECK(words("-configfile " + folder.file("empty", "# none\n")).find("it has no program") != std::string::npos);
  CHECK(words("-configfile /no/such").find("/no/such") != std::string::npos);
}

TEST_CASE("mpiexec: what is wrong is named, with what may be meant") {
  const std::vector<std::pair<const char*, const char*>> all{
      {"-n", "-n: expected N"},
      {"-n 0 a", "-n: expected a number from 1 to 16777216, got '0'"},
      {"-n 2", "expected a program, as in: mpiexec -n 4 ./app"},
      {"a :", "expected a program behind the last ':'"},
      {"a : : b", "expected a program, as in: mpiexec -n 4 ./app"},
      {"-machinfile f a", "'-machinfile' is not known; did you mean --machinefile?"},
      {"-env A", "-env: expected NAME VALUE"},
      {"-env =1 2 a", "-env: expected the name of a variable, got '=1'"},
      {"-bind-to board a", "-bind-to: expected none, hwthread, core, l3cache, numa or socket, got 'board'"},
      {"-bind-to core:2 a", "-bind-to: core:2: -cpus-per-rank 2 gives each task so many cores"},
      {"-bind-to core:overlod a",
       "-bind-to: expected overload-allowed behind the colon, or nothing, got 'overlod'"},
      {"-map-by nod a", "-map-by: expected slot, node, ppr:N:node, or core, numa, socket and the like, got 'nod'"},
      {"-rank-by nod a",
       "-rank-by: expected slot, node, ppr:N:node, or core, numa, socket and the like, got 'nod'"},
      {"-map-by node:PF=2 a", "-map-by: expected PE=N or OVERSUBSCRIBE behind the colon, got 'pf=2'"},
      {"-map-by ppr:1:socket a",
       "-map-by: expected ppr:N:node, got ppr:1:socket: tasks are counted for each node only"},
      {"-rankfile f a",
       "-rankfile: it is not taken: its slots are cores as Open MPI counts them on each node, which nacre does not "
       "know before it is there: --taskmap=manual:MAP of nacre run says which task is on which node, "
       "-o cpu-affinity=map:LIST the cpus"},
      {"-quiet=1 a", "'-quiet=1' is not known; did you mean --quiet?"},
      {"--quiet=1 a", "--quiet=1: it has no value"},
  };
  for (const auto& [given, expected] : all) CHECK(words(given) == expected);
  // As of a variable that is not set: not this host.
  CHECK(read_mpiexec({"-hosts", "", "a"}, variable).error().message ==
        "-hosts: expected hosts, as n0,n1 or n0:4,n1:4");
}

TEST_CASE("mpiexec: variables of other launchers count where no option does") {
  auto with = [](std::vector<std::string> given, const char* name, const char* value) -> std::string {
    auto read = read_mpiexec(given, [&](const char* asked) {
      return std::string_view(asked) == name ? std::optional<std::string>(value) : std::nullopt;
    });
    return read ? fmt::format("{}", fmt::join(read->words, " ")) : read.error().message;
  };
  CHECK(with({"a"}, "MPIEXEC_TIMEOUT", "9").find("--time-limit=9s") != std::string::npos);
  CHECK(with({"-timeout", "3", "a"}, "MPIEXEC_TIMEOUT", "9").find("9s") == std::string::npos);
  CHECK(with({"a"}, "MPIEXEC_TIMEOUT", "x").starts_with("MPIEXEC_TIMEOUT: "));
  CHECK(with({"a"}, "HYDRA_HOST_FILE", "f").find("--hostfile=f") != std::string::npos);
  CHECK(with({"-host", "n", "a"}, "HYDRA_HOST_FILE", "f").find("--hostfile") == std::string::npos);
}

TEST_CASE("mpiexec: each option of the help has a line, and --help wins") {
  CHECK(read_mpiexec({"-n", "2", "--help"}, variable)->kind == MpiexecRun::Kind::help);
  CHECK(read_mpiexec({"-V"}, variable)->kind == MpiexecRun::Kind::version);
  const std::string help = mpiexec_help("mpiexec");
  CHECK(help.find("-n,-np,-c N") != std::string::npos);
  CHECK(help.find("take_") == std::string::npos);
}
