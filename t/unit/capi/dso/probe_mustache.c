/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-mustache"
#include "probe.h"

PROBE(of_the_job) {
  EXPECT(same_text(flux_shell_mustache_render(shell, "{{id.dec}}: {{size}} on {{node.name}}"), "1: 4 on fake0"));
  EXPECT(same_text(flux_shell_mustache_render(shell, "{{task.rank}} {{no}}"), "{{task.rank}} {{no}}"));
  EXPECT(same_text(flux_shell_rank_mustache_render(shell, 0, "{{node.id}}"), "0"));
  EXPECT(same_text(flux_shell_rank_mustache_render(shell, -1, "{{node.id}}"), "0"));
  FAILS(flux_shell_rank_mustache_render(shell, 1, "{{node.id}}") == NULL, EINVAL);
  FAILS(flux_shell_rank_mustache_render(shell, -2, "{{id}}") == NULL, EINVAL);
  FAILS(flux_shell_mustache_render(NULL, "{{id}}") == NULL, EINVAL);
  FAILS(flux_shell_mustache_render(shell, NULL) == NULL, EINVAL);
  FAILS(flux_shell_task_mustache_render(shell, NULL, "") == NULL, EINVAL);
}

PROBE(of_a_task) {
  flux_shell_task_t* last = flux_shell_task_first(shell);
  for (flux_shell_task_t* task = last; task != NULL; task = flux_shell_task_next(shell)) last = task;
  EXPECT(same_text(flux_shell_mustache_render(shell, "{{taskid}}"), "2"));
  EXPECT(same_text(flux_shell_task_mustache_render(shell, last, "{{task.index}}"), "3"));
}

PROBE(by_rank) {
  EXPECT(flux_shell_mustache_is_per_rank(shell, "out.{{node.id}}"));
  EXPECT(flux_shell_mustache_is_per_rank(shell, "{{tmpdir}}"));
  EXPECT(flux_shell_mustache_is_per_rank(shell, "{{rank-tag}}"));
  FAILS(!flux_shell_mustache_is_per_rank(shell, "{{id}} {{fixed-tag}} {{no}}"), 0);
  FAILS(!flux_shell_mustache_is_per_rank(shell, NULL), EINVAL);
  FAILS(!flux_shell_mustache_is_per_rank(NULL, "{{id}}"), EINVAL);
}

/* Tags of this plugin. */
static int render_rank(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  int rank;
  (void)p, (void)topic, (void)data;
  if (flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:i}", "shell_rank", &rank) < 0) return -1;
  return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:s}", "result", rank == 0 ? "first" : "other");
}

static int render_fixed(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  (void)p, (void)topic, (void)data;
  return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:s}", "result", "fixed");
}

static const struct flux_plugin_handler table[] = {
    {"probe.of-the-job", of_the_job, NULL},
    {"probe.of-a-task", of_a_task, NULL},
    {"probe.by-rank", by_rank, NULL},
    {"mustache.render.rank-tag", render_rank, NULL},
    {"mustache.render.fixed-tag", render_fixed, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
