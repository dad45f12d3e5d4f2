#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Plugins that use the C API as those of Cray's PALS and for PMIx do, on one shell and on four.
load nodes.bash
load plugins.bash

on_one_and_four() {
  local plugin=$1
  shift
  prepare 4 "$@"
  with_rc "${flags[@]}" <<<"plugin.load { file = '$work/$plugin.so' }"
  [ "$status" -eq 0 ] || return
  one=$(sort <<<"$output")
  write_nodes 4 1
  run launch --local=4 --arity=2 -R R.json --initrc=rc.lua -o cpu-affinity=off "${flags[@]}"
  [ "$status" -eq 0 ] || return
  four=$(sort <<<"$output")
}

@test "files and variables for each node and rank, by the taskmap and the hosts; its option names it" {
  build pals <<'END'
#include <unistd.h>
extern char** environ;
static int by_node(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  const struct taskmap* map = flux_shell_get_taskmap(shell);
  struct hostlist* hosts = hostlist_copy(flux_shell_get_hostlist(shell));
  const char* folder = flux_shell_getenv(shell, "FLUX_JOB_TMPDIR");
  char path[4096];
  int rank, cores;
  if (environ == NULL || folder == NULL) return shell_log_errno("surroundings");
  if (flux_shell_info_unpack(shell, "{s:i}", "rank", &rank) < 0) return -1;
  if (flux_shell_rank_info_unpack(shell, rank, "{s:{s:i}}", "resources", "ncores", &cores) < 0) return -1;
  snprintf(path, sizeof path, "%s/apinfo", folder);
  FILE* file = fopen(path, "w");
  for (int node = 0; node < taskmap_nnodes(map); ++node) {
    char* ids = idset_encode(taskmap_taskids(map, node), IDSET_FLAG_RANGE);
    fprintf(file, "%s%s:%s", node > 0 ? " " : "", hostlist_nth(hosts, node), ids);
    free(ids);
  }
  fclose(file);
  hostlist_destroy(hosts);
  if (flux_shell_setenvf(shell, 1, "PALS_NODEID", "%d", rank) < 0 || flux_shell_setenvf(shell, 1, "PALS_CORES", "%d", cores) < 0) return -1;
  return flux_shell_setenvf(shell, 1, "PALS_APINFO", "%s", path);
}
static int by_task(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_task_t* task = flux_shell_current_task(flux_plugin_get_shell(p));
  int rank;
  if (flux_shell_task_info_unpack(task, "{s:i}", "rank", &rank) < 0) return -1;
  return flux_cmd_setenvf(flux_shell_task_cmd(task), 1, "PALS_RANKID", "%d", rank);
}
int flux_plugin_init(flux_plugin_t* p) {
  const char* pmi = NULL;
  flux_shell_t* shell = flux_plugin_get_shell(p);
  if (flux_plugin_set_name(p, "pmi-pals") < 0 || flux_shell_getopt_unpack(shell, "pmi", "s", &pmi) < 0) return -1;
  flux_shell_unsetenv(shell, "PALS_RANKID");
  if (pmi == NULL || strcmp(pmi, "pals") != 0) return 0;
  return flux_plugin_add_handler(p, "shell.init", by_node, NULL) + flux_plugin_add_handler(p, "task.init", by_task, NULL);
}
END
  # shellcheck disable=SC2016 # for the tasks
  command=(sh -c 'echo "$PALS_RANKID on $PALS_NODEID, $PALS_CORES: $(cat "$PALS_APINFO")"')
  flags=(-o pmi=pals)
  on_one_and_four pals "${command[@]}"
  [ "$one" = "0 on 0, 4: node0:0-3
1 on 0, 4: node0:0-3
2 on 0, 4: node0:0-3
3 on 0, 4: node0:0-3" ]
  [ "$four" = "0 on 0, 1: node0:0 node1:1 node2:2 node3:3
1 on 1, 1: node0:0 node1:1 node2:2 node3:3
2 on 2, 1: node0:0 node1:1 node2:2 node3:3
3 on 3, 1: node0:0 node1:1 node2:2 node3:3" ]
  flags=()
  on_one_and_four pals sh -c 'test -z "$PALS_RANKID"'
  [ "$one$four" = "" ]
}

# As plugins for PMIx do: a thread of each shell enters an exchange over an interthread handle; the parts are joined up a tree
# of the shells, and the whole comes down as responses.
# bats test_tags=long
@test "an exchange that threads enter, up and down a tree of shells, of four and of one" {
  build exchange <<'END'
#include <pthread.h>
static flux_shell_t* shell;
static int rank, size, sum, parts, waiting;
static const flux_msg_t* open_requests[8];
static pthread_t thread;
static int children(void) { return (2 * rank + 1 < size) + (2 * rank + 2 < size); }
static void* enter(void* h) {
  static char text[64];
  int whole = -1;
  flux_future_t* f = flux_rpc_pack(h, "fence", FLUX_NODEID_ANY, 0, "{s:i}", "part", 1 << rank);
  if (flux_rpc_get_unpack(f, "{s:i}", "whole", &whole) < 0) whole = -errno;
  flux_future_destroy(f);
  snprintf(text, sizeof text, "%d", whole);
  flux_msg_t* msg = flux_request_encode("done", text);
  flux_send_new(h, &msg, 0);
  flux_close(h);
  return NULL;
}
static void answer(int whole) {
  for (int i = 0; i < waiting; ++i) {
    flux_t* h = flux_msg_aux_get(open_requests[i], "handle");
    if (flux_respond_pack(h, open_requests[i], "{s:i}", "whole", whole) < 0) shell_log_errno("respond");
    flux_msg_decref(open_requests[i]);
  }
}
static void on_whole(flux_future_t* f, void* arg) {
  int whole = -1;
  if (flux_rpc_get_unpack(f, "{s:i}", "whole", &whole) < 0) shell_log_errno("parent");
  flux_future_destroy(f);
  answer(whole);
}
static void on_part(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  int part = 0;
  if (flux_request_unpack(msg, NULL, "{s:i}", "part", &part) < 0) shell_log_errno("part");
  flux_msg_aux_set(msg, "handle", h, NULL);
  open_requests[waiting++] = flux_msg_incref(msg);
  sum += part;
  if (++parts <= children()) return;
  if (rank == 0) answer(sum);
  else flux_future_then(flux_shell_rpc_pack(shell, "part", (rank - 1) / 2, 0, "{s:i}", "part", sum), 60., on_whole, NULL);
}
static void on_done(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  const char* text = "";
  flux_request_decode(msg, NULL, &text);
  shell_log("whole %s", text);
  pthread_join(thread, NULL);
  flux_msg_handler_stop(mh);
  flux_shell_remove_completion_ref(shell, "exchange");
}
static int init(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  static const struct flux_msg_handler_spec table[] = {
    {FLUX_MSGTYPE_REQUEST, "fence", on_part, 0}, {FLUX_MSGTYPE_REQUEST, "done", on_done, 0}, FLUX_MSGHANDLER_TABLE_END};
  flux_msg_handler_t** handlers;
  flux_t *here = flux_open("interthread://exchange", 0), *there = flux_open("interthread://exchange", 0);
  flux_shell_info_unpack(shell, "{s:i s:i}", "rank", &rank, "size", &size);
  // Requests may come from now on, and need the two above.
  if (flux_shell_service_register(shell, "part", on_part, NULL) < 0) return -1;
  flux_set_reactor(here, flux_get_reactor(flux_shell_get_flux(shell)));
  flux_shell_add_completion_ref(shell, "exchange");
  if (flux_msg_handler_addvec(here, table, NULL, &handlers) < 0 || pthread_create(&thread, NULL, enter, there) != 0) return -1;
  flux_plugin_aux_set(p, NULL, here, (flux_free_f)flux_close);
  return flux_plugin_aux_set(p, NULL, handlers, (flux_free_f)flux_msg_handler_delvec);
}
int flux_plugin_init(flux_plugin_t* p) {
  shell = flux_plugin_get_shell(p);
  return flux_plugin_add_handler(p, "shell.init", init, NULL);
}
END
  prepare 4 true
  write_nodes 4 1
  echo "plugin.load { file = '$work/exchange.so' }" >rc.lua
  run launch --local=4 --arity=2 -R R.json --initrc=rc.lua -o cpu-affinity=off
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = "nacre-shell[0]: exchange: whole 15
nacre-shell[1]: exchange: whole 15
nacre-shell[2]: exchange: whole 15
nacre-shell[3]: exchange: whole 15" ]
  prepare 1 true
  with_rc <<<"plugin.load { file = '$work/exchange.so' }"
  [ "$status" -eq 0 ]
  [ "$output" = "nacre-shell[0]: exchange: whole 1" ]
}
