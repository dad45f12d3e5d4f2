// SPDX-License-Identifier: Apache-2.0
//
// sim [--seeds=FIRST-LAST] [--seed=N] [--members=MOST] [--faults=MOST] [--trace] [--brief]
// sim --report=MOST
//
// Runs a job for each seed and checks every invariant after every step. A seed that breaks one is made smaller and printed as
// a transcript; --seed=N runs it again. --report prints what the protocol costs, for jobs of up to so many members.
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "report.hpp"
#include "run.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::sim;  // NOLINT

namespace {

struct Arguments {
  std::uint64_t first = 1;
  std::uint64_t last = 200;
  bool one = false;
  bool trace = false;
  bool brief = false;  // of a failure: only what
  std::uint32_t report = 0;
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
      out.one = true;
      out.first = out.last = number(value);
    } else if (word.starts_with("--members=")) {
      out.limits.members = static_cast<std::uint32_t>(number(value));
    } else if (word.starts_with("--faults=")) {
      out.limits.faults = static_cast<std::uint32_t>(number(value));
    } else if (word.starts_with("--report=")) {
      out.report = static_cast<std::uint32_t>(number(value));
    } else if (word == "--brief") {
      out.brief = true;
    } else if (word == "--trace") {
      out.trace = true;
    } else {
      throw Broken{"unknown argument " + std::string(word)};
    }
  }
  return out;
}

void tell(std::uint64_t seed, const Plan& plan) {
  std::string broken;
  Plan small = shrink(plan, broken);
  std::printf("seed %llu breaks an invariant. A small case of it, of %u members, arity %u:\n\n",
              static_cast<unsigned long long>(seed), small.members, small.arity);
  run(small, true);
  std::printf("\nBROKEN: %s\n\nRun it again: sim --seed=%llu\n", broken.c_str(),
              static_cast<unsigned long long>(seed));
}

int run_all(const Arguments& arguments) {
  auto start = std::chrono::steady_clock::now();
  Outcome sum;
  std::uint64_t members = 0;
  for (std::uint64_t seed = arguments.first; seed <= arguments.last; ++seed) {
    Plan plan = make_plan(seed, arguments.limits);
    Outcome outcome = run(plan, arguments.trace);
    if (!outcome.broken.empty()) {
      if (arguments.trace || arguments.brief) {
        std::printf("BROKEN: seed %llu: %s\n", static_cast<unsigned long long>(seed), outcome.broken.c_str());
      } else {
        tell(seed, plan);
      }
      return 1;
    }
    sum.messages += outcome.messages;
    sum.campaigns += outcome.campaigns;
    sum.deaths += outcome.deaths;
    sum.releases += outcome.releases;
    members += plan.members;
  }
  auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf(
      "%llu seeds, %llu members, %llu messages, %llu campaigns, %llu deaths, %llu collectives in %.1f s: clean\n",
      static_cast<unsigned long long>(arguments.last - arguments.first + 1),
      static_cast<unsigned long long>(members), static_cast<unsigned long long>(sum.messages),
      static_cast<unsigned long long>(sum.campaigns), static_cast<unsigned long long>(sum.deaths),
      static_cast<unsigned long long>(sum.releases), took);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Arguments arguments = parse(argc, argv);
    if (arguments.report == 0) return run_all(arguments);
    print_report(arguments.report);
    return 0;
  } catch (const Broken& failure) {
    std::fprintf(stderr, "sim: %s\n", failure.what.c_str());
    return 2;
  }
}
