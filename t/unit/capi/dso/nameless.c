/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "nameless"
#include <flux/shell.h>

/* Takes no name, and attaches data to the shell whose free function is its own. */
static void say_freed(void* text) { shell_log("freed %s", (const char*)text); }

static int fail_on_request(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  (void)p, (void)topic, (void)args;
  return *(int*)data;
}

int flux_plugin_init(flux_plugin_t* p) {
  static char of_plugin[] = "plugin data", of_shell[] = "shell data";
  static int minus_one = -1;
  flux_plugin_aux_set(p, "x", of_plugin, say_freed);
  flux_shell_aux_set(flux_plugin_get_shell(p), NULL, of_shell, say_freed);
  return flux_plugin_add_handler(p, "nameless.fail", fail_on_request, &minus_one);
}
