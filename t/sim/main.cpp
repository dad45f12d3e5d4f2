// SPDX-License-Identifier: Apache-2.0
//
// sim [--jobs] [--seeds=FIRST-LAST] [--seed=N] [--members=MOST] [--faults=MOST] [--trace] [--brief]
// sim --shells [--seeds=FIRST-LAST] [--seed=N] [--faults=MOST] [--trace[=FILE]] [--twice] [--brief] [--overlap]
// sim --report=MOST
// sim --ends=TASKS [--shells=N] [--most-ms=N]
// sim --doctor=SHELLS [--tasks-per-shell=N] [--most-ms=N] [--most-messages-per-shell=N]
//
// With --jobs each seed is a whole job of a model of the shell (job_plan.hpp); with --shells a job of the shell
// that ships, over a made-up kernel (shells/kernel.hpp); else the overlay alone, with all that can be done to it
// (run.hpp).
// Runs a job for each seed and checks every invariant after every step; with --shells, at its end. A seed that
// breaks one is made smaller and printed as a transcript; --seed=N runs it again; --twice shows that it gives the
// same trace. --report prints what the protocol costs, for jobs of up to so many members. --ends prints what the
// ends of so many tasks cost the leader (ends.hpp); --doctor what a look of `nacre doctor` at a job of so many
// shells costs (doctor.hpp); exit code 1: more than the limits that are given.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "doctor.hpp"
#include "ends.hpp"
#include "job_plan.hpp"
#include "report.hpp"
#include "run.hpp"
#ifdef NACRE_SIM_SHELLS
#include "shells/seeds.hpp"
#endif

using namespace nacre;       // NOLINT
using namespace nacre::sim;  // NOLINT

namespace {

struct Arguments {
  std::uint64_t first = 1;
  std::uint64_t last = 200;
  bool jobs = false;
  bool real = false;   // jobs of the shell that ships
  bool twice = false;  // each seed has to give the same trace again
  bool trace = false;
  bool brief = false;     // of a failure: only what
  bool overlaps = false;  // made-up tasks go on while a real shell looks which of them have ended
  std::string file;       // for the trace of jobs of real shells
  std::uint32_t report = 0;
  std::uint32_t ends = 0;  // tasks
  std::uint32_t shells = 8000;
  std::uint32_t most_ms = 0;
  std::uint32_t doctor = 0;  // shells
  std::uint32_t tasks_per_shell = 8;
  std::uint32_t most_messages_per_shell = 0;
  std::uint32_t faults = 0;  // of a job of real shells
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
      out.limits.members = static_cast<std::uint32_t>(number(value));
    } else if (word.starts_with("--faults=")) {
      out.limits.faults = out.faults = static_cast<std::uint32_t>(number(value));
    } else if (word.starts_with("--report=")) {
      out.report = static_cast<std::uint32_t>(number(value));
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
    } else if (word == "--jobs") {
      out.jobs = true;
    } else if (word == "--shells") {
      out.real = true;
    } else if (word == "--twice") {
      out.twice = true;
    } else if (word == "--overlap") {
      out.overlaps = true;
    } else if (word == "--brief") {
      out.brief = true;
    } else if (word == "--trace" || word.starts_with("--trace=")) {
      out.trace = true;
      if (word != "--trace") out.file = value;
    } else {
      throw Broken{"unknown argument " + std::string(word)};
    }
  }
  return out;
}

using Number = unsigned long long;  // NOLINT: as printf has it

template <typename Plan>
void print_failure(std::uint64_t seed, const Plan& plan, const char* option) {
  std::string broken;
  Plan small = shrink(plan, broken);
  std::printf("seed %llu breaks an invariant. A small case of it, of %u members, arity %u:\n\n", Number{seed},
              small.members, small.arity);
  run(small, true);
  std::printf("\nBROKEN: %s\n\nRun it again: sim %s--seed=%llu\n", broken.c_str(), option, Number{seed});
}

// False: one has broken an invariant, and was printed. `add` counts what the others did.
template <typename Make, typename Add>
bool run_seeds(const Arguments& arguments, const Make& make, const Add& add) {
  for (std::uint64_t seed = arguments.first; seed <= arguments.last; ++seed) {
    auto plan = make(seed);
    auto outcome = run(plan, arguments.trace);
    if (outcome.broken.empty()) {
      add(plan, outcome);
      continue;
    }
    if (arguments.trace || arguments.brief) {
      std::printf("BROKEN: seed %llu: %s\n", Number{seed}, outcome.broken.c_str());
    } else {
      print_failure(seed, plan, arguments.jobs ? "--jobs " : "");
    }
    return false;
  }
  return true;
}

bool run_overlays(const Arguments& arguments) {
  Outcome sum;
  std::uint64_t members = 0;
  auto make = [&](std::uint64_t seed) { return make_plan(seed, arguments.limits); };
  bool is_clean = run_seeds(arguments, make, [&](const Plan& plan, const Outcome& outcome) {
    sum.messages += outcome.messages;
    sum.campaigns += outcome.campaigns;
    sum.deaths += outcome.deaths;
    sum.releases += outcome.releases;
    members += plan.members;
  });
  if (is_clean) {
    std::printf("%llu seeds, %llu members, %llu messages, %llu campaigns, %llu deaths, %llu collectives",
                Number{arguments.last - arguments.first + 1}, Number{members}, Number{sum.messages},
                Number{sum.campaigns}, Number{sum.deaths}, Number{sum.releases});
  }
  return is_clean;
}

bool run_jobs(const Arguments& arguments) {
  constexpr std::uint32_t kMost = 40;
  std::uint64_t members = 0, messages = 0, early = 0, in_order = 0;
  JobOutcome sum;
  auto make = [&](std::uint64_t seed) { return make_job_plan(seed, std::min(kMost, arguments.limits.members)); };
  bool is_clean = run_seeds(arguments, make, [&](const JobPlan& plan, const JobOutcome& outcome) {
    members += plan.members;
    messages += outcome.messages;
    early += outcome.ended_early ? 1 : 0;
    in_order += outcome.led_to_the_end ? 1 : 0;
    sum.answers += outcome.answers;
    sum.joined += outcome.joined;
    sum.left += outcome.left;
    sum.again += outcome.again;
  });
  if (is_clean) {
    std::printf(
        "%llu jobs, %llu shells, %llu messages, %llu jobs ended early, %llu by their leader; %llu orders "
        "answered, %llu shells joined later, %llu left, %llu starts of tasks again",
        Number{arguments.last - arguments.first + 1}, Number{members}, Number{messages}, Number{early},
        Number{in_order}, Number{sum.answers}, Number{sum.joined}, Number{sum.left}, Number{sum.again});
  }
  return is_clean;
}

#ifdef NACRE_SIM_SHELLS
bool run_shells(const Arguments& arguments) {
  return shells::run_seeds({arguments.first, arguments.last, arguments.faults, arguments.trace, arguments.twice,
                            arguments.brief, arguments.overlaps, arguments.file});
}
#else
bool run_shells(const Arguments& /*arguments*/) {
  throw Broken{"--shells: not in this build, as the linker replaces no function with link-time optimisation"};
}
#endif

int run_all(const Arguments& arguments) {
  auto start = std::chrono::steady_clock::now();
  bool is_clean = arguments.real   ? run_shells(arguments)
                  : arguments.jobs ? run_jobs(arguments)
                                   : run_overlays(arguments);
  if (!is_clean) return 1;
  auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf(" in %.1f s: clean\n", took);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Arguments arguments = parse(argc, argv);
    if (arguments.ends > 0) return run_ends(arguments.ends, arguments.shells, arguments.most_ms) ? 0 : 1;
    if (arguments.doctor > 0) {
      DoctorLimits limits{arguments.most_ms, arguments.most_messages_per_shell};
      return run_doctor(arguments.doctor, arguments.tasks_per_shell, limits) ? 0 : 1;
    }
    if (arguments.report == 0) return run_all(arguments);
    print_report(arguments.report);
    return 0;
  } catch (const Broken& failure) {
    std::fprintf(stderr, "sim: %s\n", failure.what.c_str());
    return 2;
  }
}
