// SPDX-License-Identifier: Apache-2.0
//
// The GPUs that a job has on this host, as nvidia-smi and rocm-smi see them: that they are there, have had no
// errors that cannot be corrected, and that nobody else uses them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugins/health/check_process.hpp"
#include "usage/gpu.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

// What the tools have printed.
struct GpuState {
  usage::GpuLook look;
  std::map<std::uint32_t, std::uint64_t> errors;  // by index, of NVIDIA's: those that cannot be corrected

  // Of the output of gpu_command().
  static Result<GpuState> parse(std::string_view text);
};

// A command of /bin/sh that has these tools, at least one, print what GpuState reads.
[[nodiscard]] std::string gpu_command(bool nvidia, bool rocm);

struct GpuJudgement {
  std::string fault;   // "": none
  std::string in_use;  // by whom; "": by nobody else
};

// `wanted`: the GPUs of the job here, by the numbers that the tools have, too; where these have others only how
// many there are counts. `is_own`: whether a process is of the job.
[[nodiscard]] GpuJudgement judge_gpus(const GpuState& state, const value::Idset& wanted,
                                      const std::function<bool(std::int64_t pid)>& is_own);

// What is wrong by a record of /dev/kmsg, "PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT": an Xid of NVIDIA's driver that
// is the hardware's, of the last ten minutes; "": nothing. `now`: microseconds since the boot.
[[nodiscard]] std::string fault_of_kernel_record(std::string_view record, std::uint64_t now);
// Of all records that this process may read; it does not wait for others.
[[nodiscard]] std::string fault_of_kernel_log();

class GpuCheck {
 public:
  static constexpr event::Seconds kAgain{0.5};  // between looks, while somebody else uses them

  struct Limits {
    event::Seconds look;  // of one look
    event::Seconds wait;  // until nobody else uses them
  };
  // With what is wrong; "": nothing, or there is no tool.
  using WhenDone = std::function<void(const std::string& fault)>;

  // The host has to outlive it.
  GpuCheck(plugin::Host& host, const Limits& limits) : host_(host), limits_(limits) {}

  // Whether a tool is in the PATH.
  [[nodiscard]] static bool has_tool();
  // `done` is called once, from the loop; it may not destroy this object. An error: it has not been started.
  Result<void> start(WhenDone done);

 private:
  Result<void> look();
  void looked(const CheckProcess::Outcome& outcome);
  void end(const std::string& fault);

  plugin::Host& host_;
  Limits limits_;
  event::Seconds until_{};
  std::unique_ptr<CheckProcess> process_;
  std::optional<event::Timer> again_;
  WhenDone done_;
};

}  // namespace nacre::plugins
