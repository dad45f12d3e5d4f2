// SPDX-License-Identifier: Apache-2.0
//
// <flux/shell_log.h>.

#include "base/text.hpp"
#include "capi/capi.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

// The reserved levels 1 and 2 count as errors; levels beyond the last one count as the last.
Level level_of(int level) {
  if (level > FLUX_SHELL_FATAL && level < FLUX_SHELL_ERROR) return Level::error;
  return static_cast<Level>(std::min<int>(level, FLUX_SHELL_TRACE));
}

std::string text_of(const char* fmt, va_list args, int errnum = 0) {
  std::string text = fmt != nullptr ? format(fmt, args).value_or("") : "";
  text = trim(text);
  if (errnum != 0) text += fmt::format("{}{}", text.empty() ? "" : ": ", std::strerror(errnum));
  return text;
}

// An entry is one line; a text of several lines becomes several entries.
void post(const char* component, Level level, const char* file, int line, const std::string& text) {
  Log& log = current_shell()->host.log();
  for (std::string_view each : split(text, '\n')) {
    log.post({level, component != nullptr ? component : "", file != nullptr ? file : "", line, std::string(each)});
  }
}

bool wanted(Level level) {
  flux_shell* shell = current_shell();
  return shell != nullptr && level != Level::quiet && shell->host.log().wants(level);
}

}  // namespace

void flux_shell_log(const char* component, int level, const char* file, int line, const char* fmt, ...) noexcept {
  if (level < 0 || !wanted(level_of(level))) return;
  int saved = errno;
  va_list args;
  va_start(args, fmt);
  post(component, level_of(level), file, line, text_of(fmt, args));
  va_end(args);
  errno = saved;
}

int flux_shell_err(const char* component, const char* file, int line, int errnum, const char* fmt, ...) noexcept {
  if (wanted(Level::error)) {
    va_list args;
    va_start(args, fmt);
    post(component, Level::error, file, line, text_of(fmt, args, errnum));
    va_end(args);
  }
  return fail(errnum);
}

void flux_shell_fatal(const char* component, const char* /*file*/, int /*line*/, int errnum, int exit_code,
                      const char* fmt, ...) noexcept {
  flux_shell* shell = current_shell();
  if (shell == nullptr) return;
  va_list args;
  va_start(args, fmt);
  shell->host.die(exit_code, component != nullptr ? component : "", text_of(fmt, args, errnum));
  va_end(args);
}

void flux_shell_raise(const char* type, int severity, const char* fmt, ...) noexcept {
  flux_shell* shell = current_shell();
  if (shell == nullptr || type == nullptr) return;
  va_list args;
  va_start(args, fmt);
  shell->host.raise({type, severity, text_of(fmt, args), std::nullopt});
  va_end(args);
}

void flux_shell_raise_exit_status(int wait_status, const char* fmt, ...) noexcept {
  flux_shell* shell = current_shell();
  if (shell == nullptr) return;
  RaisedException exception;
  if (wait_status >= 0) exception.status = value::WaitStatus::of_raw(wait_status);
  va_list args;
  va_start(args, fmt);
  exception.message = text_of(fmt, args);
  va_end(args);
  shell->host.raise(exception);
}

void nacre_shell_raise_task_status(int rank, int wait_status, const char* fmt, ...) noexcept {
  flux_shell* shell = current_shell();
  if (shell == nullptr) return;
  RaisedException exception;
  if (wait_status >= 0) exception.status = value::WaitStatus::of_raw(wait_status);
  if (rank >= 0 && static_cast<std::uint64_t>(rank) < shell->host.job().tasks())
    exception.task = exits::TaskEnd{static_cast<std::uint32_t>(rank), exits::Record::victim({})};
  va_list args;
  va_start(args, fmt);
  exception.message = text_of(fmt, args);
  va_end(args);
  shell->host.raise(exception);
}

int flux_shell_log_setlevel(int level, const char* dest) noexcept {
  flux_shell* shell = current_shell();
  if (shell == nullptr || level < FLUX_SHELL_QUIET || level > FLUX_SHELL_TRACE) return fail(EINVAL);
  Log& log = shell->host.log();
  if (dest == nullptr) {
    log.set_level(level_of(level));
  } else if (!log.set_sink_level(dest, level_of(level))) {
    return fail(EINVAL);
  }
  Call call("shell.log-setlevel");
  call.in["level"] = level;
  if (dest != nullptr) call.in["dest"] = dest;
  Result<int> called = shell->host.stack().call(call);
  return called ? 0 : fail(called.error().code);
}
