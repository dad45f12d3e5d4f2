// SPDX-License-Identifier: Apache-2.0
//
// control: a job that runs is in the list of jobs (record/places.hpp) and can be reached through its leader's socket
// (control/server.hpp), for `nacre jobs`, `ps`, `kill`, `wait` and the like. Both are made once the tasks run, a moment later: a job that is
// over by then only leaves how it has ended. -o control=off: none of it. A standalone shell has it only with -o control.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/variable.hpp"
#include "control/server.hpp"
#include "event/clock.hpp"
#include "plugins/builtins.hpp"
#include "plugins/control/answers.hpp"
#include "plugins/control/exec_runner.hpp"
#include "plugins/control/execs.hpp"
#include "record/list.hpp"
#include "version.hpp"

namespace nacre::plugins {
namespace {

constexpr event::Seconds kBeforeOpen{0.01};  // from the start of the tasks on
constexpr event::Seconds kLookEach{30};      // whether somebody has removed the socket, or the entry
constexpr event::Seconds kMostLastTime{1};   // for those who wait for the job's end to take it
constexpr event::Seconds kLastLook{0.005};
constexpr const char* kExecHold = "control.exec";
constexpr std::uint64_t kPruneOne = 32;  // in as many jobs what is too old is removed

record::Manager manager_of_shells() {
  auto variable = [](const char* name) { return own_variable(name).value_or(""); };
  if (own_variable("SLURM_JOB_ID") && own_variable("SLURM_STEP_ID"))
    return {"slurm", variable("SLURM_JOB_ID"), variable("SLURM_STEP_ID")};
  if (own_variable("FLUX_JOB_ID")) return {"flux", variable("FLUX_JOB_ID"), ""};
  return {};
}

class Control final : public plugin::Plugin {
 public:
  explicit Control(plugin::Host& host)
      : Plugin("control"), host_(host), questions_(host), answers_(host, questions_), runner_(host) {
    on("shell.init", [this](plugin::Call&) { return read(); });
  }
  ~Control() override { close(); }

 private:
  Result<void> read() {
    bool is_on = !host_.standalone();
    if (auto option = host_.options().at(name())) {
      auto given = host_.options().flag(name());
      if (!given) return option->expected("on or off");
      is_on = *given;
    }
    if (!is_on) return {};
    questions_.serve();
    bool leads = host_.job().shell_rank == 0;
    if (leads) make_execs();
    CHECK_OK(serve_execs(leads));
    if (!leads) return {};
    on("shell.tasks-complete", [this](plugin::Call&) { return end_execs(); });
    on("job.tasks-exited", [this](plugin::Call& call) { return tasks_exited(call); });
    on("shell.lost", [this](plugin::Call& call) { return shell_lost(call); });
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { server_ ? look() : open(); }));
    timer_->unref();
    started_ = host_.events().follow([this](const Json& event) {
      if (event["name"] == "shell.start") timer_->start(kBeforeOpen);
    });
    ended_ = host_.on_ended([this](const Json& summary) { job_ended(summary); });
    fill_entry();
    return {};
  }

  void fill_entry() {
    const job::Job& job = host_.job();
    entry_.version = kVersion;
    entry_.id = job.id;
    entry_.name = job.name();
    entry_.user = ::geteuid();
    entry_.pid = ::getpid();
    entry_.shells = job.shells();
    entry_.started = event::wall_clock();
  }

  // What takes system calls, once the tasks run.
  void complete_entry() {
    if (entry_.pid_start != 0) return;
    const job::Job& job = host_.job();
    entry_.place = record::own_place();
    entry_.pid_start = record::start_of(entry_.pid).value_or(0);
    entry_.manager = manager_of_shells();
    entry_.tasks = job.tasks();
    entry_.command = job.spec.command;
    std::error_code failed;
    entry_.cwd = job.spec.cwd.value_or(std::filesystem::current_path(failed).native());
  }

  // ---- commands beside the tasks --------------------------------------------------

  void make_execs() {
    using Key = Execs::Key;
    Execs::Replies replies;
    replies.part = [this](Key key, Json part) {
      if (server_) server_->answer_part(key.client, key.id, std::move(part));
    };
    replies.answer = [this](Key key, const Result<Json>& value) {
      if (server_) server_->answer(key.client, key.id, value);
    };
    replies.room = [this](Key key) { return server_ ? server_->room(key.client, key.id) : 0; };
    replies.put = [this](Key key, const char* stream, std::string_view data, const Json& members) {
      return !server_ || server_->put(key.client, {key.id, stream, std::string(data), members});
    };
    replies.grant = [this](Key key, std::size_t bytes) {
      if (server_) server_->grant(key.client, key.id, bytes);
    };
    execs_.emplace(host_, std::move(replies), [this](std::string_view record) {
      bulk::Port* port = host_.bulk();
      if (port == nullptr) return runner_.feed(record), true;
      return port->broadcast(bulk::down::kExecInput, record).value_or(true);  // an error: cut off, so all is over
    });
  }

  Result<void> serve_execs(bool leads) {
    bulk::Port* port = host_.bulk();
    if (port != nullptr) {
      bulk::Port::Upward upward;
      upward.on_record = [this, port](bulk::Id shell, bulk::Numbered number, std::string_view bytes) {
        if (execs_) execs_->take(shell, bytes);
        port->taken(shell, number);
      };
      upward.on_room = [this] { runner_.on_room(); };
      port->serve(bulk::up::kExec, std::move(upward));
      bulk::Port::Downward downward;
      downward.on_record = [this, port](bulk::Numbered number, std::string_view bytes) {
        runner_.feed(bytes);
        port->consumed(number);
      };
      downward.on_room = [this] {
        if (execs_) execs_->on_broadcast_room();
      };
      port->serve(bulk::down::kExecInput, std::move(downward));
    }
    return runner_.serve([this, leads, port](std::string_view record) -> Result<bool> {
      if (!leads) return port != nullptr ? port->put(bulk::up::kExec, record) : Result<bool>(true);
      execs_->take(host_.job().shell_rank, record);
      return true;
    });
  }

  // The job waits until they have ended, and have said how.
  Result<void> end_execs() {
    host_.hold(kExecHold);
    execs_->end_all([this] { static_cast<void>(host_.release(kExecHold)); });
    return {};
  }

  // ---- while it runs -------------------------------------------------------------

  void open() {
    if (host_.ending()) return;
    if (Result<void> opened = try_open(); !opened) without(opened.error());
  }

  Result<void> try_open() {
    complete_entry();
    control::ControlServer::Callbacks callbacks;
    callbacks.on_request = [this](control::ControlServer::ClientId client, const control::ControlRequest& request) {
      serve(client, request);
    };
    callbacks.on_gone = [this](control::ControlServer::ClientId client) { execs_->gone(client); };
    callbacks.on_data = [this](control::ControlServer::ClientId client, const control::StreamData& data) {
      execs_->input({client, data.id}, data.data);
    };
    callbacks.on_end = [this](control::ControlServer::ClientId client, const control::StreamEnd& end) {
      execs_->input({client, end.id}, {});
    };
    callbacks.on_room = [this](control::ControlServer::ClientId client, std::uint64_t id) {
      execs_->on_room({client, id});
    };
    server_ = TRY(control::ControlServer::create(host_.loop(), own_variable("TMPDIR").value_or("/tmp"), kVersion,
                                                 std::move(callbacks)));
    guard(server_->directory().path());
    CHECK_OK(write_entry());
    timer_->start(kLookEach, kLookEach);
    return {};
  }

  // To the first place that takes it: it may be full, or have gone since.
  Result<void> put_entry() {
    std::optional<Error> why;
    if (directory_) {
      Result<void> written = directory_->write(entry_);
      if (written) return written;
      why = written.error();
    }
    std::vector<std::string> left = record::places(own_variable);
    if (directory_) std::erase(left, directory_->path());
    while (!left.empty()) {
      if (why) log(host_, *this, Level::debug, "{}: another place is taken", why->message);
      auto next = choose_directory(left);
      if (!next) return why ? *std::move(why) : next.error();
      Result<void> written = next->write(entry_);
      if (written) {
        if (directory_) static_cast<void>(directory_->remove(entry_.id));
        directory_ = *std::move(next);
        return {};
      }
      why = written.error();
      std::erase(left, next->path());
    }
    return *std::move(why);
  }

  Result<record::EntryDirectory> choose_directory(const std::vector<std::string>& places) {
    std::vector<std::string> skipped;
    auto chosen = record::EntryDirectory::choose(places, &skipped);
    for (const std::string& each : skipped) log(host_, *this, Level::debug, "{}: another place is taken", each);
    return chosen;
  }

  Result<void> write_entry() {
    entry_.address = server_ ? server_->address() : "";
    CHECK_OK(put_entry());
    if (!entry_.ended()) host_.children().guard_entry(directory_->path_of(entry_.id), true);
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
    auto moved = server_->restore();
    if (!moved) return without(moved.error());
    bool is_there = ::access(directory_->path_of(entry_.id).c_str(), F_OK) == 0;
    if (*moved) guard(server_->directory().path());
    if (!*moved && is_there) return;
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

  void serve(control::ControlServer::ClientId client, const control::ControlRequest& request) {
    if (request.action == "exec") return execs_->begin({client, request.id}, request.arguments);
    if (request.action == "exec-signal" || request.action == "exec-end")
      return server_->answer(client, request.id, execs_->control(client, request.action, request.arguments));
    Answers::Reply reply;
    reply.part = [this, client, id = request.id](Json part) {
      if (server_) server_->answer_part(client, id, std::move(part));
    };
    reply.answer = [this, client, id = request.id](const Result<Json>& value) {
      if (server_) server_->answer(client, id, value);
    };
    answers_.serve(request, entry_, std::move(reply));
  }

  Result<void> tasks_exited(const plugin::Call& call) {
    JsonAt in = JsonAt::root(call.in);
    auto ranks = TRY(value::Idset::parse(TRY(TRY(in.at("ranks")).string())));
    answers_.tasks_ended(ranks, TRY(exits::Record::parse(TRY(TRY(in.at("record")).string()))));
    return {};
  }

  Result<void> shell_lost(const plugin::Call& call) {
    auto shell = TRY(TRY(JsonAt::root(call.in).at("shell_rank")).integer(0, UINT32_MAX));
    questions_.lost(static_cast<std::uint32_t>(shell));
    execs_->lost(static_cast<std::uint32_t>(shell));
    return {};
  }

  // ---- the end -------------------------------------------------------------------

  void job_ended(const Json& summary) {
    timer_->stop();
    answers_.job_ended(summary);
    Result<void> written = gave_up_ && !directory_ ? Result<void>() : write_end(summary);
    if (!written)
      log(host_, *this, Level::warn, "{}: `nacre jobs` does not tell how this job has ended",
          written.error().message);
    host_.children().guard_entry(directory_ ? directory_->path_of(entry_.id) : "", false);
    if (!server_) return;
    control::ControlEvent event;
    event.timestamp = event::wall_clock();
    event.name = "end";
    event.context = {{"code", summary["exit"]["code"]}, {"by", summary["exit"].value("by", Json())}};
    server_->notify(event);
    if (server_->flushed()) return;
    wait_for_clients();
  }

  Result<void> write_end(const Json& summary) {
    complete_entry();
    record::EntryEnd end;
    end.time = event::wall_clock();
    end.code = summary["exit"].value("code", 1);
    end.cause = summary.value("cause", "");
    end.exits = record::exits_of(summary.value("tasks", Json::object()));
    end.report = answers_.report(summary);
    entry_.end = std::move(end);
    CHECK_OK(put_entry());
    if (static_cast<std::uint64_t>(entry_.pid) % kPruneOne == 0) record::prune(*directory_, event::wall_clock());
    return {};
  }

  void wait_for_clients() {
    auto timer = event::Timer::create(host_.loop(), [this] {
      bool is_over = event::clock_now() >= last_;
      if (!holds_ || !(is_over || server_->flushed())) return;
      holds_ = false;
      timer_->stop();
      static_cast<void>(host_.release(name()));
    });
    if (!timer) return;
    timer_ = *std::move(timer);
    last_ = event::clock_now() + kMostLastTime;
    holds_ = true;
    host_.hold(name());
    timer_->start(kLastLook, kLastLook);
  }

  void close() {
    server_.reset();
    guard("");
  }

  plugin::Host& host_;
  Questions questions_;
  Answers answers_;
  ExecRunner runner_;
  std::optional<Execs> execs_;  // of the leader
  record::JobEntry entry_;
  std::optional<record::EntryDirectory> directory_;
  std::unique_ptr<control::ControlServer> server_;
  std::string guarded_;  // a directory
  std::optional<event::Timer> timer_;
  std::unique_ptr<plugin::EventRecord::Follower> started_;
  plugin::Registration ended_;
  event::Seconds last_{};  // when those who wait for the end are waited for no more
  bool holds_ = false;
  bool gave_up_ = false;
};

}  // namespace

PluginPtr make_control(plugin::Host& host) { return std::make_unique<Control>(host); }

}  // namespace nacre::plugins
