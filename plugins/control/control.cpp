// SPDX-License-Identifier: Apache-2.0
//
// control: a job that runs is in the list of jobs (record/places.hpp) and can be reached through its leader's
// socket (control/server.hpp), for `nacre jobs`, `ps`, `kill`, `attach` and the like. Both are made once the tasks
// run, a moment later: a job that is over by then only leaves how it has ended. -o control=off: none of it. A
// standalone shell has it only with -o control.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/variable.hpp"
#include "control/server.hpp"
#include "event/clock.hpp"
#include "job/on_lost.hpp"
#include "job/option_types.hpp"
#include "plugins/builtins.hpp"
#include "plugins/control/answers.hpp"
#include "plugins/control/changes.hpp"
#include "plugins/control/details.hpp"
#include "plugins/control/exec_service.hpp"
#include "plugins/control/input_service.hpp"
#include "plugins/control/own_entry.hpp"
#include "plugins/control/viewer_link.hpp"
#include "plugins/control/viewers.hpp"
#include "plugins/doctor/stack_taker.hpp"
#include "plugins/pty/options.hpp"
#include "record/list.hpp"
#include "usage/table.hpp"
#include "version.hpp"

namespace nacre::plugins {
namespace {

constexpr event::Seconds kBeforeOpen{0.01};    // from the start of the tasks on
constexpr event::Seconds kBeforeDetails{0.5};  // then: a job that is over by then, and ends well, leaves none
constexpr event::Seconds kLookEach{30};        // whether somebody has removed the socket, or the entry
constexpr event::Seconds kMostLastTime{1};     // for those who wait for the job's end to take it
constexpr event::Seconds kMostStill{0.2};      // of it, in which none of them takes anything
constexpr event::Seconds kLastLook{0.005};
constexpr std::size_t kMostDetails = std::size_t{768} << 10;  // bytes of an answer: below a frame's limit
constexpr std::uint64_t kPruneOne = 32;                       // in as many jobs what is too old is removed

class Control final : public plugin::Plugin {
 public:
  explicit Control(plugin::Host& host)
      : Plugin("control"),
        host_(host),
        questions_(host),
        answers_(host, questions_),
        execs_(host, [this] { return server_.get(); }),
        input_(host, [this] { return server_.get(); }),
        changes_(host),
        details_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
  }
  ~Control() override {
    if (auto* output = viewers_ ? host_.task_output() : nullptr) output->follow(nullptr);
    close();
  }

 private:
  using ClientId = control::ControlServer::ClientId;

  Result<void> read() {
    bool is_on = !host_.standalone();
    if (host_.options().at(name())) is_on = TRY(host_.options().flag(name()));
    outlives_launcher_ = TRY(job::outlives_launcher(host_.options()));
    auto* launched = host_.launched();
    if (!is_on && (outlives_launcher_ || (launched != nullptr && launched->starts_detached())))
      return invalid(fmt::format("{}: such a job has to be in the list of jobs: leave out control=off",
                                 outlives_launcher_ ? "on-launcher-lost=go-on" : "--detach"));
    if (!is_on) return {};
    if (outlives_launcher_ && launched == nullptr && host_.job().shell_rank == 0)
      return invalid(
          "on-launcher-lost=go-on: a manager has started the shells, and ends them as it likes: leave it out");
    if (launched != nullptr && outlives_launcher_) launched->outlive_launcher();
    questions_.serve();
    CHECK_OK(execs_.serve());
    CHECK_OK(serve_terminals());
    on("shell.finish", [this](plugin::Call&) { return questions_.stop(); });
    if (host_.job().shell_rank != 0) return {};
    on("shell.tasks-complete", [this](plugin::Call&) {
      execs_.end_all();
      return Result<void>();
    });
    viewers_.emplace(TRY(Scrollback::size_of(host_.options())),
                     viewer_link([this] { return server_.get(); }, [this] { return answers_.code_of_tasks(); }));
    details_.keep_messages();
    if (auto* output = host_.task_output()) output->follow(&viewers_.value());
    on("job.listed", [this](plugin::Call& call) { return listed(call); });
    on("job.tasks-exited", [this](plugin::Call& call) { return tasks_exited(call); });
    for (const char* topic : {"shell.lost", "shell.left"})
      on(topic, [this](plugin::Call& call) { return shell_gone(call); });
    for (const char* topic : {"job.tasks-moved", "job.tasks-restart", "shell.joined"})
      on(topic, [this](plugin::Call& call) {
        changes_.restarts.started(call.in);
        write_changes();
        return Result<void>();
      });
    // Many shells may go at once.
    gone_ = TRY(event::Timer::create(host_.loop(), [this] { write_changes(); }));
    gone_->unref();
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { server_ ? look() : open(); }));
    timer_->unref();
    started_ = host_.events().follow([this](const Json& event) {
      if (member_of(event, "name") != "shell.start") return;
      has_run_ = true;
      timer_->start(starts_detached() ? event::Seconds::zero() : kBeforeOpen);
    });
    ended_ = host_.on_ended([this](const Json& summary) { job_ended(summary); });
    entry_ = own_entry(host_.job(), host_.options());
    begun_ = event::clock_now();
    return {};
  }

  [[nodiscard]] bool starts_detached() const {
    return host_.launched() != nullptr && host_.launched()->starts_detached();
  }

  // What tasks write to their terminals is kept for those who join these.
  Result<void> serve_terminals() {
    PtyOptions options = TRY(PtyOptions::read(host_.options(), host_.job().tasks()));
    if (options.ranks.empty()) return {};
    answers_.set_terminals(std::move(options.ranks));
    on("task.fork", [this](plugin::Call&) {
      if (task::Pty* pty = host_.current_task()->pty()) pty->viewed().keep();
      return Result<void>();
    });
    on("task.exit", [this](plugin::Call&) {
      execs_.task_ended();
      return Result<void>();
    });
    return {};
  }

  // ---- while it runs -------------------------------------------------------------

  void open() {
    if (host_.ending()) return;
    Result<void> opened = try_open();
    if (opened && host_.launched() != nullptr) host_.launched()->can_be_found();
    if (opened && starts_detached()) opened = host_.launched()->detach();
    if (opened) return;
    if (!starts_detached()) return without(opened.error());
    host_.die(1, name(), fmt::format("{}: nobody would find the job", opened.error().message));
  }

  Result<void> try_open() {
    complete_entry(entry_, host_.job());
    control::ControlServer::Callbacks callbacks;
    callbacks.on_request = [this](ClientId client, const control::ControlRequest& request) {
      serve(client, request);
    };
    callbacks.on_gone = [this](ClientId client) {
      execs_.gone(client);
      input_.gone(client);
      viewers_->gone(client);
    };
    callbacks.on_data = [this](ClientId client, const control::StreamData& data) {
      execs_.data(client, data);
      input_.data(client, data);
    };
    callbacks.on_end = [this](ClientId client, const control::StreamEnd& end) {
      execs_.end(client, end);
      input_.end(client, end);
    };
    callbacks.on_room = [this](ClientId client, std::uint64_t id) {
      execs_.room(client, id);
      viewers_->has_room(client, id);
    };
    callbacks.on_directory = [this](const std::string& path, bool there) { guard(there ? path : ""); };
    server_ = TRY(control::ControlServer::create(host_.loop(), own_variable("TMPDIR").value_or("/tmp"), kVersion,
                                                 std::move(callbacks)));
    CHECK_OK(write_entry());
    timer_->start(kBeforeDetails, kLookEach);
    return {};
  }

  // What a bundle lacks if this fails is not worth more than a message for who looks for it.
  void write_details(std::string output) {
    Json details = details_.make(record::EntryDirectory::kMaxDetails, Details::kTasksKept, std::move(output));
    Result<void> written = directory_->write_details(entry_.id, dump_json(details) + '\n');
    if (!written)
      log(host_, *this, Level::debug, "{}: the details of the job are not kept", written.error().message);
  }

  [[nodiscard]] std::string last_output() const {
    return viewers_->text(Details::kMostTail, host_.job().tasks() > 1);
  }

  Result<void> put_entry() {
    std::string first = host_.launched() != nullptr ? host_.launched()->directory() : "";
    return plugins::put_entry(entry_, directory_, first, [this](const std::string& why) { other_place(why); });
  }

  void other_place(const std::string& why) { log(host_, *this, Level::debug, "{}: another place is taken", why); }

  Result<void> write_entry() {
    entry_.address = server_ ? server_->address() : "";
    CHECK_OK(put_entry());
    if (!entry_.ended()) host_.children().guard_entry(directory_->path_of(entry_.id), true);
    return {};
  }

  void write_changes() {
    set_changes(entry_, host_.job(), questions_.gone());
    if (entry_.ended() || !server_) return;
    if (Result<void> written = write_entry(); !written) without(written.error());
  }

  // A job that ends at once is not in the list yet, but will be if there is a place for it.
  Result<void> listed(plugin::Call& call) {
    if (gave_up_) return {};
    if (!directory_)
      directory_ =
          TRY(choose_directory(record::places(own_variable), [this](const auto& why) { other_place(why); }));
    call.out["id"] = entry_.id.f58_plain();
    return {};
  }

  // The job goes on without.
  void without(const Error& why) {
    log(host_, *this, Level::warn, "{}: `nacre jobs` does not list this job, or it cannot be reached", why.message);
    timer_->stop();
    close();
    gave_up_ = true;
  }

  void look() {
    if (!std::exchange(has_details_, true)) return write_details("");
    auto moved = server_->restore();
    if (!moved) return without(moved.error());
    if (!*moved && ::access(directory_->path_of(entry_.id).c_str(), F_OK) == 0) return;
    auto again = record::EntryDirectory::make(directory_->path());
    if (again) directory_ = *std::move(again);
    if (Result<void> written = write_entry(); !written) without(written.error());
  }

  // The directory that is removed if this process is killed; "": none any more.
  void guard(const std::string& directory) {
    if (!guarded_.empty()) host_.children().guard_directory(guarded_, false);
    guarded_ = directory;
    if (!guarded_.empty()) host_.children().guard_directory(guarded_, true);
  }

  void serve(ClientId client, const control::ControlRequest& request) {
    if (request.action == "attach") return attach(client, request);
    if (request.action == "input") return input_.serve(client, request);
    if (execs_.take(client, request)) return;
    if (request.action == "details")
      return server_->answer(client, request.id, details_.make(kMostDetails, Details::kTasksAsked, last_output()));
    Answers::Reply reply;
    reply.part = [this, client, id = request.id](Json part) {
      if (server_) server_->answer_part(client, id, std::move(part));
    };
    reply.answer = [this, client, id = request.id](const Result<Json>& value) {
      if (server_) server_->answer(client, id, value);
    };
    if (changes_.take(request, reply, answers_)) return;
    answers_.serve(request, entry_, std::move(reply));
  }

  void attach(ClientId client, const control::ControlRequest& request) {
    if (request.arguments.contains("pty")) return execs_.join(client, request);
    if (auto* output = host_.task_output()) {
      output->put_event("attach", {{"client", client}});
      return viewers_->attach(client, request, host_.job().tasks());
    }
    server_->answer(client, request.id,
                    Error{ENOTSUP, "the job's output goes through no plugin that others can read from"});
  }

  Result<void> tasks_exited(const plugin::Call& call) {
    JsonAt in = JsonAt::root(call.in);
    auto ranks = TRY(value::Idset::parse(TRY(TRY(in.at("ranks")).string())));
    changes_.restarts.ended(ranks);
    answers_.tasks_ended(ranks, TRY(exits::Record::parse(TRY(TRY(in.at("record")).string()))));
    viewers_->look();
    return {};
  }

  Result<void> shell_gone(const plugin::Call& call) {
    auto shell =
        static_cast<std::uint32_t>(TRY(TRY(JsonAt::root(call.in).at("shell_rank")).integer(0, UINT32_MAX)));
    questions_.lost(shell);
    execs_.shell_gone(shell, call.topic == "shell.left");
    gone_->start(event::Seconds::zero());
    return {};
  }

  // ---- the end -------------------------------------------------------------------

  void job_ended(const Json& summary) {
    timer_->stop();
    changes_.restarts.job_ended();
    answers_.job_ended(summary);
    set_changes(entry_, host_.job(), questions_.gone());
    Result<void> written = gave_up_ && !directory_ ? Result<void>() : write_end(summary);
    if (!written)
      log(host_, *this, Level::warn, "{}: `nacre jobs` does not tell how this job has ended",
          written.error().message);
    host_.children().guard_entry(directory_ ? directory_->path_of(entry_.id) : "", false);
    if (written && has_run_ && starts_detached()) static_cast<void>(host_.launched()->detach());
    if (!server_) return;
    control::ControlEvent event;
    event.timestamp = event::wall_clock();
    event.name = "end";
    event.context = {{"code", summary.at("exit").at("code")}, {"by", summary.at("exit").value("by", Json())}};
    server_->notify(event);
    viewers_->ended(summary.at("exit").value("code", 1));
    if (!is_taken()) wait_for_clients();
  }

  Result<void> write_end(const Json& summary) {
    complete_entry(entry_, host_.job());
    record::EntryEnd end;
    end.time = event::wall_clock();
    end.ran = (event::clock_now() - begun_).count();
    end.code = summary.at("exit").value("code", 1);
    end.cause = summary.value("cause", "");
    end.exits = record::exits_of(summary.value("tasks", Json::object()));
    end.rule = summary.value("rule", Json());
    end.report = answers_.report(summary);
    end.usage = answers_.usage(usage::kMostKept, usage::kFewCells);
    if (end.usage.is_null()) end.usage = summary.value("used", Json());
    end.timeline = answers_.timeline();
    if (host_.launched() != nullptr) end.lost_output = host_.launched()->lost_output();
    entry_.end = std::move(end);
    CHECK_OK(put_entry());
    auto* examiner = examiner_of(host_);
    bool has_news = entry_.end->code != 0 || (examiner != nullptr && !examiner->last_look().is_null());
    if (has_news) write_details(entry_.end->code != 0 ? last_output() : "");
    if (static_cast<std::uint64_t>(entry_.pid) % kPruneOne == 0) record::prune(*directory_, event::wall_clock());
    return {};
  }

  void wait_for_clients() {
    auto timer = event::Timer::create(host_.loop(), [this] {
      event::Seconds now = event::clock_now();
      if (std::exchange(last_sent_, server_->sent_bytes()) != server_->sent_bytes())
        still_until_ = now + kMostStill;
      bool is_over = now >= last_ || now >= still_until_;
      if (!holds_ || !(is_over || is_taken())) return;
      holds_ = false;
      timer_->stop();
      static_cast<void>(host_.release(name()));
    });
    if (!timer) return;
    timer_ = *std::move(timer);
    last_ = event::clock_now() + kMostLastTime;
    still_until_ = event::clock_now() + kMostStill;
    holds_ = true;
    host_.hold(name());
    timer_->start(kLastLook, kLastLook);
  }

  [[nodiscard]] bool is_taken() const { return server_->flushed() && !viewers_->any(); }

  void close() {
    server_.reset();
    guard("");
  }

  plugin::Host& host_;
  Questions questions_;
  Answers answers_;
  ExecService execs_;
  InputService input_;
  Changes changes_;
  Details details_;
  record::JobEntry entry_;
  event::Seconds begun_{};  // as its `started`
  std::optional<record::EntryDirectory> directory_;
  std::optional<Viewers> viewers_;  // on the leader
  std::unique_ptr<control::ControlServer> server_;
  std::string guarded_;  // a directory
  std::optional<event::Timer> timer_;
  std::optional<event::Timer> gone_;  // shells have gone: the entry is about to be written
  std::unique_ptr<plugin::EventRecord::Follower> started_;
  plugin::Registration ended_;
  event::Seconds last_{};         // when those who wait for the end are waited for no more
  event::Seconds still_until_{};  // the same, unless one of them takes something before
  std::uint64_t last_sent_ = 0;   // bytes, at the last look
  bool holds_ = false, gave_up_ = false, outlives_launcher_ = false, has_details_ = false;
  bool has_run_ = false;  // all tasks of the job have started
};

}  // namespace

PluginPtr make_control(plugin::Host& host) { return std::make_unique<Control>(host); }

}  // namespace nacre::plugins
