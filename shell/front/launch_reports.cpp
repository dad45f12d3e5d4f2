// SPDX-License-Identifier: Apache-2.0
#include "front/launch_reports.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "base/print.hpp"
#include "base/process_start.hpp"
#include "base/text.hpp"

namespace nacre::front {
namespace {

std::optional<int> descriptor_in(const std::string& to) {
  auto number = parse_u64(to);
  return number && *number <= INT32_MAX ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// No descriptor: it is a FIFO that nobody has opened for reading.
Result<UniqueFd> opened(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666));
  if (!fd && errno != ENXIO) return system_error(errno, path);
  return fd;
}

}  // namespace

// This process sets close-on-exec on each descriptor that it opens itself: such a one is not the one that the user
// means.
Result<void> check_report_place(const std::string& to) {
  if (to.empty()) return invalid("expected a file or a descriptor");
  auto fd = descriptor_in(to);
  if (!fd) return {};
  int flags = ::fcntl(*fd, F_GETFD);
  bool is_given = flags >= 0 && (*fd <= STDERR_FILENO || (flags & FD_CLOEXEC) == 0);
  if (!is_given) return invalid(fmt::format("descriptor {} is not open", *fd));
  if (!is_writable(*fd)) return invalid(fmt::format("descriptor {} is not open for writing", *fd));
  return {};
}

Result<std::unique_ptr<LaunchReports>> LaunchReports::create(event::Loop& loop, const std::string& front,
                                                             const std::vector<LaunchReport>& wanted,
                                                             bool has_child, Watch watch) {
  std::unique_ptr<LaunchReports> out(new LaunchReports(loop, front));
  out->watch_ = std::move(watch);
  for (const LaunchReport& each : wanted) CHECK_OK(in(each.option, out->open(each, has_child)));
  if (!has_child && (out->watch_.filter || !out->files_.empty())) CHECK_OK(out->carry());
  return out;
}

void LaunchReports::warn(const std::string& option, std::string_view why) const {
  print_err("{}: {}: {}: nothing more is written there\n", front_, option, why);
}

Result<void> LaunchReports::open(const LaunchReport& report, bool has_child) {
  auto file = std::make_unique<File>();
  file->option = report.option;
  file->channel = report.channel;
  auto number = report.is_path ? std::nullopt : descriptor_in(report.to);
  file->name = number ? fmt::format("descriptor {}", *number) : report.to;
  UniqueFd fd;
  if (number) {
    fd = UniqueFd(::fcntl(*number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!fd) return system_error(errno, file->name);
  } else if (has_child && report.is_path) {
    file->path = std::filesystem::absolute(report.to).native();
  } else if (has_child) {
    fd = TRY(opened(report.to));
    if (!fd) file->path = std::filesystem::absolute(report.to).native();
  }
  if (has_child) {
    file->given = std::move(fd);
  } else {
    io::MessageFile::Callbacks callbacks;
    callbacks.on_error = [this, option = report.option](const Error& error) { warn(option, error.message); };
    file->file = number ? TRY(io::MessageFile::of(loop_, std::move(fd), file->name, std::move(callbacks)))
                        : TRY(io::MessageFile::open(loop_, report.to, std::move(callbacks)));
  }
  files_.push_back(std::move(file));
  return {};
}

Result<void> LaunchReports::carry() {
  carriage_ = TRY(launch::Carriage::with_new_token());
  for (const auto& each : files_) carriage_.channels.push_back(each->channel);
  io::FdSink::Callbacks sink;
  sink.on_room = [this] { read(); };
  stderr_ = TRY(io::FdSink::create(loop_, STDERR_FILENO, "standard error", {}, std::move(sink)));
  launch::CarriageReader::Callbacks callbacks;
  callbacks.on_other = [this](std::string_view bytes) { pass_on(bytes); };
  callbacks.on_message = [this](std::string_view channel, std::string_view message) { deliver(channel, message); };
  callbacks.on_loss = [this] {
    if (!std::exchange(lost_, true))
      print_err("{}: {}: a part was lost on its way here\n", front_, fmt::join(carriage_.channels, ", "));
  };
  reader_.emplace(carriage_.token, std::move(callbacks));
  return {};
}

void LaunchReports::add_to(task::Command& command, launch::LaunchRecord& record) const {
  for (const auto& each : files_) {
    if (each->given) {
      int target = command.setup.unused_target();
      command.setup.fds.push_back({target, each->given.get()});
      record.options.push_back(fmt::format("{}={}", each->channel, target));
    } else if (!each->path.empty()) {
      record.options.push_back(fmt::format("{}={}", each->channel, each->path));
    }
  }
  if (!is_carried()) return;
  record.carriage = carriage_;
  command.stream_options["stderr_LINE_BUFFER"] = "false";
}

void LaunchReports::on_ready(task::BufferedStream& from) {
  from_ = &from;
  read();
}

// Pauses while standard error does not take what is passed on.
void LaunchReports::read() {
  if (from_ == nullptr) return;
  while (!stderr_->full()) {
    std::string_view bytes = from_->read();
    if (bytes.empty()) break;
    reader_->take(bytes);
  }
  if (stderr_->full())
    from_->pause();
  else if (from_->paused())
    static_cast<void>(from_->resume());
}

// If nobody reads standard error the bytes are dropped, as if the agent had written them there.
void LaunchReports::pass_on(std::string_view bytes) {
  std::string filtered;
  if (watch_.filter) bytes = filtered = watch_.filter(bytes);
  write(bytes);
}

void LaunchReports::write(std::string_view bytes) {
  std::array pieces{bytes};
  if (!bytes.empty()) static_cast<void>(stderr_->write(pieces));
}

void LaunchReports::deliver(std::string_view channel, std::string_view message) {
  if (channel == launch::Carriage::kJoined && watch_.on_joined) watch_.on_joined();
  if (channel == launch::Carriage::kEnded && watch_.on_ended) watch_.on_ended(message);
  if (channel == launch::Carriage::kSignal && watch_.on_signal) watch_.on_signal(message);
  for (const auto& each : files_) {
    if (each->channel == channel) each->file->write(message);
  }
}

void LaunchReports::finish(const std::function<bool()>& is_complete) {
  if (!is_carried()) return;
  bool late = false;
  auto timer = event::Timer::create(loop_, [&late] { late = true; });
  if (!timer) return;
  timer->start(kLastWords);
  loop_.run_until([&] { return late || is_complete(); });
  from_ = nullptr;
  reader_->end();
  if (watch_.at_end) write(watch_.at_end());
  late = false;
  timer->start(kWaitAtEnd);
  auto idle = [](const auto& each) { return each->file->idle(); };
  loop_.run_until([&] { return late || (stderr_->flushed() && std::all_of(files_.begin(), files_.end(), idle)); });
  for (const auto& each : files_) {
    if (each->file->idle()) continue;
    warn(each->option,
         fmt::format("{}: {} within {} s of the job's end", each->name,
                     each->file->lacks_reader() ? "nobody has opened it" : "nobody has read all of it",
                     kWaitAtEnd.count()));
  }
}

}  // namespace nacre::front
