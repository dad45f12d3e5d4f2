/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "crash"
#include <flux/shell.h>

#include <signal.h>

static int overflow(volatile char* below) {
  volatile char frame[4096];
  if (below != NULL && below[0] == 0) return 0;
  frame[0] = 1;
  return overflow(frame) + frame[0];
}

static int on_task(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  volatile int* volatile nowhere = (volatile int*)8;
  (void)p, (void)args, (void)data;
  if (strcmp(topic, "task.segv") == 0) return *nowhere;
  if (strcmp(topic, "task.abort") == 0) abort();
  if (strcmp(topic, "task.stack") == 0) return overflow(NULL);
  if (strcmp(topic, "task.fpe") == 0) raise(SIGFPE);
  return 0;
}

/* conf {"now":true}: at once. */
int flux_plugin_init(flux_plugin_t* p) {
  int now = 0;
  flux_plugin_conf_unpack(p, "{s:b}", "now", &now);
  if (now) raise(SIGILL);
  return flux_plugin_add_handler(p, "task.*", on_task, NULL);
}
