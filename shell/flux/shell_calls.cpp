// SPDX-License-Identifier: Apache-2.0
//
// <flux/shell.h>: the handle, services, events, and calls to the shells of the job.
#include <fmt/format.h>

#include "flux/handle.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

std::string service_topic(flux_shell& shell, const char* method) {
  return fmt::format("{}.{}", shell.host.info()["service"].get<std::string>(), method);
}

// Adds a handler that lives as long as the shell.
int handle(flux_shell& shell, int type, const std::string& topic, flux_msg_handler_f cb, void* arg) {
  flux_t* h = nacre::flux::handle_of(shell);
  if (h == nullptr) return -1;
  flux_msg_handler_start(flux_msg_handler_create(h, {type, FLUX_MATCHTAG_NONE, topic.c_str()}, cb, arg));
  shell.host.messages().offer();  // requests of other shells may have come before
  return 0;
}

}  // namespace

flux_t* flux_shell_get_flux(flux_shell_t* shell) noexcept {
  return shell != nullptr ? nacre::flux::handle_of(*shell) : none(EINVAL);
}

int flux_shell_service_register(flux_shell_t* shell, const char* method, flux_msg_handler_f cb,
                                void* arg) noexcept {
  if (shell == nullptr || method == nullptr || cb == nullptr) return fail(EINVAL);
  return handle(*shell, FLUX_MSGTYPE_REQUEST, service_topic(*shell, method), cb, arg);
}

int flux_shell_add_event_handler(flux_shell_t* shell, const char* subtopic, flux_msg_handler_f cb,
                                 void* arg) noexcept {
  if (shell == nullptr || subtopic == nullptr || cb == nullptr) return fail(EINVAL);
  return handle(*shell, FLUX_MSGTYPE_EVENT, fmt::format("shell-{}.{}", shell->host.job().id.value(), subtopic), cb,
                arg);
}

flux_future_t* flux_shell_rpc_pack(flux_shell_t* shell, const char* method, int shell_rank, int flags,
                                   const char* fmt, ...) noexcept {
  if (shell == nullptr || method == nullptr || shell_rank < 0 || fmt == nullptr) return none(EINVAL);
  auto rank = static_cast<uint32_t>(shell_rank);
  if (rank >= shell->host.job().shells()) return none(EINVAL);
  flux_t* h = nacre::flux::handle_of(*shell);
  if (h == nullptr) return nullptr;
  va_list args;
  va_start(args, fmt);
  flux_future_t* f = flux_rpc_vpack(h, service_topic(*shell, method).c_str(), rank, flags, fmt, args);
  va_end(args);
  return f;
}
