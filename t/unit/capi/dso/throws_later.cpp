// SPDX-License-Identifier: Apache-2.0
#define FLUX_SHELL_PLUGIN_NAME "throws-later"
#include <flux/shell.h>

#include <stdexcept>

static void late(flux_reactor_t*, flux_watcher_t*, int, void*) { throw std::runtime_error("too late"); }

int flux_plugin_init(flux_plugin_t* p) {
  flux_reactor_t* r = flux_get_reactor(flux_shell_get_flux(flux_plugin_get_shell(p)));
  flux_watcher_start(flux_timer_watcher_create(r, 0., 0., late, nullptr));
  return 0;
}
