// SPDX-License-Identifier: Apache-2.0
#include "job/option_table.hpp"

#include "base/text.hpp"

namespace nacre::job {
namespace {

constexpr std::string_view kAnyName = "<NAME>";

constexpr OptionEntry kTable[] = {
    {"verbose", "integer", "0", "shell", "0 1 2", "log more: 1 for debug messages, 2 for a trace"},
    {"initrc", "file", "", "shell", "", "load the initrc from this file"},
    {"initrc-check", "switch", "on", "shell", "on off", "whether all shells have to have read the same initrc"},
    {"userrc", "file", "", "initrc.lua", "", "a file that the installed initrc sources at its end"},
    {"lua-timeout", "duration", "", "shell", "none 10s", "how long Lua may take for one call"},
    {"nosetpgrp", "switch", "off", "shell", "", "leave the tasks in the shell's process group"},
    {"kill-timeout", "duration", "5s", "shell", "5s 30s", "time between SIGTERM and SIGKILL when the job is ended"},
    {"unkillable-timeout", "duration", "60s", "shell", "60s 5m none",
     "time after SIGKILL until a task that does not end is given up"},
    {"cwd-fallback", "switch", "off", "shell", "", "run in /tmp where the working directory cannot be changed to"},

    {"taskmap", "object", "block", "taskmap", "block cyclic manual: hostfile:", "how ranks are given to nodes"},
    {"taskmap.scheme", "text", "block", "taskmap", "block cyclic hostfile manual", "how ranks are given to nodes"},
    {"taskmap.value", "text", "", "taskmap", "", "what the scheme takes"},
    {"per-resource.type", "text", "", "shell", "core node", "run tasks on each core or node of R"},
    {"per-resource.count", "integer", "1", "shell", "", "how many tasks on each of them"},

    {"spares", "integer", "0", "shell", "0 1 2", "so many of the last nodes of R are spares, without tasks"},

    {"resize", "switch", "off", "shell", "on off",
     "the job starts again on fewer or more nodes, as the jobspec's range has them, when hosts go or come"},

    {"multi-prog", "object", "", "multi-prog", "", "commands of several programs, each with its tasks"},
    {"arguments", "list", "", "mustache", "", "a text for each task, for the tag task.argument"},
    {"at-most", "text", "", "shell", "cores", "so many tasks run at the same time on each node"},
    {"ended-before", "object", "", "shell", "", "tasks that an earlier job has run, by how they have ended"},
    {"oversubscribe", "text", "off", "shell", "on off share", "tasks may share cores"},
    {"rpc-timeout", "duration", "60s", "shell", "none 60s 5m",
     "how long a handler of a plugin waits for another shell"},
    {"strict", "switch", "off", "shell", "on off", "an option that no plugin reads is an error"},
    {"wrap", "object", "", "wrap", "", "run tasks under another program"},
    {"container", "text", "off", "container", "off", "run the tasks in a container of this image"},
    {"container.image", "text", "off", "container", "off", "the same, beside other members"},
    {"container.bind", "list", "", "container", "", "folders and files of the host: SOURCE:TARGET[:ro]"},
    {"container.env", "list", "", "container", "", "variables that are as in the job, whatever the image has"},
    {"container.runtime", "text", "auto", "container", "auto podman apptainer enroot docker",
     "the program that makes the container"},

    {"cpu-affinity", "text", "on", "cpu-affinity",
     "on off per-task per-task:thread per-task:core per-task:l3 per-task:numa per-task:package map: verbose "
     "dry-run",
     "which cores tasks are bound to"},
    {"gpu-affinity", "text", "on", "gpu-affinity",
     "on off per-task closest prefer-closest map:", "which gpus tasks see"},
    {"mem-affinity", "text", "off", "mem-affinity", "bind prefer interleave off",
     "which NUMA nodes tasks have their memory from"},
    {"nic-affinity", "text", "off", "nic-affinity", "closest off", "name near network cards in the environment"},
    {"pretend", "text", "", "cpu-affinity", "", "the shape of the made-up machine that the nodes are taken for"},
    {"hwloc.xmlfile", "switch", "off", "hwloc", "", "write the node's topology to a file for the tasks"},
    {"hwloc.restrict", "switch", "off", "hwloc", "", "leave only the job's cores in that file"},

    {"rlimit.<NAME>", "integer", "", "rlimit", "", "a soft limit of the tasks; -1 is unlimited"},
    {"oom.adjust", "integer", "", "oom", "", "how ready the kernel is to kill the tasks, -1000 to 1000"},
    {"sched", "text", "", "scheduling", "batch other idle", "the policy by which the kernel schedules the tasks"},
    {"session", "text", "", "scheduling", "task shell", "whether each task leads a session of its own"},

    {"stop-tasks-in-exec", "switch", "off", "stop-tasks-in-exec", "",
     "tasks stand still before their first instruction"},
    {"rehearse", "text", "", "rehearse", "", "what is done to the job, to see what becomes of it"},
    {"rehearse-force", "switch", "off", "rehearse", "on off",
     "a rehearsal also where a manager has started the shells"},
    {"exit-policy", "text", "max", "shell", "max main all main+all first",
     "how the exit code follows from the tasks'"},
    {"exit-main", "integer", "0", "shell", "", "the main rank"},
    {"exit-ok", "codes", "", "shell", "", "exit codes that count as success, beside 0"},
    {"exit-class", "text", "", "shell", "", "exit codes for lost hosts, failed tasks and standstill"},
    {"exit-timeout", "duration", "30s", "exit-timeout", "none 30s 5m", "how long tasks have once one has ended"},
    {"exit-timeout.timeout", "duration", "30s", "exit-timeout", "none 30s 5m", "the same, beside other members"},
    {"exit-timeout.after", "text", "exit", "exit-timeout", "exit failure", "what begins that time"},
    {"time-limit", "duration", "", "time-limit", "none 10m 1h",
     "the job is ended when its tasks have run for this long"},
    {"exit-report", "text", "full", "exit-report", "off line full", "what is said of tasks that fail"},
    {"report", "file", "", "exit-report", "", "write the report as JSON"},
    {"usage", "file", "off", "usage", "on off", "measure tasks: print a summary, or write lines of JSON"},
    {"joblog", "file", "off", "usage", "on off", "write a line for each task, in the columns of GNU parallel"},
    {"usage-plot", "file", "off", "usage", "on off", "draw what tasks have used, as SVG"},
    {"usage-gpu", "switch", "off", "usage", "on off", "measure GPUs too, by nvidia-smi and rocm-smi"},
    {"cgroup", "text", "off", "usage", "off task", "a cgroup for each task, by which it is measured"},
    {"timeline", "file", "off", "timeline", "on off", "what happens when: print a summary, or write a trace"},
    {"control", "switch", "on", "control", "on off", "whether the job is in the list of jobs, and can be reached"},
    {"doctor.trace", "switch", "off", "doctor", "", "what the shell starts may trace the tasks"},
    {"hang-watch", "duration", "off", "doctor", "off 10m 10m,restart 10m,kill",
     "the job is examined if no task does anything for this long"},
    {"slow-watch", "duration", "off", "doctor", "off on 30s 30s,output:step",
     "which hosts and tasks are slower than the others, by windows of this length"},
    {"on-leader-lost", "text", "end", "shell", "end take-over",
     "what becomes of the job if its first shell is lost: another one leads, or it ends"},
    {"on-launcher-lost", "text", "end", "control", "end go-on", "what becomes of the job if its launcher goes"},
    {"attach.scrollback", "text", "1M", "control", "none 1M", "how much output is kept for nacre attach"},
    {"exit-notify", "file", "off", "exit-notify", "off", "write how tasks end as lines of JSON"},
    {"exit-notify.to", "file", "", "exit-notify", "", "the same, beside other members"},
    {"exit-notify.path", "file", "", "exit-notify", "", "the same, a file"},
    {"exit-notify.fd", "integer", "", "exit-notify", "", "the same, a descriptor"},
    {"exit-notify.threshold", "text", "1", "exit-notify", "1 10%", "how many failures before anything is written"},
    {"exit-on-error", "text", "off", "exit-on-error", "1 10% first off", "which failures end the job"},
    {"exit-on-error.when", "text", "1", "exit-on-error", "1 10% first", "the same, beside other members"},
    {"exit-on-error.ranks", "idset", "all", "exit-on-error", "", "only failures of these tasks count"},
    {"exit-on-error.codes", "codes", "", "exit-on-error", "", "only these exit codes count"},
    {"exit-on-error.grace", "duration", "0s", "exit-on-error", "", "the job ends so much later"},
    {"exit-on-error.then", "text", "end", "exit-on-error", "end note", "end the job, or only log it"},
    {"on-lost", "text", "end", "shell", "end go-on replace replace,else=end replace,else=go-on",
     "what becomes of the job if a shell with tasks is lost; replace: a spare starts them again"},
    {"restart", "text", "never", "shell",
     "never on-request on-failure always on-failure,max=10 on-failure,no-progress=3 on-failure,scope=node "
     "on-failure,scope=job on-failure,where=spare",
     "which tasks that have ended are started again"},
    {"tolerate-loss", "switch", "off", "shell", "", "the job goes on if a shell is lost: on-lost=go-on"},
    {"lost-after", "duration", "5s", "shell", "5s 30s 2m", "how long a shell may be silent"},
    {"signal", "object", "off", "signal", "", "signal the tasks before the job's time is over"},
    {"signal.signum", "text", "SIGUSR1", "signal", "SIGUSR1 SIGUSR2 SIGTERM", "which signal"},
    {"signal.timeleft", "duration", "60s", "signal", "60s 5m", "how long before"},

    {"pmi", "list", "simple,pmi2", "pmi", "simple pmi2 pmix off", "the interfaces that tasks are offered"},
    {"pmi.use", "list", "", "pmi", "simple pmi2 pmix off", "the same, beside other members"},
    {"pmi.explain", "switch", "off", "pmi", "", "name the PMI calls of each task"},
    {"pmi.hang-report", "duration", "60s", "pmi", "off 60s 5m",
     "name the tasks that are missing when a barrier lasts this long"},
    {"pmi.max-size", "size", "64M", "pmi", "", "what the keys may have in all"},
    {"pmi.library", "switch", "off", "pmi", "", "programs that load libpmi.so or libpmi2.so find nacre's first"},
    {"pmi.groups", "switch", "on", "pmi", "", "offer PMI 1.2, whose barriers can be of some tasks"},
    {"pmi.universe", "text", "", "pmi", "system infinite",
     "MPI_UNIVERSE_SIZE, by default how many tasks there is room for"},
    {"pmi.port", "switch", "off", "pmi", "",
     "tasks connect by PMI_PORT, for those that lose the descriptor PMI_FD"},
    {"pmi-simple.nomap", "switch", "off", "pmi", "", "leave out the keys PMI_process_mapping and flux.taskmap"},
    {"pmi-simple.kvs", "text", "", "pmi", "exchange native", "taken for the sake of Flux's"},
    {"pmi-simple.exchange.k", "integer", "", "pmi", "", "taken for the sake of Flux's"},
    {"fault-tolerance", "switch", "off", "pmi", "", "a task that is lost after PMI init does not end the job"},
    {"fault-tolerance.signal", "text", "", "pmi", "", "the same, and the others are sent this signal"},

    {"stage-in", "switch", "off", "stage-in", "", "extract the archive main before tasks start"},
    {"stage-in.names", "list", "main", "stage-in", "", "which archives"},
    {"stage-in.tags", "list", "main", "stage-in", "", "the same, deprecated, as older versions of Flux have it"},
    {"stage-in.pattern", "text", "", "stage-in", "", "only paths that match this glob"},
    {"stage-in.destination", "text", "", "stage-in", "local: global:", "where to"},
    {"stage-in.overwrite", "switch", "off", "stage-in", "", "replace files that are there already"},
    {"stage-in.max-size", "size", "100G", "stage-in", "", "the most content that is extracted"},
    {"stage-in.dir", "directory", "", "stage-in", "", "where the archives are"},

    {"health", "text", "off", "health", "off quick pairs",
     "look at each host before tasks start: a bad one is left out, or ends the job"},
    {"health.checks", "text", "quick", "health", "off quick pairs", "the same, beside other members"},
    {"health.command", "text", "", "health", "", "a command of your own: exit code 0 is a healthy host"},
    {"health.pair-command", "text", "", "health", "", "a command that pairs of hosts run, with pairs"},
    {"health.timeout", "duration", "5s", "health", "5s 30s 1m", "how long each check may take"},
    {"health.wait", "duration", "10s", "health", "10s 1m", "how long others may still use the GPUs"},
    {"health.on-bad", "text", "end", "health", "end warn",
     "what becomes of the job where no spare takes the tasks"},

    {"elastic.manager", "text", "auto", "elastic", "auto off", "gives the nodes of shells that have left back"},
    {"prolog", "command", "", "hooks", "", "run before the first task of each node"},
    {"epilog", "command", "", "hooks", "", "run after the last task of each node"},
    {"task-prolog", "command", "", "hooks", "", "run before each task"},
    {"task-epilog", "command", "", "hooks", "", "run after each task"},
    {"prolog.command", "command", "", "hooks", "", "the same, beside other members"},
    {"prolog.timeout", "duration", "none", "hooks", "", "how long it may take"},
    {"epilog.command", "command", "", "hooks", "", "the same, beside other members"},
    {"epilog.timeout", "duration", "none", "hooks", "", "how long it may take"},
    {"task-prolog.command", "command", "", "hooks", "", "the same, beside other members"},
    {"task-prolog.timeout", "duration", "none", "hooks", "", "how long it may take"},
    {"task-epilog.command", "command", "", "hooks", "", "the same, beside other members"},
    {"task-epilog.timeout", "duration", "none", "hooks", "", "how long it may take"},

    {"coprocess.<NAME>.command", "command", "", "coprocess", "", "run a program beside the tasks on each node"},
    {"coprocess.<NAME>.output", "file", "coproc-NAME-{{id}}.log", "coprocess", "", "where its output goes"},
    {"coprocess.<NAME>.ranks", "idset", "all", "coprocess", "all", "the shells that run it"},
    {"coprocess-kill-timeout", "duration", "10s", "coprocess", "", "their time between SIGTERM and SIGKILL"},
    {"rexec-shutdown-timeout", "duration", "60s", "instance", "", "that of the commands of flux exec --jobid"},

    {"sysmon", "switch", "off", "sysmon", "", "log the memory and the load of the job on each node"},
    {"sysmon.period", "duration", "2s", "sysmon", "", "how often samples are taken"},

    {"omp-threads", "text", "", "omp-threads.lua", "per-task", "how many OpenMP threads a task starts"},
    {"slurm-variables", "switch", "on", "slurm-variables", "on off",
     "in an allocation of Slurm tasks have what srun would give them"},
    {"torch", "switch", "off", "torch", "", "set what PyTorch's distributed programs need"},
    {"torch.port", "integer", "", "torch", "", "the port that they meet at"},
    {"torch.store", "text", "", "torch", "shells rank0", "who serves the store by which they meet"},
    {"failure-summary", "switch", "off", "failure-summary.lua", "", "print how tasks have failed, and where"},
    {"failure-summary.file", "file", "", "failure-summary.lua", "", "append that to a file"},
    {"scratch", "switch", "off", "scratch.lua", "", "a directory for large files while the job runs"},
    {"scratch.dir", "directory", "", "scratch.lua", "", "below which directory"},
    {"scratch.min", "size", "", "scratch.lua", "", "the room that it has to have"},
    {"node-health", "switch", "off", "node-health.lua", "", "look at each node before tasks start"},
    {"node-health.memory", "size", "64M", "node-health.lua", "", "the memory that has to be available"},
    {"node-health.disk", "size", "16M", "node-health.lua", "", "the room that TMPDIR has to have"},
    {"node-health.gpus", "integer", "", "node-health.lua", "", "the gpus that have to be there"},
    {"node-health.links", "list", "", "node-health.lua", "", "the network cards that have to be up"},
    {"node-health.then", "text", "end", "node-health.lua", "end note", "end the job, or only log it"},
    {"mpi", "text", "none", "mpi/*.lua", "openmpi openmpi@5 mpich intel mvapich spectrum none",
     "what a certain MPI needs"},
    {"vmstat", "switch", "off", "vmstat.lua", "", "run vmstat(8) beside the tasks"},
    {"vmstat.output", "file", "vmstat-{{id}}-{{node.id}}.log", "vmstat.lua", "", "where its output goes"},

    {"env-expand.<NAME>", "text", "", "mustache", "", "a variable of the tasks, rendered"},

    {"pty", "switch", "off", "pty", "", "give tasks a pseudo-terminal"},
    {"pty.ranks", "idset", "all", "pty", "all", "only these tasks"},
    {"pty.capture", "switch", "on", "pty", "true false", "whether what they write comes out"},
    {"pty.interactive", "switch", "off", "pty", "", "join the terminal of task 0 to that of the shell"},

    {"output.stdout.type", "list", "term", "output", "term file kvs", "where standard output comes out"},
    {"output.stdout.path", "file", "", "output", "", "a template of the file that it goes to"},
    {"output.stdout.label", "text", "off", "output", "", "put the task's rank, or this, before each line"},
    {"output.stdout.timestamps", "text", "none", "output", "iso unix none", "put the time before each line"},
    {"output.stdout.format", "text", "text", "output", "text json", "how lines are written"},
    {"output.stdout.buffer.type", "text", "line", "output", "line block none", "what is written at a time"},
    {"output.stderr.type", "list", "term", "output", "term file kvs", "where standard error comes out"},
    {"output.stderr.path", "file", "", "output", "", "a template of the file that it goes to"},
    {"output.stderr.label", "text", "off", "output", "", "put the task's rank, or this, before each line"},
    {"output.stderr.timestamps", "text", "none", "output", "iso unix none", "put the time before each line"},
    {"output.stderr.format", "text", "text", "output", "text json", "how lines are written"},
    {"output.stderr.buffer.type", "text", "line", "output", "line block none", "what is written at a time"},
    {"output.mode", "text", "truncate", "output", "truncate append", "what becomes of a file that is there"},
    {"output.mkdir", "switch", "off", "output", "", "make the directories of files that are not there"},
    {"output.direct", "text", "auto", "output", "auto on off",
     "whether tasks write to files of their own themselves"},
    {"label-io", "switch", "off", "output", "", "put the task's rank before each line"},
    {"output.fold", "switch", "off", "output", "on off ranks hosts", "print equal lines of several tasks once"},
    {"output.events", "switch", "off", "output", "", "all that comes out is lines of JSON, the job's events too"},
    {"output.ranks", "idset", "all", "output", "all", "print only these tasks"},
    {"output.limit", "size", "", "output", "", "cut each stream after so many bytes"},
    {"output.overflow", "text", "block", "output", "block spill drop", "what happens when the reader is slow"},
    {"output.spill-limit", "size", "1G", "output", "", "how much is spilled"},
    {"output.batch-timeout", "duration", "", "output", "", "taken for the sake of Flux's"},
    {"output.drain-timeout", "duration", "10s", "output", "", "how long processes that tasks left are waited for"},

    {"input.stdin.type", "text", "service", "input", "service file", "where standard input comes from"},
    {"input.stdin.path", "file", "", "input", "", "a template of the file that it comes from"},
    {"input.ranks", "idset", "all", "input", "all", "which tasks get it"},
    {"input.limit", "size", "", "input", "", "cut it after so many bytes"},
    {"input.when-left", "text", "open", "input", "open end", "what becomes of it when its owner goes"},
    {"input.batch-timeout", "duration", "", "input", "", "taken for the sake of Flux's"},
};

// Options that are no switches, but take 1: the first failure, "on", a level.
constexpr std::array<std::string_view, 19> kTakeOne{
    "verbose", "oversubscribe", "cpu-affinity", "gpu-affinity", "health", "exit-report", "exit-on-error",
    "exit-on-error.when", "exit-notify.threshold", "usage", "timeline", "per-resource.count", "output.stdout.label",
    "output.stderr.label", "output.stdout.timestamps", "output.stderr.timestamps",
    // any text, so also 1
    "taskmap.value", "stage-in.pattern", "env-expand.<NAME>"};

struct Expected {
  std::string_view type;
  std::string_view what;
  std::string_view value;
};
constexpr Expected kExpected[] = {
    {"duration", "a time, such as 30s or 1.5h", "TIME"},
    {"size", "a number of bytes, such as 4096 or 10M", "SIZE"},
    {"integer", "a number", "N"},
    {"idset", "ranks, such as 0-3,7", "RANKS"},
    {"codes", "exit codes, such as 77 or 64-78,99", "CODES"},
    {"list", "a list, with commas between", "LIST"},
    {"file", "the name of a file", "FILE"},
    {"directory", "the name of a directory", "DIR"},
    {"command", "a command", "COMMAND"},
    {"text", "a value", "TEXT"},
};

// Whether `name` is `entry`, or its beginning, piece by piece.
bool stands_for(std::string_view entry, std::string_view name) {
  std::vector<std::string_view> of_entry = split(entry, '.');
  std::vector<std::string_view> of_name = split(name, '.');
  if (of_name.size() > of_entry.size()) return false;
  for (std::size_t i = 0; i < of_name.size(); ++i) {
    if (of_entry[i] != kAnyName && of_entry[i] != of_name[i]) return false;
  }
  return true;
}

}  // namespace

std::span<const OptionEntry> option_table() { return kTable; }

std::vector<std::string> known_options() {
  std::vector<std::string> names;
  for (const OptionEntry& each : kTable) {
    std::string top(split(each.name, '.').front());
    if (std::find(names.begin(), names.end(), top) == names.end()) names.push_back(std::move(top));
  }
  return names;
}

bool is_known_option(std::string_view name) {
  return std::any_of(std::begin(kTable), std::end(kTable),
                     [&](const OptionEntry& each) { return stands_for(each.name, name); });
}

std::string_view file_that_reads(std::string_view name) {
  for (const OptionEntry& each : kTable) {
    const std::string_view owner = each.owner;
    if (stands_for(each.name, name) && owner.ends_with(".lua")) return owner;
  }
  return "";
}

std::string missing_value(std::string_view name) {
  for (const OptionEntry& each : kTable) {
    std::string_view type = each.type;
    if (split(each.name, '.').size() != split(name, '.').size() || !stands_for(each.name, name)) continue;
    if (std::find(kTakeOne.begin(), kTakeOne.end(), each.name) != kTakeOne.end()) return "";
    for (const auto& [of_type, what, value] : kExpected) {
      if (of_type != type) continue;
      std::string_view words = each.values;
      std::string known = words.empty() ? "" : fmt::format(" ({})", fmt::join(split(words, ' '), ", "));
      return fmt::format("expected {}{}: -o {}={}", what, known, name, value);
    }
    return "";
  }
  return "";
}

// ---- topics -----------------------------------------------------------------------------

namespace {

using Judged = TopicJudgement::Kind;

constexpr std::array kCalled = {"job.input",         "launcher.report",    "job.slow",
                                "shell.init",        "shell.post-init",    "task.init",
                                "task.exec",         "task.fork",          "shell.start",
                                "task.exit",         "shell.finish",       "shell.tasks-complete",
                                "shell.exit",        "shell.log",          "shell.log-setlevel",
                                "hwloc.xml",         "hwloc.cores",        "hwloc.topology",
                                "affinity.plan",     "shell.lost",         "job.tasks-exited",
                                "job.report",        "job.usage",          "job.listed",
                                "output.open",       "pmi.connected",      "report.note",
                                "doctor.note",       "doctor.hang",        "shell.processes-left",
                                "shell.left",        "job.shrinking",      "shell.resource-update",
                                "job.tasks-moved",   "shell.take-over",    "rehearse.event",
                                "job.tasks-restart", "shell.restart",      "pmi.restart",
                                "shell.joined",      "pmi.spawned",        "usage.gpus",
                                "pmi.spawn",         "pmi.spawning",       "pmi.spawn-begins",
                                "pmi.spawn-started", "pmi.spawn-exited",   "pmi.spawn-settled",
                                "pmi.spawns-over",   "shell.not-replaced", "pmi.processes",
                                "shell.unkillable",  "job.leader",         "shell.pre-init",
                                "shell.health",      "job.health",         "job.resized",
                                "job.leader-wanted"};
constexpr std::array kNotCalled = {"shell.connect", "shell.reconnect"};
constexpr std::array kFamilies = {"taskmap.", "mustache.render."};
constexpr std::array kRealms = {"shell.", "task."};  // all topics that begin so are known
constexpr std::array kGlobs = {"shell.*", "task.*", "shell.log*", "taskmap.*", "mustache.render.*"};

// Topics that may be meant by `topic`: for a glob, other globs come first.
std::vector<std::string> topics_like(const std::string& topic) {
  std::vector<std::string> out;
  if (is_glob(topic)) out.assign(kGlobs.begin(), kGlobs.end());
  out.insert(out.end(), kCalled.begin(), kCalled.end());
  std::string front = topic.substr(0, topic.rfind('.') + 1);
  const std::vector<std::string> families(kFamilies.begin(), kFamilies.end());
  if (auto family = nearest(front, families)) out.push_back(*family + topic.substr(front.size()));
  return out;
}

template <typename List>
bool any_matches(const List& list, const std::string& topic) {
  return std::any_of(list.begin(), list.end(), [&](const char* each) {
    return topic == each || (is_glob(topic) && glob_match(topic, each));
  });
}

template <typename List>
bool any_begins(const List& list, const std::string& topic) {
  return std::any_of(list.begin(), list.end(), [&](const char* each) { return topic.starts_with(each); });
}

}  // namespace

TopicJudgement judge_topic(const std::string& topic) {
  if (any_matches(kCalled, topic) || any_begins(kFamilies, topic)) return {Judged::called};
  if (any_matches(kNotCalled, topic)) return {Judged::never_called};
  std::optional<std::string> near = nearest(topic, topics_like(topic));
  if (near || any_begins(kRealms, topic)) return {Judged::misspelt, near.value_or("")};
  return {is_glob(topic) ? Judged::matches_none : Judged::unknown};
}

std::string TopicJudgement::advice() const {
  if (nearest.empty()) return "nacre-shell-plugins(7) has all topics";
  return fmt::format("did you mean {}?", in_quotes(nearest));
}

}  // namespace nacre::job
