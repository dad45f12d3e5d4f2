// SPDX-License-Identifier: Apache-2.0
#include "core/shell.hpp"

#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/ranges.h>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/program.hpp"
#include "exits/policy.hpp"
#include "job/batch_system.hpp"
#include "job/environment.hpp"
#include "job/job.hpp"
#include "job/jobspec.hpp"
#include "job/option_table.hpp"
#include "job/options.hpp"
#include "join/leaving.hpp"
#include "launch/record.hpp"
#include "plugin/crash.hpp"
#include "plugin/host.hpp"
#include "plugin/plan.hpp"
#include "plugins/builtins.hpp"
#include "script/interpreter.hpp"

namespace nacre::core {

// ---- exit policy ------------------------------------------------------------------------
//
// Chooses the exit policy by the job's options and variables; see nacre-exits(7).

namespace {

using exits::Policy;
using Rank = value::Idset::Id;

constexpr const char* kRole = "BACKENDAI_CLUSTER_ROLE";
constexpr const char* kHost = "BACKENDAI_CLUSTER_HOST";

Result<value::Idset> ok_codes(const job::Options& options) {
  auto option = options.at("exit-ok");
  return option ? job::exit_codes_option(*option) : value::Idset();
}

Result<std::optional<Rank>> chosen_rank(const job::Options& options, const job::Job& job) {
  auto option = options.at("exit-main");
  if (!option) return std::optional<Rank>();
  auto most = static_cast<std::int64_t>(job.tasks()) - 1;
  return std::optional(static_cast<Rank>(TRY(option->integer(0, most))));
}

bool is_same(std::string_view one, std::string_view other) {
  return one.size() == other.size() && ::strncasecmp(one.data(), other.data(), one.size()) == 0;
}

std::string_view up_to_dot(std::string_view name) { return name.substr(0, name.find('.')); }

bool names_host(std::string_view name, std::string_view host) {
  return is_same(name, host) || is_same(up_to_dot(name), up_to_dot(host));
}

std::string variable(const job::Environment& environment, const char* name) {
  if (auto set = environment.get(name)) return std::string(*set);
  return own_variable(name).value_or("");
}

// Only the leader warns, for all shells.
std::optional<Rank> rank_of_main_host(const job::Job& job, const job::Environment& environment, Log& log) {
  Level level = job.leads() ? Level::warn : Level::debug;
  std::string host = variable(environment, kHost);
  if (host.empty() || !is_same(variable(environment, kRole), "main")) return {};
  for (std::uint32_t shell = 0; shell < job.shells(); ++shell) {
    if (!names_host(host, job.resources.nodes[shell].hostname)) continue;
    if (auto first = job.taskmap.ranks_on(shell).first()) return *first;
    log.log(level, "", "{}: host {} has no task of this job, so the main rank is 0", kHost, in_quotes(host));
    return {};
  }
  log.log(level, "", "{}: {} is no host of this job, so the main rank is 0", kHost, in_quotes(host));
  return {};
}

}  // namespace

// From exit-policy, exit-main, exit-ok and exit-class. Without exit-main, if BACKENDAI_CLUSTER_ROLE is "main" the
// main rank is the first task on the host BACKENDAI_CLUSTER_HOST; the variables are the job's, or else this
// process's. If that host is none of the job's, or has no task, this warns. `job` has its final taskmap.
Result<Policy> chosen_exit_policy(const job::Options& options, const job::Job& job,
                                  const job::Environment& environment, Log& log) {
  Policy::Kind kind = Policy::Kind::max;
  if (auto option = options.at("exit-policy")) {
    std::string name = TRY(option->string());
    auto known = Policy::kind_of(name);
    if (!known) return option->error(known.error().message);
    kind = *known;
  }
  std::optional<Rank> main = TRY(chosen_rank(options, job));
  bool needs_main = kind == Policy::Kind::main || kind == Policy::Kind::main_and_all;
  if (!main && needs_main) main = rank_of_main_host(job, environment, log);
  Policy out(kind, main.value_or(0), TRY(ok_codes(options)));
  if (auto option = options.at("exit-class")) {
    auto classes = exits::ExitClasses::parse(TRY(option->string()));
    if (!classes) return option->error(classes.error().message);
    out.set_classes(*classes);
  }
  return out;
}

// ---- initrc check -----------------------------------------------------------------------
//
// Whether all shells of a job have read the same initrc: a host with another one, or without, would run its tasks
// differently.

// What this shell has read, for the others: "off" with the option initrc-check=off, otherwise the fingerprints of
// the initrc and of the files of lua.d, separated by a blank. It is made when it is asked for. `interpreter`: null
// if there was no initrc.
using InitrcMark = std::function<std::string()>;

namespace {

constexpr const char* kOption = "initrc-check";
constexpr std::string_view kOff = "off";
constexpr std::string_view kNone = "-";  // the fingerprint of nothing

struct Mark {
  std::string_view initrc;
  std::string_view drop_ins;

  static Mark of(std::string_view text) {
    std::size_t blank = text.find(' ');
    if (blank == std::string_view::npos) return {text, ""};
    return {text.substr(0, blank), text.substr(blank + 1)};
  }
};

// "shell 1,3 on n[1,3]", or "shell 1,3" where R does not name all of these hosts.
std::string shells_text(const value::Idset& shells, const job::Job& job) {
  const value::Hostlist hosts = job::hosts_of(shells, job);
  if (hosts.size() < shells.size()) return "shell " + shells.short_str();
  return fmt::format("shell {} on {}", shells.short_str(), hosts.str());
}

std::string what_differs(const Mark& mark, const Mark& of_leader, const std::string& files) {
  if (mark.initrc == kNone) return fmt::format("has read none, and shell 0 has read {}", files);
  if (of_leader.initrc == kNone) return fmt::format("has read one, and shell 0 has no {}", files);
  return mark.initrc != of_leader.initrc ? "has another than shell 0" : "has other files in lua.d than shell 0";
}

}  // namespace

Result<InitrcMark> initrc_mark(const job::Options& options, const script::Interpreter* interpreter) {
  const InitrcMark off = [] { return std::string(kOff); };
  if (auto option = options.at(kOption); option && option->json() != "on") {
    if (option->json() == kOff || !TRY(options.flag(kOption))) return off;
  }
  return [interpreter, count = interpreter != nullptr ? interpreter->files().size() : 0] {
    Fingerprint initrc;
    Fingerprint drop_ins;
    for (std::size_t i = 0; i < count; ++i) {
      const script::Interpreter::File& file = interpreter->files()[i];
      if (file.of == script::Interpreter::FileOf::others) continue;
      Fingerprint& print = file.of == script::Interpreter::FileOf::initrc ? initrc : drop_ins;
      if (file.of == script::Interpreter::FileOf::drop_ins)
        print.add(std::filesystem::path(file.path).filename().native());
      print.add(file.text);
    }
    return fmt::format("{} {}", initrc.str(), drop_ins.str());
  };
}

// The initrc files that this shell has read; if none, `installed`, which it would have read.
std::string initrc_files(const script::Interpreter* interpreter, const std::string& installed) {
  std::vector<std::string> out;
  if (interpreter != nullptr) {
    for (const auto& file : interpreter->files()) {
      if (file.of == script::Interpreter::FileOf::initrc) out.push_back(file.path);
    }
  }
  return out.empty() ? installed : fmt::format("{}", fmt::join(out, " and "));
}

// Compares the marks of all shells: an error that names the hosts whose mark is not that of shell 0. `files`: what
// initrc_files() returns on shell 0, which logs the error; others only need to know that there is one.
Result<void> compare_initrcs(const plugin::Gathered& marks, const job::Job& job, const std::string& files) {
  std::string_view first;
  for (const auto& [text, shells] : marks) {
    if (shells.contains(0)) first = text;
  }
  if (first.empty() || first == kOff) return {};
  std::string differ;
  for (const auto& [text, shells] : marks) {
    if (text == first || text == kOff) continue;
    differ += fmt::format("{}{} {}", differ.empty() ? "" : "; ", shells_text(shells, job),
                          what_differs(Mark::of(text), Mark::of(first), files));
  }
  if (differ.empty()) return {};
  return invalid(fmt::format("initrc: {}: install the same on all hosts, or run with -o initrc-check=off", differ));
}

// ---- shell taskmap ----------------------------------------------------------------------
//
// The option `taskmap`: which plugin maps the tasks to the nodes.

namespace {

struct MapRequest {
  std::string scheme;
  std::string value;  // "": none
};

// {"scheme": S, "value": V}, as front ends write it, or "S", "S:V", as users type it.
Result<MapRequest> map_request(const JsonAt& option) {
  MapRequest request;
  if (option.json().is_string()) {
    request.scheme = TRY(option.string());
    if (std::size_t colon = request.scheme.find(':'); colon != std::string::npos) {
      request.value = request.scheme.substr(colon + 1);
      request.scheme.resize(colon);
    }
  } else {
    CHECK_OK(option.only_keys({"scheme", "value"}));
    request.scheme = TRY(TRY(option.at("scheme")).string());
    // A manual map may be JSON in place of text.
    if (auto value = TRY(option.find("value"))) {
      request.value = value->json().is_string() ? TRY(value->string()) : dump_json(value->json());
    }
  }
  if (request.scheme.empty()) return option.error("the scheme is empty");
  return request;
}

// Each task has to occur once, on the same nodes. A node may get more tasks than it has slots, as a map is meant to
// choose.
Result<value::Taskmap> checked(const std::string& text, const job::Job& job) {
  value::Taskmap map = TRY(value::Taskmap::parse(text));
  if (map.nodes() > job.nodes() && map.nodes() <= job.shells())
    return invalid(fmt::format("the map has tasks on node {}, which is a spare", map.nodes() - 1));
  CHECK_OK(map.same_size(job.taskmap));
  return map;
}

}  // namespace

// What a plugin answers to the topic `taskmap.SCHEME`, for the option's scheme: a complete map with the job's
// numbers of tasks and nodes. Without the option, the job's map.
Result<value::Taskmap> chosen_taskmap(plugin::Host& host) {
  const job::Job& job = host.job();
  auto option = host.options().at("taskmap");
  if (!option) return job.taskmap;
  MapRequest request = TRY(map_request(*option));
  plugin::Call call("taskmap." + request.scheme);
  call.in["taskmap"] = job.taskmap.str();
  call.in["scheme"] = request.scheme;
  call.in["value"] = request.value;
  if (TRY(host.stack().call(call)) == 0) {
    return Error{ENOENT,
                 fmt::format("taskmap: no plugin offers the scheme '{}'; nacre has block, cyclic, manual, hostfile",
                             request.scheme)};
  }
  auto text = TRY(TRY(JsonAt::root(call.out, call.topic).at("taskmap")).string());
  value::Taskmap map = TRY(in(call.topic, checked(text, job)));
  // Where tasks may share cores, the block map gives each node as many tasks as the others, whatever room it has.
  const std::uint64_t room = job.node().cores.size() / job.spec.cores_per_slot;
  const std::uint64_t before = std::max<std::uint64_t>(job.taskmap.tasks_on(job.shell_rank), room);
  std::uint32_t now = map.tasks_on(job.shell_rank);
  if (now > before) {
    host.log().log(Level::notice, "", "{}: {} tasks on node {}, where R has room for {}", call.topic, now,
                   job.shell_rank, before);
  }
  return map;
}

// ---- working directory ------------------------------------------------------------------
//
// The directory in which a job runs.

namespace {

constexpr const char* kFallbackDirectory = "/tmp";

}  // namespace

// Changes to the jobspec's directory; with the option cwd-fallback, and a warning, to /tmp if that fails.
Result<void> enter_working_directory(const job::Jobspec& spec, const job::Options& options, Log& log) {
  if (!spec.cwd || ::chdir(spec.cwd->c_str()) == 0) return {};
  Error why = system_error(errno, fmt::format("cannot change to directory {}", *spec.cwd));
  if (!TRY(options.flag("cwd-fallback"))) {
    why.message += fmt::format(" (attributes.system.cwd of the jobspec; with -o cwd-fallback the tasks run in {})",
                               kFallbackDirectory);
    return why;
  }
  log.log(Level::warn, "", "{}; using {} instead", why.message, kFallbackDirectory);
  if (::chdir(kFallbackDirectory) == 0) return {};
  return system_error(errno, fmt::format("cannot change to directory {}", kFallbackDirectory));
}

// ---- shell ------------------------------------------------------------------------------

namespace {

// Precedes what a shell gives at the init barrier: it has called start_after_all(), or follows the leader's events.
constexpr std::string_view kAfterAll = "*";
constexpr std::string_view kAsksForEvents = "!";
constexpr int kMaxVerbosity = 2;  // more has no effect, as in flux-shell(1)

bool is_there(const std::string& path) { return !path.empty() && ::access(path.c_str(), F_OK) == 0; }

Result<int> verbosity(const job::Options& options) {
  auto option = options.at("verbose");
  if (!option) return 0;
  if (option->json().is_boolean()) return option->json().get<bool>() ? 1 : 0;
  return static_cast<int>(TRY(option->integer(0, INT32_MAX)));
}

// How long another shell may be silent before it counts as lost.
Result<void> set_lost_after(group::Group& group, const job::Options& options) {
  constexpr double kLeast = 2;     // seconds: there is a beat each second
  constexpr double kMost = 86400;  // seconds: a day; a job must not wait for a lost shell for ever
  auto option = options.at("lost-after");
  if (!option) return {};
  double seconds = TRY(job::seconds_option(*option)).seconds();
  if (seconds < kLeast || seconds > kMost) return option->expected("a time of 2s to 1d");
  group.wait_for_silent(std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)));
  return {};
}

// What the shell does meanwhile, in its timeline.
class InPhase : Noncopyable {
 public:
  InPhase(timeline::Recorder& recorder, std::string_view name) : recorder_(recorder), name_(name) {
    recorder_.add(timeline::Kind::phase_begins, name_);
  }
  ~InPhase() { recorder_.add(timeline::Kind::phase_ends, name_); }

 private:
  timeline::Recorder& recorder_;
  std::string_view name_;
};

// A standalone shell has no guard unless it loads code that can end the process without a word.
Result<void> guard_objects(bool is_standalone, const plugin::Stack& stack, join::ShellProcess& process,
                           Stragglers& stragglers) {
  auto is_object = [](const auto& plugin) { return plugin->origin().ends_with(".so"); };
  bool has_objects = std::any_of(stack.plugins().begin(), stack.plugins().end(), is_object);
  if (!is_standalone || process.guard || !has_objects) return {};
  join::Guard::Options options;
  options.has_plugins = true;
  process.guard = TRY(join::Guard::start(*process.children, options));
  stragglers.exempt(process.guard->pid());
  return {};
}

timeline::Time nanoseconds(event::Seconds time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

// The Lua files that were run.
std::vector<std::string> files_of(const script::Interpreter* interpreter) {
  std::vector<std::string> files;
  if (interpreter == nullptr) return files;
  for (const auto& each : interpreter->files()) files.push_back(each.path);
  return files;
}

// Takes `beginning` off the marks of all shells. Returns whether one had it.
bool take_off(std::string_view beginning, plugin::Gathered& marks) {
  plugin::Gathered without;
  bool any = false;
  for (const auto& [mark, shells] : marks) {
    bool has = mark.starts_with(beginning);
    any = any || has;
    without[has ? mark.substr(beginning.size()) : mark].insert(shells);
  }
  marks = std::move(without);
  return any;
}

}  // namespace

Shell::Shell(join::ShellProcess& process, bool standalone, job::Job&& job, job::Options&& options,
             ShellConfig&& config, Log& log)
    : host_(make_host(*this)),
      process_(process),
      log_(log),
      config_(std::move(config)),
      standalone_(standalone),
      job_(std::move(job)),
      options_(std::move(options)),
      end_(process.end),
      holds_(process.timeline, timeline::Kind::end_hold_begins, timeline::Kind::end_hold_ends),
      start_holds_(process.timeline, timeline::Kind::hold_begins, timeline::Kind::hold_ends),
      exchange_(*process.group, job_, has_siblings() || process.group->bulk() != nullptr),
      tasks_(*host_, process.group.get()),
      shells_(*host_, process),
      shrink_(*host_, process.group.get(), shells_, tasks_, process.end),
      restart_(*host_, job_, shells_, shrink_, tasks_, process.end),
      grow_(*host_, job_, process, shells_, shrink_, restart_),
      resize_(*host_, job_, shells_, restart_),
      replace_(*host_, job_, shells_, shrink_, tasks_, restart_, grow_, resize_),
      ending_({*host_, process, config_, events_, holds_, exchange_, launcher_tie_, tasks_, shells_, shrink_,
               restart_, grow_}) {
  if (process.detachment) launcher_tie_.emplace(*host_, process, config_.detaches);
  for (const auto& [name, value] : job_.spec.environment) environment_.set(name, value);
  job::set_job_variables(environment_, job_, "");
  for (const auto& [name, value] : job::flux_variables(job_.id, own_variable)) environment_.set(name, value);
  // These variables came from the host where the job was submitted.
  if (auto uri = own_variable("FLUX_URI"); uri && environment_.get("FLUX_URI").value_or("").starts_with("local:"))
    environment_.set("FLUX_URI", *uri);
  if (environment_.get("HOSTNAME")) environment_.set("HOSTNAME", host_name());
}

Shell::~Shell() {
  plugin::set_last_act(nullptr, nullptr);
  process_.signals->serve(nullptr);
  process_.launcher_events.on_signal = nullptr;
  process_.launcher_events.on_agreed = nullptr;
  process_.launcher_events.on_gone = nullptr;
  if (process_.group) process_.group->serve({});
}

Result<std::unique_ptr<Shell>> Shell::create(join::ShellProcess& process, boot::Identity identity,
                                             ShellConfig config, Log& log) {
  bool is_reported_by_leader = !identity.standalone && identity.shell_rank != 0;
  auto what = what_to_run(identity, config, process.late ? &process.late->growth : nullptr);
  if (!what) {
    what.error().is_logged = is_reported_by_leader;
    return std::move(what).error();
  }
  if (process.joins_late) what->job.leader = process.group->leader();
  std::unique_ptr<Shell> shell(new Shell(process, identity.standalone, std::move(what->job),
                                         std::move(what->options), std::move(config), log));
  if (!what->sharing.empty()) log.log(Level::notice, "", "{}", what->sharing);
  CHECK_OK(shell->prepare_process());
  return shell;
}

Result<void> Shell::prepare_process() {
  config_.verbose = std::max(config_.verbose, TRY(verbosity(options_)));
  auto usual = static_cast<int>(Level::notice) + std::min(config_.verbose, kMaxVerbosity);
  log_.set_level(config_.quiet ? Level::warn : static_cast<Level>(usual));
  CHECK_OK(open_record());
  grace_ = event::Seconds(TRY(job::kill_timeout(options_)).seconds());
  CHECK_OK(tasks_.watch_signals(grace_));
  CHECK_OK(unkillable_timeout(options_));
  if (process_.guard) stragglers_.exempt(process_.guard->pid());
  tasks_.unkillable().when_given_up([this](pid_t pid) { stragglers_.exempt(pid); });
  begin_timeline();
  CHECK_OK(event::Children::become_subreaper());
  plugin::set_last_act([](void* shell) { static_cast<Shell*>(shell)->ending_.kill_tasks(SIGKILL); }, this);
  if (process_.launcher || process_.later)
    stragglers_.exempt_shells(fmt::format("{}={}", job::kShellMark, job::shell_mark(job_.id, job_.shell_rank)));
  if (has_siblings()) CallPage::own().set_host(job_.resources.nodes[job_.shell_rank].hostname);
  serve_group();
  process_.signals->serve([this](int signum, join::Signals::From from) { ending_.on_signal(signum, from); });
  return {};
}

// A plan that is only printed leaves no record.
Result<void> Shell::open_record() {
  bool runs = !config_.explain && !config_.explain_plugins;
  if (auto& directory = config_.record_directory; directory && runs) {
    if (::mkdir(directory->c_str(), 0777) < 0 && errno != EEXIST) {
      return system_error(errno, "--record-dir: " + *directory);
    }
    std::error_code failed;
    *directory = std::filesystem::absolute(*directory, failed).native();
    if (failed) return system_error(failed.value(), "cannot find the working directory");
    if (!config_.eventlog) config_.eventlog = *directory + "/guest.exec.eventlog";
  }
  bool records = job_.leads() || !has_siblings();
  return config_.eventlog && records ? events_.open(*config_.eventlog) : Result<void>();
}

// The plugin timeline reads whether it is wanted; until then events are kept if the option is there at all.
void Shell::begin_timeline() {
  timeline::Recorder& recorder = process_.timeline;
  if (options_.find("timeline") == nullptr) return;
  recorder.turn_on();
  if (!process_.launcher) return;
  for (const launch::Launcher::Start& each : process_.launcher->starts()) {
    recorder.add_at(nanoseconds(each.started), timeline::Kind::agent_starts, each.rank, each.program);
    recorder.add_at(nanoseconds(each.joined), timeline::Kind::agent_joined, each.rank);
  }
}

void Shell::serve_group() {
  group::Group::Callbacks callbacks;
  callbacks.on_exception = [this](const group::JobException& exception) { ending_.on_exception(exception); };
  callbacks.on_signal = [this](int signum, const group::Targets& tasks) {
    if (!tasks) {
      end_.sent_to_tasks(signum);
      process_.signals->note_sent(signum);
    }
    tasks ? tasks_.kill(signum, tasks) : ending_.kill_tasks(signum);
    tasks_.leave_out(signum, tasks);
  };
  if (!standalone_) events_.share(*process_.group, job_.leads(), process_.joins_late);
  callbacks.on_announcement = [this](std::string_view topic, std::string_view bytes) {
    Result<bool> taken = events_.take(topic, bytes);
    if (!taken) return attempt(in("an event of the job", std::move(taken).error()));
    if (!*taken) exchange_.announced(topic, bytes);
  };
  callbacks.on_leader = [this](group::Rank rank) { follow(rank); };
  callbacks.on_leading = [this] { lead(); };
  callbacks.on_half = [this](const value::Idset& others) { ask_launcher(others); };
  process_.launcher_events.on_agreed = [this](const value::Idset& shells) {
    process_.group->arbiter_agrees(shells);
  };
  callbacks.on_lost = [this](group::Rank rank) {
    exchange_.messages().lost(rank);
    grow_.lost(rank);
  };
  grow_.serve();
  callbacks.on_exec = [this](const value::ExecShare& share) { exchange_.ordered(share); };
  callbacks.on_cut_off = [this](const Error& why) { ending_.on_cut_off(why); };
  shrink_.serve(callbacks, grace_);
  callbacks.on_left = [this](const value::Idset& shells) {
    for (group::Rank rank : shells.ids()) exchange_.messages().lost(rank);
  };
  shells_.notices().when_changed(
      [this](const std::string& name, const Json& what) { return events_.post(name, what); });
  shells_.all_tasks().when_first_ended([this](const exits::TaskEnd& end) {
    ending_.first_has_ended(end);
    attempt(ending_.post_first_end());
  });
  shells_.serve(std::move(callbacks));
  if (!launcher_tie_) return;
  auto end = std::exchange(process_.launcher_events.on_gone, nullptr);
  process_.launcher_events.on_gone = [this, end = std::move(end)] {
    if (!launcher_tie_->gone()) end();
  };
  process_.launcher_events.on_detach = [this] { launcher_tie_->leave(); };
}

// ---- another leader --------------------------------------------------------

// The first leader asks the process that has started it; to another shell that process comes by itself. If it has
// left the job for good the leader needs no word.
void Shell::ask_launcher(const value::Idset& others) {
  log_.log(Level::debug, "", "half of the shells are left, without {}: the launcher says whether they go on",
           others.str());
  if (job_.leads()) {
    if (launcher_tie_ && launcher_tie_->is_detached()) return process_.group->arbiter_agrees(others);
    if (process_.launcher_events.ask) return process_.launcher_events.ask(others);
    const bool is_there = process_.launch_stream && !process_.launch_stream->has_hung_up();
    return is_there ? process_.group->arbiter_agrees(others) : void();
  }
  const bool is_first = !wanted_without_.has_value();
  wanted_without_ = others;
  if (launcher_agrees_) return process_.group->arbiter_agrees(others);
  if (!is_first) return;
  if (process_.tell_launcher)
    process_.tell_launcher(launch::Carriage::kWanted, launch::NextLeader::own().message());
  plugin::Call call("job.leader-wanted");
  if (Result<int> called = stack_.call(call); !called) attempt(std::move(called).error());
}

value::Idset Shell::launcher_agrees() {
  launcher_agrees_ = true;
  const value::Idset without = wanted_without_.value_or(value::Idset());
  process_.group->arbiter_agrees(without);
  return without;
}

// The loss of the one before is reported next.
void Shell::follow(group::Rank leader) {
  if (grow_.joining().is_joining()) {
    if (leader == job_.shell_rank) process_.group->resign();
    return host_->die(1, "", "the shell that led the job was lost while this one joined");
  }
  const group::Rank before = std::exchange(job_.leader, leader);
  shells_.note_leader(before);
  log_.log(Level::debug, "", "shell {}{} leads from now on, in place of shell {}", leader, on_node(leader), before);
  if (job_.leads()) attempt(prepare_to_lead());
  shrink_.follow();
  plugin::Call call("job.leader");
  const bool is_known = leader < job_.shells();
  call.in = {
      {"shell_rank", leader}, {"host", is_known ? job_.resources.nodes[leader].hostname : ""}, {"before", before}};
  if (Result<int> called = stack_.call(call); !called) attempt(std::move(called).error());
}

// A shell that has joined may not be known here yet.
std::string Shell::on_node(group::Rank shell) const {
  return shell < job_.shells() ? job_.resources.nodes[shell].on() : "";
}

// The former leader's events of the job are in their file already, if the file is on a file system that all hosts
// share. The job's starter does not read this shell's own output: what comes out here is kept in a file until
// somebody looks for it.
Result<void> Shell::prepare_to_lead() {
  events_.lead();
  grow_.listen();
  if (config_.eventlog) CHECK_OK(events_.open(*config_.eventlog, true));
  if (!process_.by_launcher) return {};
  if (process_.tell_launcher) process_.tell_launcher(launch::Carriage::kLeads, launch::NextLeader::own().message());
  process_.detachment = std::make_unique<join::Detachment>(job_.id);
  launcher_tie_.emplace(*host_, process_, false);
  return launcher_tie_->detach();
}

// All that the others know of their tasks is known here by now.
void Shell::lead() {
  if (!job_.leads()) return;  // it has joined too late to lead, and has resigned
  shells_.take_over();
  shrink_.take_over();
  restart_.take_over();
  ending_.take_over();
  grow_.lead();
  if (shells_.barriers().has_passed(join::kStartBarrier)) resize_.look_for_more();
  const group::Rank before = *shells_.former_leader();
  host_->raise({"leader-lost", 2,
                fmt::format("shell {}{}, which led the job, is lost: shell {}{} leads now", before, on_node(before),
                            job_.shell_rank, on_node(job_.shell_rank)),
                std::nullopt});
}

// ---- the phases ------------------------------------------------------------

Result<int> Shell::run() {
  if (config_.explain_plugins) return print_plugins();
  prepare();
  if (!config_.explain) {
    execute();
  } else if (!end_.is_ending()) {
    attempt(print_plan());
  }
  attempt(stragglers_.end(Stragglers::Which::all, *host_, grace_));
  attempt(call("shell.exit"));
  loop().poll();  // a signal may have come
  int code = ending_.leave_job();
  if (ending_.failure() && !process_.instance) return *ending_.failure();
  if (ending_.failure()) log_.log(Level::fatal, "", "{}", ending_.failure()->message);  // into the job's output
  return code;
}

void Shell::prepare() {
  for (auto phase : {&Shell::load_plugins, &Shell::make_tasks, &Shell::initialize}) {
    attempt(caught([&] { return (this->*phase)(); }));
    if (stops_here()) return;
  }
}

Result<void> Shell::load_plugins() {
  config_.load_builtins(*host_);
  // With an instance, names of files that an initrc, or its option, gives are relative to the job's directory.
  if (process_.instance) CHECK_OK(enter_working_directory(job_.spec, options_, log_));
  CHECK_OK(run_initrc());
  CHECK_OK(plugins::load_on_request(*host_));
  return guard_objects(standalone_, stack_, process_, stragglers_);
}

Result<void> Shell::run_initrc() {
  InPhase phase(process_.timeline, "initrc");
  std::optional<std::string> initrc = config_.initrc;
  if (auto option = options_.at("initrc"); option && !initrc) initrc = TRY(option->string());
  std::string more_drop_ins;
  if (!initrc && !standalone_) {
    if (is_there(config_.site_initrc)) {
      more_drop_ins = std::filesystem::path(config_.system_initrc).replace_filename("lua.d");
      config_.system_initrc = config_.site_initrc;
    }
    if (is_there(config_.system_initrc))
      initrc = config_.system_initrc;
    else
      log_.log(Level::debug, "", "no initrc is read: there is no {}", config_.system_initrc);
  }
  bool has_mandatory = is_there(config_.mandatory_initrc);
  if (initrc || has_mandatory)
    interpreter_ = TRY(script::Interpreter::create(*host_, config_.library, more_drop_ins));
  if (interpreter_ && config_.explain_plugins)
    interpreter_->compile_all();  // nacre initrc check names what is wrong
  if (has_mandatory)
    CHECK_OK(interpreter_->run_file(config_.mandatory_initrc, script::Interpreter::FileOf::initrc));
  if (initrc) {
    log_.log(Level::debug, "", "Loading {}", *initrc);
    return interpreter_->run_file(*initrc, script::Interpreter::FileOf::initrc);
  }
  if (options_.find("userrc") != nullptr) {
    log_.log(Level::warn, "", "userrc is not read: an initrc sources it, and none is loaded here");
  }
  return {};
}

// With the option health. Its plugin may have tasks of bad hosts moved, so nothing may be prepared for any task
// yet.
Result<void> Shell::check_hosts() {
  if (options_.find("health") == nullptr || process_.joins_late || config_.explain) return {};
  CHECK_OK(call_in_phase("shell.pre-init"));
  wait_for_start_holds();
  return {};
}

Result<void> Shell::make_tasks() {
  job_.taskmap = TRY(chosen_taskmap(*host_));
  CHECK_OK(check_hosts());
  exit_policy_ = TRY(chosen_exit_policy(options_, job_, environment_, log_));
  CHECK_OK(grow_.joining().take_state());
  if (!job_.resizes.empty()) job::set_size_variables(environment_, job_);
  return process_.joins_late ? Result<void>() : tasks_.make();
}

Result<void> Shell::initialize() {
  CHECK_OK(call_in_phase("shell.init"));
  exchange_.messages().initialized();
  if (stops_here()) return {};
  if (shells_.leads()) {  // for all shells: they have the same options and plugins
    for (const std::string& each : misspelt_topics(stack_)) log_.log(Level::warn, "", "{}", each);
    CHECK_OK(report_unread_options(options_, job_.spec, log_));
  }
  CHECK_OK(set_lost_after(*process_.group, options_));
  CHECK_OK(hand_over());
  CHECK_OK(replace_.serve());
  CHECK_OK(restart_.serve());
  CHECK_OK(resize_.serve());
  CHECK_OK(grow_.joining().take_restarts());
  shells_.begin();
  InitrcMark initrcs = [] { return ""; };
  if (shells_.may_have_others()) initrcs = TRY(initrc_mark(options_, interpreter_.get()));
  if (!process_.instance) CHECK_OK(enter_working_directory(job_.spec, options_, log_));
  CHECK_OK(pass_init_barrier(initrcs));
  return events_.post("shell.init", {{"service", host_->info()["service"]},
                                     {"leader-rank", process_.instance ? process_.instance->leader : 0},
                                     {"size", job_.shells()}});
}

// Called before the init barrier, as from then on the job depends on its leader.
Result<void> Shell::hand_over() {
  const auto [takes_over, is_followed, reports] = TRY(job::OnLeaderLost::read(options_));
  if (!takes_over && !shells_.leads()) process_.later.reset();
  if (!takes_over || !has_siblings()) return {};
  constexpr std::uint32_t kLeast = 3;
  const bool has_arbiter = is_followed && !TRY(job::outlives_launcher(options_));
  if (job_.shells() < kLeast && shells_.leads() && !has_arbiter)
    log_.log(Level::notice, "",
             "on-leader-lost=take-over needs three shells here: of two, the one that is left ends");
  // Where the job ends with its leader, a silent one is given more time, as it may go on.
  const job::OnLost on_lost = TRY(job::OnLost::read(options_));
  constexpr std::uint32_t kPatience = 3;
  process_.group->hand_over(has_arbiter, on_lost.replaces || on_lost.goes_on ? 1 : kPatience);
  process_.hands_over = true;
  grow_.listen();
  return {};
}

// Gives at the barrier which initrc files this shell has read, and whether tasks start only after all shells are
// ready. All shells compare the files alike; if they differ, the leader ends the job.
Result<void> Shell::pass_init_barrier(const std::function<std::string()>& mark) {
  CHECK_OK(grow_.joining().check_initrcs(mark));
  if (shells_.leads() || process_.hands_over) grow_.set_initrcs(mark);
  if (!has_siblings()) {
    starts_after_all_ = false;
    shells_.barriers().pass(join::kInitBarrier);
    return {};
  }
  std::string initrcs = mark();
  if (events_.has_asked()) initrcs.insert(0, kAsksForEvents);
  if (starts_after_all_) initrcs.insert(0, kAfterAll);
  auto marks = shells_.barriers().gather(join::kInitBarrier, std::move(initrcs));
  if (!marks) return {};
  starts_after_all_ = take_off(kAfterAll, *marks);
  events_.asked_by_then(take_off(kAsksForEvents, *marks));
  Result<void> same = compare_initrcs(*marks, job_, initrc_files(interpreter_.get(), config_.system_initrc));
  if (!same && !shells_.leads() && !grow_.joining().is_joining()) shells_.barriers().wait([] { return false; });
  return same;
}

// If the job is being ended no task is started any more, but the leader still puts out what tasks of other shells
// have written.
void Shell::execute() {
  // Shells that this one leads may have started tasks.
  auto others_may_run = [this] {
    return has_siblings() && shells_.leads() && shells_.barriers().has_passed(join::kInitBarrier);
  };
  auto is_over = [&] { return end_.is_ending() && !others_may_run(); };
  if (is_over()) return;
  attempt(caught([&] { return post_init(); }));
  loop().poll();
  if (is_over()) return;
  if (!end_.is_ending()) {
    InPhase phase(process_.timeline, timeline::kSpawnPhase);
    attempt(caught([&] { return restart_.start_tasks(); }));
  }
  if (!end_.is_ending()) attempt(caught([&] { return announce_start(); }));
  finish();
}

Result<void> Shell::post_init() {
  CHECK_OK(tasks_.raise_descriptor_limit());  // plugins open there what tasks get
  Result<void> called = call_in_phase("shell.post-init");
  shells_.report_losses();
  if (bulk::Port* port = process_.group->bulk()) port->serve_no_more();
  CHECK_OK(std::move(called));
  wait_for_start_holds();
  if (starts_after_all_ && !end_.is_ending()) shells_.barriers().pass(join::kReadyBarrier);
  return {};
}

Result<void> Shell::announce_start() {
  CHECK_OK(call_in_phase("shell.start"));
  shells_.barriers().pass(join::kStartBarrier);
  shells_.send_kept_signals();
  if (launcher_tie_ && shells_.barriers().has_passed(join::kStartBarrier)) launcher_tie_->tasks_run();
  CHECK_OK(events_.post("shell.start", {{"taskmap", job_.taskmap.json()}}));
  if (shells_.barriers().has_passed(join::kStartBarrier)) restart_.answers().all_started();
  grow_.joining().ready();
  ending_.has_started();
  return ending_.post_first_end();
}

// Also runs if the job is being ended: its tasks have been signalled by then.
void Shell::finish() {
  shells_.decide_losses();
  run_tasks();
  stand_by();
  restart_.finished();
  tasks_.unkillable().look_at_all();
  attempt(call_in_phase("shell.finish"));
  shells_.wait_for_all_tasks();
  grow_.stop();
  const bool leads = shells_.leads();
  if (leads) attempt(call("shell.tasks-complete"));
  attempt(stragglers_.end(Stragglers::Which::of_tasks, *host_, grace_,
                          [this](const std::vector<pid_t>& pids) { report_left(pids); }));
  loop().run_until([this] { return holds_.none() || end_.is_killed(); });
  ending_.close_job();
  // this shell has come to lead while it waited for the others
  if (leads || !shells_.leads()) return;
  attempt(call("shell.tasks-complete"));
  loop().run_until([this] { return holds_.none() || end_.is_killed(); });
}

// Processes that got the signal that has ended the tasks, as members of their process groups, may still be about to
// end.
void Shell::report_left(const std::vector<pid_t>& pids) {
  if (!stack_.listens("shell.processes-left")) return;
  std::set<pid_t> groups;
  if (end_.is_ending()) groups.insert(::getpgrp());
  for (const auto& task : tasks_.all()) {
    if (end_.is_ending()) groups.insert(task->pid());
  }
  plugin::Call call("shell.processes-left");
  call.in["processes"] = Stragglers::facts_of(pids, groups);
  if (call.in["processes"].empty()) return;
  if (Result<int> called = stack_.call(call); !called) attempt(std::move(called).error());
}

void Shell::attempt(Result<void> phase) {
  if (!phase) ending_.fail(phase.error());
}

// A handler may have run for long, so events that came meanwhile count before the next step.
bool Shell::stops_here() {
  loop().poll();
  return end_.is_ending();
}

Result<void> Shell::print_plan() {
  for (const auto& task : tasks_.all()) CHECK_OK(tasks_.call_for(*task, "task.init"));
  auto given = TRY(merged_options(job_.spec, config_.options));
  Json mine = plugin::plan_part(*host_, files_of(interpreter_.get()));
  std::map<std::uint32_t, Json> parts;
  if (has_siblings()) {
    auto all = shells_.barriers().gather("explain", dump_json(mine));
    if (!all || !shells_.leads()) return {};
    for (const auto& [part, shells] : *all) {
      Json parsed = TRY(parse_json(part));
      for (std::uint32_t each : shells.ids()) parts[each] = parsed;
    }
  } else {
    parts[job_.shell_rank] = std::move(mine);
  }
  std::string text = plugin::merged_plan(job_, {job_.spec.options, given.json(), config_.option_sources}, parts,
                                         !has_siblings(), config_.explain_detail);
  print_out(text);
  return {};
}

// Calls no topic, so it does not show what plugins would do in one.
Result<int> Shell::print_plugins() {
  config_.load_builtins(*host_);
  std::set<std::string> builtins;
  for (const auto& plugin : stack_.plugins()) builtins.insert(plugin->name());
  options_ = job::Options(options_.json());  // so that no option counts as read yet
  Result<void> loaded = run_initrc();
  if (!loaded && !loaded.error().is_logged) return std::move(loaded).error();
  if (!loaded || end_.is_ending()) return ending_.own_code();
  std::string text = plugin::explain_plugins(*host_, builtins, files_of(interpreter_.get()));
  print_out(text);
  return 0;
}

// ---- the parts of phases ---------------------------------------------------

void Shell::wait_for_start_holds() {
  shells_.barriers().wait([this] { return start_holds_.none(); });
}

Result<void> Shell::call_in_phase(std::string_view topic) {
  log_.log(Level::trace, "", "calls the plugins: {}", topic);
  InPhase phase(process_.timeline, topic);
  return call(topic);
}

Result<void> Shell::call(std::string_view topic) {
  plugin::Call call(topic);
  Result<int> called = stack_.call(call);
  if (!called) return std::move(called).error();
  return {};
}

// ---- running ----------------------------------------------------------------------------
//
// The time while tasks run: those of this shell, which may start again, and those of lost shells that come to it.

// Runs until the tasks have ended for good.
void Shell::run_tasks() {
  auto are_over = [this] {
    bool may_start = !restart_.is_idle() || replace_.is_due() || tasks_.may_start_next();
    return tasks_.running() == 0 && (!may_start || end_.is_ending());
  };
  for (;;) {
    loop().run_until([&] { return are_over() || (is_due() && !end_.is_ending()); });
    if (are_over()) return;
    start_due();
  }
}

// While all tasks of this shell are about to start again together, tasks that have come to it wait.
bool Shell::is_due() {
  return restart_.is_due() || (!restart_.is_together() && (replace_.is_due() || tasks_.may_start_next()));
}

// Tasks that have come while all were to start again start with them.
void Shell::start_due() {
  auto wait = [this] { wait_for_start_holds(); };
  while (restart_.is_due() && restart_.is_together() && replace_.is_due() && !end_.is_ending())
    attempt(replace_.take_over());
  if (restart_.is_due()) return attempt(restart_.start_due(wait));
  attempt(replace_.is_due() ? take_over() : restart_.start_tasks());
}

// For a shell without running tasks that may get some: waits until the tasks of all shells have ended, or it
// leaves.
void Shell::stand_by() {
  for (;;) {
    shells_.stand_by([this] { return shrink_.leaves() || is_due(); });
    if (!is_due() || end_.is_ending()) return;
    run_tasks();
  }
}

Result<void> Shell::take_over() {
  CHECK_OK(replace_.take_over());
  wait_for_start_holds();
  bool stands = !end_.is_ending() && !restart_.is_together() && !shrink_.leaves();
  return stands ? restart_.start_tasks() : Result<void>();
}

// ---- misspelt topics --------------------------------------------------------------------

std::vector<std::string> misspelt_topics(const plugin::Stack& stack) {
  std::vector<std::string> out;
  for (const auto& plugin : stack.plugins()) {
    if (plugin->origin() == "builtin") continue;
    for (const plugin::Plugin::Subscription& each : plugin->subscriptions()) {
      job::TopicJudgement judged = job::judge_topic(each.topic);
      if (judged.kind != job::TopicJudgement::Kind::misspelt) continue;
      out.push_back(fmt::format("plugin '{}' ({}) listens to '{}', which no shell ever calls; {}", plugin->name(),
                                plugin->origin(), each.topic, judged.advice()));
    }
  }
  return out;
}

// ---- unread options ---------------------------------------------------------------------

namespace {

constexpr const char* kSystem[] = {"cwd", "duration", "environment", "shell",
                                   "job", "files",    "batch"};  // what nacre reads
// What managers of Flux read.
constexpr const char* kManagers[] = {"queue",       "bank",   "project", "urgency",      "dependencies",
                                     "constraints", "alloc",  "exec",    "update",       "begin-time",
                                     "cores",       "pinned", "R",       "alloc-bypass", "preemptible-after"};

bool is_in(std::span<const char* const> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether the value is the same as no option at all.
bool asks_for_nothing(const Json& value) {
  return value == false || value == 0 || value == "off" || value == "none" || value == "false" || value == "0";
}

// The launchers of other managers take a file behind -o. `value`: of "out.log" it is {"log": true}, named "out".
std::string file_hint(std::string_view name, const Json& value) {
  constexpr const char* kEndings[] = {"txt", "out", "log", "err"};
  const bool has_ending = value.is_object() && value.size() == 1 && is_in(kEndings, value.begin().key());
  return has_ending || name.find('/') != std::string_view::npos
             ? "; nacre run has --output=FILE for a file of output"
             : "";
}

void add_options(std::vector<std::string>& out, const job::Options& options) {
  for (const auto& [name, value] : options.json().items()) {
    if (options.asked().contains(name)) continue;
    std::string_view file = job::file_that_reads(name);
    if (!file.empty() && !asks_for_nothing(value)) {
      out.push_back(
          fmt::format("the option {} has no effect: only {} of the installed initrc reads it, and this job's "
                      "initrc does not load that",
                      name, file));
      continue;
    }
    if (job::is_known_option(name)) continue;
    std::vector<std::string> names = job::known_options();
    names.insert(names.end(), options.asked().begin(), options.asked().end());
    const std::string hint = file_hint(name, value);
    out.push_back(
        fmt::format("no plugin reads the option {}{}", name, hint.empty() ? did_you_mean(name, names) : hint));
  }
}

// Members of attributes.system.
void add_members(std::vector<std::string>& out, const Json& document) {
  static const Json::json_pointer kPlace("/attributes/system");
  const Json& system = find_at(document, kPlace);
  if (!system.is_object()) return;
  const std::vector<std::string> names(std::begin(kSystem), std::end(kSystem));
  for (const auto& [name, unused] : system.items()) {
    if (is_in(kSystem, name) || is_in(kManagers, name)) continue;
    std::string meant = did_you_mean(name, names);
    if (!meant.empty()) out.push_back(fmt::format("jobspec: attributes.system.{} is not read{}", name, meant));
  }
}

}  // namespace

std::vector<std::string> unread_options(const job::Options& options, const job::Jobspec& spec) {
  std::vector<std::string> out;
  add_options(out, options);
  add_members(out, spec.document);
  return out;
}

Result<void> report_unread_options(const job::Options& options, const job::Jobspec& spec, Log& log) {
  bool is_strict = TRY(options.flag("strict"));
  for (const std::string& each : unread_options(options, spec)) {
    if (is_strict) return invalid(each + " (an error by -o strict)");
    log.log(Level::warn, "", "{}", each);
  }
  return {};
}

// ---- what to run ------------------------------------------------------------------------

namespace {

Result<std::optional<job::PerResource>> per_resource(const job::Options& options) {
  const Json* option = options.find("per-resource");
  if (option == nullptr) return std::optional<job::PerResource>();
  return std::optional<job::PerResource>(TRY(job::PerResource::from_json(*option)));
}

Result<job::Oversubscribe> oversubscription(const job::Options& options) {
  auto option = options.at("oversubscribe");
  if (!option) return job::Oversubscribe::no;
  return job::oversubscribe_of(*option);
}

}  // namespace

bool shares_cores(const job::Options& options) {
  return oversubscription(options).value_or(job::Oversubscribe::no) != job::Oversubscribe::no;
}

Result<job::Options> merged_options(const job::Jobspec& spec, const std::vector<std::string>& arguments) {
  job::Options options(spec.options);
  for (const std::string& each : arguments) CHECK_OK(in("-o " + each, options.set_from_argument(each)));
  return options;
}

Result<WhatToRun> what_to_run(boot::Identity& identity, const ShellConfig& config, const elastic::Growth* growth) {
  job::Options options = TRY(merged_options(identity.spec, config.options));
  auto spread = TRY(per_resource(options));
  auto oversubscribe = TRY(oversubscription(options));
  auto spares = TRY(job::spares_of(options));
  job::Job job =
      TRY(job::Job::create(identity.id, growth == nullptr ? identity.shell_rank : 0, std::move(identity.spec),
                           std::move(identity.resources), spread, oversubscribe != job::Oversubscribe::no, spares));
  if (TRY(options.flag("resize"))) CHECK_OK(job.allow_resizes());
  // Whoever has given an R has already taken what the job asks for; nodes offer, and a made-up machine has, all
  // they have.
  if (job.resources.is_made || options.find("pretend") != nullptr)
    job.take_what_was_asked(
        !spread && oversubscribe != job::Oversubscribe::share && plugins::binds_to_own_cores(options),
        oversubscribe != job::Oversubscribe::no);
  if (growth != nullptr) {
    std::vector<job::NodeResources> nodes;
    for (const elastic::Growth::Shell& each : growth->shells)
      nodes.push_back({0, each.hostname, each.cores, each.gpus, {}});
    job.grow(std::move(nodes));
    job.shell_rank = identity.shell_rank;
  }
  if (::getenv("FLUX_F58_FORCE_ASCII") != nullptr) job.has_ascii_id = true;
  std::string sharing;
  bool reports = oversubscribe == job::Oversubscribe::yes ||
                 (oversubscribe == job::Oversubscribe::share && config.at_terminal);
  if (reports && identity.shell_rank == 0) sharing = job::sharing_text(job.spec, job.resources, job.shares);
  return WhatToRun{std::move(options), std::move(job), std::move(sharing)};
}

}  // namespace nacre::core
