// SPDX-License-Identifier: Apache-2.0
#define FLUX_SHELL_PLUGIN_NAME "throws"
#include <flux/shell.h>

#include <stdexcept>

static int on_shell(flux_plugin_t*, const char*, flux_plugin_arg_t*, void*) { throw std::runtime_error("no luck"); }

static int on_odd(flux_plugin_t*, const char*, flux_plugin_arg_t*, void*) { throw 42; }

int flux_plugin_init(flux_plugin_t* p) {
  if (flux_plugin_add_handler(p, "odd", on_odd, nullptr) < 0) return -1;
  return flux_plugin_add_handler(p, "shell.*", on_shell, nullptr);
}
