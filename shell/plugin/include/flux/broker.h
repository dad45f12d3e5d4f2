/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that only a Flux broker can serve, for plugins that use them if they can: without an instance each
 * checks its arguments (EINVAL), writes a line to the debug log and fails with ENOSYS.
 */
#ifndef FLUX_BROKER_H
#define FLUX_BROKER_H

#include <flux/future.h>
#include <flux/message.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* --- the key-value store --- */

enum {
  FLUX_KVS_READDIR = 1,
  FLUX_KVS_READLINK = 2,
  FLUX_KVS_WATCH = 4,
  FLUX_KVS_WAITCREATE = 8,
  FLUX_KVS_TREEOBJ = 16,
  FLUX_KVS_APPEND = 32,
  FLUX_KVS_WATCH_FULL = 64,
  FLUX_KVS_WATCH_UNIQ = 128,
  FLUX_KVS_WATCH_APPEND = 256,
};
typedef struct flux_kvs_txn flux_kvs_txn_t;

flux_future_t* flux_kvs_lookup(flux_t* h, const char* ns, int flags, const char* key) FLUX_NOTHROW;
int flux_kvs_lookup_get(flux_future_t* f, const char** value) FLUX_NOTHROW;
int flux_kvs_lookup_get_unpack(flux_future_t* f, const char* fmt, ...) FLUX_NOTHROW;
flux_future_t* flux_kvs_commit(flux_t* h, const char* ns, int flags, flux_kvs_txn_t* txn) FLUX_NOTHROW;
/* The parameter is `ns`, as C++ reserves the word namespace. */
flux_future_t* flux_kvs_namespace_create(flux_t* h, const char* ns, uint32_t owner, int flags) FLUX_NOTHROW;
flux_future_t* flux_kvs_namespace_remove(flux_t* h, const char* ns) FLUX_NOTHROW;
flux_kvs_txn_t* flux_kvs_txn_create(void) FLUX_NOTHROW;
void flux_kvs_txn_destroy(flux_kvs_txn_t* txn) FLUX_NOTHROW;
int flux_kvs_txn_put(flux_kvs_txn_t* txn, int flags, const char* key, const char* value) FLUX_NOTHROW;
int flux_kvs_txn_pack(flux_kvs_txn_t* txn, int flags, const char* key, const char* fmt, ...) FLUX_NOTHROW;

/* --- services under a plugin's own name; here use flux_shell_service_register() --- */

flux_future_t* flux_service_register(flux_t* h, const char* name) FLUX_NOTHROW;
flux_future_t* flux_service_unregister(flux_t* h, const char* name) FLUX_NOTHROW;

/* --- how Flux was built: NULL and EINVAL, as there is none --- */

enum flux_conf_flags {
  FLUX_CONF_INSTALLED = 0,
  FLUX_CONF_INTREE = 1,
  FLUX_CONF_AUTO = 2,
};
const char* flux_conf_builtin_get(const char* name, enum flux_conf_flags flags) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_BROKER_H */
