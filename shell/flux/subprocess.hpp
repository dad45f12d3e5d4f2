// SPDX-License-Identifier: Apache-2.0
//
// The implementation of flux_subprocess_t: a process that a plugin has started, or a task of the job.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "flux/handle.hpp"
#include "task/subprocess.hpp"

struct flux_subprocess {
  flux_subprocess(nacre::flux::Runtime& of_runtime, const flux_subprocess_ops_t* wanted)
      : runtime(of_runtime),
        ops(wanted != nullptr ? *wanted : flux_subprocess_ops_t{}),
        owner("subprocess callback") {}
  ~flux_subprocess();
  flux_subprocess(const flux_subprocess&) = delete;
  flux_subprocess& operator=(const flux_subprocess&) = delete;

  [[nodiscard]] nacre::task::BufferedStream* stream(std::string_view name) const;
  [[nodiscard]] pid_t pid() const { return task != nullptr ? task->pid() : process->pid(); }
  [[nodiscard]] bool exited() const;
  [[nodiscard]] const nacre::value::WaitStatus& status() const {
    return task != nullptr ? task->status() : process->status();
  }
  void on_ready(const std::string& name);
  void on_room(const std::string& name, std::size_t bytes);
  void on_exit();
  void on_complete();
  void report(flux_subprocess_state_t state);

  nacre::flux::Runtime& runtime;
  flux_subprocess_ops_t ops;
  nacre::capi::Callback owner;
  nacre::task::Task* task = nullptr;                 // else:
  std::unique_ptr<nacre::task::Subprocess> process;  // set once it runs
  pid_t started = 0;
  int calling = 0;  // callbacks that are running; ...
  // ... if one of them destroys it, it goes with the last one
  bool destroyed = false;
  std::map<std::string, std::string, std::less<>> read;  // by stream: what was last read
  nacre::capi::AuxItems aux;
};
