// SPDX-License-Identifier: Apache-2.0
//
// <flux/shell.h>: what this shell does not offer. The functions are there, so that plugins that use them where they
// can still load; each checks its arguments, says so in the debug log and fails with ENOSYS.
#include "plugin/capi.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

int absent(const char* function) {
  if (flux_shell* shell = current_shell()) {
    shell->host.log().log(Level::debug, "", "{}: not offered by this shell", function);
  }
  return fail(ENOSYS);
}

std::nullptr_t no(const char* function) {
  absent(function);
  return nullptr;
}

}  // namespace

// A broker's.

flux_t* flux_shell_get_flux(flux_shell_t* shell) noexcept {
  return shell != nullptr ? no("flux_shell_get_flux") : none(EINVAL);
}

int flux_shell_service_register(flux_shell_t* shell, const char* method, flux_msg_handler_f cb,
                                void* /*arg*/) noexcept {
  if (shell == nullptr || method == nullptr || cb == nullptr) return fail(EINVAL);
  return absent("flux_shell_service_register");
}

int flux_shell_add_event_handler(flux_shell_t* shell, const char* subtopic, flux_msg_handler_f cb,
                                 void* /*arg*/) noexcept {
  if (shell == nullptr || subtopic == nullptr || cb == nullptr) return fail(EINVAL);
  return absent("flux_shell_add_event_handler");
}

flux_future_t* flux_shell_rpc_pack(flux_shell_t* shell, const char* method, int shell_rank, int /*flags*/,
                                   const char* fmt, ...) noexcept {
  if (shell == nullptr || method == nullptr || shell_rank < 0 || fmt == nullptr) return none(EINVAL);
  return no("flux_shell_rpc_pack");
}

// Not yet.

flux_subprocess_t* flux_shell_task_subprocess(flux_shell_task_t* task) noexcept {
  return task != nullptr ? no("flux_shell_task_subprocess") : none(EINVAL);
}

int flux_shell_task_channel_subscribe(flux_shell_task_t* task, const char* channel, flux_shell_task_io_f cb,
                                      void* /*arg*/) noexcept {
  if (task == nullptr || channel == nullptr || cb == nullptr) return fail(EINVAL);
  return absent("flux_shell_task_channel_subscribe");
}
