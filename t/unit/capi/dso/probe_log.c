/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-log"
#include "probe.h"

#include <signal.h>

PROBE(levels) {
  errno = ENOENT;
  shell_trace("t %d", 1);
  shell_debug("d");
  shell_log("n %s", "x");
  shell_warn("w\n");
  EXPECT(errno == ENOENT);
  shell_log("two\nlines");
  flux_shell_log("other", 2, NULL, 0, "reserved");
  flux_shell_log(NULL, 99, NULL, 0, "beyond");
  flux_shell_log("other", FLUX_SHELL_QUIET, NULL, 0, "never");
}

PROBE(errors) {
  shell_log_error("e");
  FAILS(shell_log_errn(EACCES, "open %s", "f") == -1, EACCES);
  errno = ENOMEM;
  EXPECT(shell_log_errno("get") == -1 && errno == ENOMEM);
  FAILS(flux_shell_err("c", "f", 1, 0, "plain") == -1, 0);
}

PROBE(fatal) {
  shell_die(3, "no %s", "way");
  errno = ENOSPC;
  shell_die_errno(4, "write");
}

PROBE(exceptions) {
  flux_shell_raise("probe", 2, "note %d", 5);
  flux_shell_raise_exit_status(SIGKILL, "task %d", 1);
  flux_shell_raise_exit_status(-1, "no status");
  flux_shell_raise(NULL, 0, "no type");
  nacre_shell_raise_task_status(2, SIGKILL, "because of %d", 2);
  nacre_shell_raise_task_status(4, -1, "no such rank");
  nacre_shell_raise_task_status(-1, -1, "no rank");
}

PROBE(set_level) {
  EXPECT(flux_shell_log_setlevel(FLUX_SHELL_QUIET, "record") == 0);
  shell_log_error("unheard");
  EXPECT(flux_shell_log_setlevel(FLUX_SHELL_TRACE, "record") == 0);
  EXPECT(shell_set_verbose(-1) == 0);
  shell_log("below");
  shell_warn("above");
  EXPECT(shell_set_verbose(2) == 0);
  EXPECT(shell_set_quiet(0) == 0);
  FAILS(flux_shell_log_setlevel(8, NULL) == -1, EINVAL);
  FAILS(flux_shell_log_setlevel(-2, NULL) == -1, EINVAL);
  FAILS(flux_shell_log_setlevel(FLUX_SHELL_WARN, "nowhere") == -1, EINVAL);
}

static const struct flux_plugin_handler table[] = {
    {"probe.levels", levels, NULL},         {"probe.errors", errors, NULL},       {"probe.fatal", fatal, NULL},
    {"probe.exceptions", exceptions, NULL}, {"probe.set-level", set_level, NULL}, {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
