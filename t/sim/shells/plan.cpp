// SPDX-License-Identifier: Apache-2.0
#include "shells/plan.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include <unistd.h>

#include "shells/options.hpp"

namespace nacre::shells {
namespace {

constexpr std::uint64_t kMostLines = 40;
constexpr Nanoseconds kLongest = 20 * kSecond;  // less than the exit-timeout after the first end

Nanoseconds draw_time(Random& random) {
  switch (random.in(0, 3)) {
    case 0: return 0;
    case 1: return static_cast<Nanoseconds>(random.in(0, 20)) * kMillisecond;
    case 2: return static_cast<Nanoseconds>(random.in(0, 2000)) * kMillisecond;
    default: return static_cast<Nanoseconds>(random.in(0, static_cast<std::uint64_t>(kLongest / 4)));
  }
}

std::string lines_of(const std::string& task, int stream, std::uint64_t& number, Random& random) {
  std::string out;
  for (std::uint64_t left = random.in(1, random.one_in(4) ? kMostLines : 3); left > 0; --left) {
    std::string fill(random.one_in(20) ? random.in(0, 9000) : random.in(0, 60), 'x');
    out += task + (stream == 1 ? " out " : " err ") + std::to_string(number++) + " " + fill + '\n';
  }
  return out;
}

TaskScript draw_task(const std::string& task, Random& random) {
  TaskScript out;
  std::uint64_t numbers[3] = {0, 0, 0};
  for (std::uint64_t acts = random.in(0, 6); acts > 0; --acts) {
    if (random.one_in(2)) out.acts.push_back({TaskAct::Kind::sleep, draw_time(random)});
    int stream = random.one_in(4) ? 2 : 1;
    out.acts.push_back({TaskAct::Kind::write, 0, stream, lines_of(task, stream, numbers[stream], random)});
  }
  Nanoseconds slept = 0;
  for (TaskAct& each : out.acts) {
    each.nanoseconds = std::min(each.nanoseconds, kLongest - slept);
    slept += each.nanoseconds;
  }
  out.ignores_term = random.one_in(8);
  if (random.one_in(8)) out.code_at_term = static_cast<int>(random.in(0, 3));
  if (random.one_in(10))
    out.acts.push_back({TaskAct::Kind::signal, 0, 1, "", random.one_in(2) ? SIGSEGV : SIGKILL});
  else
    out.acts.push_back({TaskAct::Kind::exit, 0, 1, "", random.one_in(4) ? static_cast<int>(random.in(1, 255)) : 0});
  return out;
}

// At any time of a job, and more often while it comes together or ends than its length would make it.
Fault draw_fault(const Plan& plan, Random& random) {
  constexpr std::uint64_t kMostSteps = 400;
  Fault out;
  out.kind = static_cast<Fault::Kind>(random.in(0, 5));
  out.step = random.one_in(2) ? random.in(1, 60 * std::uint64_t{plan.shells}) : random.in(1, kMostSteps);
  out.shell = static_cast<std::uint32_t>(random.in(0, plan.shells - 1));
  if (out.kind == Fault::Kind::end_task) out.shell = static_cast<std::uint32_t>(random.in(0, plan.ranks() - 1));
  out.length = static_cast<Nanoseconds>(random.in(1, random.one_in(2) ? 1000 : 60'000)) * kMillisecond;
  return out;
}

}  // namespace

std::string job_folder() {
  static const std::string path = "/dev/shm/nacre-shells." + std::to_string(::getpid());
  return path;
}

TaskScript Plan::script(std::uint32_t rank, std::uint32_t start) const {
  Random random(seed * 1'000'003 + rank * 1009 + start);
  TaskScript out = draw_task(task_mark(rank, start), random);
  out.start = start;
  constexpr std::uint64_t kRarely = 80;
  if (random.one_in(kRarely)) out.exec_error = random.one_in(2) ? ENOENT : EACCES;
  return out;
}

std::string task_mark(std::uint32_t rank, std::uint32_t start) {
  return "task " + std::to_string(rank) + "." + std::to_string(start);
}

std::uint32_t Plan::most_restarts() const {
  constexpr std::string_view kMax = ",max=";
  for (const std::string& each : options) {
    std::size_t at = each.find(kMax);
    if (each.starts_with("restart=") && at != std::string::npos)
      return static_cast<std::uint32_t>(std::atoi(each.c_str() + at + kMax.size()));
  }
  return 0;
}

bool Plan::has_option(const std::string& text) const {
  return std::find(options.begin(), options.end(), text) != options.end();
}

std::string Plan::text() const {
  std::string out = std::to_string(shells) + " shells of " + std::to_string(tasks_per_shell) + " tasks, arity " +
                    std::to_string(arity);
  for (const std::string& each : options) out += " -o " + each;
  if (slow_reader) out += ", a slow reader";
  return out;
}

Plan make_plan(std::uint64_t seed, const PlanLimits& limits) {
  Random random(seed);
  Plan out;
  out.seed = seed;
  out.shells = static_cast<std::uint32_t>(random.in(1, limits.shells));
  constexpr std::uint64_t kMostTasks = 20;  // more than are started at once
  out.tasks_per_shell = static_cast<std::uint32_t>(random.in(1, random.one_in(12) ? kMostTasks : 4));
  out.arity = static_cast<std::uint32_t>(random.in(2, 3));
  if (random.one_in(2)) out.most_delay = static_cast<Nanoseconds>(random.in(1, 50)) * kMillisecond;
  if (random.one_in(2)) out.most_pause = static_cast<Nanoseconds>(random.in(10, 2000)) * 1000;
  out.slow_reader = random.one_in(4);
  out.options = draw_options(random, job_folder());
  if (limits.faults > 0) {
    for (std::uint64_t left = random.in(1, limits.faults); left > 0; --left)
      out.faults.push_back(draw_fault(out, random));
  }
  return out;
}

}  // namespace nacre::shells
