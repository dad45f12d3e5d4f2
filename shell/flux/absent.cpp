// SPDX-License-Identifier: Apache-2.0
//
// <flux/broker.h>: functions that this shell does not offer. They exist, so that plugins that use them elsewhere
// can still be loaded.
#include <flux/broker.h>

#include <fmt/format.h>

#include "capi/capi.hpp"

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
