// SPDX-License-Identifier: Apache-2.0
#include "shells/plan.hpp"

#include <unistd.h>

#include "shells/options.hpp"
#include "value/duration.hpp"

namespace nacre::shells {
namespace {

constexpr std::uint64_t kMostLines = 40, kLastWords = 1000, kManyLines = 250, kLongLine = 8000;
constexpr Nanoseconds kUsual = 20 * kSecond;  // less than the exit-timeout after the first end

Nanoseconds draw_time(Random& random, Nanoseconds longest) {
  switch (random.in(0, 3)) {
    case 0: return 0;
    case 1: return static_cast<Nanoseconds>(random.in(0, 20)) * kMillisecond;
    case 2: return static_cast<Nanoseconds>(random.in(0, 2000)) * kMillisecond;
    default: return static_cast<Nanoseconds>(random.in(0, static_cast<std::uint64_t>(longest / 4)));
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

// The barriers are among the task's other acts.
std::vector<TaskAct> draw_acts(const Plan& plan, const std::string& task, Random& random) {
  std::vector<TaskAct> out;
  std::uint64_t numbers[3] = {0, 0, 0};
  std::uint64_t acts = random.in(0, 6);
  std::uint32_t barriers = plan.barriers;
  if (barriers > 0) out.push_back({TaskAct::Kind::init});
  for (; acts > 0 || barriers > 0; acts -= acts > 0 ? 1 : 0) {
    if (random.one_in(2)) out.push_back({TaskAct::Kind::sleep, draw_time(random, plan.longest)});
    if (barriers > 0 && (acts == 0 || random.one_in(2))) {
      out.push_back({TaskAct::Kind::barrier});
      --barriers;
    }
    if (acts == 0) continue;
    int stream = random.one_in(4) ? 2 : 1;
    out.push_back({TaskAct::Kind::write, 0, stream, lines_of(task, stream, numbers[stream], random)});
  }
  if (plan.barriers > 0 && !random.one_in(40)) out.push_back({TaskAct::Kind::finalize});
  const bool is_given_up = plan.has_option("output.drain-timeout=0s");  // leftovers are given up at once
  if (random.one_in(is_given_up ? 2 : 10)) out.push_back({TaskAct::Kind::leave});
  Nanoseconds slept = 0;
  for (TaskAct& each : out) {
    each.nanoseconds = std::min(each.nanoseconds, plan.longest - slept);
    slept += each.nanoseconds;
  }
  return out;
}

// All numbers, names and tables of the arguments, in order of their names.
std::string witness_script() {
  return R"(
local function text (value)
  if type (value) ~= "table" then return tostring (value) end
  local names = {}
  for name in pairs (value) do names[#names + 1] = name end
  table.sort (names, function (a, b) return tostring (a) < tostring (b) end)
  local out = {}
  for _, name in ipairs (names) do out[#out + 1] = tostring (name) .. "=" .. text (value[name]) end
  return "{" .. table.concat (out, " ") .. "}"
end
local function note (topic, arguments)
  local is_of_task = topic:find ("^task%.")
  local rank = is_of_task and task.info.rank or "-"
  local file = io.open (")" +
         witness_file() + R"(", "a")
  file:write (shell.info.rank, " ", topic, " ", rank, " ", is_of_task and "-" or text (arguments), "\n")
  file:close ()
  if topic == "task.exit" then shell.log ("the end of task " .. rank .. " is seen") end
end
local handlers = {}
for _, topic in ipairs {"shell.init", "shell.post-init", "task.fork", "task.exit", "shell.finish", "shell.exit", "shell.lost",
                        "shell.left", "shell.joined", "shell.not-replaced", "job.tasks-moved", "job.tasks-restart",
                        "job.resized", "job.shrinking", "shell.resource-update"} do
  handlers[#handlers + 1] = {topic = topic, fn = note}
end
plugin.register {name = "witness", handlers = handlers}
)";
}

TaskScript draw_task(const Plan& plan, const std::string& task, Random& random) {
  TaskScript out;
  out.acts = draw_acts(plan, task, random);
  out.ignores_term = random.one_in(8);
  if (random.one_in(plan.has_order(Order::Kind::shrink) ? 2 : 8))
    out.code_at_term = static_cast<int>(random.in(0, 3));
  std::uint64_t number = kLastWords;
  if (out.code_at_term >= 0 && !random.one_in(4)) out.last_words = lines_of(task, 1, number, random);
  // Writes more than all buffers hold, while its shell is to leave, or the reader is slow.
  if (plan.slow_reader && plan.has_order(Order::Kind::shrink) && random.one_in(3)) {
    std::string much;
    for (std::uint64_t each = 0; each < kManyLines; ++each)
      much += fmt::format("{} out {} {}\n", task, kLastWords + kLastWords + each, std::string(kLongLine, 'x'));
    out.acts.push_back({TaskAct::Kind::write, 0, 1, std::move(much)});
  }
  // Output that is there when the end is seen.
  if (plan.overlaps && plan.witness) out.acts.push_back({TaskAct::Kind::write, 0, 2, task + " err last\n"});
  if (plan.all_succeed)
    out.acts.push_back({TaskAct::Kind::exit});
  else if (random.one_in(10))
    out.acts.push_back({TaskAct::Kind::signal, 0, 1, "", random.one_in(2) ? SIGSEGV : SIGKILL});
  else
    out.acts.push_back({TaskAct::Kind::exit, 0, 1, "", random.one_in(4) ? static_cast<int>(random.in(1, 255)) : 0});
  return out;
}

// Faults come at any time of a job, but more often while it comes together or ends.
Fault draw_fault(const Plan& plan, Random& random) {
  constexpr std::uint64_t kMostSteps = 400;
  constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  Fault out;
  out.kind = static_cast<Fault::Kind>(random.in(0, 7));
  out.signum = kSignals.at(random.in(0, kSignals.size() - 1));
  out.step = random.one_in(2) ? random.in(1, 60 * std::uint64_t{plan.shells}) : random.in(1, kMostSteps);
  // If the job grows, also the shells that have come.
  const std::uint32_t more = plan.has_order(Order::Kind::grow) ? 2 : 0;
  out.shell = static_cast<std::uint32_t>(random.in(0, plan.shells - 1 + more));
  if (out.kind == Fault::Kind::signal && random.one_in(2)) out.shell = 0;
  if (out.kind == Fault::Kind::end_task) out.shell = static_cast<std::uint32_t>(random.in(0, plan.ranks() - 1));
  out.length = static_cast<Nanoseconds>(random.in(1, random.one_in(2) ? 1000 : 60'000)) * kMillisecond;
  if (random.one_in(8)) out.length = static_cast<Nanoseconds>(random.in(1, 180)) * kMinute;  // as good as lost
  out.with_later = random.one_in(2);
  return out;
}

Order draw_order(const Plan& plan, Random& random) {
  constexpr std::array kLooks{"status", "exits", "report", "usage", "ps", "plan", "details", "doctor", "cancel"};
  constexpr std::array kSignals{SIGTERM, SIGUSR1, SIGKILL, SIGCONT};
  Order out;
  out.kind = static_cast<Order::Kind>(random.in(0, 4));
  out.after = draw_time(random, plan.longest);
  bool is_of_shells = out.kind == Order::Kind::shrink || out.kind == Order::Kind::grow;
  if (out.kind == Order::Kind::grow || (is_of_shells && random.one_in(3)))
    out.count = static_cast<std::uint32_t>(random.in(1, 2));
  // Also shells that may join later, and some that never will.
  std::uint64_t last = is_of_shells ? plan.shells + 1 : plan.ranks() - 1;
  for (std::uint64_t more = random.in(is_of_shells ? 1 : 0, 2); more > 0 && out.count == 0; --more)
    out.of.push_back(static_cast<std::uint32_t>(random.in(is_of_shells && !random.one_in(12) ? 1 : 0, last)));
  std::sort(out.of.begin(), out.of.end());
  out.of.erase(std::unique(out.of.begin(), out.of.end()), out.of.end());
  out.grace = static_cast<Nanoseconds>(random.in(0, 2500)) * kMillisecond;
  out.all = random.one_in(4);
  out.signum = kSignals.at(random.in(0, kSignals.size() - 1));
  if (out.kind == Order::Kind::look) out.what = kLooks.at(random.in(0, kLooks.size() - (random.one_in(4) ? 1 : 2)));
  return out;
}

// A shell that has tasks.
Order draw_leaving(const Plan& plan, Random& random) {
  Order out;
  out.kind = Order::Kind::shrink;
  out.after = draw_time(random, plan.longest);
  out.of.push_back(static_cast<std::uint32_t>(random.in(1, plan.shells - plan.spares - 1)));
  out.grace = static_cast<Nanoseconds>(random.in(500, 2500)) * kMillisecond;
  return out;
}

Failure draw_failure(const Plan& plan, Random& random) {
  constexpr std::array kTopics{"shell.init", "shell.post-init", "task.init",  "task.fork",           "shell.start",
                               "task.exit",  "shell.finish",    "shell.exit", "shell.tasks-complete"};
  Failure out;
  out.topic = kTopics.at(random.in(0, kTopics.size() - 1));
  if (out.topic != "shell.tasks-complete")
    out.shell = static_cast<std::uint32_t>(random.in(0, plan.shells - plan.spares - 1));
  out.dies = random.one_in(2);
  return out;
}

void add_option(Plan& plan, const std::string& option) {
  if (plan.value_of(option.substr(0, option.find('='))).empty()) plan.options.push_back(option);
}

void draw_large_size(Plan& plan, const PlanLimits& limits, Random& random) {
  plan.shells = static_cast<std::uint32_t>(random.in((limits.shells + 1) / 2, limits.shells));
  plan.arity = static_cast<std::uint32_t>(random.in(2, 16));
  if (plan.shells > 1 && random.one_in(4))
    plan.spares = static_cast<std::uint32_t>(random.in(1, (plan.shells + 1) / 3));
  plan.all_succeed = random.one_in(2);
  plan.longest = kUsual;
}

void draw_size(Plan& plan, const PlanLimits& limits, Random& random) {
  constexpr std::uint64_t kMostTasks = 20;  // more than are started at once
  constexpr std::uint32_t kUsualShells = 4, kManyShells = 8;
  if (limits.large) return draw_large_size(plan, limits, random);
  const std::uint32_t most = random.one_in(40) ? limits.shells : random.one_in(10) ? kManyShells : kUsualShells;
  plan.shells = static_cast<std::uint32_t>(random.in(1, std::min(most, limits.shells)));
  plan.tasks_per_shell = static_cast<std::uint32_t>(
      plan.shells > kUsualShells ? random.in(1, 2) : random.in(1, random.one_in(12) ? kMostTasks : 4));
  plan.arity = static_cast<std::uint32_t>(random.in(2, 3));
  if (plan.shells > 1 && random.one_in(4))
    plan.spares = static_cast<std::uint32_t>(random.in(1, (plan.shells + 1) / 3));
  plan.all_succeed = random.one_in(3);
  if (random.one_in(6)) plan.barriers = static_cast<std::uint32_t>(random.in(1, 4));
  constexpr Nanoseconds kHour = 60 * kMinute;
  plan.longest = !random.one_in(5) ? kUsual
                 : plan.shells > 2 ? 2 * kMinute
                 : plan.shells > 1 ? 10 * kMinute
                                   : 24 * kHour;
}

// Options that need each other, or say how many shells there are.
void draw_changes(Plan& plan, Random& random) {
  if (plan.spares > 0) {
    plan.options.push_back("spares=" + std::to_string(plan.spares));
    if (!random.one_in(3) && plan.value_of("tolerate-loss").empty())
      add_option(plan, random.one_in(3) ? "on-lost=replace,else=go-on" : "on-lost=replace");
    const bool may_move =
        plan.value_of("on-lost").starts_with("replace") && plan.value_of("fault-tolerance").empty();
    if (may_move && random.one_in(3)) add_option(plan, "restart=on-failure,max=3,where=any");
  }
  if (random.one_in(5)) {
    for (std::uint64_t more = random.in(1, 3); more > 0; --more) plan.orders.push_back(draw_order(plan, random));
  }
  if (plan.shells - plan.spares > 1 && random.one_in(8)) {
    plan.orders.push_back(draw_leaving(plan, random));
    plan.slow_reader = plan.slow_reader || random.one_in(2);
  }
  if (plan.has_order(Order::Kind::restart) && !random.one_in(4)) add_option(plan, "restart=on-request");
  if (!plan.orders.empty())
    std::erase_if(plan.options, [](const std::string& each) { return each.starts_with("control="); });
  if (random.one_in(12)) plan.failure = draw_failure(plan, random);
  plan.witness = random.one_in(plan.overlaps ? 2 : 6);
  if (plan.failure || plan.witness) plan.options.push_back("initrc=" + job_folder() + "/rc.lua");
  bool has_pmi = plan.value_of("pmi").empty() || plan.has_option("pmi=simple");
  if (!has_pmi) plan.barriers = 0;
  constexpr std::array kRestarts{"restart=on-failure,max=3", "restart=on-failure,max=3,scope=job",
                                 "restart=on-request"};
  if (random.one_in(12) && plan.value_of("fault-tolerance").empty()) {
    add_option(plan, kRestarts.at(random.in(0, kRestarts.size() - 1)));
    add_option(plan, "exit-timeout=none");
  }
  if (!plan.value_of("restart").empty()) add_option(plan, "output.stdout.label=on");  // whose a line is
  if (plan.value_of("restart").find("scope=job") != std::string::npos)
    std::erase_if(plan.options, [](const std::string& each) { return each.starts_with("at-most="); });
  if (random.one_in(6)) add_option(plan, "exit-notify=" + job_folder() + "/notices");
  if (random.one_in(8)) add_option(plan, "prolog=exit 0");
  if (random.one_in(6)) add_option(plan, "output.drain-timeout=0s");
  if (!random.one_in(8)) add_option(plan, "report=" + job_folder() + "/report");
}

// The leader is lost, and perhaps also the next one. The job has no other faults; its output and reports are in
// files that all shells have.
void draw_hand_over(Plan& plan, Random& random) {
  constexpr std::uint64_t kMostShells = 8, kMostSteps = 600;
  const std::string folder = job_folder();
  plan.hands_over = true;
  plan.shells = static_cast<std::uint32_t>(random.in(4, kMostShells));
  plan.tasks_per_shell = static_cast<std::uint32_t>(random.in(1, 3));
  plan.spares = plan.barriers = 0;
  plan.longest = kUsual;
  plan.slow_reader = plan.witness = false;
  plan.orders.clear();
  plan.failure.reset();
  constexpr std::array kPlaces{"o", "o.{{task.rank}}", "o.{{node.id}}"};
  plan.options = {"cpu-affinity=off",
                  "on-leader-lost=take-over",
                  "on-lost=go-on",
                  "exit-timeout=none",
                  "output.stdout.type=file",
                  "output.stdout.path=" + folder + "/" + kPlaces.at(random.in(0, 2)),
                  "output.stderr.type=file",
                  "output.stderr.path=" + folder + "/e",
                  "report=" + folder + "/report",
                  "joblog=" + folder + "/joblog"};
  if (random.one_in(2)) plan.options.push_back("exit-notify=" + folder + "/notices");
  if (random.one_in(2)) {
    plan.spares = static_cast<std::uint32_t>(random.in(1, 2));
    plan.options[2] = "on-lost=replace,else=go-on";
    plan.options.push_back("spares=" + std::to_string(plan.spares));
    if (random.one_in(3)) plan.options.emplace_back("restart=on-failure,max=3,scope=job,backoff=10ms");
  } else if (random.one_in(3)) {
    plan.least = static_cast<std::uint32_t>(random.in(1, plan.shells));
    plan.most = plan.shells + 1;
    plan.options[2] = "on-lost=replace";
    plan.options.insert(plan.options.end(), {"resize=on", "restart=on-failure,max=3,scope=job,backoff=10ms"});
  }
  Fault fault;
  fault.step = random.in(1, random.one_in(2) ? 60 * std::uint64_t{plan.shells} : kMostSteps);
  plan.faults = {fault};
  if (plan.shells < 6 || !random.one_in(3)) return;  // more than half have to be left of each view
  fault.shell = 1;
  fault.step += random.in(1, kMostSteps / 2);
  plan.faults.push_back(fault);
}

// Half of these jobs grow, and some shrink, before, while and after their leader is lost. It also has its own
// random numbers.
void draw_sizes(Plan& plan, Random random) {
  if (random.one_in(2)) return;
  // More than half have to be left, even if shells that are about to join end with the leader.
  bool may_shrink = plan.shells > 2 * (plan.faults.size() + 1);
  const std::uint64_t most = std::min<std::uint64_t>(2, plan.shells - 2 * plan.faults.size() - 1);
  for (std::uint64_t more = random.in(1, 2); more > 0; --more) {
    Order order;
    order.kind = may_shrink && random.one_in(3) ? Order::Kind::shrink : Order::Kind::grow;
    if (order.kind == Order::Kind::shrink) may_shrink = false;
    order.after = draw_time(random, plan.longest);
    order.count = static_cast<std::uint32_t>(order.kind == Order::Kind::grow ? random.in(1, most) : 1);
    order.grace = static_cast<Nanoseconds>(random.in(0, 2500)) * kMillisecond;
    order.all = random.one_in(4);
    plan.orders.push_back(order);
  }
}

// A job that starts again with fewer tasks when shells are lost, and with more when others come. It has its own
// random numbers, so that the rest of a seed does not depend on it.
void draw_resize(Plan& plan, Random random) {
  const bool may = plan.shells > 1 && plan.spares == 0 && !plan.hands_over;
  if (!may || !random.one_in(6)) return;
  constexpr std::array kOthers{"taskmap",         "exit-main", "at-most",       "input.ranks",
                               "output.ranks",    "on-lost",   "tolerate-loss", "exit-policy",
                               "fault-tolerance", "restart",   "exit-on-error", "on-leader-lost"};
  std::erase_if(plan.options, [&](const std::string& option) {
    return std::any_of(kOthers.begin(), kOthers.end(), [&](const char* each) { return option.starts_with(each); });
  });
  plan.least = static_cast<std::uint32_t>(random.in(1, plan.shells));
  plan.most = plan.shells + static_cast<std::uint32_t>(random.in(plan.least == plan.shells ? 1 : 0, 2));
  plan.options.insert(plan.options.end(), {"resize=on", "on-lost=replace",
                                           fmt::format("restart=on-failure,max={},scope=job,backoff={}",
                                                       random.in(1, 5), random.one_in(2) ? "10ms" : "0s")});
  if (plan.value_of("exit-timeout").empty()) plan.options.emplace_back("exit-timeout=none");
  add_option(plan, "output.stdout.label=on");
  plan.all_succeed = plan.all_succeed || random.one_in(2);
  if (!plan.faults.empty() && !random.one_in(3)) {  // losses only
    constexpr std::uint64_t kMostSteps = 400;
    for (Fault& each : plan.faults) {
      each = Fault();
      each.step = random.in(60 * std::uint64_t{plan.shells}, 60 * std::uint64_t{plan.shells} + kMostSteps);
      each.shell = static_cast<std::uint32_t>(random.in(random.one_in(4) ? 0 : 1, plan.most - 1));
    }
    plan.failure.reset();
    plan.orders.clear();
    std::erase_if(plan.options, [](const std::string& each) { return each.starts_with("initrc="); });
    if (plan.witness) plan.options.push_back("initrc=" + job_folder() + "/rc.lua");
  }
  if (random.one_in(2)) {
    Order grow;
    grow.kind = Order::Kind::grow;
    grow.after = draw_time(random, plan.longest);
    grow.count = static_cast<std::uint32_t>(random.in(1, 2));
    plan.orders.push_back(grow);
    std::erase_if(plan.options, [](const std::string& each) { return each.starts_with("control="); });
  }
}

}  // namespace

std::string job_folder() {
  static const std::string path = "/dev/shm/nacre-shells." + std::to_string(::getpid());
  return path;
}

TaskScript Plan::script(std::uint32_t rank, std::uint32_t start) const {
  Random random(seed * 1'000'003 + rank * 1009 + start);
  TaskScript out = draw_task(*this, task_mark(rank, start), random);
  out.start = start;
  constexpr std::uint64_t kRarely = 80;
  if (!all_succeed && random.one_in(kRarely)) out.exec_error = random.one_in(2) ? ENOENT : EACCES;
  return out;
}

TaskScript Plan::hook(std::uint64_t number) const {
  Random random(seed * 7919 + number);
  constexpr Nanoseconds kMost = 3 * kSecond;
  Nanoseconds time = random.one_in(3) ? static_cast<Nanoseconds>(random.in(0, kMost)) : 0;
  return TaskScript{0, 0, {{TaskAct::Kind::sleep, time}, {TaskAct::Kind::exit}}};
}

Newcomer Plan::newcomer(std::uint32_t shell) const {
  Random random(seed * 7907 + shell);
  Newcomer out;
  if (hands_over) return out;
  if (random.one_in(3)) out.fate = random.one_in(2) ? Newcomer::Fate::never_comes : Newcomer::Fate::is_killed;
  out.after = static_cast<Nanoseconds>(random.in(0, random.one_in(2) ? 200 : 5000)) * kMillisecond;
  return out;
}

std::string task_mark(std::uint32_t rank, std::uint32_t start) {
  return "task " + std::to_string(rank) + "." + std::to_string(start);
}

std::string Plan::value_of(std::string_view option) const {
  for (const std::string& each : options) {
    if (each.size() > option.size() && each.starts_with(option) && each[option.size()] == '=')
      return each.substr(option.size() + 1);
  }
  return "";
}

Nanoseconds Plan::time_of(std::string_view option, Nanoseconds usual) const {
  std::string text = value_of(option);
  if (text.empty()) return usual;
  if (text == "none") return kNever;
  auto time = value::Duration::parse(text);
  if (!time) throw Defect{text + " is no time"};
  return static_cast<Nanoseconds>(time->seconds() * static_cast<double>(kSecond));
}

std::optional<std::uint32_t> Plan::most_restarts() const {
  constexpr std::string_view kMax = ",max=";
  constexpr std::uint32_t kUsualMost = 3;
  std::string text = value_of("restart");
  if (text.empty() || text.starts_with("never") || text.starts_with("on-request")) return std::nullopt;
  std::size_t at = text.find(kMax);
  if (at == std::string::npos) return kUsualMost;
  return static_cast<std::uint32_t>(std::atoi(text.c_str() + at + kMax.size()));
}

std::string witness_file() { return job_folder() + "/witness"; }

std::string Plan::initrc() const {
  std::string out = witness ? witness_script() : "";
  if (!failure) return out;
  return out + fmt::format(
                   "plugin.register {{ name = \"simulated\", handlers = {{ {{ topic = \"{}\", fn = function ()\n"
                   "  if shell.info.rank == {} then {} (\"the initrc fails\") end\nend }} }} }}\n",
                   failure->topic, failure->shell, failure->dies ? "shell.die" : "error");
}

bool Plan::has_option(const std::string& text) const {
  return std::find(options.begin(), options.end(), text) != options.end();
}

bool Plan::has_fault(Fault::Kind kind) const {
  return std::any_of(faults.begin(), faults.end(), [&](const Fault& each) { return each.kind == kind; });
}

bool Plan::has_order(Order::Kind kind) const {
  return std::any_of(orders.begin(), orders.end(), [&](const Order& each) { return each.kind == kind; });
}

std::string Plan::text() const {
  std::string out = fmt::format("{} shells, {} of them spares, {} tasks on each other, arity {}", shells, spares,
                                tasks_per_shell, arity);
  if (resizes()) out += fmt::format(", -N {}:{}", least, most);
  if (barriers > 0) out += fmt::format(", {} barriers", barriers);
  for (const std::string& each : options) out += " -o " + each;
  if (slow_reader) out += ", a slow reader";
  if (witness) out += ", a witness";
  if (failure) out += fmt::format("; the initrc fails in {} of shell {}", failure->topic, failure->shell);
  for (const Order& each : orders) out += "; " + text_of(each);
  for (const Fault& each : faults) out += "; " + text_of(each);
  return out;
}

std::string text_of(const Fault& fault) {
  constexpr std::array kKinds{"kill shell",        "stop shell", "cut a link of shell", "SIGTERM to the leader",
                              "the launcher goes", "kill task",  "a signal to shell",   "divide shell"};
  std::string out = kKinds.at(static_cast<std::size_t>(fault.kind));
  bool is_leaders = fault.kind == Fault::Kind::terminate || fault.kind == Fault::Kind::hang_up;
  if (!is_leaders) out += fmt::format(" {}", fault.shell);
  if (fault.kind == Fault::Kind::divide)
    out += fmt::format("{} from the others for {} ms", fault.with_later ? " and later ones" : "",
                       fault.length / kMillisecond);
  if (fault.kind == Fault::Kind::signal) out += fmt::format(", SIG{},", ::sigabbrev_np(fault.signum));
  return out + fmt::format(" at step {}", fault.step);
}

std::string text_of(const Order& order) {
  std::string whom =
      order.count > 0 ? fmt::format("{} shells", order.count) : fmt::format("{}", fmt::join(order.of, ","));
  if (whom.empty()) whom = "all";
  switch (order.kind) {
    case Order::Kind::shrink: return "shrink by " + whom;
    case Order::Kind::grow: return "grow by " + whom + (order.all ? ", or none" : "");
    case Order::Kind::restart: return "restart of tasks " + whom;
    case Order::Kind::kill: return fmt::format("SIG{} to tasks {}", ::sigabbrev_np(order.signum), whom);
    case Order::Kind::look: return order.what;
  }
  return "";
}

Plan make_plan(std::uint64_t seed, const PlanLimits& limits) {
  Random random(seed);
  Plan out;
  out.seed = seed;
  out.overlaps = limits.overlaps;
  draw_size(out, limits, random);
  if (random.one_in(2)) out.most_delay = static_cast<Nanoseconds>(random.in(1, 50)) * kMillisecond;
  if (random.one_in(2)) out.most_pause = static_cast<Nanoseconds>(random.in(10, 2000)) * 1000;
  out.slow_reader = random.one_in(4);
  out.options = draw_options(random, job_folder());
  draw_changes(out, random);
  if (limits.hands_over) {
    draw_hand_over(out, random);
    draw_sizes(out, Random(seed * 6151 + 1));
    return out;
  }
  if (limits.faults > 0) {
    for (std::uint64_t left = random.in(1, limits.faults); left > 0; --left)
      out.faults.push_back(draw_fault(out, random));
    if (out.has_fault(Fault::Kind::kill) && out.spares == 0 && random.one_in(3) &&
        out.value_of("tolerate-loss").empty())
      add_option(out, "on-lost=go-on");
  }
  draw_resize(out, Random(seed * 6133 + 1));
  return out;
}

}  // namespace nacre::shells
