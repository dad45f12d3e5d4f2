// SPDX-License-Identifier: Apache-2.0
#include "shell_program.hpp"

#include <sys/prctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/process_stat.hpp"
#include "boot/index_keys.hpp"
#include "broker/instance.hpp"
#include "cli/shell_arguments.hpp"
#include "core/shell.hpp"
#include "group/alone.hpp"
#include "job/job.hpp"
#include "join/carried_channels.hpp"
#include "join/join.hpp"
#include "join/leaving.hpp"
#include "launch/own_sockets.hpp"
#include "plugin/crash.hpp"
#include "plugins/builtins.hpp"
#include "version.hpp"

namespace {

using namespace nacre;        // NOLINT
using namespace nacre::core;  // NOLINT
using namespace nacre::join;  // NOLINT

constexpr std::size_t kShortTitle = std::string_view("nacre-shell: f1234567890ab 0/1").size();

// A terminal that is lent to a task takes all as it is.
const char* line_end() {
  termios modes{};
  bool raw = ::tcgetattr(STDERR_FILENO, &modes) == 0 && (modes.c_oflag & OPOST) == 0;
  return raw ? "\r\n" : "\n";
}

// The launcher by which this shell has started others, as long as it is there.
using StartedOthers = std::shared_ptr<const std::unique_ptr<launch::Launcher>*>;

// What others may print alike comes by way of `started`; what ends the job, at once.
void print_message(const StartedOthers& started, Level level, const std::string& line) {
  launch::Launcher* launcher = *started != nullptr ? (*started)->get() : nullptr;
  bool may_be_alike = level == Level::warn;
  if (launcher != nullptr && may_be_alike && launcher->running() > 0) return launcher->print(line);
  if (launcher != nullptr) launcher->flush_lines();
  if (level == Level::fatal) return print_last_err(line);
  print_err(line);  // one write: lines of several shells stay whole
}

void log_to_stderr(Log& log, std::uint32_t shell_rank, const StartedOthers& started) {
  set_rank_of_last_lines(shell_rank);
  log.add_sink("stderr", [&log, shell_rank, started, shell = ::getpid()](LogEntry entry) {
    if (!log.wants(Level::debug)) entry.message = plugins::without_origin(std::move(entry.message));
    std::string line = log_line(entry, shell_rank);
    if (entry.level <= Level::warn)
      line = coloured(entry.level == Level::warn ? Colour::yellow : Colour::red, line);
    line += line_end();
    // In a forked process, before a task executes (task.exec), nothing puts out what would wait here.
    if (::getpid() != shell) return print_last_err(line);
    print_message(started, entry.level, line);
  });
}

ShellConfig config_of(cli::ShellArguments& arguments) {
  ShellConfig config;
  config.options = std::move(arguments.options);
  config.initrc = std::move(arguments.initrc);
  config.eventlog = std::move(arguments.eventlog);
  config.record_directory = std::move(arguments.record_directory);
  config.verbose = arguments.verbose;
  config.quiet = arguments.quiet;
  config.exit_local = arguments.exit_local;
  config.explain = arguments.explain;
  if (arguments.explain_detail == "brief") config.explain_detail = plugin::PlanDetail::brief;
  if (arguments.explain_detail == "env") config.explain_detail = plugin::PlanDetail::env;
  config.explain_plugins = arguments.explain_plugins;
  const InstalledTree installed(kProgramDirectory);
  config.plugin_searchpath = installed.path({kPluginPathOfBuild, kPluginPathFromHere}, kPluginPath);
  config.system_initrc = installed.path({kSystemInitrcFromHere}, kSystemInitrc);
  config.mandatory_initrc = installed.path({kMandatoryInitrcFromHere}, kMandatoryInitrc);
  config.library = installed.path({kLibraryOfBuild, kLibraryFromHere}, kLibrary);
  return config;
}

// The site's, for the jobs of its instance of Flux. What nacre has of its own is there, too.
void take_from_instance(const broker::Instance& instance, ShellConfig& config) {
  if (!instance.plugin_path.empty())
    config.plugin_searchpath = fmt::format("{}:{}", instance.plugin_path, config.plugin_searchpath);
  config.site_initrc = instance.initrc;
}

constexpr rlim_t kDescriptors = 4096;  // of some 500 tasks, or 1,000 shells

// `begun`: this program.
Result<ShellProcess> make_process(Log& log, timeline::Time begun) {
  reserve_descriptors(kDescriptors);
  ShellProcess process;
  process.timeline.early.booted = begun;
  process.loop = TRY(event::Loop::create());
  process.children = TRY(event::Children::create(*process.loop, [&log](const event::ChildExit& end) {
    log.log(Level::debug, "", "process {} ended, which outlived its task", end.pid);
  }));
  process.signals = TRY(Signals::watch(*process.loop));
  return process;
}

// So that ps(1) shows which shell of which job a process is.
void set_title(ProcessTitle& title, const value::JobId& id, std::uint32_t rank, std::uint32_t size) {
  std::string name = id.f58_plain();
  title.set({fmt::format("nacre-shell: {} rank {}/{}", name, rank, size),
             fmt::format("nacre-shell: {} {}/{}", name, rank, size)});
}

void report(const Log& log, const Error& error) {
  if (error.is_logged) return;
  print_err("nacre-shell: {}\n", log.wants(Level::debug) ? error.message : plugins::without_origin(error.message));
}

Result<int> run_shell(ShellProcess& process, boot::Identity identity, ShellConfig config, Log& log) {
  auto shell = TRY(Shell::create(process, std::move(identity), std::move(config), log));
  plugin::watch_for_exit();
  auto second_signal = TRY(plugin::SecondSignal::create(*process.loop));
  auto code = caught([&] { return shell->run(); });
  if (process.guard) process.guard->end_early();
  return code;
}

// Called before the watchers of signals go.
Result<int> over(Result<int> code) {
  block_ending_signals();
  return code;
}

Result<int> run_alone(cli::ShellArguments&& arguments, Log& log, ProcessTitle& title, timeline::Time begun) {
  boot::Identity identity = TRY(boot::standalone(arguments.boot));
  set_title(title, identity.id, identity.shell_rank, static_cast<std::uint32_t>(identity.resources.nodes.size()));
  log_to_stderr(log, identity.shell_rank, std::make_shared<StartedOthers::element_type>(nullptr));
  ShellProcess process = TRY(make_process(log, begun));
  process.timeline.early.joined = timeline::now();
  process.group = std::make_unique<group::Alone>(identity.shell_rank);
  return over(run_shell(process, std::move(identity), config_of(arguments), log));
}

// What shell 0 was given: by its launcher, or by its own arguments.
Result<LeaderGiven> given_to_leader(const boot::Boot& boot, const cli::ShellArguments& arguments) {
  LeaderGiven given;
  bool is_newcomer = boot.membership && boot.membership->is_newcomer;
  if (boot.membership && boot.membership->rank != 0 && !is_newcomer) return given;
  if (!is_newcomer) given.options = arguments.options;
  given.has_input = boot.record ? boot.record->input : !is_null(STDIN_FILENO);
  if (boot.instance) {
    given.jobspec = {"J", boot.instance->jobspec};
    given.resources = {"R", boot.instance->resources};
  }
  if (boot.record) {
    if (boot.record->jobspec) given.jobspec = {"jobspec", *boot.record->jobspec};
    if (boot.record->resources) given.resources = {"R", *boot.record->resources};
    given.options.insert(given.options.end(), boot.record->options.begin(), boot.record->options.end());
  }
  auto read = [](const std::string& path) -> Result<LeaderGiven::Text> {
    std::string text = TRY(read_file(path));  // before the braces: see group/codec.cpp
    return LeaderGiven::Text{path == "-" ? "standard input" : path, std::move(text)};
  };
  if (is_newcomer) return given;
  if (!arguments.boot.jobspec_path.empty()) given.jobspec = TRY(read(arguments.boot.jobspec_path));
  if (!arguments.boot.resources_path.empty()) given.resources = TRY(read(arguments.boot.resources_path));
  return given;
}

Result<int> run_in_job(ShellProcess& process, boot::Boot boot, cli::ShellArguments&& arguments, Log& log,
                       CarriedChannels* carried) {
  bool leads = !boot.membership || boot.membership->rank == 0;
  const bool shows_way = arguments.explain_detail != "brief" || boot.way == boot::Way::index;
  if (arguments.explain && shows_way && leads) print_out("boot: {}\n", boot.how);
  log.log(Level::debug, "", "boot: {}", boot.how);
  LeaderGiven given = TRY(given_to_leader(boot, arguments));
  process.instance = std::move(boot.instance);
  std::map<std::string, std::string> sources;
  if (boot.record) sources = boot.record->sources;
  launch::Detaching detaching = boot.record ? boot.record->detaching : launch::Detaching::never;
  bool at_terminal = boot.record ? boot.record->terminal : ::isatty(STDERR_FILENO) == 1;
  auto assembled = TRY(assemble(process, std::move(boot), std::move(given), log));
  // For what plugins start besides tasks, too; the shells that this one has started have theirs.
  const boot::Identity& me = assembled.identity;
  if (process.guard) ::setenv(job::kShellMark, job::shell_mark(me.id, me.shell_rank).c_str(), 1);
  ShellConfig config = config_of(arguments);
  if (process.instance) take_from_instance(*process.instance, config);
  config.options = std::move(assembled.options);
  config.has_input = assembled.has_input;
  config.at_terminal = at_terminal;
  config.option_sources = std::move(sources);
  config.detaches = detaching == launch::Detaching::at_start;
  config.may_be_left = detaching == launch::Detaching::on_request && at_terminal;
  if (carried != nullptr) {
    for (std::string& each : carried->options()) config.options.push_back(std::move(each));
    carried->send(launch::Carriage::kJoined, "");
  }
  return run_shell(process, std::move(assembled.identity), std::move(config), log);
}

// The leader's channels, if its launcher reads them. The program that starts the shells may wait for a shell that
// never ends, so the launcher is told that the job has ended.
Result<std::unique_ptr<CarriedChannels>> carry(ShellProcess& process, const boot::Boot& boot, group::Rank rank) {
  if (rank != 0 || !boot.record || !boot.record->carriage) return nullptr;
  auto carried = TRY(CarriedChannels::create(*process.loop, *boot.record->carriage, STDERR_FILENO));
  process.launcher_events.on_read = [to = carried.get()](int signum) {
    to->send(launch::Carriage::kSignal, std::to_string(signum));
  };
  process.launcher_events.ask = [to = carried.get()](const value::Idset& shells) {
    to->send(launch::Carriage::kHalf, shells.str());
  };
  return carried;
}

// Where srun has started all shells the launcher does not see that their leader is lost: the next one tells it, or
// another shell of the step, if that one is of none.
std::function<void(std::string_view, const std::string&)> tell_by_srun(const boot::Boot& boot, group::Rank rank) {
  if (rank == 0 || !boot.record || !boot.record->carriage) return nullptr;
  return [token = boot.record->carriage->token](std::string_view channel, const std::string& leader) {
    launch::CarriageWriter writer(token);
    for (const std::string& line : writer.lines(channel, leader)) print_err(line);
  };
}

void send_end(CarriedChannels* carried, int code, bool is_local) {
  if (carried == nullptr) return;
  carried->send(launch::Carriage::kEnded, is_local ? "" : std::to_string(code));
  carried->finish();
}

// Called before there are a loop and threads. Of a leader that is to part from an agent the new process is the
// leader.
Result<std::unique_ptr<Detachment>> prepare_detachment(const boot::Boot& boot, group::Rank rank) {
  std::unique_ptr<Detachment> out;
  if (boot.way != boot::Way::hosts || rank != 0) return out;
  const launch::LaunchRecord& record = *boot.record;
  out = std::make_unique<Detachment>(boot.id);
  bool at_start = record.detaching == launch::Detaching::at_start;
  bool on_request = record.detaching == launch::Detaching::on_request && record.remote;
  if (at_start || on_request) CHECK_OK(out->fork_leader());
  if (at_start) CHECK_OK(in("the file of a detached job's output", out->take_streams()));
  return out;
}

Result<std::unique_ptr<Guard>> start_guard(ShellProcess& process, const boot::Boot& boot, group::Rank rank) {
  Guard::Options options;
  if (boot.membership && boot.membership->socket_directory) options.socket = &*boot.membership->socket_directory;
  options.starter = boot.launcher.get();
  options.mark = fmt::format("{}={}", job::kShellMark, job::shell_mark(boot.id, rank));
  // A launcher on its own host sees that it stands still, and the leader sees it of the others.
  bool is_seen = rank != 0 || (boot.way == boot::Way::hosts && !boot.record->remote);
  std::string host = boot.record ? boot.record->hosts.nth(rank).value_or("") : "";
  if (!is_seen)
    options.watched = fmt::format("nacre-shell[0]: shell 0 on {}", host.empty() ? launch::own_host_name() : host);
  return Guard::start(*process.children, options);
}

// Of a pod. The first one has been found at a known port by the others; these listen there once they may lead.
Result<void> answer_latecomers(ShellProcess& process, boot::Boot& boot, group::Rank rank) {
  process.pods = std::move(boot.later);
  if (!process.pods || rank != 0) return {};
  auto answering = boot::Latecomers::answer(*process.loop, process.pods->copy());
  if (!answering && answering.error().code == EADDRINUSE) return {};  // a task's by now
  process.latecomers = TRY(std::move(answering));
  return {};
}

// Where a Flux instance has started the leader, and its job ends before it has an output: what is logged goes into
// the store as that output, or, if the store does not take it, to standard error.
class EarlyOutput : Noncopyable {
 public:
  EarlyOutput(broker::Instance* instance, group::Rank rank, Log& log)
      : instance_(rank == 0 ? instance : nullptr), log_(log) {
    if (instance_ == nullptr) return;
    log_.set_sink_level(plugins::kStandardErrorSink, Level::quiet);
    log_.add_sink("output", [this](const LogEntry& entry) { entries_.push_back(entry); });
  }
  ~EarlyOutput() {
    if (instance_ == nullptr) return;
    log_.remove_sink("output");
    log_.set_sink_level(plugins::kStandardErrorSink, Level::trace);
    if (entries_.empty() || plugins::write_guest_output(*instance_, entries_)) return;
    for (LogEntry& each : entries_) log_.post(std::move(each));
  }

 private:
  broker::Instance* instance_;
  Log& log_;
  std::vector<LogEntry> entries_;
};

// `record`: nacre run has become this shell; null: it has not.
Result<int> run(cli::ShellArguments&& arguments, const launch::LaunchRecord* record, Log& log, ProcessTitle& title,
                timeline::Time begun) {
  if (arguments.standalone) return run_alone(std::move(arguments), log, title, begun);
  boot::BootRequest request;
  request.way = arguments.way;
  request.variables = own_variable;
  request.version = kVersion;
  request.secret_file = arguments.secret_file;
  if (record != nullptr)
    request.record = record;
  else if (arguments.launch_record)
    request.record = *arguments.launch_record;
  request.id = arguments.boot.id;
  request.arity = arguments.arity;
  boot::Boot boot = TRY(boot::boot(request));
  if (boot.way == boot::Way::standalone) {
    return cli::print(cli::usage_error(
        "nacre-shell",
        fmt::format("no job manager has started this shell; give --standalone with -j and -R, or see "
                    "nacre-boot(7) ({})",
                    boot.how)));
  }
  group::Rank rank = boot.membership ? boot.membership->rank : 0;
  auto started = std::make_shared<StartedOthers::element_type>(nullptr);
  log_to_stderr(log, rank, started);
  if (arguments.quiet) log.set_level(Level::warn);
  if (arguments.verbose > 0) log.set_level(arguments.verbose > 1 ? Level::trace : Level::debug);
  std::unique_ptr<Detachment> detachment = TRY(prepare_detachment(boot, rank));
  ShellProcess process = TRY(make_process(log, begun));
  if (boot.way == boot::Way::index) process.signals->stand_for_job();
  boot.held.reset();
  process.detachment = std::move(detachment);
  process.by_launcher = boot.way == boot::Way::hosts || (boot.way == boot::Way::slurm && boot.record);
  process.tell_launcher = tell_by_srun(boot, rank);
  *started = &process.launcher;
  auto forget = [started](void*) { *started = nullptr; };
  std::unique_ptr<void, decltype(forget)> before_process(&process, forget);
  process.guard = TRY(start_guard(process, boot, rank));
  set_title(title, boot.id, rank, boot.membership ? boot.membership->size : 1);  // the guard is no shell
  std::unique_ptr<CarriedChannels> carried = TRY(carry(process, boot, rank));
  CHECK_OK(answer_latecomers(process, boot, rank));
  const bool is_local = arguments.exit_local;
  auto code = run_in_job(process, std::move(boot), std::move(arguments), log, carried.get());
  const bool is_over = code || process.left;
  if (!is_over && (!process.group || process.joins_late)) report(log, code.error());
  if (!is_over && process.joins_late) return 1;  // the job goes on
  if (!is_over) {
    EarlyOutput output(process.instance.get(), rank, log);
    code = give_up(process, rank, code.error(), log);
  }
  if (process.hands_over && process.by_launcher && process.end.is_cut_off())
    return launch::kLeaderLost;  // its launcher follows another one
  send_end(carried.get(), code.value_or(1), is_local);
  return over(std::move(code));
}

Result<int> parse_and_run(int argc, char** argv, Log& log) {
  const timeline::Time begun = timeline::now();
  CHECK_OK(open_closed_streams());
  reset_signals();
  settle_temporary_directory();
  auto parsed = cli::parse_shell_arguments(argc, argv);
  if (auto* reply = std::get_if<cli::Reply>(&parsed)) return cli::print(*reply);
  ProcessTitle title(argc, argv);
  return run(std::get<cli::ShellArguments>(std::move(parsed)), nullptr, log, title, begun);
}

Result<int> parse_and_become(ProcessTitle& title, std::vector<std::string> words,
                             const launch::LaunchRecord& record, Log& log) {
  const timeline::Time begun = timeline::now();
  settle_temporary_directory();
  std::vector<char*> argv;
  for (std::string& each : words) argv.push_back(each.data());
  argv.push_back(nullptr);
  auto parsed = cli::parse_shell_arguments(static_cast<int>(words.size()), argv.data());
  if (auto* reply = std::get_if<cli::Reply>(&parsed)) return cli::print(*reply);
  return run(std::get<cli::ShellArguments>(std::move(parsed)), &record, log, title, begun);
}

// What main() returns.
template <typename Run>
int run_to_end(const Run& run) {
  Log log;
  Result<int> code = 1;
  guarded(nullptr, [&] { code = run(log); });
  Result<void> flushed = flush_out();
  if (!code) report(log, code.error());
  if (!flushed) report(log, flushed.error());
  return code && flushed ? *code : std::max(1, code.value_or(1));
}

}  // namespace

int nacre::run_shell_program(int argc, char** argv) {
  return run_to_end([&](Log& log) { return parse_and_run(argc, argv, log); });
}

int nacre::become_shell(ProcessTitle title, std::vector<std::string> words, const launch::LaunchRecord& record) {
  title.keep_unless(kShortTitle);  // `nacre run ./app` tells more than the beginning of a title
  end_in_order_without_memory(kShellName);
  ::prctl(PR_SET_NAME, kShellName, 0, 0, 0);
  return run_to_end([&](Log& log) { return parse_and_become(title, std::move(words), record, log); });
}
