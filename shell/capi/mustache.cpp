// SPDX-License-Identifier: Apache-2.0
//
// <flux/shell.h>: templates.
#include "capi/capi.hpp"
#include "plugin/tags.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

char* render(flux_shell_t* shell, const char* fmt, const TagScope& scope) {
  Result<std::string> text = render_tags(shell->host, fmt, scope);
  if (!text) {
    shell->host.log().log(Level::debug, "", "mustache: {}", text.error().message);
    return none(text.error().code);
  }
  char* copy = c_string(*text);
  return copy != nullptr ? copy : none(ENOMEM);
}

}  // namespace

char* flux_shell_mustache_render(flux_shell_t* shell, const char* fmt) noexcept {
  if (shell == nullptr || fmt == nullptr) return none(EINVAL);
  return render(shell, fmt, {.task = shell->host.current_task()});
}

char* flux_shell_rank_mustache_render(flux_shell_t* shell, int shell_rank, const char* fmt) noexcept {
  if (shell == nullptr || fmt == nullptr || shell_rank < -1) return none(EINVAL);
  TagScope scope;
  if (shell_rank >= 0) scope.shell_rank = static_cast<std::uint32_t>(shell_rank);
  return render(shell, fmt, scope);
}

char* flux_shell_task_mustache_render(flux_shell_t* shell, flux_shell_task_t* task, const char* fmt) noexcept {
  if (shell == nullptr || task == nullptr || fmt == nullptr) return none(EINVAL);
  return render(shell, fmt, {.task = of(task)});
}

bool flux_shell_mustache_is_per_rank(flux_shell_t* shell, const char* fmt) noexcept {
  if (shell == nullptr || fmt == nullptr) return fail(EINVAL) == 0;
  Result<bool> differs = differs_by_rank(shell->host, fmt);
  return differs ? *differs : fail(differs.error().code) == 0;
}
