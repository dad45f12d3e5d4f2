// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/report_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/file.hpp"
#include "base/unique_fd.hpp"

namespace nacre::plugins {
namespace {

Result<void> put(UniqueFd file, const std::string& path, std::string_view text) {
  if (!file) return system_error(errno, path);
  int failed = write_all(file.get(), text);
  if (failed != 0) return system_error(failed, path);
  return {};
}

}  // namespace

Result<ReportFile> ReportFile::at(const JsonAt& option) {
  std::string path = TRY(option.string());
  if (path.empty()) return option.expected("the name of a file");
  std::error_code failed;
  auto absolute = std::filesystem::absolute(path, failed);
  if (failed) return option.error("cannot tell the working directory: " + failed.message());
  return ReportFile(absolute.native());
}

void ReportFile::write(plugin::Host& host, Json& report) const {
  report["file"] = path_;
  Result<void> written = replace(report.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
  if (written) return;
  report.erase("file");
  host.log().log(Level::warn, "exit-report", "report: {}: the report is not written", written.error().message);
}

// A device, a FIFO or a descriptor of /dev/fd cannot be replaced.
Result<void> ReportFile::replace(std::string_view text) const {
  constexpr mode_t kMode = 0666;  // less the umask
  struct stat info {};
  bool is_there = ::stat(path_.c_str(), &info) == 0;
  if (is_there && !S_ISREG(info.st_mode))
    return put(UniqueFd(::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)), path_, text);
  std::string temporary = path_ + ".part";
  UniqueFd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kMode));
  Result<void> written = put(std::move(file), path_, text);
  if (written && ::rename(temporary.c_str(), path_.c_str()) < 0) written = system_error(errno, path_);
  if (!written) ::unlink(temporary.c_str());
  return written;
}

}  // namespace nacre::plugins
