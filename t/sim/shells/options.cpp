// SPDX-License-Identifier: Apache-2.0
#include "shells/options.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "broken.hpp"
#include "job/option_table.hpp"
#include "shells/kernel.hpp"

namespace nacre::shells {
namespace {

struct Drawn {
  const char* name;
  std::vector<const char*> values;  // {d}: the job's folder
  const char* beside = "";          // another option that it needs
};

const std::vector<Drawn>& drawn() {
  static const std::vector<Drawn> all{
      {"verbose", {"1", "2"}},
      {"initrc-check", {"on", "off"}},
      {"lua-timeout", {"10s", "none"}},
      {"nosetpgrp", {"on"}},
      {"kill-timeout", {"1s", "30s"}},
      {"unkillable-timeout", {"60s"}},
      {"cwd-fallback", {"on"}},
      {"taskmap", {"cyclic", "block", "cyclic:2"}},
      {"rpc-timeout", {"none", "5m"}},
      {"strict", {"on"}},
      {"mem-affinity", {"off"}},
      {"rlimit.<NAME>", {"0"}},
      {"oom.adjust", {"100"}},
      {"sched", {"batch", "other"}},
      {"exit-policy", {"max", "main", "all", "main+all", "first"}},
      {"exit-main", {"0"}, "exit-policy=main"},
      {"exit-timeout", {"none", "5m", "2s"}},
      {"time-limit", {"none", "1h", "10s"}},
      {"exit-report", {"off", "line", "full"}},
      {"report", {"{d}/report"}},
      {"usage", {"on", "{d}/usage"}},
      {"joblog", {"{d}/joblog"}},
      {"timeline", {"{d}/timeline"}},
      {"control", {"on", "off"}},
      {"hang-watch", {"10m", "off"}},
      {"slow-watch", {"30s", "1s", "off"}},
      {"on-leader-lost", {"take-over", "end"}},
      {"on-launcher-lost", {"go-on", "end"}},
      {"attach.scrollback", {"none", "1k"}},
      {"exit-notify", {"{d}/notices"}},
      {"exit-notify.threshold", {"10%"}, "exit-notify.to={d}/notices"},
      {"exit-on-error", {"off", "1", "2"}},
      {"exit-on-error.when", {"1"}, "exit-on-error.then=note"},
      {"on-lost", {"go-on", "end"}},
      {"restart",
       {"never", "on-failure,max=2", "on-failure,max=5,backoff=9ms", "always,max=3",
        "on-failure,max=4,no-progress=1"},
       "exit-timeout=none"},
      {"restart",
       {"on-failure,max=1,scope=job", "on-failure,max=3,scope=node", "always,max=2,scope=job",
        "on-failure,no-progress=1,max=4,scope=job", "on-failure,no-progress=1,max=4,scope=node"},
       "exit-timeout=none"},
      {"restart",
       {"on-failure,max=4,per-task=1", "on-failure,max=3,where=spare", "on-failure,max=3,scope=node,where=spare"},
       "exit-timeout=none"},
      {"tolerate-loss", {"on"}},
      {"lost-after", {"30s", "2s"}},
      {"signal", {"off"}},
      {"pmi", {"off", "simple", "pmi2"}},
      {"pmi.max-size", {"1M"}},
      {"fault-tolerance", {"on"}},
      {"elastic.manager", {"off", "auto"}},
      {"prolog", {"exit 0"}},
      {"epilog", {"exit 0"}},
      {"task-prolog", {"exit 0"}},
      {"task-epilog", {"exit 0"}},
      {"sysmon", {"on"}},
      {"slurm-variables", {"on", "off"}},
      {"torch", {"on"}, "torch.store=rank0"},
      {"env-expand.<NAME>", {"{{id}}-{{task.rank}}"}},
      {"output.stdout.label", {"on"}},
      {"output.stderr.timestamps", {"iso"}},
      {"output.stdout.buffer.type", {"block"}},
      {"output.stdout.path", {"{d}/o", "{d}/o.{{task.rank}}", "{d}/o.{{node.id}}"}, "output.stdout.type=file"},
      {"output.stderr.path", {"{d}/e", "{d}/e.{{task.rank}}", "{d}/o"}, "output.stderr.type=file"},
      {"output.mode", {"append"}, "output.stdout.type=file output.stdout.path={d}/o"},
      {"output.mkdir", {"on"}},
      {"output.direct", {"auto", "off"}},
      {"output.ranks", {"all"}},
      {"output.overflow", {"spill"}},
      {"output.batch-timeout", {"1s"}},
      {"output.drain-timeout", {"5s"}},
      {"input.ranks", {"0", "all"}},
      {"input.when-left", {"open", "end"}},
  };
  return all;
}

// Options that are not drawn, with the reason.
constexpr std::string_view kLeftOut[] = {
    // drawn by add_at_most(), and by plan.cpp
    "at-most", "resize",
    // they need a file: plan.cpp draws the initrc
    "initrc", "userrc", "multi-prog", "arguments", "ended-before", "taskmap.value", "input.stdin.path",
    "input.stdin.type",
    // another number of tasks or shells
    "per-resource.type", "per-resource.count", "spares", "pretend",
    // they change the tasks, or their codes and lines
    "stop-tasks-in-exec", "rehearse", "rehearse-force", "signal.signum", "signal.timeleft", "exit-ok", "wrap",
    "exit-class", "exit-on-error.ranks", "exit-on-error.codes", "exit-on-error.grace", "output.stdout.format",
    "output.stderr.format", "output.fold", "output.events", "output.limit",
    // the cores and devices that the real machine has
    "oversubscribe", "cpu-affinity", "gpu-affinity",
    // they need root, a descriptor, a port, a device, a session or terminal of the real kernel
    "cgroup", "exit-notify.fd", "torch.port", "torch.store", "usage-gpu", "session", "pty", "pty.ranks",
    "pty.capture", "pty.interactive", "nic-affinity", "hwloc.xmlfile", "hwloc.restrict", "doctor.trace",
    // forked processes, which are not simulated
    "health", "health.checks", "health.command", "health.pair-command", "health.timeout", "health.wait",
    "health.on-bad",
    // they need a thread, an archive
    "stage-in", "stage-in.names", "stage-in.tags", "stage-in.pattern", "stage-in.destination", "stage-in.overwrite",
    "stage-in.max-size", "stage-in.dir",
    // they need namespaces, podman
    "container", "container.image", "container.bind", "container.env", "container.runtime",
    // only the installed initrc has them
    "omp-threads", "failure-summary", "failure-summary.file", "scratch", "scratch.dir", "scratch.min",
    "node-health", "node-health.memory", "node-health.disk", "node-health.gpus", "node-health.links",
    "node-health.then", "mpi", "vmstat", "vmstat.output",
    // they need programs, which made-up tasks are not
    "coprocess.<NAME>.command", "coprocess.<NAME>.output", "coprocess.<NAME>.ranks", "coprocess-kill-timeout",
    "rexec-shutdown-timeout", "usage-plot", "pmi.use", "pmi.explain", "pmi.hang-report", "pmi.library", "pmi.port",
    "pmi.groups", "pmi.universe", "pmi-simple.nomap", "pmi-simple.kvs", "pmi-simple.exchange.k",
    "fault-tolerance.signal",
    // other options of the table set them, or are other names for them
    "taskmap.scheme", "exit-timeout.timeout", "exit-timeout.after", "exit-notify.to", "exit-notify.path",
    "exit-on-error.then", "prolog.command", "prolog.timeout", "epilog.command", "epilog.timeout",
    "task-prolog.command", "task-prolog.timeout", "task-epilog.command", "task-epilog.timeout", "sysmon.period",
    "output.stdout.type", "output.stdout.timestamps", "output.stderr.type", "output.stderr.label",
    "output.stderr.buffer.type", "label-io", "output.spill-limit", "input.limit", "input.batch-timeout"};

// Options that contradict each other, by the words before the first dot.
constexpr std::pair<std::string_view, std::string_view> kExcludes[] = {{"on-lost", "tolerate-loss"},
                                                                       {"restart", "fault-tolerance"},
                                                                       {"pmi", "fault-tolerance"},
                                                                       {"control", "attach"},
                                                                       {"control", "on-launcher-lost"}};

std::string head(std::string_view name) { return std::string(name.substr(0, name.find_first_of(".="))); }

void check_table() {
  std::set<std::string_view> ours(std::begin(kLeftOut), std::end(kLeftOut));
  for (const Drawn& each : drawn()) ours.insert(each.name);
  for (const job::OptionEntry& each : job::option_table()) {
    if (ours.erase(each.name) == 0)
      throw sim::Broken{std::string("the option ") + each.name + " is not known to t/sim/shells/options.cpp"};
  }
  if (!ours.empty())
    throw sim::Broken{"t/sim/shells/options.cpp: there is no option " + std::string(*ours.begin())};
}

std::string placed(std::string text, const std::string& folder) {
  if (std::size_t at = text.find("{d}"); at != std::string::npos) text.replace(at, 3, folder);
  return text;
}

bool fits(const std::set<std::string>& heads, const std::string& name) {
  return std::none_of(std::begin(kExcludes), std::end(kExcludes), [&](const auto& each) {
    return (each.first == name && heads.contains(std::string(each.second))) ||
           (each.second == name && heads.contains(std::string(each.first)));
  });
}

// It has its own random numbers, so that the rest of a seed does not depend on it. Tasks that wait for others
// cannot wait for all by PMI, nor start again together.
void add_at_most(std::vector<std::string>& out, const std::set<std::string>& heads, sim::Random random) {
  if (!random.one_in(6) || heads.contains("pmi") || heads.contains("fault-tolerance") || heads.contains("restart"))
    return;
  out.push_back("at-most=" + std::to_string(random.in(1, 3)));
  out.emplace_back("pmi=off");
  if (heads.contains("exit-timeout") || !random.one_in(3)) return;
  out.emplace_back("restart=on-failure,max=2,backoff=10ms");
}

}  // namespace

std::vector<std::string> draw_options(sim::Random& random, const std::string& folder) {
  static const bool is_checked = (check_table(), true);
  static_cast<void>(is_checked);
  std::vector<std::string> out{"cpu-affinity=off"};
  std::set<std::string> heads, names;
  for (std::uint64_t left = random.in(0, 3); left > 0; --left) {
    const Drawn& each = drawn()[random.in(0, drawn().size() - 1)];
    std::string value = placed(each.values[random.in(0, each.values.size() - 1)], folder);
    if (!fits(heads, head(each.name)) || names.contains(each.name)) continue;
    std::string name = each.name;
    if (std::size_t at = name.find("<NAME>"); at != std::string::npos)
      name.replace(at, 6, name.starts_with("rlimit") ? "core" : "SIMULATED");
    std::string_view rest = each.beside;
    if (!rest.empty() && names.contains(std::string(rest.substr(0, rest.find('='))))) continue;
    while (!rest.empty()) {
      std::size_t size = std::min(rest.find(' '), rest.size());
      std::string beside = placed(std::string(rest.substr(0, size)), folder);
      rest.remove_prefix(std::min(size + 1, rest.size()));
      if (names.insert(beside.substr(0, beside.find('='))).second) out.push_back(std::move(beside));
    }
    names.insert(each.name);
    heads.insert(head(each.name));
    out.push_back(name + "=" + value);
  }
  add_at_most(out, heads, random);
  return out;
}

}  // namespace nacre::shells
