// SPDX-License-Identifier: Apache-2.0
//
// Runs nacre-shell as a child process: so the verb `nacre plugin` looks at plugins without loading any itself.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "value/wait_status.hpp"

namespace nacre::cli {

inline constexpr std::size_t kMaxShellOutput = std::size_t{1} << 20;  // bytes kept of each stream; the rest is lost

// A temporary directory. The destructor removes it with all that is in it.
class ScratchDirectory {
 public:
  static Result<ScratchDirectory> create();  // in $TMPDIR, else /tmp
  ScratchDirectory(ScratchDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchDirectory& operator=(ScratchDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~ScratchDirectory();

  [[nodiscard]] const std::string& path() const { return path_; }
  // Makes a file, and returns its path.
  [[nodiscard]] Result<std::string> write(const std::string& name, std::string_view text) const;

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Writes the files of a job of one task, /bin/true, on one core; returns "-j FILE -R FILE".
Result<std::vector<std::string>> write_smallest_job(const ScratchDirectory& directory);

struct ShellRun {
  std::vector<std::string> arguments;                            // of nacre-shell --standalone
  std::vector<std::pair<std::string, std::string>> environment;  // in addition to this process's
  std::optional<std::string> directory;                          // the working directory
  std::optional<double> time_limit;                              // seconds
};

struct ShellOutcome {
  bool timed_out = false;
  value::WaitStatus status;
  std::string out;
  std::string err;
};

// Runs the nacre-shell in this program's directory, else that in PATH, with /dev/null as its input. When it has
// ended, or its time is over, all its descendants are killed; likewise when a signal comes that ends this program
// (SIGINT, SIGTERM, SIGHUP): then the error is EINTR.
Result<ShellOutcome> run_shell(const ShellRun& run);

}  // namespace nacre::cli
