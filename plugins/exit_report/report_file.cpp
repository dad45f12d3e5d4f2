// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/report_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/process_stat.hpp"
#include "job/options.hpp"

namespace nacre::plugins {
namespace {

Result<void> put(UniqueFd file, const std::string& path, std::string_view text) {
  if (!file) return system_error(errno, path);
  int failed = write_all(file.get(), text);
  if (failed != 0) return system_error(failed, path);
  return {};
}

std::pair<dev_t, ino_t> file_at(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? std::pair(info.st_dev, info.st_ino) : std::pair<dev_t, ino_t>();
}

constexpr const char* kLedSince = "{}: another shell, which has led the job since, has written it";
constexpr const char* kTerminal = "terminal";  // the launcher's standard error

}  // namespace

void send_to_launcher(plugin::Host& host, std::string_view report, std::string_view text) {
  plugin::Call call("launcher.report");
  call.in = {{"report", report}, {"text", text}};
  if (auto called = host.stack().call(call); !called)
    host.log().log(Level::warn, "", "{}: {}", report, called.error().message);
}

void print_report(plugin::Host& host, const std::string& text) {
  const bool is_followed = job::OnLeaderLost::read(host.options()).value_or(job::OnLeaderLost()).is_followed;
  if (!host.job().has_next_leader() || !is_followed) return print_err("{}", text);
  send_to_launcher(host, kTerminal, text);
}

Result<std::unique_ptr<ReportFile>> ReportFile::of_option(plugin::Host& host, Names names) {
  const bool is_next = host.job().has_next_leader();
  std::unique_ptr<ReportFile> none;
  if (is_next && TRY(job::OnLeaderLost::read(host.options())).launcher_has(names.option)) {
    std::unique_ptr<ReportFile> out(new ReportFile(host, std::move(names)));
    out->is_launchers_ = true;
    return out;
  }
  auto option = host.options().at(names.option);
  if (!option || is_switch(option->json()) || (is_next && !option->json().is_string())) return none;
  return at(host, *option, std::move(names));
}

Result<std::unique_ptr<ReportFile>> ReportFile::at(plugin::Host& host, const JsonAt& option, Names names) {
  std::unique_ptr<ReportFile> out(new ReportFile(host, std::move(names)));
  out->takes_over_ = TRY(job::OnLeaderLost::read(host.options())).takes_over;
  if (option.json().is_number_integer()) {
    auto fd = static_cast<int>(TRY(option.integer(0, INT32_MAX)));
    if (!is_writable(fd)) return option.error(fmt::format("descriptor {} is not open for writing", fd));
    out->path_ = fmt::format("descriptor {}", fd);
    out->fd_ = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!out->fd_) return system_error(errno, out->path_);
    if (fd > STDERR_FILENO) ::close(fd);
    out->is_taken_ = true;
    return out;
  }
  std::string path = option.json().is_string() ? option.json().get<std::string>() : "";
  if (path.empty()) return option.expected("a file, or the number of a descriptor");
  std::error_code failed;
  out->path_ = std::filesystem::absolute(path, failed).native();
  if (failed) return option.error("cannot find the working directory: " + failed.message());
  out->before_ = file_at(out->path_);
  // The next leader finds out when it writes the file: the job runs, and does not end because of that.
  if (!host.job().has_next_leader()) CHECK_OK(in(out->names_.option, check_replaceable(out->path_)));
  return out;
}

bool ReportFile::is_switch(const Json& option) {
  return option.is_boolean() || option == 0 || option == 1 || option == "on" || option == "off";
}

void ReportFile::write(Json& report) {
  if (!fd_ && !is_launchers_) report["file"] = path_;
  if (!write_text(report.dump(2, ' ', false, Json::error_handler_t::replace) + '\n')) report.erase("file");
}

bool ReportFile::write_text(std::string_view text) {
  if (is_launchers_) {
    send_to_launcher(host_, names_.option, text);
    return true;
  }
  if (is_another_leaders()) {
    warn(fmt::format(kLedSince, path_));
    return false;
  }
  struct stat info {};
  // A link stays: /dev/stdout is a link to a file that others write.
  bool is_sent = fd_ || (::lstat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode));
  Result<void> written = is_sent ? send(text) : replace(text);
  if (!written) warn(written.error().message);
  return written.has_value();
}

bool ReportFile::is_another_leaders() const {
  if (fd_ || !host_.is_cut_off()) return false;
  const std::pair<dev_t, ino_t> now = file_at(path_);
  return now != before_ && now != std::pair<dev_t, ino_t>();
}

Result<void> ReportFile::replace(std::string_view text) const {
  constexpr mode_t kMode = 0666;  // less the umask
  std::string temporary = path_ + ".part";
  UniqueFd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kMode));
  Result<void> written = put(std::move(file), path_, text);
  if (written && ::rename(temporary.c_str(), path_.c_str()) < 0) written = system_error(errno, path_);
  if (!written) ::unlink(temporary.c_str());
  return written;
}

Result<void> ReportFile::send(std::string_view text) {
  CHECK_OK(open(false));
  to_->write(text);
  return wait();
}

Result<void> ReportFile::open(bool keeps) {
  io::MessageFile::Callbacks callbacks;
  callbacks.on_idle = [this] { let_go(); };
  callbacks.on_error = [this](const Error& error) {
    warn(error.message);
    let_go();
  };
  to_ = fd_ ? TRY(io::MessageFile::of(host_.loop(), std::move(fd_), path_, std::move(callbacks)))
            : TRY(io::MessageFile::open(host_.loop(), path_, std::move(callbacks), keeps));
  return {};
}

Result<void> ReportFile::wait() {
  if (to_->idle()) return {};
  timer_ = TRY(event::Timer::create(host_.loop(), [this] {
    warn(fmt::format("{}: nobody has read all of it within {} s of the job's end", path_, kMostWait.count()));
    let_go();
  }));
  holds_ = true;
  host_.hold(names_.option);
  timer_->start(kMostWait);
  return {};
}

void ReportFile::add(std::string_view text, bool keeps) {
  if (is_launchers_) return send_to_launcher(host_, names_.option, text);
  if (!std::exchange(is_opened_, true)) {
    if (Result<void> opened = open(keeps); !opened) return warn(opened.error().message);
  }
  if (!to_) return;
  if (takes_over_ && to_->has_others_text()) {  // perhaps before this shell knows
    warn(fmt::format(kLedSince, path_));
    return to_.reset();
  }
  to_->write(text);
}

void ReportFile::end() {
  if (!to_) return;
  if (Result<void> waits = wait(); !waits) warn(waits.error().message);
}

void ReportFile::let_go() {
  if (!std::exchange(holds_, false)) return;
  timer_->stop();
  static_cast<void>(host_.release(names_.option));
}

void ReportFile::warn(std::string_view why) {
  host_.log().log(Level::warn, names_.plugin, "{}: {}: {} is not written", names_.option, why, names_.what);
}

}  // namespace nacre::plugins
