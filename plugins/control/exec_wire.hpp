// SPDX-License-Identifier: Apache-2.0
//
// What the leader and the shells send each other for commands beside the tasks (`nacre exec`): the command of an
// order, records of bulk data, and announcements. doc/protocol.md, "Commands beside the tasks", defines them.
#pragma once

#include <sys/ioctl.h>

#include "job/job.hpp"

namespace nacre::plugins {

inline constexpr const char* kExecTopic = "control.exec";
inline constexpr std::size_t kExecChunk = std::size_t{32} << 10;  // bytes of output or input in one record
inline constexpr std::size_t kExecInputWindow = std::size_t{256}
                                                << 10;  // bytes of input that not all targets have taken

// For a command on a terminal: as much as a user wants to see after Ctrl-C.
inline constexpr std::uint64_t kTerminalWindow = std::uint64_t{64} << 10;

// What every target starts.
struct ExecCommand {
  std::vector<std::string> argv;           // not empty, unless it joins
  std::map<std::string, std::string> env;  // variables that are set additionally
  std::optional<std::string> cwd;          // none: the task's, or the job's
  bool has_input = false;                  // its stdin is the client's; otherwise /dev/null
  std::uint64_t window = 0;         // bytes of output that each target may have sent and the client not taken
  bool joins = false;               // it is a viewer of the target's terminal: nothing is started
  std::optional<winsize> pty = {};  // it has a terminal of this size, for its input and its output

  [[nodiscard]] std::string text() const;
  static Result<ExecCommand> parse(std::string_view text);
};

// A record about one target: a shell, or a task if the order names ranks.
struct ExecRecord {
  enum class What : std::uint8_t {
    started = 1,  // no body
    out = 2,      // what it has written
    err = 3,
    exited = 4,  // how, as exits::Record has it; then a newline and why, if it could not be started; the target's
                 // last record
    input_taken = 5,  // in decimal: bytes of input so far
    missed = 6,       // in decimal: bytes of output that a viewer has missed here
  };

  What what = What::started;
  std::uint64_t number = 0;  // of the order
  std::uint32_t target = 0;
  std::string_view body = {};

  [[nodiscard]] std::string str() const;
  static std::optional<ExecRecord> parse(std::string_view bytes);  // refers to these bytes
};

// An announcement of the leader about an order.
struct ExecNotice {
  std::uint64_t number = 0;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> may_write = {};  // by target: bytes of output in all
  int signum = 0;                                                       // 0: no signal
  std::optional<winsize> size = {};                                     // of the terminal
  bool ends = false;                                                    // TERM, a grace, KILL
  bool drops = false;                                                   // nobody takes the output any more

  [[nodiscard]] std::string text() const;
  static Result<ExecNotice> parse(std::string_view text);
};

// The size of a terminal as front ends and shells send it: {"rows": N, "columns": N}, each from 1 to 65535.
// Other members are ignored.
Result<winsize> terminal_size_of(const JsonAt& at);

// Where a command beside the tasks is to run: the shells and ranks that a front end asks for.
struct ExecTargets {
  std::map<std::uint32_t, value::Idset> shares;  // ranks by shell; empty: the shell itself
  bool is_all = false;  // the request names nothing in particular: lost shells and tasks are left out

  // Reads ranks, shells, hosts and exclude (doc/control.md). At least one target.
  static Result<ExecTargets> read(const JsonAt& request, const job::Job& job);
};

// The name of a shell's host, or "shell N" where R has none.
[[nodiscard]] std::string host_of(const job::Job& job, std::uint32_t shell);

}  // namespace nacre::plugins
