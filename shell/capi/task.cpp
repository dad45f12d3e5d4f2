// SPDX-License-Identifier: Apache-2.0
//
// <flux/shell.h>: tasks.
#include <fmt/format.h>

#include "capi/capi.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

flux_shell_task_t* flux_shell_current_task(flux_shell_t* shell) noexcept {
  if (shell == nullptr) return none(EINVAL);
  return handle(shell->host.current_task());  // none is no error: errno does not change
}

flux_shell_task_t* flux_shell_task_first(flux_shell_t* shell) noexcept {
  if (shell == nullptr) return none(EINVAL);
  shell->next_task = 0;
  return flux_shell_task_next(shell);
}

flux_shell_task_t* flux_shell_task_next(flux_shell_t* shell) noexcept {
  if (shell == nullptr) return none(EINVAL);
  auto tasks = shell->host.tasks();
  if (tasks.empty()) return none(EAGAIN);
  if (shell->next_task >= tasks.size()) return nullptr;
  return handle(tasks[shell->next_task++].get());
}

int flux_shell_task_get_info(flux_shell_task_t* task, char** json_str) noexcept {
  if (task == nullptr || json_str == nullptr) return fail(EINVAL);
  return give(json_str, of(task)->info());
}

int flux_shell_task_info_unpack(flux_shell_task_t* task, const char* fmt, ...) noexcept {
  flux_shell* shell = current_shell();
  if (task == nullptr || fmt == nullptr || shell == nullptr) return fail(EINVAL);
  std::string slot = fmt::format("task {}", of(task)->local_id());
  va_list args;
  va_start(args, fmt);
  json_t* info = shell->kept.get(slot, of(task)->info(), KeptJson::Older::drop);
  int done = unpack_for(shell, slot.c_str(), info, fmt, args);
  va_end(args);
  return done;
}

flux_cmd_t* flux_shell_task_cmd(flux_shell_task_t* task) noexcept {
  return task != nullptr ? handle(&of(task)->command()) : none(EINVAL);
}
