// SPDX-License-Identifier: Apache-2.0
//
// A plugin that keeps one shell of a job at a topic for as long as a test wants, while all else of that shell goes
// on. Options:
//   hold.at     the topic; in task.exec it is the new process that stays
//   hold.rank   of the shell
//   hold.marks  a folder: each shell that comes to the topic makes TOPIC.RANK there; the one that is held stays
//               until `go` is there
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FLUX_SHELL_PLUGIN_NAME "hold"
#include <flux/shell.h>

static const double look = 0.02;  // seconds
static const char* marks;

static int is_there(const char* name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", marks, name);
  return access(path, F_OK) == 0;
}

static int mark(const char* topic, int rank) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.%d", marks, topic, rank);
  FILE* file = fopen(path, "w");
  if (file == NULL) return shell_log_errno("%s", path);
  return fclose(file);
}

static void turn(flux_reactor_t* r, flux_watcher_t* w, int revents, void* arg) {
  (void)r, (void)w, (void)revents, (void)arg;
}

// The shell's loop runs meanwhile: its links live, and it hears what the others say.
static int stay(flux_shell_t* shell) {
  flux_reactor_t* reactor = flux_get_reactor(flux_shell_get_flux(shell));
  flux_watcher_t* timer = flux_timer_watcher_create(reactor, look, look, turn, NULL);
  if (timer == NULL) return shell_log_errno("no timer");
  flux_watcher_start(timer);
  int result = 0;
  while (result >= 0 && !is_there("go")) result = flux_reactor_run(reactor, FLUX_REACTOR_ONCE);
  flux_watcher_destroy(timer);
  return result < 0 ? shell_log_errno("the loop cannot be run") : 0;
}

static int on_topic(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  (void)args, (void)data;
  flux_shell_t* shell = flux_plugin_get_shell(p);
  const char* at;
  int held, rank;
  if (flux_shell_getopt_unpack(shell, "hold", "{s:s s:i s:s}", "at", &at, "rank", &held, "marks", &marks) != 1)
    return 0;
  // A topic of tasks gets its handler only where it is asked for: one of task.exec changes how tasks are forked.
  if (strcmp(topic, "shell.init") == 0 && strncmp(at, "task.", 5) == 0)
    return flux_plugin_add_handler(p, at, on_topic, NULL);
  if (strcmp(at, topic) != 0) return 0;
  if (flux_shell_info_unpack(shell, "{s:i}", "rank", &rank) < 0) return shell_log_errno("rank");
  if (mark(topic, rank) < 0) return -1;
  if (rank != held) return 0;
  if (strcmp(topic, "task.exec") != 0) return stay(shell);
  while (!is_there("go")) usleep(20000);
  return 0;
}

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_add_handler(p, "shell.*", on_topic, NULL); }
