// SPDX-License-Identifier: Apache-2.0

#include "base/guarded.hpp"
#include "base/print.hpp"
#include "base/process_stat.hpp"
#include "cli/verbs.hpp"
#include "front/verbs.hpp"
#include "shell_program.hpp"

namespace {

using namespace nacre;  // NOLINT

// In the order of the help.
constexpr cli::NamedVerb kVerbs[] = {
    {"run", "Run a command as the tasks of a job: nacre run [OPTIONS] COMMAND [ARG...]", front::make_run},
    {"mpiexec", "Run an MPI program with the arguments of mpiexec and mpirun: nacre mpiexec -n 4 ./app",
     front::make_run, front::words_of_mpiexec, "mpirun"},
    {"launch", "Run a job on several hosts, or with several shells on this one", front::make_launch},
    {"jobs", "List jobs: those that run, or with -a also those that have ended", front::make_jobs},
    {"ps", "Show the tasks of a job that runs, and what they have spawned", front::make_ps},
    {"top", "Show what the nodes and tasks of a job use, again and again", front::make_top},
    {"doctor", "Show what the tasks of a job do, and who hangs", front::make_doctor},
    {"timeline", "Print how long each step of a job's launch took, or write a trace of it", front::make_timeline},
    {"attach", "Show the output of a job that runs, and exit with its exit code", front::make_attach},
    {"wait", "Wait for jobs to end, and exit with their exit code", front::make_wait},
    {"exec", "Run a command beside a job, on its nodes: nacre exec [OPTION...] [JOB] [--] CMD...",
     front::make_exec},
    {"kill", "Send a signal to the tasks of a job", front::make_kill},
    {"cancel", "End a job in order: SIGTERM to its tasks, SIGKILL after the grace", front::make_cancel},
    {"restart", "Start tasks of a job again: all of them, or some", front::make_restart},
    {"shrink", "Take hosts out of a job that runs: their tasks are ended, the others go on", front::make_shrink},
    {"grow", "Add hosts to a job that runs: they are spares, which take over the tasks of lost ones",
     front::make_grow},
    {"report", "Print how a job has ended, or how far it is", front::make_report},
    {"archive", "Make, list, extract and remove archives of files", cli::make_archive},
    {"initrc", "Check an initrc: what it reads, and what is wrong with it", cli::make_initrc},
    {"plugin", "Start a plugin, list those of a job, check one", cli::make_plugin},
    {"control", "Reach a job of this host, for nacre on another one", front::make_control},
    {"version", "Print the version, its commit, and which libraries are here", cli::make_version},
};

// Static objects take memory too.
[[gnu::constructor(101)]] void prepare_end_without_memory() { end_in_order_without_memory("nacre"); }

}  // namespace

int main(int argc, char** argv) {
  if (auto opened = open_closed_streams(); !opened) {
    print_err("nacre: {}\n", opened.error().message);
    return 1;
  }
  reset_signals();
  front::set_own_shell([argc, argv](std::vector<std::string> words, const launch::LaunchRecord& record) {
    std::exit(become_shell(ProcessTitle(argc, argv), std::move(words), record));
  });
  int code = 1;
  guarded(nullptr, [&] { code = cli::run_nacre(argc, argv, kVerbs); });
  return code;
}
