/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "unresolved"
#include <flux/shell.h>

int function_that_nobody_defines(void);

int flux_plugin_init(flux_plugin_t* p) {
  (void)p;
  return function_that_nobody_defines();
}
