/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-shell"
#include "probe.h"

#include <signal.h>

/* The job's options are {"color":"red","nested":{"n":3}}. */
PROBE(options) {
  char* json = NULL;
  const char *color = NULL, *again = NULL;
  int n = 0;
  EXPECT(flux_shell_getopt(shell, "color", &json) == 1 && same_text(json, "\"red\""));
  EXPECT(flux_shell_getopt(shell, "color", NULL) == 1);
  EXPECT(flux_shell_getopt(shell, "none", NULL) == 0);
  EXPECT(flux_shell_getopt_unpack(shell, "none", NULL) == 0);
  EXPECT(flux_shell_getopt_unpack(shell, "color", "s", &color) == 1 && same(color, "red"));
  EXPECT(flux_shell_getopt_unpack(shell, "nested.n", "i", &n) == 1 && n == 3);
  EXPECT(flux_shell_getopt_unpack(shell, "nested", "{s:i}", "n", &n) == 1);
  FAILS(flux_shell_getopt_unpack(shell, "color", "i", &n) == -1, EINVAL);
  EXPECT(flux_shell_setopt(shell, "color", "\"blue\"") == 0);
  EXPECT(flux_shell_getopt_unpack(shell, "color", "s", &again) == 1 && same(again, "blue"));
  EXPECT(same(color, "red")); /* what was given stays valid */
  EXPECT(flux_shell_setopt_pack(shell, "made.up", "{s:b}", "yes", 1) == 0);
  EXPECT(flux_shell_getopt(shell, "made.up.yes", &json) == 1 && same_text(json, "true"));
  EXPECT(flux_shell_setopt(shell, "color", NULL) == 0 && flux_shell_getopt(shell, "color", NULL) == 0);
  FAILS(flux_shell_setopt(shell, "color", "{") == -1, EINVAL);
  FAILS(flux_shell_setopt(shell, "", "1") == -1, EINVAL);
  FAILS(flux_shell_setopt_pack(shell, "color", "{") == -1, EINVAL);
  FAILS(flux_shell_setopt_pack(shell, "color", NULL) == -1, EINVAL);
  FAILS(flux_shell_getopt(NULL, NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_getopt(shell, NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_getopt_unpack(NULL, NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_getopt_unpack(shell, NULL, NULL) == -1, EINVAL);
}

PROBE(environment) {
  char* json = NULL;
  const char* null_format = NULL;
  EXPECT(flux_shell_setenvf(shell, 0, "PROBE", "%d-%s", 1, "a") == 0);
  EXPECT(same(flux_shell_getenv(shell, "PROBE"), "1-a"));
  FAILS(flux_shell_setenvf(shell, 0, "PROBE", "b") == -1, EEXIST);
  EXPECT(flux_shell_setenvf(shell, 1, "PROBE", "%s", "") == 0 && same(flux_shell_getenv(shell, "PROBE"), ""));
  EXPECT(flux_shell_get_environ(shell, &json) == 0 && same_text(json, "{\"PROBE\":\"\"}"));
  EXPECT(flux_shell_unsetenv(shell, "PROBE") == 0);
  FAILS(flux_shell_unsetenv(shell, "PROBE") == -1, ENOENT);
  FAILS(flux_shell_getenv(shell, "PROBE") == NULL, ENOENT);
  FAILS(flux_shell_setenvf(shell, 1, "A=B", "x") == -1, EINVAL);
  FAILS(flux_shell_setenvf(shell, 1, "", "x") == -1, EINVAL);
  FAILS(flux_shell_setenvf(NULL, 0, "foo", "bar") == -1, EINVAL);
  FAILS(flux_shell_setenvf(shell, 0, NULL, "bar") == -1, EINVAL);
  FAILS(flux_shell_setenvf(shell, 0, "foo", null_format, 0) == -1, EINVAL);
  FAILS(flux_shell_getenv(NULL, "foo") == NULL, EINVAL);
  FAILS(flux_shell_getenv(shell, NULL) == NULL, EINVAL);
  FAILS(flux_shell_unsetenv(NULL, "foo") == -1, EINVAL);
  FAILS(flux_shell_unsetenv(shell, NULL) == -1, EINVAL);
  FAILS(flux_shell_get_environ(NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_get_environ(shell, NULL) == -1, EINVAL);
}

/* One shell of four tasks, one core each. */
PROBE(info) {
  char* json = NULL;
  long long jobid = 0;
  int rank = -1, size = 0, ntasks = 0, standalone = 0, nslots = 0;
  const char *service = NULL, *name = NULL, *cores = NULL;
  EXPECT(flux_shell_get_info(shell, &json) == 0 && strstr(json, "\"ntasks\":4") != NULL);
  free(json);
  EXPECT(flux_shell_info_unpack(shell, "{s:I s:i s:i s:i s:s s:{s:b}}", "jobid", &jobid, "rank", &rank, "size",
                                &size, "ntasks", &ntasks, "service", &service, "options", "standalone",
                                &standalone) == 0);
  EXPECT(jobid == 1 && rank == 0 && size == 1 && ntasks == 4 && standalone == 1 && same(service, "fake-shell"));
  FAILS(flux_shell_info_unpack(shell, "{s:s}", "rank", &service) == -1, EINVAL);
  EXPECT(flux_shell_rank_info_unpack(shell, -1, "{s:i s:i s:s s:{s:s}}", "id", &rank, "ntasks", &ntasks, "name",
                                     &name, "resources", "cores", &cores) == 0);
  EXPECT(rank == 0 && ntasks == 4 && same(name, "fake0") && same(cores, "0-3"));
  EXPECT(flux_shell_get_rank_info(shell, 0, &json) == 0 && strstr(json, "\"taskids\":\"0-3\"") != NULL);
  free(json);
  FAILS(flux_shell_get_rank_info(shell, 12, &json) == -1, EINVAL);
  FAILS(flux_shell_get_rank_info(shell, -2, &json) == -1, EINVAL);
  FAILS(flux_shell_rank_info_unpack(shell, 12, "{s:i}", "ntasks", &ntasks) == -1, EINVAL);
  FAILS(flux_shell_rank_info_unpack(shell, -2, "{s:i}", "ntasks", &ntasks) == -1, EINVAL);
  EXPECT(flux_shell_jobspec_info_unpack(shell, "{s:i}", "nslots", &nslots) == 0 && nslots == 4);
  EXPECT(flux_shell_get_jobspec_info(shell, &json) == 0 && strstr(json, "\"version\":1") != NULL);
  free(json);
  FAILS(flux_shell_get_info(NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_get_info(shell, NULL) == -1, EINVAL);
  FAILS(flux_shell_info_unpack(NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_info_unpack(shell, NULL) == -1, EINVAL);
  FAILS(flux_shell_get_rank_info(NULL, -1, NULL) == -1, EINVAL);
  FAILS(flux_shell_get_rank_info(shell, -1, NULL) == -1, EINVAL);
  FAILS(flux_shell_rank_info_unpack(NULL, -1, NULL) == -1, EINVAL);
  FAILS(flux_shell_get_jobspec_info(NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_get_jobspec_info(shell, NULL) == -1, EINVAL);
  FAILS(flux_shell_jobspec_info_unpack(NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_jobspec_info_unpack(shell, NULL) == -1, EINVAL);
}

PROBE(aux) {
  int value = 1;
  FAILS(flux_shell_aux_get(shell, "probe") == NULL, ENOENT);
  EXPECT(flux_shell_aux_set(shell, "probe", &value, NULL) == 0 && flux_shell_aux_get(shell, "probe") == &value);
  EXPECT(flux_shell_aux_set(shell, "probe", NULL, NULL) == 0);
  FAILS(flux_shell_aux_set(NULL, "topic", NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_aux_set(shell, NULL, NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_aux_get(NULL, "topic") == NULL, EINVAL);
  FAILS(flux_shell_aux_get(shell, NULL) == NULL, EINVAL);
}

PROBE(acting) {
  EXPECT(flux_shell_add_completion_ref(shell, "work-%d", 7) == 1);
  EXPECT(flux_shell_add_completion_ref(shell, "work-%d", 7) == 2);
  EXPECT(flux_shell_remove_completion_ref(shell, "work-%d", 7) == 0);
  FAILS(flux_shell_remove_completion_ref(shell, "other") == -1, ENOENT);
  FAILS(flux_shell_add_completion_ref(NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_add_completion_ref(shell, NULL) == -1, EINVAL);
  FAILS(flux_shell_remove_completion_ref(NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_remove_completion_ref(shell, NULL) == -1, EINVAL);
  flux_shell_killall(shell, SIGUSR1);
  flux_shell_killall(shell, 0);
  flux_shell_killall(shell, -1);
  flux_shell_killall(NULL, SIGTERM);
  EXPECT(flux_shell_add_event_context(shell, "shell.init", 0, "{s:s s:i}", "who", "probe", "n", 2) == 0);
  FAILS(flux_shell_add_event_context(shell, "shell.init", 0, "[]") == -1, EINVAL);
  FAILS(flux_shell_add_event_context(NULL, NULL, 0, NULL) == -1, EINVAL);
  FAILS(flux_shell_add_event_context(shell, NULL, 0, "{}") == -1, EINVAL);
  FAILS(flux_shell_add_event_context(shell, "main", 0, NULL) == -1, EINVAL);
}

PROBE(no_callbacks) {
  FAILS(flux_shell_get_flux(NULL) == NULL, EINVAL);
  FAILS(flux_shell_service_register(shell, "method", NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_add_event_handler(shell, "foo", NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_rpc_pack(shell, NULL, 0, 0, NULL) == NULL, EINVAL);
  FAILS(flux_shell_rpc_pack(shell, "method", -1, 0, "{}") == NULL, EINVAL);
}

PROBE(no_topology) {
  const char* xml = NULL;
  FAILS(flux_shell_get_hwloc_xml(shell, &xml) == -1, ENOSYS);
  FAILS(flux_shell_get_hwloc_xml(shell, NULL) == -1, EINVAL);
  FAILS(flux_shell_get_hwloc_xml(NULL, &xml) == -1, EINVAL);
}

PROBE(topology) {
  const char *xml = NULL, *again = NULL;
  EXPECT(flux_shell_get_hwloc_xml(shell, &xml) == 0 && same(xml, "<topology/>"));
  EXPECT(flux_shell_get_hwloc_xml(shell, &again) == 0 && again == xml);
}

static const struct flux_plugin_handler table[] = {
    {"probe.options", options, NULL},
    {"probe.environment", environment, NULL},
    {"probe.info", info, NULL},
    {"probe.aux", aux, NULL},
    {"probe.acting", acting, NULL},
    {"probe.no-callbacks", no_callbacks, NULL},
    {"probe.no-topology", no_topology, NULL},
    {"probe.topology", topology, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
