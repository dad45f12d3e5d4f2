// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/report_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/process_start.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kReportFileHold = "report";

Result<void> put(UniqueFd file, const std::string& path, std::string_view text) {
  if (!file) return system_error(errno, path);
  int failed = write_all(file.get(), text);
  if (failed != 0) return system_error(failed, path);
  return {};
}

}  // namespace

Result<std::unique_ptr<ReportFile>> ReportFile::at(plugin::Host& host, const JsonAt& option) {
  std::unique_ptr<ReportFile> out(new ReportFile(host));
  if (option.json().is_number_integer()) {
    auto fd = static_cast<int>(TRY(option.integer(0, INT32_MAX)));
    if (!is_writable(fd)) return option.error(fmt::format("descriptor {} is not open for writing", fd));
    out->path_ = fmt::format("descriptor {}", fd);
    out->fd_ = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!out->fd_) return system_error(errno, out->path_);
    if (fd > STDERR_FILENO) ::close(fd);
    return out;
  }
  std::string path = option.json().is_string() ? option.json().get<std::string>() : "";
  if (path.empty()) return option.expected("a file, or the number of a descriptor");
  std::error_code failed;
  out->path_ = std::filesystem::absolute(path, failed).native();
  if (failed) return option.error("cannot find the working directory: " + failed.message());
  return out;
}

void ReportFile::write(Json& report) {
  if (!fd_) report["file"] = path_;
  std::string text = report.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  struct stat info {};
  bool is_sent = fd_ || (::stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode));
  Result<void> written = is_sent ? send(text) : replace(text);
  if (written) return;
  report.erase("file");
  warn(written.error().message);
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
  io::MessageFile::Callbacks callbacks;
  callbacks.on_idle = [this] { let_go(); };
  callbacks.on_error = [this](const Error& error) {
    warn(error.message);
    let_go();
  };
  timer_ = TRY(event::Timer::create(host_.loop(), [this] {
    warn(fmt::format("{}: nobody has read all of it within {} s of the job's end", path_, kMostWait.count()));
    let_go();
  }));
  to_ = fd_ ? TRY(io::MessageFile::of(host_.loop(), std::move(fd_), path_, std::move(callbacks)))
            : TRY(io::MessageFile::open(host_.loop(), path_, std::move(callbacks)));
  holds_ = true;
  host_.hold(kReportFileHold);
  timer_->start(kMostWait);
  to_->write(text);
  if (to_->idle()) let_go();
  return {};
}

void ReportFile::let_go() {
  if (!std::exchange(holds_, false)) return;
  timer_->stop();
  static_cast<void>(host_.release(kReportFileHold));
}

void ReportFile::warn(std::string_view why) {
  host_.log().log(Level::warn, "exit-report", "report: {}: the report is not written", why);
}

}  // namespace nacre::plugins
