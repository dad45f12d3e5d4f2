// SPDX-License-Identifier: Apache-2.0
#include "shells/seeds.hpp"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "shells/run.hpp"

namespace nacre::shells {
namespace {

using Long = unsigned long long;  // NOLINT: as printf has it

std::uint64_t running_seed = 0;

// The simulator itself has crashed, or a shell waits in a call that is not the simulator's.
void name_seed(int signum) {
  std::fprintf(stderr, "sim: seed %llu: SIG%s\n", Long{running_seed}, ::sigabbrev_np(signum));
  std::_Exit(2);
}

void print_broken(const Plan& plan, const Outcome& outcome, const Seeds& seeds) {
  std::printf("BROKEN: seed %llu: %s: %s\n", Long{plan.seed}, plan.text().c_str(), outcome.broken.c_str());
  if (seeds.brief) return;
  if (!seeds.trace && !seeds.twice) {
    Outcome again = run(shrink(plan), true);
    std::printf("\nA small case of it:\n\n%s\nBROKEN: %s\n", again.trace.c_str(), again.broken.c_str());
  } else if (seeds.twice) {
    std::printf("%s", outcome.trace.c_str());
  }
  const std::string members = seeds.shells > 0 ? " --members=" + std::to_string(seeds.shells) : "";
  std::printf("\nRun it again: sim --shells%s%s%s --faults=%u --seed=%llu --trace\n",
              seeds.overlaps ? " --overlap" : "", seeds.hands_over ? " --leader-lost" : "", members.c_str(),
              seeds.faults, Long{plan.seed});
}

void print_trace(const std::string& trace, const std::string& to) {
  std::FILE* file = to.empty() ? stdout : std::fopen(to.c_str(), "a");
  if (file == nullptr) throw Defect{to + " cannot be written"};
  std::fputs(trace.c_str(), file);
  if (file != stdout) std::fclose(file);
}

Outcome run_one(const Plan& plan, const Seeds& seeds) {
  Outcome outcome = run(plan, seeds.trace || seeds.twice);
  if (!seeds.twice || !outcome.broken.empty()) return outcome;
  Outcome again = run(plan, true);
  if (again.trace == outcome.trace && again.digest == outcome.digest) return outcome;
  outcome.broken = "the same seed has given another trace";
  outcome.trace += "\nAGAIN\n" + again.trace;
  return outcome;
}

}  // namespace

bool run_seeds(const Seeds& seeds) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  constexpr unsigned kMostSeconds = 120;  // of real time, for one seed
  constexpr double kHour = 3.6e12;        // nanoseconds
  for (int each : {SIGALRM, SIGSEGV, SIGABRT}) std::signal(each, name_seed);
  std::uint64_t shells = 0, tasks = 0, steps = 0;
  double hours = 0;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    running_seed = seed;
    ::alarm(kMostSeconds);
    PlanLimits limits;
    limits.faults = seeds.faults;
    limits.overlaps = seeds.overlaps;
    limits.hands_over = seeds.hands_over;
    limits.large = seeds.shells > 0;
    if (limits.large) limits.shells = seeds.shells;
    const Plan plan = make_plan(seed, limits);
    Outcome outcome;
    try {
      outcome = run_one(plan, seeds);
    } catch (const Defect& defect) {
      outcome.broken = "the simulator: " + defect.what;
    }
    if (seeds.trace) print_trace(outcome.trace, seeds.file);
    if (!outcome.broken.empty()) {
      print_broken(plan, outcome, seeds);
      return false;
    }
    shells += plan.shells;
    tasks += plan.ranks();
    steps += outcome.steps;
    hours += static_cast<double>(outcome.took) / kHour;
  }
  std::printf("%llu jobs, %llu real shells, %llu tasks, %llu steps, %.1f hours of virtual time",
              Long{seeds.last - seeds.first + 1}, Long{shells}, Long{tasks}, Long{steps}, hours);
  return true;
}

}  // namespace nacre::shells
