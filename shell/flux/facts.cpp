// SPDX-License-Identifier: Apache-2.0
//
// <flux/handle.h>: the log, and the facts that a handle has about its broker.
#include <cstring>

#include <fmt/format.h>

#include "base/text.hpp"
#include "flux/handle.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

const job::Job& job_of(flux_t* h) { return h->runtime.shell().host.job(); }

Level level_of(int priority) {
  if (priority <= LOG_ERR) return Level::error;
  if (priority == LOG_WARNING) return Level::warn;
  return priority <= LOG_INFO ? Level::notice : Level::debug;
}

void post(flux_t* h, int priority, const char* file, int line, const std::string& text) {
  flux_shell* shell = h != nullptr ? &h->runtime.shell() : current_shell();
  Level level = level_of(priority);
  if (shell == nullptr || !shell->host.log().wants(level)) return;
  std::string component = h != nullptr && !h->appname.empty() ? h->appname : running_plugin_name();
  for (std::string_view each : split(trim(text), '\n')) {
    shell->host.log().post({level, component, file != nullptr ? file : "", line, std::string(each)});
  }
}

}  // namespace

// ---- facts -----------------------------------------------------------------------

int flux_get_rank(flux_t* h, uint32_t* rank) noexcept {
  if (h == nullptr || rank == nullptr) return fail(EINVAL);
  const job::Job& job = job_of(h);
  *rank = job.node().broker_rank;
  return 0;
}

int flux_get_size(flux_t* h, uint32_t* size) noexcept {
  if (h == nullptr || size == nullptr) return fail(EINVAL);
  *size = job_of(h).shells();
  return 0;
}

const char* flux_attr_get(flux_t* h, const char* name) noexcept {
  if (h == nullptr || name == nullptr) return none(EINVAL);
  const job::Job& job = job_of(h);
  std::string_view wanted = name;
  std::string value;
  if (uint32_t rank = 0; wanted == "rank") {
    flux_get_rank(h, &rank);
    value = std::to_string(rank);
  } else if (wanted == "size") {
    value = std::to_string(job.shells());
  } else if (wanted == "hostname") {
    value = job.node().hostname;
  } else if (wanted == "hostlist") {
    char* text = hostlist_encode(const_cast<struct hostlist*>(flux_shell_get_hostlist(&h->runtime.shell())));
    if (text == nullptr) return nullptr;
    value = text;
    std::free(text);
  } else if (wanted == "jobid") {
    value = job.f58();
  } else {
    h->runtime.debug(fmt::format("flux_attr_get: {}: not known without a Flux broker", wanted));
    return none(ENOENT);
  }
  return h->attributes.insert_or_assign(std::string(wanted), std::move(value)).first->second.c_str();
}

int flux_attr_set(flux_t* h, const char* name, const char* /*val*/) noexcept {
  return fail(h == nullptr || name == nullptr ? EINVAL : EPERM);
}

// ---- the log ---------------------------------------------------------------------

int flux_vlog(flux_t* h, int level, const char* fmt, va_list ap) noexcept {
  if (fmt == nullptr) return fail(EINVAL);
  int saved = errno;
  std::optional<std::string> text = format(fmt, ap);
  if (!text) return fail(EINVAL);
  post(h, level, nullptr, 0, *text);
  errno = saved;
  return 0;
}

int flux_log(flux_t* h, int level, const char* fmt, ...) noexcept {
  va_list args;
  va_start(args, fmt);
  int done = flux_vlog(h, level, fmt, args);
  va_end(args);
  return done;
}

void flux_log_verror(flux_t* h, const char* fmt, va_list ap) noexcept {
  int saved = errno;
  std::string text = fmt != nullptr ? format(fmt, ap).value_or("") : "";
  post(h, LOG_ERR, nullptr, 0, fmt::format("{}: {}", text, std::strerror(saved)));
  errno = saved;
}

void flux_log_error(flux_t* h, const char* fmt, ...) noexcept {
  va_list args;
  va_start(args, fmt);
  flux_log_verror(h, fmt, args);
  va_end(args);
}

void flux_log_set_appname(flux_t* h, const char* s) noexcept {
  if (h != nullptr && s != nullptr) h->appname = s;
}

void flux_log_set_procid(flux_t* /*h*/, const char* /*s*/) noexcept {}

void flux_llog(void* arg, const char* file, int line, const char* /*func*/, const char* subsys, int level,
               const char* fmt, va_list args) noexcept {
  if (fmt == nullptr) return;
  int saved = errno;
  std::string text = format(fmt, args).value_or("");
  if (subsys != nullptr && *subsys != '\0') text = fmt::format("{}: {}", subsys, text);
  post(static_cast<flux_t*>(arg), level, file, line, text);
  errno = saved;
}
