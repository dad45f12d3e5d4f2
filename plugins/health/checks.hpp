// SPDX-License-Identifier: Apache-2.0
//
// The option health: what a shell finds by it of its own host, and what follows from the findings of all shells.
#pragma once

#include <sys/types.h>

#include "event/loop.hpp"
#include "job/options.hpp"
#include "plugin/host.hpp"
#include "usage/gpu.hpp"
#include "wire/json.hpp"

namespace nacre::plugins {

// A check of this host, in a process of its own: if a file system or a driver hangs, the process hangs, and the
// shell goes on without it.
class CheckProcess : Noncopyable {
 public:
  static constexpr std::size_t kMostOutput = std::size_t{1} << 16;  // bytes; of more output the last ones are kept

  struct Outcome {
    bool is_late = false;  // it was killed; otherwise it has ended
    value::WaitStatus status = {};
    std::string output = {};  // and standard error
    event::Seconds took{};

    // "took longer than 5s", or the last line of its output, or how it has ended.
    [[nodiscard]] std::string why(event::Seconds most) const;
    [[nodiscard]] bool is_good() const { return !is_late && status.success(); }
  };
  using WhenDone = std::function<void(const Outcome& outcome)>;

  // The host has to outlive this object.
  explicit CheckProcess(plugin::Host& host) : host_(host) {}
  ~CheckProcess() { kill(); }

  // `act` runs in a forked child, and returns its exit code, unless it executes another program. `done` is called
  // once, from the loop; it may not destroy this object. An error: the process could not be started.
  Result<void> start(const std::function<int()>& act, event::Seconds most, WhenDone done);

 private:
  void read();
  void kill();
  void end(bool is_late, const value::WaitStatus& status);

  plugin::Host& host_;
  pid_t pid_ = -1;  // the process that runs
  UniqueFd output_;
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> limit_;
  event::Seconds began_{};
  Outcome outcome_;
  WhenDone done_;
};

// For CheckProcess::start(): executes a command of /bin/sh, in this directory unless that is "". `environment`:
// NAME=value each.
[[nodiscard]] std::function<int()> shell_command(std::string command, std::string directory,
                                                 std::vector<std::string> environment);

// The GPUs that a job has on this host, as nvidia-smi and rocm-smi see them: whether they are there, have had no
// uncorrectable errors, and are used by nobody else.

// What the tools have printed.
struct GpuState {
  usage::GpuLook look;
  std::map<std::uint32_t, std::uint64_t> errors;  // by index: NVIDIA's uncorrectable errors

  // Parses the output of gpu_command().
  static Result<GpuState> parse(std::string_view text);
};

// A command of /bin/sh by which the tools that are there, at least one, print what GpuState reads.
[[nodiscard]] std::string gpu_command(bool nvidia, bool rocm);

struct GpuJudgement {
  std::string fault;   // "": none
  std::string in_use;  // who else uses them; "": nobody
};

// `wanted`: the job's GPUs here, by the numbers that the tools also have; if the tools have other numbers only the
// count matters. `is_own`: whether a process belongs to the job.
[[nodiscard]] GpuJudgement judge_gpus(const GpuState& state, const value::Idset& wanted,
                                      const std::function<bool(std::int64_t pid)>& is_own);

// What is wrong according to a record of /dev/kmsg, "PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT": an Xid of NVIDIA's
// driver of the last ten minutes that means a hardware fault; "": nothing. `now`: microseconds since the boot.
[[nodiscard]] std::string fault_of_kernel_record(std::string_view record, std::uint64_t now);
// The same for all records that this process may read; it does not wait for more.
[[nodiscard]] std::string fault_of_kernel_log();

class GpuCheck {
 public:
  static constexpr event::Seconds kAgain{0.5};  // between looks, while somebody else uses the GPUs

  struct Limits {
    event::Seconds look;  // of one look
    event::Seconds wait;  // how long to wait until nobody else uses the GPUs
  };
  // `fault`: what is wrong; "": nothing, or there is no tool.
  using WhenDone = std::function<void(const std::string& fault)>;

  // The host has to outlive this object.
  GpuCheck(plugin::Host& host, const Limits& limits) : host_(host), limits_(limits) {}

  // Whether a tool is in the PATH.
  [[nodiscard]] static bool has_tool();
  // `done` is called once, from the loop; it may not destroy this object. An error: the look could not be started.
  Result<void> start(WhenDone done);

 private:
  Result<void> look();
  void looked(const CheckProcess::Outcome& outcome);
  void end(const std::string& fault) { std::exchange(done_, nullptr)(fault); }

  plugin::Host& host_;
  Limits limits_;
  event::Seconds until_{};
  std::unique_ptr<CheckProcess> process_;
  std::optional<event::Timer> again_;
  WhenDone done_;
};

// health=off|quick|pairs, and its members.
struct HealthOption {
  enum class Depth : std::uint8_t { off, quick, pairs };

  Depth depth = Depth::off;
  std::optional<std::string> command;  // of /bin/sh
  std::string pair_command;            // the same; not empty with pairs
  event::Seconds timeout{5};           // of each check
  event::Seconds wait{10};             // how long to wait until nobody else uses the GPUs
  bool ends = true;                    // on-bad: end the job if no spare takes the tasks of a bad host

  static Result<HealthOption> read(const job::Options& options);

 private:
  [[nodiscard]] Result<void> check_pairs(const JsonAt& option) const;
};

// What is wrong with a host.
struct HostFault {
  std::string check;   // "disk"
  std::string reason;  // "/tmp: No space left on device"

  [[nodiscard]] std::string str() const { return check + ": " + reason; }
};

void fields(auto& io, wire::Of<HostFault> auto& m) {
  io.has("check", m.check);
  io.has("reason", m.reason);
}

// What a shell gives to the others about its host.
struct HostCheck {
  std::optional<HostFault> bad = {};
  std::string directory = {};  // why the working directory cannot be written to; "": it can
  double clock = 0;            // seconds since the Epoch, once all hosts have been looked at

  // An error: the text is no such check.
  static Result<HostCheck> parse(const std::string& text) { return wire::from_text<HostCheck>(text); }
};

void fields(auto& io, wire::Of<HostCheck> auto& m) {
  io.may_have("bad", m.bad);
  io.may_have("directory", m.directory);
  io.may_have("clock", m.clock);
}

struct BadHost {
  std::uint32_t shell = 0;
  HostFault fault = {};
};

void fields(auto& io, wire::Of<BadHost> auto& m) {
  io.has("shell", m.shell);
  io.has("fault", m.fault);
}

// What the leader announces about all hosts.
struct HealthVerdict {
  std::vector<BadHost> bad = {};

  [[nodiscard]] value::Idset shells() const;
};

void fields(auto& io, wire::Of<HealthVerdict> auto& m) { io.has("bad", m.bad); }

// By the leader's clock: all clocks were read between these two times.
struct ClockWindow {
  double from = 0, to = 0;
};
constexpr double kMostClockDifference = 1;  // seconds

// If no host can write to the working directory that is as it should be, and no host is bad for it. `notes`:
// warnings by shell; a warning about all hosts is the leader's.
struct Judged {
  HealthVerdict verdict;
  std::map<std::uint32_t, std::string> notes;
};
[[nodiscard]] Judged judge(const std::map<std::uint32_t, HostCheck>& hosts, const ClockWindow& window);

inline constexpr const char* kUsualTemporary = "/tmp";  // used if there is no $TMPDIR, or it cannot be made

// What is wrong with a directory that this process should be able to write to, in a few words that begin with its
// name; "": nothing. The call may hang.
[[nodiscard]] std::string fault_of_directory(const std::string& path);
// What is wrong with the memory according to the text of /proc/meminfo; "": nothing.
[[nodiscard]] std::string fault_of_memory(std::string_view meminfo);

// The checks of this host, all at the same time, each in a process of its own.
class HostChecks {
 public:
  using WhenDone = std::function<void(const HostCheck& found)>;

  // `work`: the directory in which the tasks run; "": no directory is looked at. `variables`: NAME=value, which the
  // command gets in addition to the job's.
  struct Places {
    std::string work, temporary;
    std::vector<std::string> variables;
  };

  explicit HostChecks(plugin::Host& host, const HealthOption& option) : host_(host), option_(option) {}

  // `done` is called once, from the loop or before this returns. The first fault in this order counts: `known`,
  // memory, disk, GPUs, the command.
  void start(const Places& places, std::optional<HostFault> known, WhenDone done);

  // Runs a command of /bin/sh as the option's command is run, with the job's environment.
  [[nodiscard]] static std::function<int()> command(plugin::Host& host, const std::string& text,
                                                    const Places& places);

 private:
  void add(std::string check, const std::function<int()>& act, bool is_work = false);
  void add_gpus();
  void ended(std::size_t place, const CheckProcess::Outcome& outcome, bool is_work);
  void done_if_all();

  plugin::Host& host_;
  const HealthOption& option_;
  struct Running {
    std::string check;
    std::unique_ptr<CheckProcess> process;
    std::optional<HostFault> found = {};
  };
  std::vector<Running> running_;
  std::unique_ptr<GpuCheck> gpus_;
  std::size_t left_ = 0;  // checks that run, plus one while they are started
  HostCheck found_;
  WhenDone done_;
};

}  // namespace nacre::plugins
