// SPDX-License-Identifier: Apache-2.0
//
// The simulator `sim`: kHelp says what it runs and prints.

#include "base/text.hpp"
#include "doctor.hpp"
#include "ends.hpp"
#include "explore.hpp"
#include "report.hpp"
#include "run.hpp"
#include "start.hpp"
#ifdef NACRE_SIM_SHELLS
#include "shells/seeds.hpp"
#endif

using namespace nacre;       // NOLINT
using namespace nacre::sim;  // NOLINT

namespace {

constexpr const char* kHelp =
    R"(usage: sim [--seeds=FIRST-LAST | --seed=N] [--members=MOST] [--faults=MOST] [--trace] [--brief]
       sim --shells [--seeds=FIRST-LAST | --seed=N] [--members=MOST] [--faults=MOST | --leader-lost] [--overlap]
                    [--twice] [--trace[=FILE]] [--brief]
       sim --explore [--members=N] [--faults=KIND,...] [--most-faults=N] [--events=N] [--delays=N] [--terms=N]
                     [--arbiter] [--states=MOST]
       sim --report=MEMBERS,...
       sim --start=SHELLS [--seeds=FIRST-LAST]
       sim --ends=TASKS [--shells=N] [--most-ms=N]
       sim --doctor=SHELLS [--tasks-per-shell=N] [--most-ms=N] [--most-messages-per-shell=N]

Runs a job for each seed (1-200) and checks every invariant: of the overlay alone, with all that can be done to it,
after every step; with --shells, of jobs of the shell that ships, over a made-up kernel, at their end. A seed that
breaks one is made smaller and printed as a transcript. All of it is on virtual time.

  --shells          jobs of real shells
  --seeds, --seed   which jobs
  --members=MOST    shells of a job (200); with --shells there are half as many at least, and else few
  --faults=MOST     that are done to a job (25; with --shells none)
  --leader-lost     the leader of each job is killed, perhaps the next one too, and the others go on
  --overlap         made-up tasks go on while a real shell looks which of them have ended
  --twice           shows that the same seed gives the same trace
  --trace[=FILE]    prints what each job does
  --brief           of a failure only what it is
  --explore         every order in which things can happen to few members (3) that may change their leader: which
                    message comes next, whose bound passes, when a fault strikes; nothing is left to chance
  --faults=KIND,... of it: crash, freeze, cut (crash); --most-faults=N (1) of these strike
  --events=N        that members ask for (1)
  --delays=N        times that 1 s passes before what is under way or due has come (0)
  --terms=N         of leaders, the first one included, that are followed (2)
  --arbiter         tells one half that it may go on without the other, at any later moment, or never
  --states=MOST     more are not looked at, which is a failure (50000000)
  --report=MEMBERS,...   what the protocol costs, for jobs of so many members each
  --start=SHELLS    how long a start takes where hosts are slow, dead or freeze, one for each seed
  --ends=TASKS      what the ends of so many tasks of --shells=N shells (8000) cost the leader
  --doctor=SHELLS   what a look of `nacre doctor` at a job of so many shells, of --tasks-per-shell=N (8), costs
  --most-ms, --most-messages-per-shell   limits of these two

Exit code 1: an invariant is broken, or something costs more than its limit; 2: the arguments are wrong.
)";

struct Arguments {
  std::uint64_t first = 1;
  std::uint64_t last = 200;
  bool helps = false;
  bool real = false;   // jobs of the shell that ships
  bool twice = false;  // each seed has to give the same trace again
  bool trace = false;
  bool brief = false;                 // a failure is only named
  bool overlaps = false;              // made-up tasks go on while a real shell looks which tasks have ended
  bool hands_over = false;            // the leader of each is lost
  std::string file;                   // for the trace of jobs of real shells
  std::vector<std::uint32_t> report;  // members of each job
  std::uint32_t start = 0;            // shells
  std::uint32_t ends = 0;             // tasks
  std::uint32_t shells = 8000;
  std::uint32_t most_ms = 0;
  std::uint32_t doctor = 0;  // shells
  std::uint32_t tasks_per_shell = 8;
  std::uint32_t most_messages_per_shell = 0;
  std::uint32_t faults = 0;   // of a job of real shells
  std::uint32_t members = 0;  // of a job of real shells; 0: few
  Limits limits;
};

std::uint64_t number(std::string_view text) {
  auto value = parse_u64(text);
  if (!value) throw Broken{"not a number: " + std::string(text)};
  return *value;
}

Arguments parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    std::string_view value = word.substr(std::min(word.find('=') + 1, word.size()));
    if (word.starts_with("--seeds=")) {
      auto ends = split(value, '-');
      out.first = number(ends[0]);
      out.last = number(ends.back());
    } else if (word.starts_with("--seed=")) {
      out.first = out.last = number(value);
    } else if (word.starts_with("--members=")) {
      out.limits.members = out.members = static_cast<std::uint32_t>(number(value));
    } else if (word.starts_with("--faults=")) {
      out.limits.faults = out.faults = static_cast<std::uint32_t>(number(value));
    } else if (word.starts_with("--report=")) {
      for (std::string_view each : split(value, ','))
        out.report.push_back(static_cast<std::uint32_t>(number(each)));
    } else if (word.starts_with("--start=")) {
      out.start = static_cast<std::uint32_t>(number(value));
    } else if (word.starts_with("--ends=")) {
      out.ends = static_cast<std::uint32_t>(number(value));
    } else if (word.starts_with("--shells=")) {
      out.shells = static_cast<std::uint32_t>(number(value));
    } else if (word.starts_with("--most-ms=")) {
      out.most_ms = static_cast<std::uint32_t>(number(value));
    } else if (word.starts_with("--doctor=")) {
      out.doctor = static_cast<std::uint32_t>(number(value));
    } else if (word.starts_with("--tasks-per-shell=")) {
      out.tasks_per_shell = static_cast<std::uint32_t>(number(value));
    } else if (word.starts_with("--most-messages-per-shell=")) {
      out.most_messages_per_shell = static_cast<std::uint32_t>(number(value));
    } else if (word == "--help" || word == "-h") {
      out.helps = true;
    } else if (word == "--shells") {
      out.real = true;
    } else if (word == "--twice") {
      out.twice = true;
    } else if (word == "--overlap") {
      out.overlaps = true;
    } else if (word == "--leader-lost") {
      out.hands_over = true;
    } else if (word == "--brief") {
      out.brief = true;
    } else if (word == "--trace" || word.starts_with("--trace=")) {
      out.trace = true;
      if (word != "--trace") out.file = value;
    } else {
      throw Broken{"unknown argument " + std::string(word) + "; see sim --help"};
    }
  }
  return out;
}

using Number = unsigned long long;  // NOLINT: as printf has it

void print_failure(std::uint64_t seed, const Plan& plan) {
  std::string broken;
  Plan small = shrink(plan, broken);
  std::printf("seed %llu breaks an invariant. A small case of it, of %u members, arity %u:\n\n", Number{seed},
              small.members, small.arity);
  run(small, true);
  std::printf("\nBROKEN: %s\n\nRun it again: sim --seed=%llu\n", broken.c_str(), Number{seed});
}

// False: a run has broken an invariant, and was printed.
bool run_overlays(const Arguments& arguments) {
  Outcome sum;
  std::uint64_t members = 0;
  for (std::uint64_t seed = arguments.first; seed <= arguments.last; ++seed) {
    const Plan plan = make_plan(seed, arguments.limits);
    const Outcome outcome = run(plan, arguments.trace);
    if (!outcome.broken.empty()) {
      if (arguments.trace || arguments.brief)
        std::printf("BROKEN: seed %llu: %s\n", Number{seed}, outcome.broken.c_str());
      else
        print_failure(seed, plan);
      return false;
    }
    sum.messages += outcome.messages;
    sum.campaigns += outcome.campaigns;
    sum.deaths += outcome.deaths;
    sum.releases += outcome.releases;
    sum.leaders += outcome.leaders;
    members += plan.members;
  }
  std::printf(
      "%llu seeds, %llu members, %llu messages, %llu campaigns, %llu deaths, %llu collectives, %llu leaders",
      Number{arguments.last - arguments.first + 1}, Number{members}, Number{sum.messages}, Number{sum.campaigns},
      Number{sum.deaths}, Number{sum.releases}, Number{sum.leaders});
  return true;
}

#ifdef NACRE_SIM_SHELLS
bool run_shells(const Arguments& arguments) {
  return shells::run_seeds({arguments.first, arguments.last, arguments.faults, arguments.members, arguments.trace,
                            arguments.twice, arguments.brief, arguments.overlaps, arguments.hands_over,
                            arguments.file});
}
#else
bool run_shells(const Arguments& /*arguments*/) {
  throw Broken{"--shells: not in this build, as the linker replaces no function with link-time optimisation"};
}
#endif

int run_all(const Arguments& arguments) {
  auto start = std::chrono::steady_clock::now();
  const bool is_clean = arguments.real ? run_shells(arguments) : run_overlays(arguments);
  if (!is_clean) return 1;
  auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf(" in %.1f s: clean\n", took);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1 && argv[1] == std::string_view("--explore"))
      return run_exploration({argv + 2, argv + argc}) ? 0 : 1;
    Arguments arguments = parse(argc, argv);
    if (arguments.helps) return std::fputs(kHelp, stdout), 0;
    if (arguments.ends > 0) return run_ends(arguments.ends, arguments.shells, arguments.most_ms) ? 0 : 1;
    if (arguments.doctor > 0) {
      DoctorLimits limits{arguments.most_ms, arguments.most_messages_per_shell};
      return run_doctor(arguments.doctor, arguments.tasks_per_shell, limits) ? 0 : 1;
    }
    if (arguments.start > 0) return print_starts(arguments.start, arguments.first, arguments.last), 0;
    if (arguments.report.empty()) return run_all(arguments);
    print_report(arguments.report);
    return 0;
  } catch (const Broken& failure) {
    std::fprintf(stderr, "sim: %s\n", failure.what.c_str());
    return 2;
  }
}
