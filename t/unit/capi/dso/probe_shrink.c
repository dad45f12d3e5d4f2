/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-shrink"
#include "probe.h"

static void answered(flux_shell_t* shell, int errnum, const char* text, void* arg) {
  EXPECT(shell != NULL);
  shell_log("%s: %d %s", (const char*)arg, errnum, text);
}

PROBE(ask) {
  const char* null_format = NULL;
  EXPECT(nacre_shell_shrink(shell, answered, "one", "{s:s s:s s:f}", "hosts", "n[1-2]", "signal", "USR1", "grace",
                            1.5) == 0);
  EXPECT(nacre_shell_shrink(shell, NULL, NULL, "{s:i s:b}", "count", 2, "force", 1) == 0);
  FAILS(nacre_shell_shrink(shell, answered, "x", "{s:i}", "shells", 1) == -1, EINVAL);
  FAILS(nacre_shell_shrink(shell, answered, "x", "{s:s s:i}", "shells", "1", "more", 1) == -1, EINVAL);
  FAILS(nacre_shell_shrink(shell, answered, "x", "{") == -1, EINVAL);
  FAILS(nacre_shell_shrink(shell, answered, "x", null_format) == -1, EINVAL);
  FAILS(nacre_shell_shrink(NULL, answered, "x", "{s:i}", "count", 1) == -1, EINVAL);
}

static const struct flux_plugin_handler table[] = {{"probe.ask", ask, NULL}, {NULL, NULL, NULL}};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
