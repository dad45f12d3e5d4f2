// SPDX-License-Identifier: Apache-2.0
//
// <flux/handle.h>: the log, and the facts that a handle has about its broker.

#include <flux/broker.h>
#include <flux/hosts.h>
#include <flux/version.h>

#include "base/text.hpp"
#include "capi/capi.hpp"
#include "flux/flux.hpp"

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
  if (const broker::Instance* instance = h->runtime.shell().host.instance()) {
    *rank = instance->rank;
    return 0;
  }
  const job::Job& job = job_of(h);
  *rank = job.node().broker_rank;
  return 0;
}

int flux_get_size(flux_t* h, uint32_t* size) noexcept {
  if (h == nullptr || size == nullptr) return fail(EINVAL);
  if (h->runtime.broker().is_there()) {
    const char* text = flux_attr_get(h, "size");
    if (text == nullptr) return -1;
    *size = static_cast<uint32_t>(parse_u64(text).value_or(0));
    return 0;
  }
  *size = job_of(h).shells();
  return 0;
}

namespace {

const char* attribute_of_broker(flux_t* h, const char* name) {
  auto answer = h->runtime.broker().ask("attr.get", {{"name", name}});
  if (!answer) return none(answer.error().code);
  return h->attributes.insert_or_assign(name, answer->value("value", "")).first->second.c_str();
}

}  // namespace

const char* flux_attr_get(flux_t* h, const char* name) noexcept {
  if (h == nullptr || name == nullptr) return none(EINVAL);
  if (h->runtime.broker().is_there()) return attribute_of_broker(h, name);
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

// ---- of a broker ------------------------------------------------------------------------
//
// <flux/broker.h>: functions that only a broker can serve. Without one they exist, so that plugins that use them
// elsewhere can still be loaded.

struct flux_kvs_txn {
  Json operations = Json::array();
};

namespace {

constexpr const char* kValueKey = "nacre::kvs-value";

bool has_broker(const flux_shell* shell) { return shell != nullptr && shell->host.instance() != nullptr; }

int absent(const char* function) {
  if (flux_shell* shell = current_shell()) {
    shell->host.log().log(Level::debug, "", "{}: not offered by this shell: there is no Flux broker", function);
  }
  return fail(ENOSYS);
}

// A call to the broker.
flux_future_t* call_broker(flux_t* h, const char* function, const char* topic, const Json& payload,
                           uint32_t node = FLUX_NODEID_ANY, int flags = 0) {
  if (has_broker(&h->runtime.shell())) return flux_rpc(h, topic, dump_json(payload).c_str(), node, flags);
  absent(function);
  return nullptr;
}

std::string namespace_of(flux_t* h, const char* ns) {
  if (ns != nullptr) return ns;
  const broker::Instance* instance = h->runtime.shell().host.instance();
  return instance != nullptr ? instance->kvs_namespace : "";
}

Result<std::string> value_in(flux_future_t* f) {
  const char* text = nullptr;
  if (flux_rpc_get(f, &text) < 0) return Error{errno, "the lookup has failed"};
  const Json answer = TRY(parse_json(text != nullptr ? text : ""));
  return broker::bytes_of(TRY(JsonAt::root(answer).at("val")).json());
}

// The reference of an empty directory, by the instance's hash function: of {"data":{},"type":"dir","ver":1}.
std::string empty_root(std::string_view hash) {
  if (hash == "sha256") return "sha256-61b85efa2a76db9377692c700b4e1edfc480bf224e0e9764b76f8082159d0ca0";
  return "sha1-c0a9faf907dda6216fd73bf81d0b3b21a1a8cb91";
}

int add(flux_kvs_txn_t* txn, int flags, const char* key, std::string_view bytes) {
  if ((flags & ~FLUX_KVS_APPEND) != 0) return fail(EINVAL);
  txn->operations.push_back(flags == 0 ? broker::put_of(key, bytes) : broker::append_of(key, bytes));
  return 0;
}

}  // namespace

flux_future_t* flux_kvs_lookup(flux_t* h, const char* ns, int flags, const char* key) noexcept {
  if (h == nullptr || key == nullptr) return none(EINVAL);
  const bool watches = (flags & FLUX_KVS_WATCH) != 0;
  const char* topic = (flags & (FLUX_KVS_WATCH | FLUX_KVS_WAITCREATE)) != 0 ? "kvs-watch.lookup" : "kvs.lookup";
  return call_broker(h, "flux_kvs_lookup", topic,
                     {{"key", key}, {"namespace", namespace_of(h, ns)}, {"flags", flags}}, FLUX_NODEID_ANY,
                     watches ? FLUX_RPC_STREAMING : 0);
}

int flux_kvs_lookup_get(flux_future_t* f, const char** value) noexcept {
  if (f == nullptr) return fail(EINVAL);
  if (!has_broker(current_shell())) return absent("flux_kvs_lookup_get");
  auto bytes = value_in(f);
  if (!bytes) return fail(bytes.error().code);
  auto* kept = new std::string(*std::move(bytes));
  flux_future_aux_set(f, kValueKey, kept, [](void* arg) { delete static_cast<std::string*>(arg); });
  if (value != nullptr) *value = kept->empty() ? nullptr : kept->c_str();
  return 0;
}

int flux_kvs_lookup_get_unpack(flux_future_t* f, const char* fmt, ...) noexcept {
  if (f == nullptr || fmt == nullptr) return fail(EINVAL);
  if (!has_broker(current_shell())) return absent("flux_kvs_lookup_get_unpack");
  auto bytes = value_in(f);
  if (!bytes) return fail(bytes.error().code);
  auto* root = json_loads(bytes->c_str(), JSON_DECODE_ANY, nullptr);
  if (root == nullptr) return fail(EINVAL);
  flux_future_aux_set(f, kValueKey, root, [](void* arg) { json_decref(static_cast<json_t*>(arg)); });
  va_list args;
  va_start(args, fmt);
  const auto unpacked = unpack(root, fmt, args);
  va_end(args);
  return unpacked ? 0 : fail(unpacked.error().code);
}

flux_future_t* flux_kvs_commit(flux_t* h, const char* ns, int flags, flux_kvs_txn_t* txn) noexcept {
  if (h == nullptr || txn == nullptr) return none(EINVAL);
  if (!has_broker(&h->runtime.shell())) {
    absent("flux_kvs_commit");
    return nullptr;
  }
  Json payload = broker::commit(namespace_of(h, ns), txn->operations);
  payload["flags"] = flags;
  return call_broker(h, "flux_kvs_commit", "kvs.commit", payload);
}

flux_future_t* flux_kvs_namespace_create(flux_t* h, const char* ns, uint32_t owner, int flags) noexcept {
  if (h == nullptr || ns == nullptr || flags != 0) return none(EINVAL);
  const char* hash = h->runtime.broker().is_there() ? flux_attr_get(h, "content.hash") : nullptr;
  return call_broker(
      h, "flux_kvs_namespace_create", "kvs.namespace-create",
      {{"namespace", ns}, {"rootref", empty_root(hash != nullptr ? hash : "")}, {"owner", owner}, {"flags", flags}},
      0);
}

flux_future_t* flux_kvs_namespace_remove(flux_t* h, const char* ns) noexcept {
  if (h == nullptr || ns == nullptr) return none(EINVAL);
  return call_broker(h, "flux_kvs_namespace_remove", "kvs.namespace-remove", {{"namespace", ns}}, 0);
}

flux_kvs_txn_t* flux_kvs_txn_create() noexcept {
  if (has_broker(current_shell())) return new flux_kvs_txn;
  absent("flux_kvs_txn_create");
  return nullptr;
}

void flux_kvs_txn_destroy(flux_kvs_txn_t* txn) noexcept {
  if (has_broker(current_shell())) delete txn;
}

int flux_kvs_txn_put(flux_kvs_txn_t* txn, int flags, const char* key, const char* value) noexcept {
  if (txn == nullptr || key == nullptr) return fail(EINVAL);
  if (!has_broker(current_shell())) return absent("flux_kvs_txn_put");
  return add(txn, flags, key, value != nullptr ? value : "");
}

int flux_kvs_txn_pack(flux_kvs_txn_t* txn, int flags, const char* key, const char* fmt, ...) noexcept {
  if (txn == nullptr || key == nullptr || fmt == nullptr) return fail(EINVAL);
  if (!has_broker(current_shell())) return absent("flux_kvs_txn_pack");
  va_list args;
  va_start(args, fmt);
  auto packed = pack(fmt, args);
  va_end(args);
  if (!packed) return fail(packed.error().code);
  char* text = json_dumps(packed->get(), JSON_ENCODE_ANY | JSON_COMPACT);
  if (text == nullptr) return fail(EINVAL);
  const int added = add(txn, flags, key, text);
  std::free(text);
  return added;
}

flux_future_t* flux_service_register(flux_t* h, const char* name) noexcept {
  if (h == nullptr || name == nullptr) return none(EINVAL);
  return call_broker(h, "flux_service_register", "service.add", {{"service", name}});
}

flux_future_t* flux_service_unregister(flux_t* h, const char* name) noexcept {
  if (h == nullptr || name == nullptr) return none(EINVAL);
  return call_broker(h, "flux_service_unregister", "service.remove", {{"service", name}});
}

const char* flux_conf_builtin_get(const char* /*name*/, enum flux_conf_flags /*flags*/) noexcept {
  return none(EINVAL);
}

// ---- hosts ------------------------------------------------------------------------------
//
// <flux/hosts.h> and <flux/version.h>.

namespace {

// By rank: of an instance's brokers, else of the job's shells.
value::Hostlist hosts_of(flux_t* h) {
  const char* text = h->runtime.broker().is_there() ? flux_attr_get(h, "hostlist") : nullptr;
  auto brokers = value::Hostlist::parse(text != nullptr ? text : "");
  if (text != nullptr && brokers) return *std::move(brokers);
  return flux_shell_get_hostlist(&h->runtime.shell())->names;
}

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

namespace {

std::string service_topic(flux_shell& shell, const char* method) {
  return fmt::format("{}.{}", shell.host.info()["service"].get<std::string>(), method);
}

// Adds a handler that lives as long as the shell.
int handle(flux_shell& shell, int type, const std::string& topic, flux_msg_handler_f cb, void* arg) {
  flux_t* h = nacre::flux::handle_of(shell);
  if (h == nullptr) return -1;
  flux_msg_handler_t* handler = flux_msg_handler_create(h, {type, FLUX_MATCHTAG_NONE, topic.c_str()}, cb, arg);
  // The job's user, where that is not the owner of the instance: others are refused before.
  flux_msg_handler_allow_rolemask(handler, FLUX_ROLE_USER);
  flux_msg_handler_start(handler);
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
