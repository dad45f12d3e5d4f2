// SPDX-License-Identifier: Apache-2.0
//
// The events by which the shell tells plugins how the job changes: topics of nacre-shell-plugins(7). A builtin
// takes each as a value: on<TasksExited>(...).
#pragma once

#include <nlohmann/json.hpp>

#include "exits/record.hpp"
#include "plugin/stack.hpp"

namespace nacre::plugin {

// On shell 0: tasks of any shell have ended in the same way.
struct TasksExited final : TopicEvent {
  static constexpr const char* kTopic = "job.tasks-exited";
  TasksExited(value::Idset tasks, exits::Record how) : ranks(std::move(tasks)), record(how) {}
  [[nodiscard]] Json members() const override;
  static Result<TasksExited> parse(const Json& members);

  value::Idset ranks;
  exits::Record record;
};

// What has become of another shell.
struct ShellChange : TopicEvent {
  ShellChange(std::uint32_t rank, std::string name) : shell(rank), host(std::move(name)) {}
  [[nodiscard]] Json members() const override { return {{"shell_rank", shell}, {"host", host}}; }

  std::uint32_t shell;
  std::string host;
};

struct ShellLost final : ShellChange {
  static constexpr const char* kTopic = "shell.lost";
  ShellLost(std::uint32_t rank, std::string name, bool ends) : ShellChange(rank, std::move(name)), ends_job(ends) {}
  [[nodiscard]] Json members() const override;
  static Result<ShellLost> parse(const Json& members);

  bool ends_job;
};

struct ShellLeft final : ShellChange {
  static constexpr const char* kTopic = "shell.left";
  using ShellChange::ShellChange;
  static Result<ShellLeft> parse(const Json& members);
};

struct ShellJoined final : ShellChange {
  static constexpr const char* kTopic = "shell.joined";
  using ShellChange::ShellChange;
  static Result<ShellJoined> parse(const Json& members);
};

}  // namespace nacre::plugin
