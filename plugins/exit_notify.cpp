// SPDX-License-Identifier: Apache-2.0
//
// exit-notify: the notices of how the job's tasks end (exits::Notifier), as lines of JSON to a file, a FIFO or a
// descriptor, and with output.events among the events of the job. Only the leader writes them; another leader
// begins with all that is known, which replaces what a reader has. A reader that is slow or has gone costs nothing:
// it gets the next message once it has taken the last one, and that message is then made of the notifier's state.
#include <fcntl.h>

#include <filesystem>

#include "base/process_stat.hpp"
#include "event/clock.hpp"
#include "exits/notice.hpp"
#include "io/sink.hpp"
#include "job/options.hpp"
#include "plugin/events.hpp"
#include "plugins/builtins.hpp"
#include "plugins/exit_report/report_file.hpp"

namespace nacre::plugins {
namespace {

using exits::Notifier;
using Ranks = value::Idset;

constexpr event::Seconds kOutputLook{0.02};  // how often it is looked whether output that failures wait for has
                                             // come out
constexpr event::Seconds kWaitAtEnd{3};      // the most time that a reader has for the last messages
constexpr int kLastStandard = 2;

// Where notices go.
struct NoticePlace {
  std::string path;           // empty: none
  int fd = -1;                // < 0: none
  bool is_launchers = false;  // the process that has started the job writes it

  [[nodiscard]] bool is_none() const { return path.empty() && fd < 0 && !is_launchers; }
};

// The shell opens its own descriptors so that no other program gets them. A descriptor without this mark was
// inherited.
Result<int> inherited(const JsonAt& option, int fd) {
  int flags = ::fcntl(fd, F_GETFD);
  if (flags < 0 || (fd > kLastStandard && (flags & FD_CLOEXEC) != 0))
    return option.error(fmt::format("descriptor {} was not open when the shell was started", fd));
  if (!is_writable(fd)) return option.error(fmt::format("descriptor {} is not open for writing", fd));
  return fd;
}

Result<NoticePlace> notice_place_of(const JsonAt& option) {
  const Json& json = option.json();
  if (json == "off" || json == false) return NoticePlace{};
  if (json.is_number_integer()) {
    auto fd = static_cast<int>(TRY(option.integer(0, INT32_MAX)));
    return NoticePlace{"", fd};
  }
  if (!json.is_string() || json == "") return option.expected("a file, the number of a descriptor, or off");
  return NoticePlace{json.get<std::string>(), -1};
}

class ExitNotify final : public plugin::Plugin {
 public:
  explicit ExitNotify(plugin::Host& host) : Plugin("exit-notify"), host_(host) {
    on("shell.init", [this] { return host_.job().leads() ? read() : Result<void>(); });
    on("shell.post-init", [this] { return open(); });
    on("job.leader", [this] { return host_.job().leads() ? read() : Result<void>(); });
    on("job.resized", [this] {
      if (notifier_) notifier_->set_tasks(host_.job().tasks());
    });
    on<plugin::TasksExited>([this](const plugin::TasksExited& exited) { return tasks_exited(exited); });
    on<plugin::ShellLost>([this](const plugin::ShellLost& lost) { shell_lost(lost); });
  }

 private:
  // ---- the option --------------------------------------------------------------

  Result<void> read() {
    auto option = host_.options().at(name());
    has_events_ = host_.task_output() != nullptr && host_.task_output()->takes_events();
    std::uint64_t threshold = 1;
    if (option && option->json().is_object()) {
      CHECK_OK(option->only_keys({"to", "path", "fd", "threshold"}));
      place_ = TRY(place_in(*option));
      if (auto at = TRY(option->find("threshold"))) threshold = TRY(threshold_in(*at));
    } else if (option) {
      place_ = TRY(notice_place_of(*option));
    }
    if (host_.job().has_next_leader()) return begin_next(threshold);
    if (place_.is_none() && !has_events_) return {};
    if (!place_.path.empty()) host_.start_after_all();
    if (place_.fd >= 0) {
      CHECK_OK(inherited(*option, place_.fd));
      if (place_.fd > kLastStandard) ::fcntl(place_.fd, F_SETFD, FD_CLOEXEC);
    }
    return begin(threshold);
  }

  Result<void> begin(std::uint64_t threshold) {
    takes_over_ = TRY(job::OnLeaderLost::read(host_.options())).takes_over;
    notifier_.emplace(Notifier::Options{host_.job().tasks(), host_.exit_policy(), threshold});
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { on_timer(); }));
    ended_ = host_.on_ended([this](const Json& end) {
      if (Result<void> written = job_ended(end); !written) give_up(written.error().message);
    });
    return {};
  }

  // This shell leads in place of another one, which had the descriptor.
  Result<void> begin_next(std::uint64_t threshold) {
    if (TRY(job::OnLeaderLost::read(host_.options())).launcher_has(name()))
      place_ = {"", -1, true};
    else if (place_.fd >= 0)
      place_ = {};
    if (place_.is_none() && !has_events_) return {};
    constexpr std::uint64_t kOfAnother = UINT64_MAX;  // a number that no message of this leader has
    shown_ = written_ = kOfAnother;
    return begin(threshold);
  }

  static Result<NoticePlace> place_in(const JsonAt& option) {
    std::optional<JsonAt> found;
    for (const char* each : {"to", "path", "fd"}) {
      auto at = TRY(option.find(each));
      if (!at) continue;
      if (found) return at->error(fmt::format("{} is given too: one of them is enough", found->path()));
      found = at;
    }
    if (!found) return option.error("to is missing: a file, or the number of a descriptor");
    NoticePlace place = TRY(notice_place_of(*found));
    if (found->path().ends_with(".fd") && place.fd < 0) return found->expected("the number of a descriptor");
    if (found->path().ends_with(".path") && place.path.empty()) return found->expected("a file");
    return place;
  }

  Result<std::uint64_t> threshold_in(const JsonAt& at) {
    std::string text = at.json().is_number_integer() ? at.json().dump() : TRY(at.string());
    return in(at.path(), Notifier::threshold_of(text, host_.job().tasks()));
  }

  // ---- the place ---------------------------------------------------------------

  Result<void> open() {
    if (!notifier_ || file_ || gave_up_ || place_.is_none() || place_.is_launchers) return {};
    io::MessageFile::Callbacks callbacks;
    callbacks.on_idle = [this] { write(); };
    callbacks.on_error = [this](const Error& error) { give_up(error.message); };
    auto file = in(name(), open_place(std::move(callbacks)));
    gave_up_ = !file;
    file_ = TRY(std::move(file));
    return {};
  }

  Result<std::unique_ptr<io::MessageFile>> open_place(io::MessageFile::Callbacks callbacks) {
    const bool keeps = host_.job().has_next_leader();
    if (place_.fd < 0) return io::MessageFile::open(host_.loop(), place_.path, std::move(callbacks), keeps);
    UniqueFd fd(place_.fd > kLastStandard ? place_.fd : ::fcntl(place_.fd, F_DUPFD_CLOEXEC, kLastStandard + 1));
    if (!fd) return system_error(errno, shown());
    return io::MessageFile::of(host_.loop(), std::move(fd), shown(), std::move(callbacks));
  }

  // A descriptor with its file, for those that `nacre launch` has opened and passes on.
  [[nodiscard]] std::string shown() const {
    if (place_.fd < 0) return place_.path;
    std::error_code failed;
    std::string file = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", place_.fd), failed);
    return fmt::format("descriptor {}{}", place_.fd, file.starts_with('/') ? fmt::format(" ({})", file) : "");
  }

  // The job goes on without notices.
  void give_up(std::string_view why) {
    if (std::exchange(gave_up_, true)) return;
    log(host_, *this, Level::warn, "{}: no more notices are written there", why);
    if (!has_events_) timer_->stop();
    let_go();
  }

  [[nodiscard]] bool works() const { return notifier_ && (has_events_ || !gave_up_); }

  // ---- what happens ------------------------------------------------------------

  static double now() { return event::clock_now().count(); }

  // The next leader opens the place only when it has something to write: the job runs, and does not end because the
  // place is missing.
  void tasks_exited(const plugin::TasksExited& exited) {
    if (host_.job().has_next_leader()) {
      Result<void> opened = open();
      if (!opened) log(host_, *this, Level::warn, "{}", opened.error().message);
    }
    if (!works()) return;
    notifier_->record(now(), exited.ranks, exited.record);
    arm();
  }

  void shell_lost(const plugin::ShellLost& lost) {
    if (!works()) return;
    notifier_->lost(now(), host_.job().taskmap.ranks_on(lost.shell));
    arm();
  }

  void look_at_output() {
    Ranks waiting = notifier_->waiting();
    if (waiting.empty()) return;
    plugin::TaskOutput* output = host_.task_output();
    notifier_->drained(now(), output != nullptr ? output->come_out() : waiting);
  }

  void on_timer() {
    armed_.reset();
    look_at_output();
    notifier_->tick(now());
    write();
    arm();
  }

  void arm() {
    if (!works()) return;
    double time = now();
    std::optional<double> next = notifier_->due();
    if (notifier_->is_waiting()) next = std::min(*next, time + kOutputLook.count());
    if (!next || (armed_ && *armed_ <= *next)) return;
    armed_ = next;
    timer_->start(event::Seconds(std::max(0.0, *next - time)));
  }

  void write() {
    if (has_events_) put_events();
    if (place_.is_launchers) return send();
    if (file_ && takes_over_ && file_->has_others_text())
      give_up(shown() + ": another shell, which has led the job since, writes it");
    while (file_ && !gave_up_ && file_->idle()) {
      auto message = notifier_->next(written_);
      if (!message) return let_go();
      std::string text;
      for (const std::string& each : message->lines) text += each;
      written_ = message->seq;
      file_->write(text);
    }
  }

  void send() {
    while (auto message = notifier_->next(written_)) {
      written_ = message->seq;
      std::string text;
      for (const std::string& each : message->lines) text += each;
      send_to_launcher(host_, name(), text);
    }
  }

  // Writes the same notices as events, each as the context of an event `exits`.
  void put_events() {
    plugin::TaskOutput* output = host_.task_output();
    while (auto message = notifier_->next(shown_)) {
      shown_ = message->seq;
      for (const std::string& each : message->lines) {
        auto notice = parse_json(each);
        if (notice && output != nullptr) output->put_event("exits", *notice);
      }
    }
  }

  // ---- the end -----------------------------------------------------------------

  // The summary has a record of each task, even of those about which nothing was reported.
  Result<void> job_ended(const Json& end) {
    if (!works()) return {};
    CHECK_OK(open());
    if (!works()) return {};
    const Json tasks = end.value("tasks", Json::object());
    for (const auto& [record, ranks] : tasks.items())
      notifier_->record(now(), TRY(Ranks::parse(ranks.get<std::string>())), TRY(exits::Record::parse(record)));
    look_at_output();
    notifier_->end(now(), end.at("exit").value("code", 1));
    timer_->stop();
    if (!file_ || gave_up_) {  // also if the launcher writes for it
      write();
      return {};
    }
    end_timer_ = TRY(event::Timer::create(host_.loop(), [this] { lose_rest(); }));
    end_timer_->start(kWaitAtEnd);
    holds_ = true;
    host_.hold(name());
    write();
    return {};
  }

  void lose_rest() {
    give_up(fmt::format("{}: {} within {} s of the job's end", shown(),
                        file_->lacks_reader() ? "nobody has opened it" : "nobody has read all of it",
                        kWaitAtEnd.count()));
  }

  // All notices were written, or never will be.
  void let_go() {
    if (!std::exchange(holds_, false)) return;
    end_timer_->stop();
    static_cast<void>(host_.release(name()));
  }

  plugin::Host& host_;
  NoticePlace place_;
  std::optional<Notifier> notifier_;  // on shell 0, if the option is set
  std::unique_ptr<io::MessageFile> file_;
  bool has_events_ = false;    // the job's events come out at standard output, notices included
  std::uint64_t shown_ = 0;    // the last message among these events
  std::uint64_t written_ = 0;  // the message that the reader has, or is being written
  std::optional<event::Timer> timer_, end_timer_;
  std::optional<double> armed_;  // when timer_ expires
  bool takes_over_ = false;      // another shell may lead the job once it does not reach this one
  bool gave_up_ = false;
  bool holds_ = false;
  plugin::Registration ended_;
};

}  // namespace

PluginPtr make_exit_notify(plugin::Host& host) { return std::make_unique<ExitNotify>(host); }

}  // namespace nacre::plugins
