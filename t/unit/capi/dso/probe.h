/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that tests the C API from its own side. Each PROBE is a handler: what it EXPECTs and does not find is
 * logged as an error, and fails the call.
 */
#ifndef PROBE_H
#define PROBE_H

#include <flux/shell.h>

static int failures;

#define EXPECT(condition)                                                             \
  do {                                                                                \
    if (!(condition)) {                                                               \
      shell_log_error("%s:%d: %s (errno %d)", __FILE__, __LINE__, #condition, errno); \
      ++failures;                                                                     \
    }                                                                                 \
  } while (0)

/* A failure value, and errno. */
#define FAILS(condition, code) \
  do {                         \
    errno = 0;                 \
    EXPECT((condition));       \
    EXPECT(errno == (code));   \
  } while (0)

#define PROBE(name)                                                                                              \
  static void name##_body(flux_plugin_t* p, flux_shell_t* shell, flux_plugin_arg_t* args);                       \
  static int name(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {                    \
    (void)topic;                                                                                                 \
    (void)data;                                                                                                  \
    failures = 0;                                                                                                \
    name##_body(p, flux_plugin_get_shell(p), args);                                                              \
    return failures == 0 ? 0 : -1;                                                                               \
  }                                                                                                              \
  static void name##_body(flux_plugin_t* p __attribute__((unused)), flux_shell_t* shell __attribute__((unused)), \
                          flux_plugin_arg_t* args __attribute__((unused)))

static inline int same(const char* a, const char* b) { return a != NULL && b != NULL && strcmp(a, b) == 0; }

/* Frees `text` too. */
static inline int same_text(char* text, const char* expected) {
  int equal = same(text, expected);
  if (!equal) shell_log_error("got: %s", text != NULL ? text : "NULL");
  free(text);
  return equal;
}

#endif
