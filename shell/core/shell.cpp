// SPDX-License-Identifier: Apache-2.0
#include "core/shell.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>

#include <fmt/format.h>

#include "base/current_call.hpp"
#include "base/guarded.hpp"
#include "core/exit_policy.hpp"
#include "core/initrc_check.hpp"
#include "core/misspelt_topics.hpp"
#include "core/shell_taskmap.hpp"
#include "core/unread_options.hpp"
#include "core/what_to_run.hpp"
#include "core/working_directory.hpp"
#include "job/option_types.hpp"
#include "join/leaving.hpp"
#include "join/lost_after.hpp"
#include "plugin/crash.hpp"
#include "plugin/plan.hpp"
#include "plugins/builtins.hpp"

namespace nacre::core {
namespace {

constexpr std::string_view kAfterAll = "*";  // before what a shell gives at the init barrier: start_after_all()
constexpr int kMaxVerbosity = 2;             // more has no effect, as in flux-shell(1)

Result<int> verbosity(const job::Options& options) {
  auto option = options.at("verbose");
  if (!option) return 0;
  if (option->json().is_boolean()) return option->json().get<bool>() ? 1 : 0;
  return static_cast<int>(TRY(option->integer(0, INT32_MAX)));
}

// What the shell does meanwhile, in its timeline.
class InPhase {
 public:
  InPhase(timeline::Recorder& recorder, std::string_view name) : recorder_(recorder), name_(name) {
    recorder_.add(timeline::Kind::phase_begins, name_);
  }
  ~InPhase() { recorder_.add(timeline::Kind::phase_ends, name_); }
  InPhase(const InPhase&) = delete;
  InPhase& operator=(const InPhase&) = delete;

 private:
  timeline::Recorder& recorder_;
  std::string_view name_;
};

// A standalone shell has no guard unless code is loaded that can end it without a word.
Result<void> guard_objects(bool is_standalone, const plugin::Stack& stack, join::ShellProcess& process,
                           Stragglers& stragglers) {
  auto is_object = [](const auto& plugin) { return plugin->origin().ends_with(".so"); };
  bool has_objects = std::any_of(stack.plugins().begin(), stack.plugins().end(), is_object);
  if (!is_standalone || process.guard || !has_objects) return {};
  process.guard = TRY(join::Guard::start(*process.children, join::Guard::Options{}));
  stragglers.spare(process.guard->pid());
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

// Takes it off the marks of all shells: whether one had it.
bool take_after_all(plugin::Gathered& marks) {
  plugin::Gathered without;
  bool any = false;
  for (const auto& [mark, shells] : marks) {
    bool has = mark.starts_with(kAfterAll);
    any = any || has;
    without[has ? mark.substr(kAfterAll.size()) : mark].insert(shells);
  }
  marks = std::move(without);
  return any;
}

}  // namespace

Shell::~Shell() {
  plugin::set_last_act(nullptr, nullptr);
  process_.signals->serve(nullptr);
  process_.launched_by.on_signal = nullptr;
  process_.launched_by.on_gone = nullptr;
  if (process_.group) group_->serve({});
}

Result<std::unique_ptr<Shell>> Shell::create(join::ShellProcess& process, boot::Identity identity,
                                             ShellConfig config, Log& log) {
  bool is_alike = !identity.standalone && identity.shell_rank != 0;
  auto what = what_to_run(identity, config, process.late ? &process.late->growth : nullptr);
  if (!what) {
    what.error().is_logged = is_alike;  // the leader logs it
    return std::move(what).error();
  }
  std::unique_ptr<Shell> shell(new Shell(process, std::move(identity), std::move(what->job),
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
  tasks_.unkillable().when_given_up([this](pid_t pid) { stragglers_.spare(pid); });
  begin_timeline();
  CHECK_OK(event::Children::become_subreaper());
  plugin::set_last_act([](void* shell) { static_cast<Shell*>(shell)->kill_tasks(SIGKILL); }, this);
  if (process_.launcher || process_.later)
    stragglers_.spare_shells(fmt::format("{}={}", job::kShellMark, job::shell_mark(job_.id, job_.shell_rank)));
  if (has_siblings()) CallPage::own().set_host(job_.resources.nodes[job_.shell_rank].hostname);
  serve_group();
  process_.signals->serve([this](int signum, join::Signals::From from) { on_signal(signum, from); });
  return {};
}

// Whether it is wanted, the plugin timeline reads; until then what happens is kept if the option is there at all.
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
  callbacks.on_exception = [this](const group::JobException& exception) { on_exception(exception); };
  callbacks.on_signal = [this](int signum, const group::Targets& tasks) {
    if (tasks) return tasks_.kill(signum, tasks);
    end_.sent_to_tasks(signum);
    kill_tasks(signum);
  };
  callbacks.on_announcement = [this](std::string_view topic, std::string_view bytes) {
    if (!shell_messages_.take(topic, bytes)) announced_to_.call(topic, bytes);
  };
  callbacks.on_lost = [this](group::Rank rank) {
    shell_messages_.lost(rank);
    grow_.lost(rank);
  };
  grow_.serve();
  callbacks.on_exec = [this](const value::ExecShare& share) { ordered_to_.call(share); };
  callbacks.on_cut_off = [this](const Error& why) { on_cut_off(why); };
  shrink_.serve(callbacks, grace_);
  callbacks.on_left = [this](const value::Idset& shells) {
    for (group::Rank rank : shells.ids()) shell_messages_.lost(rank);
  };
  shells_.notices().when_changed([this](const std::string& name, const Json& what) { return post(name, what); });
  shells_.all_tasks().when_first_ended([this](const exits::TaskEnd& end) {
    first_end_ = end;
    attempt(post_first_end());
  });
  shells_.serve(std::move(callbacks));
  if (!launched_) return;
  auto end = std::exchange(process_.launched_by.on_gone, nullptr);
  process_.launched_by.on_gone = [this, end = std::move(end)] {
    if (!launched_->gone()) end();
  };
  process_.launched_by.on_detach = [this] { launched_->leave(); };
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
  attempt(stragglers_.end(Stragglers::Of::all, *this, grace_));
  attempt(call("shell.exit"));
  loop().poll();  // a signal may have come meanwhile
  int code = leave_job();
  if (failure_) return *failure_;
  return code;
}

void Shell::prepare() {
  for (auto phase : {&Shell::load_plugins, &Shell::make_tasks, &Shell::initialize}) {
    attempt(caught([&] { return (this->*phase)(); }));
    if (stops_here()) return;
  }
}

Result<void> Shell::load_plugins() {
  config_.load_builtins(*this);
  CHECK_OK(run_initrc());
  CHECK_OK(plugins::load_chosen(*this));
  return guard_objects(standalone_, stack_, process_, stragglers_);
}

Result<void> Shell::run_initrc() {
  InPhase phase(process_.timeline, "initrc");
  std::optional<std::string> initrc = config_.initrc;
  if (auto option = options_.at("initrc"); option && !initrc) initrc = TRY(option->string());
  if (!initrc && !standalone_) {
    if (::access(config_.system_initrc.c_str(), F_OK) == 0)
      initrc = config_.system_initrc;
    else
      log_.log(Level::debug, "", "no initrc is read: there is no {}", config_.system_initrc);
  }
  bool has_mandatory = ::access(config_.mandatory_initrc.c_str(), F_OK) == 0;
  if (initrc || has_mandatory) interpreter_ = TRY(script::Interpreter::create(*this, config_.library));
  if (has_mandatory)
    CHECK_OK(interpreter_->run_file(config_.mandatory_initrc, script::Interpreter::FileOf::initrc));
  if (initrc) return interpreter_->run_file(*initrc, script::Interpreter::FileOf::initrc);
  if (options_.find("userrc") != nullptr) {
    log_.log(Level::warn, "", "userrc is not read: an initrc sources it, and none is loaded here");
  }
  return {};
}

Result<void> Shell::make_tasks() {
  job_.taskmap = TRY(chosen_taskmap(*this));
  exit_policy_ = TRY(chosen_exit_policy(options_, job_, environment_, log_));
  CHECK_OK(grow_.joining().take_state());
  return process_.joins_late ? Result<void>() : tasks_.make();
}

Result<void> Shell::initialize() {
  CHECK_OK(call_in_phase("shell.init"));
  shell_messages_.initialized();
  if (stops_here()) return {};
  if (shells_.leads()) {  // for all shells: they have the same options and plugins
    for (const std::string& each : misspelt_topics(stack_)) log_.log(Level::warn, "", "{}", each);
    CHECK_OK(report_unread_options(options_, job_.spec, log_));
  }
  CHECK_OK(join::set_lost_after(*group_, options_));
  CHECK_OK(replace_.serve());
  CHECK_OK(restart_.serve());
  CHECK_OK(grow_.joining().take_restarts());
  shells_.begin();
  // Before the working directory changes: the names of these files may be relative.
  std::string initrcs = shells_.may_have_others() ? TRY(initrc_mark(options_, interpreter_.get())) : "";
  CHECK_OK(enter_working_directory(job_.spec, options_, log_));
  CHECK_OK(pass_init_barrier(std::move(initrcs)));
  return post("shell.init", {{"service", info()["service"]}, {"leader-rank", 0}, {"size", job_.shells()}});
}

// Passes on with it which initrc files this shell has read, and whether tasks start after all shells are ready. All
// compare the files alike; if they differ, the leader ends the job.
Result<void> Shell::pass_init_barrier(std::string initrcs) {
  CHECK_OK(grow_.joining().check_initrcs(initrcs));
  if (shells_.leads()) grow_.set_initrcs(initrcs);
  if (!has_siblings()) {
    starts_after_all_ = false;
    shells_.barriers().pass(join::kInitBarrier);
    return {};
  }
  if (starts_after_all_) initrcs.insert(0, kAfterAll);
  auto marks = shells_.barriers().gather(join::kInitBarrier, std::move(initrcs));
  if (!marks) return {};
  starts_after_all_ = take_after_all(*marks);
  Result<void> same = compare_initrcs(*marks, job_, initrc_files(interpreter_.get(), config_.system_initrc));
  if (!same && !shells_.leads() && !grow_.joining().is_joining()) shells_.barriers().wait([] { return false; });
  return same;
}

// If the job is being ended no task is started any more, but the leader still puts out what the tasks of other
// shells have written.
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
  if (bulk::Port* port = group_->bulk()) port->serve_no_more();
  CHECK_OK(std::move(called));
  shells_.barriers().wait([this] { return start_holds_.empty(); });
  if (starts_after_all_ && !end_.is_ending()) shells_.barriers().pass(join::kReadyBarrier);
  return {};
}

Result<void> Shell::announce_start() {
  CHECK_OK(call_in_phase("shell.start"));
  shells_.barriers().pass(join::kStartBarrier);
  shells_.send_kept_signals();
  if (launched_ && shells_.barriers().has_passed(join::kStartBarrier)) launched_->tasks_run();
  CHECK_OK(post("shell.start", {{"taskmap", job_.taskmap.json()}}));
  if (shells_.barriers().has_passed(join::kStartBarrier)) restart_.answers().all_started();
  grow_.joining().ready();
  has_started_ = true;
  return post_first_end();
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
  if (job_.shell_rank == 0) attempt(call("shell.tasks-complete"));
  attempt(stragglers_.end(Stragglers::Of::tasks, *this, grace_,
                          [this](const std::vector<pid_t>& pids) { report_left(pids); }));
  loop().run_until([this] { return holds_.empty() || end_.is_killed(); });
  close_job();
}

// What has had the signal that has ended the tasks, as it was in their process groups, may still be about to end.
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
  if (!phase) fail(phase.error());
}

// A handler may have run for long, so events that came meanwhile count before the next step.
bool Shell::stops_here() {
  loop().poll();
  return end_.is_ending();
}

Result<void> Shell::print_plan() {
  for (const auto& task : tasks_.all()) CHECK_OK(tasks_.call_for(*task, "task.init"));
  auto given = TRY(merged_options(job_.spec, config_.options));
  Json mine = plugin::plan_part(*this, files_of(interpreter_.get()));
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
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

// Calls no topic, so it shows nothing that plugins would do in one.
Result<int> Shell::print_plugins() {
  config_.load_builtins(*this);
  std::set<std::string> builtins;
  for (const auto& plugin : stack_.plugins()) builtins.insert(plugin->name());
  options_ = job::Options(options_.json());  // nobody has asked for any of them yet
  Result<void> loaded = run_initrc();
  if (!loaded && !loaded.error().is_logged) return std::move(loaded).error();
  if (!loaded || end_.is_ending()) return own_code();
  std::string text = plugin::explain_plugins(*this, builtins, files_of(interpreter_.get()));
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

// ---- the parts of phases ---------------------------------------------------

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

}  // namespace nacre::core
