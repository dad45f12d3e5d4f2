// SPDX-License-Identifier: Apache-2.0
//
// <flux/job.h>.
#include <flux/job.h>
#include <flux/rpc.h>

#include "event/clock.hpp"
#include "flux/flux.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

constexpr const char* kWatchKey = "nacre::watch";
constexpr std::string_view kOwnLog = "guest.exec.eventlog";
constexpr std::string_view kMainLog = "eventlog";
constexpr std::string_view kLastEvent = "shell.exit";

struct Form {
  std::string_view name;
  std::string (value::JobId::*text)() const;
};

std::string directory_of(flux_jobid_t id) { return "job." + value::JobId(id).dothex(); }

std::optional<std::string> text_of(flux_jobid_t id, std::string_view type) {
  static constexpr std::array<Form, 6> kForms{{{"dec", &value::JobId::decimal},
                                               {"hex", &value::JobId::hex},
                                               {"dothex", &value::JobId::dothex},
                                               {"words", &value::JobId::words},
                                               {"f58", &value::JobId::f58},
                                               {"f58plain", &value::JobId::f58_plain}}};
  value::JobId job(id);
  if (type == "kvs") return directory_of(id);
  auto it = std::find_if(kForms.begin(), kForms.end(), [&](const Form& each) { return each.name == type; });
  if (it == kForms.end()) return std::nullopt;
  return (job.*it->text)();
}

// Follows the events for one future.
struct Watch {
  std::unique_ptr<EventRecord::Follower> follower;
  bool ended = false;
};

void end_watch(flux_future_t* f, Watch& watch) {
  if (!std::exchange(watch.ended, true)) flux_future_fulfill_error(f, ENODATA, nullptr);
}

void report(flux_future_t* f, Watch& watch, const Json& event) {
  if (watch.ended) return;
  std::string line = dump_json(event) + "\n";
  flux_future_fulfill(f, c_string(line), std::free);
  if (member_of(event, "name") == kLastEvent) end_watch(f, watch);
}

// Reports what this shell knows of the log that Flux's job manager writes.
void report_of_main(flux_future_t* f, Watch& watch, const Json& event) {
  if (member_of(event, "name") == "exception") report(f, watch, event);
  if (member_of(event, "name") == kLastEvent) end_watch(f, watch);
}

constexpr const char* kWatchTopic = "job-info.eventlog-watch";  // a request to an instance of Flux
constexpr const char* kCancelTopic = "job-info.eventlog-watch-cancel";

int write_name(char* buf, int bufsz, const std::string& name) {
  if (buf == nullptr || bufsz <= 0) return fail(EINVAL);
  if (name.size() >= static_cast<std::size_t>(bufsz)) return fail(EOVERFLOW);
  std::memcpy(buf, name.c_str(), name.size() + 1);
  return static_cast<int>(name.size());
}

bool is_word(std::string_view text) { return !text.empty() && text.find_first_of(" \t\n") == text.npos; }

}  // namespace

int flux_job_id_encode(flux_jobid_t id, const char* type, char* buf, size_t bufsz) noexcept {
  if (buf == nullptr) return fail(EINVAL);
  std::optional<std::string> text = text_of(id, type != nullptr ? type : "dec");
  if (!text) return fail(EINVAL);
  if (text->size() >= bufsz) return fail(EOVERFLOW);
  std::memcpy(buf, text->c_str(), text->size() + 1);
  return 0;
}

int flux_job_id_parse(const char* s, flux_jobid_t* id) noexcept {
  if (s == nullptr || id == nullptr) return fail(EINVAL);
  Result<value::JobId> parsed = value::JobId::parse(s);
  if (!parsed) return fail(EINVAL);
  *id = parsed->value();
  return 0;
}

flux_future_t* flux_job_event_watch(flux_t* h, flux_jobid_t id, const char* path, int flags) noexcept {
  if (h == nullptr || path == nullptr) return none(EINVAL);
  Host& host = h->runtime.shell().host;
  const bool is_own = id == host.job().id.value() && path == kOwnLog && flags == 0;
  if (host.instance() != nullptr && !is_own) {
    return flux_rpc_pack(h, kWatchTopic, FLUX_NODEID_ANY, FLUX_RPC_STREAMING, "{s:I s:s s:i}", "id",
                         static_cast<long long>(id), "path", path, "flags", flags);
  }
  if (flags != 0) return none(EINVAL);
  flux_future_t* f = flux_future_create(nullptr, nullptr);
  flux_future_set_flux(f, h);
  bool is_main = path == kMainLog;
  if (id != host.job().id.value() || (path != kOwnLog && !is_main)) {
    h->runtime.debug(fmt::format("flux_job_event_watch: {} of job {}: there is no Flux broker", path, id));
    flux_future_fulfill_error(f, ENOSYS, "not offered by this shell: there is no Flux broker");
    return f;
  }
  auto* watch = new Watch;
  flux_future_aux_set(f, kWatchKey, watch, [](void* arg) { delete static_cast<Watch*>(arg); });
  auto pass_on = is_main ? report_of_main : report;
  watch->follower = host.job_events().follow([=](const Json& event) { pass_on(f, *watch, event); });
  if (is_main) report(f, *watch, {{"timestamp", event::wall_clock()}, {"name", "start"}});
  for (const Json& each : host.job_events().events()) pass_on(f, *watch, each);
  return f;
}

int flux_job_event_watch_get(flux_future_t* f, const char** event) {
  const char* line = nullptr;
  if (f != nullptr && flux_future_aux_get(f, kWatchKey) == nullptr &&
      flux_rpc_get_matchtag(f) != FLUX_MATCHTAG_NONE) {
    if (flux_rpc_get_unpack(f, "{s:s}", "event", &line) < 0) return -1;
    if (event != nullptr) *event = line;
    return 0;
  }
  const void* result = nullptr;
  if (flux_future_get(f, &result) < 0) return -1;
  if (result == nullptr) return fail(EPROTO);
  if (event != nullptr) *event = static_cast<const char*>(result);
  return 0;
}

int flux_job_event_watch_cancel(flux_future_t* f) noexcept {
  if (f == nullptr) return fail(EINVAL);
  auto* watch = static_cast<Watch*>(flux_future_aux_get(f, kWatchKey));
  if (const auto tag = flux_rpc_get_matchtag(f); watch == nullptr && tag != FLUX_MATCHTAG_NONE) {
    flux_future_t* sent = flux_rpc_pack(flux_future_get_flux(f), kCancelTopic, FLUX_NODEID_ANY, FLUX_RPC_NORESPONSE,
                                        "{s:i}", "matchtag", static_cast<int>(tag));
    if (sent == nullptr) return -1;
    flux_future_destroy(sent);
    return 0;
  }
  if (watch == nullptr) return fail(EINVAL);
  end_watch(f, *watch);
  return 0;
}

flux_future_t* flux_job_raise(flux_t* h, flux_jobid_t id, const char* type, int severity,
                              const char* note) noexcept {
  constexpr int kMaxSeverity = 7;
  if (h == nullptr || type == nullptr || !is_word(type) || severity < 0 || severity > kMaxSeverity)
    return none(EINVAL);
  Host& host = h->runtime.shell().host;
  flux_future_t* f = flux_future_create(nullptr, nullptr);
  flux_future_set_flux(f, h);
  if (id != host.job().id.value()) {
    h->runtime.debug(fmt::format("flux_job_raise: job {}: there is no Flux broker", id));
    flux_future_fulfill_error(f, ENOSYS, "not offered by this shell: there is no Flux broker");
    return f;
  }
  host.raise({type, severity, note != nullptr ? note : "", std::nullopt});
  flux_future_fulfill(f, nullptr, nullptr);
  return f;
}

int flux_job_timeleft(flux_t* h, flux_error_t* errp, double* timeleft) noexcept {
  if (h == nullptr || timeleft == nullptr) {
    if (errp != nullptr) std::snprintf(errp->text, sizeof errp->text, "expected a handle and a place for the time");
    return fail(EINVAL);
  }
  double expiration = h->runtime.shell().host.job().resources.expiration;
  *timeleft =
      expiration > 0 ? std::max(0.0, expiration - event::wall_clock()) : std::numeric_limits<double>::infinity();
  return 0;
}

int flux_job_kvs_key(char* buf, int bufsz, flux_jobid_t id, const char* key) noexcept {
  return write_name(buf, bufsz, directory_of(id) + (key != nullptr ? fmt::format(".{}", key) : ""));
}

int flux_job_kvs_guest_key(char* buf, int bufsz, flux_jobid_t id, const char* key) noexcept {
  if (::getenv("FLUX_KVS_NAMESPACE") != nullptr) return write_name(buf, bufsz, key != nullptr ? key : ".");
  return write_name(buf, bufsz, directory_of(id) + ".guest" + (key != nullptr ? fmt::format(".{}", key) : ""));
}

int flux_job_kvs_namespace(char* buf, int bufsz, flux_jobid_t id) noexcept {
  return write_name(buf, bufsz, fmt::format("job-{}", id));
}
