// SPDX-License-Identifier: Apache-2.0
//
// exit-report=off|line|full: names the tasks that fail as they do (line), and when the job has failed reports what
// went wrong first, and where (full, the default). Not named are those that the end of the job has ended (victims),
// or a signal to all tasks (Ctrl-C), and what another message names: the task whose end ends the job, commands that
// could not be started and end it, lost shells. report=FILE: the report as JSON, of each job, whatever its end.
// In a container of Kubernetes its termination log has two lines of it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/print.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "event/clock.hpp"
#include "exits/report_text.hpp"
#include "plugin/events.hpp"
#include "plugins/builtins.hpp"
#include "plugins/exit_report/failure_report.hpp"
#include "plugins/exit_report/report_file.hpp"

namespace nacre::plugins {
namespace {

enum class Extent : std::uint8_t { off, line, full };

constexpr std::size_t kMostTerminationLine = 2047;  // bytes; Kubernetes reads two of them, with their ends

// What Kubernetes shows as why a container has ended: the report's first line, what went wrong, and its last, the
// exit code. Its file is there in each container; another one, which somebody has named, is made.
void write_termination_log(const std::string& report) {
  const std::string given = own_variable("NACRE_TERMINATION_LOG").value_or("");
  const std::string path = given.empty() ? "/dev/termination-log" : given;
  const int make = given.empty() ? 0 : O_CREAT;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | make, 0644));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) < 0 || !S_ISREG(status.st_mode) || ::ftruncate(fd.get(), 0) < 0) return;
  const std::vector<std::string_view> lines = split(trim(report), '\n');
  std::string text(lines.front().substr(0, kMostTerminationLine));
  text += '\n';
  if (lines.size() > 1) text += fmt::format("{}\n", lines.back().substr(0, kMostTerminationLine));
  static_cast<void>(write_all(fd.get(), text));  // there is no better place for an error
}

class ExitReport final : public plugin::Plugin {
 public:
  explicit ExitReport(plugin::Host& host)
      : Plugin("exit-report"), host_(host), naming_(host), facts_(host), report_(host, facts_) {
    // With the option health a bad host may end the job before shell.init.
    for (const char* topic : {"shell.pre-init", "shell.init"}) on(topic, [this] { return prepare(); });
    on<plugin::TasksExited>([this](const plugin::TasksExited& exited) { return tasks_exited(exited); });
    on("shell.exit", [this] { naming_.finish(); });
  }

 private:
  Result<void> read() {
    auto option = host_.options().at(name());
    // What a job shell prints an instance takes for messages.
    if (!option && host_.instance() != nullptr) extent_ = Extent::line;
    if (option && option->json() == "line") {
      extent_ = Extent::line;
    } else if (option && option->json() != "full") {
      Result<bool> on = host_.options().flag(name());
      if (!on) return option->expected("off, line or full");
      extent_ = *on ? Extent::full : Extent::off;
    }
    if (host_.job().leads()) CHECK_OK(open_file());
    return {};
  }

  Result<void> open_file() {
    file_ = TRY(ReportFile::of_option(host_, {name(), "report", "the report"}));
    return {};
  }

  [[nodiscard]] Result<bool> has_file() const {
    return host_.options().at("report") || TRY(job::OnLeaderLost::read(host_.options())).launcher_has("report");
  }

  // The exit policy, which is known in shell.init, asks which was the first whether there is a report or not.
  Result<void> prepare() {
    if (!is_read_) CHECK_OK(read());
    is_read_ = true;
    const bool judges =
        extent_ == Extent::full || TRY(has_file()) || host_.exit_policy().kind() == exits::Policy::Kind::first;
    return !judges || std::exchange(judges_, true) ? Result<void>() : serve();
  }

  Result<void> serve() {
    auto option = host_.options().at("torch");
    bool torch = option && (option->json().is_object() || TRY(host_.options().flag("torch")));
    report_.serve();
    auto task = [this](const char* topic, auto act) { on(topic, [this, act] { act(*host_.current_task()); }); };
    task("task.init", [this, torch](task::Task& each) { facts_.prepare(each, torch); });
    task("task.fork", [this](task::Task& each) { facts_.started(each); });
    task("task.exit", [this](task::Task& each) { facts_.exited(each); });
    on("shell.start", [this] { return facts_.watch_memory(); });
    on("shell.processes-left",
       [this](plugin::Call& call) { report_.left(call.in.value("processes", Json::array())); });
    on("job.leader", [this]() -> Result<void> {
      if (!host_.job().leads()) return {};
      lead();
      return open_file();
    });
    if (host_.job().leads()) lead();
    return {};
  }

  void lead() {
    on<plugin::ShellLost>([this](const plugin::ShellLost& lost) { shell_lost(lost.shell); });
    on("job.tasks-moved", [this](plugin::Call& call) { report_.note("moved", call.in, event::wall_clock()); });
    on("job.resized", [this](plugin::Call& call) { report_.note("resized", call.in, event::wall_clock()); });
    on("job.tasks-restart", [this](plugin::Call& call) { report_.note("restart", call.in, event::wall_clock()); });
    on("doctor.hang", [this](plugin::Call& call) { report_.note("hang", call.in, event::wall_clock()); });
    on("job.slow", [this](plugin::Call& call) { report_.note("slow", call.in, event::wall_clock()); });
    on("rehearse.event", [this](plugin::Call& call) {
      report_.note("rehearsal", {{"done", call.in.value("event", "")}}, event::wall_clock());
    });
    on("shell.tasks-complete", [this] { return report_.finish(); });
    on("job.report", [this](plugin::Call& call) { call.out = report_.make(call.in); });
    ended_ = host_.on_ended([this](const Json& end) { job_ended(end); });
  }

  Result<void> tasks_exited(const plugin::TasksExited& exited) {
    if (!host_.job().leads()) return {};
    const value::Idset& ranks = exited.ranks;
    const exits::Record& record = exited.record;
    if (judges_) report_.tasks_ended(ranks, record, event::wall_clock());
    bool is_own_end =
        record.kind() == exits::Record::Kind::ended || record.kind() == exits::Record::Kind::not_started;
    if (extent_ == Extent::off || !is_own_end || !host_.exit_policy().is_failure(record)) return {};
    if (host_.sent_to_tasks(record.status()->signal())) return {};
    return naming_.add(ranks, record);
  }

  void shell_lost(std::uint32_t shell) {
    report_.note("lost", {{"shell", shell}}, event::wall_clock());
    report_.lost(shell);
  }

  void job_ended(const Json& end) {
    bool failed = end.at("exit").at("code") != 0;
    report_.note("end", {{"code", end.at("exit").at("code")}}, event::wall_clock());
    Json report = report_.make(end);
    if (file_) file_->write(report);
    if (failed) write_termination_log(exits::report_text(report));
    if (failed && extent_ == Extent::full) show(report);
  }

  // Somebody who wants no more than errors has had the lines that name the tasks.
  void show(const Json& report) {
    plugin::TaskOutput* output = host_.task_output();
    if (output != nullptr && output->takes_events()) return output->put_event("failure", report);
    if (!report_.has_news() || !host_.log().wants(Level::notice)) return;
    plugin::Call listed("job.listed");
    bool is_listed = host_.stack().call(listed).has_value() && listed.out.contains("id");
    std::string text = exits::report_text(report, is_listed ? listed.out["id"].get<std::string>() : "");
    const std::size_t first = text.find('\n');  // what went wrong
    print_err(coloured(Colour::red, text.substr(0, first)) + text.substr(std::min(first, text.size())));
  }

  plugin::Host& host_;
  Extent extent_ = Extent::full;
  bool is_read_ = false;
  bool judges_ = false;  // which failure was the first
  FailureNaming naming_;
  TaskFacts facts_;
  FailureReport report_;
  std::unique_ptr<ReportFile> file_;
  plugin::Registration ended_;
};

}  // namespace

PluginPtr make_exit_report(plugin::Host& host) { return std::make_unique<ExitReport>(host); }

}  // namespace nacre::plugins
