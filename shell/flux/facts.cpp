// SPDX-License-Identifier: Apache-2.0
//
// <flux/handle.h>: the log, and the facts that a handle has about its broker.

#include <cstring>

#include <flux/broker.h>
#include <flux/hosts.h>
#include <flux/version.h>
#include <fmt/format.h>

#include "base/text.hpp"
#include "capi/capi.hpp"
#include "flux/handle.hpp"
#include "value/hostlist.hpp"

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

// ---- absent -----------------------------------------------------------------------------
//
// <flux/broker.h>: functions that this shell does not offer. They exist, so that plugins that use them elsewhere
// can still be loaded.

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

int absent(const char* function) {
  if (flux_shell* shell = current_shell()) {
    shell->host.log().log(Level::debug, "", "{}: not offered by this shell: there is no Flux broker", function);
  }
  return fail(ENOSYS);
}

std::nullptr_t no(const char* function) {
  absent(function);
  return nullptr;
}

}  // namespace

flux_future_t* flux_kvs_lookup(flux_t* h, const char* /*ns*/, int /*flags*/, const char* key) noexcept {
  return h != nullptr && key != nullptr ? no("flux_kvs_lookup") : none(EINVAL);
}

int flux_kvs_lookup_get(flux_future_t* f, const char** /*value*/) noexcept {
  return f != nullptr ? absent("flux_kvs_lookup_get") : fail(EINVAL);
}

int flux_kvs_lookup_get_unpack(flux_future_t* f, const char* fmt, ...) noexcept {
  return f != nullptr && fmt != nullptr ? absent("flux_kvs_lookup_get_unpack") : fail(EINVAL);
}

flux_future_t* flux_kvs_commit(flux_t* h, const char* /*ns*/, int /*flags*/, flux_kvs_txn_t* txn) noexcept {
  return h != nullptr && txn != nullptr ? no("flux_kvs_commit") : none(EINVAL);
}

flux_future_t* flux_kvs_namespace_create(flux_t* h, const char* ns, uint32_t /*owner*/, int flags) noexcept {
  return h != nullptr && ns != nullptr && flags == 0 ? no("flux_kvs_namespace_create") : none(EINVAL);
}

flux_future_t* flux_kvs_namespace_remove(flux_t* h, const char* ns) noexcept {
  return h != nullptr && ns != nullptr ? no("flux_kvs_namespace_remove") : none(EINVAL);
}

flux_kvs_txn_t* flux_kvs_txn_create() noexcept { return no("flux_kvs_txn_create"); }

void flux_kvs_txn_destroy(flux_kvs_txn_t* /*txn*/) noexcept {}

int flux_kvs_txn_put(flux_kvs_txn_t* txn, int /*flags*/, const char* key, const char* /*value*/) noexcept {
  return txn != nullptr && key != nullptr ? absent("flux_kvs_txn_put") : fail(EINVAL);
}

int flux_kvs_txn_pack(flux_kvs_txn_t* txn, int /*flags*/, const char* key, const char* fmt, ...) noexcept {
  return txn != nullptr && key != nullptr && fmt != nullptr ? absent("flux_kvs_txn_pack") : fail(EINVAL);
}

flux_future_t* flux_service_register(flux_t* h, const char* name) noexcept {
  return h != nullptr && name != nullptr ? no("flux_service_register") : none(EINVAL);
}

flux_future_t* flux_service_unregister(flux_t* h, const char* name) noexcept {
  return h != nullptr && name != nullptr ? no("flux_service_unregister") : none(EINVAL);
}

const char* flux_conf_builtin_get(const char* /*name*/, enum flux_conf_flags /*flags*/) noexcept {
  return none(EINVAL);
}

// ---- hosts ------------------------------------------------------------------------------
//
// <flux/hosts.h> and <flux/version.h>.

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

const value::Hostlist& hosts_of(flux_t* h) { return flux_shell_get_hostlist(&h->runtime.shell())->names; }

Result<std::string> hosts_of_ranks(const value::Hostlist& hosts, const value::Idset& ranks) {
  value::Hostlist out;
  for (value::Idset::Id rank : ranks.ids()) {
    auto host = hosts.nth(rank);
    if (!host) return Error{ENOENT, fmt::format("there is no shell {}: the job has {}", rank, hosts.size())};
    out.append(*host);
  }
  return out.str();
}

Result<std::string> ranks_of_hosts(const value::Hostlist& hosts, const value::Hostlist& wanted) {
  value::Idset out;
  for (std::uint64_t i = 0; i < wanted.size(); ++i) {
    std::string host = *wanted.nth(i);
    auto rank = hosts.find(host);
    if (!rank) return Error{ENOENT, fmt::format("no shell of the job is on {}", host)};
    out.insert(static_cast<value::Idset::Id>(*rank));
  }
  return out.str();
}

Result<std::string> lookup(flux_t* h, const char* targets) {
  if (h == nullptr || targets == nullptr) return invalid("expected a handle and ranks or hosts");
  if (Result<value::Idset> ranks = value::Idset::parse(targets)) return hosts_of_ranks(hosts_of(h), *ranks);
  if (Result<value::Hostlist> wanted = value::Hostlist::parse(targets)) return ranks_of_hosts(hosts_of(h), *wanted);
  return invalid(fmt::format("expected ranks (RFC 22) or hosts (RFC 29), got '{}'", targets));
}

}  // namespace

const char* flux_get_hostbyrank(flux_t* h, uint32_t rank) noexcept {
  if (rank == FLUX_NODEID_ANY) return "any";
  if (rank == FLUX_NODEID_UPSTREAM) return "upstream";
  std::optional<std::string> host;
  if (h != nullptr) host = hosts_of(h).nth(rank);
  if (!host) return "(null)";
  return h->attributes.insert_or_assign("host of a rank", std::move(*host)).first->second.c_str();
}

int flux_get_rankbyhost(flux_t* h, const char* host) noexcept {
  if (h == nullptr || host == nullptr) return fail(EINVAL);
  auto rank = hosts_of(h).find(host);
  return rank ? static_cast<int>(*rank) : fail(ENOENT);
}

char* flux_hostmap_lookup(flux_t* h, const char* targets, flux_error_t* errp) noexcept {
  Result<std::string> found = lookup(h, targets);
  if (found) return c_string(*found);
  if (errp != nullptr) std::snprintf(errp->text, sizeof errp->text, "%s", found.error().message.c_str());
  return none(found.error().code);
}

const char* flux_core_version_string(void) noexcept { return FLUX_CORE_VERSION_STRING; }

int flux_core_version(int* major, int* minor, int* patch) noexcept {
  if (major != nullptr) *major = FLUX_CORE_VERSION_MAJOR;
  if (minor != nullptr) *minor = FLUX_CORE_VERSION_MINOR;
  if (patch != nullptr) *patch = FLUX_CORE_VERSION_PATCH;
  return FLUX_CORE_VERSION_HEX;
}

// ---- shell calls ------------------------------------------------------------------------
//
// <flux/shell.h>: the handle, services, events, and calls to the shells of the job.

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
