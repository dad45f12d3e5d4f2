/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "init-fails"
#include <flux/shell.h>

/* conf {"errno":N} */
int flux_plugin_init(flux_plugin_t* p) {
  int code = 0;
  flux_plugin_conf_unpack(p, "{s:i}", "errno", &code);
  errno = code;
  return -1;
}
