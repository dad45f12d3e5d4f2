/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin as its own code sees it: a handle with a name, handlers for topics, configuration and attached data.
 *
 * Unless stated otherwise, functions return 0, or -1 with errno set: EINVAL if a handle or a needed argument is
 * NULL or malformed. flux_plugin_strerror() and flux_plugin_arg_strerror() then return the reason as text. Strings
 * that are returned as `const char *` belong to the handle. FORMATs with variable arguments are those of jansson's
 * json_pack(3) and json_unpack(3); unpacked strings and objects belong to the handle too.
 */
#ifndef FLUX_PLUGIN_H
#define FLUX_PLUGIN_H

#include <flux/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct flux_plugin flux_plugin_t;
typedef struct flux_plugin_arg flux_plugin_arg_t;

/* Called for a topic. A negative value is an error: the other plugins are still called, then the call fails. */
typedef int (*flux_plugin_f)(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data);
typedef int (*flux_plugin_init_f)(flux_plugin_t* p);

/* A row of a table for flux_plugin_register(); its last row has topic NULL. */
struct flux_plugin_handler {
  const char* topic;
  flux_plugin_f cb;
  void* data;
};

/* A plugin defines `int flux_plugin_init(flux_plugin_t *p)`: called once, when it has been loaded. A negative value
 * ends the job. In C it is not declared here, as some plugins define it to return nothing. */
#ifdef __cplusplus
int flux_plugin_init(flux_plugin_t* p);
#endif

/* --- identity --- */

/* If two plugins have the same name, the one loaded last replaces the other. The default is the file's name without
 * its suffix. */
int flux_plugin_set_name(flux_plugin_t* p, const char* name) FLUX_NOTHROW;
const char* flux_plugin_get_name(flux_plugin_t* p) FLUX_NOTHROW;
const char* flux_plugin_get_path(flux_plugin_t* p) FLUX_NOTHROW;
const char* flux_plugin_get_uuid(flux_plugin_t* p) FLUX_NOTHROW; /* another for each load */
const char* flux_plugin_strerror(flux_plugin_t* p) FLUX_NOTHROW; /* of the last call that failed */

/* How the object was loaded. Flags that are set later are stored, without effect. */
enum {
  FLUX_PLUGIN_RTLD_LAZY = 1,
  FLUX_PLUGIN_RTLD_NOW = 2,
  FLUX_PLUGIN_RTLD_GLOBAL = 4,
  FLUX_PLUGIN_RTLD_DEEPBIND = 8,
};
int flux_plugin_get_flags(flux_plugin_t* p) FLUX_NOTHROW;
int flux_plugin_set_flags(flux_plugin_t* p, int flags) FLUX_NOTHROW;

/* --- handlers: `topic` may be a glob(7) --- */

/* A second handler for the same text replaces the first. */
int flux_plugin_add_handler(flux_plugin_t* p, const char* topic, flux_plugin_f cb, void* data) FLUX_NOTHROW;
int flux_plugin_remove_handler(flux_plugin_t* p, const char* topic) FLUX_NOTHROW;
/* The handler that was added for this very text; NULL and ENOENT if there is none. */
flux_plugin_f flux_plugin_get_handler(flux_plugin_t* p, const char* topic) FLUX_NOTHROW;
/* The handler that a call of `topic` would run; NULL and ENOENT if there is none. */
flux_plugin_f flux_plugin_match_handler(flux_plugin_t* p, const char* topic) FLUX_NOTHROW;
/* Sets the name (unless NULL) and adds a table of handlers. */
int flux_plugin_register(flux_plugin_t* p, const char* name, const struct flux_plugin_handler t[]) FLUX_NOTHROW;

/* --- attached data --- */

/* Attaches `val` under `key`; free_fn (if any) is called on it when it is replaced or the plugin is destroyed. A
 * value without a key can only be freed, not got. A NULL `val` removes the value. EINVAL if both are NULL, or
 * for free_fn without val. */
int flux_plugin_aux_set(flux_plugin_t* p, const char* key, void* val, flux_free_f free_fn) FLUX_NOTHROW;
void* flux_plugin_aux_get(flux_plugin_t* p, const char* key) FLUX_NOTHROW; /* NULL and ENOENT if there is none */
void flux_plugin_aux_delete_value(flux_plugin_t* p, const void* val) FLUX_NOTHROW;
FLUX_DEPRECATED(void flux_plugin_aux_delete(flux_plugin_t* p, const void* val) FLUX_NOTHROW);

/* --- configuration: the `conf` of plugin.load --- */

int flux_plugin_set_conf(flux_plugin_t* p, const char* json_str) FLUX_NOTHROW; /* an object */
const char* flux_plugin_get_conf(flux_plugin_t* p) FLUX_NOTHROW; /* NULL and ENOENT if there is none */
int flux_plugin_conf_unpack(flux_plugin_t* p, const char* fmt, ...) FLUX_NOTHROW;

/* --- arguments of a call: one object goes in, another comes out --- */

enum {
  FLUX_PLUGIN_ARG_IN = 0,
  FLUX_PLUGIN_ARG_OUT = 1,
  FLUX_PLUGIN_ARG_REPLACE = 2, /* set and pack: drop the members that are there; else they are updated */
};

flux_plugin_arg_t* flux_plugin_arg_create(void) FLUX_NOTHROW;
void flux_plugin_arg_destroy(flux_plugin_arg_t* args) FLUX_NOTHROW; /* only what was created */
const char* flux_plugin_arg_strerror(flux_plugin_arg_t* args) FLUX_NOTHROW;

/* A NULL json_str empties the object. The caller frees the string that get() returns with free(3). */
int flux_plugin_arg_set(flux_plugin_arg_t* args, int flags, const char* json_str) FLUX_NOTHROW;
int flux_plugin_arg_get(flux_plugin_arg_t* args, int flags, char** json_str) FLUX_NOTHROW;

int flux_plugin_arg_pack(flux_plugin_arg_t* args, int flags, const char* fmt, ...) FLUX_NOTHROW;
int flux_plugin_arg_vpack(flux_plugin_arg_t* args, int flags, const char* fmt, va_list ap) FLUX_NOTHROW;
int flux_plugin_arg_unpack(flux_plugin_arg_t* args, int flags, const char* fmt, ...) FLUX_NOTHROW;
int flux_plugin_arg_vunpack(flux_plugin_arg_t* args, int flags, const char* fmt, va_list ap) FLUX_NOTHROW;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_PLUGIN_H */
