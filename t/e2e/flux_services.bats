#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The services of a job in an instance of Flux: what clients ask its shells while it runs, in brokers of the tests' own (t/kit/flux_broker).
load plugins.bash

# begin SIZE [OPTION...] -- SCRIPT: a job of tasks that run the script, in the background. Returns once task 0 runs, with $service.
begin() {
  local options=() size=$1 id
  shift
  while [[ $1 != -- ]]; do options+=("$1") && shift; done
  cat >task <<END
[ "\$FLUX_TASK_RANK" != 0 ] || { echo "\${FLUX_KVS_NAMESPACE#job-}" >number; printf %s "\$FLUX_JOB_ID" >id.new; mv id.new id; }
$2
END
  timeout 60 "$NACRE_SOURCE_DIR/t/kit/flux_broker" --size="$size" --dir="$work/brokers" --shell="$NACRE_SHELL" -o cpu-affinity=off \
    "${options[@]}" -- bash task >out 2>err </dev/null 3>&- &
  job=$!
  until [[ -s id ]]; do
    kill -0 "$job" || { cat err; return 1; }
    sleep 0.05
  done
  id=$(<id)
  service=$UID-shell-f${id#ƒ}
}

# The job ends with this exit code.
ends_with() {
  local code=0
  wait "$job" || code=$?
  [ "$code" -eq "$1" ] || { echo "exit code $code"; cat out err; return 1; }
}

# talk RANK: the script of flux_talk on standard input, to the service by that broker.
talk() { timeout 30 "$NACRE_SOURCE_DIR/t/kit/flux_talk" --uri="local://$work/brokers/local-$1" "${@:2}" "$service"; }

# `context NAME` of the job's guest.exec.eventlog.
context() { jq -c '.eventlogs["guest.exec.eventlog"][] | select(.name == "'"$1"'") | .context' brokers/record.json; }

@test "pty.interactive: a client attaches, types, resizes, and is told the exit" {
  begin 1 -o pty.interactive -- 'stty -echo; echo $FLUX_TERMINUS_SESSION; stty size; read x; echo got $x; stty size; exit 3'
  run talk 0 <<'END'
1+ terminus.0 {"type":"attach","mode":"rw","winsize":{"rows":30,"cols":100}}
wait "attach"
wait 24 80
2 terminus.list
wait "sessions"
3 terminus.0 {"type":"resize","winsize":{"rows":40,"cols":90}}
wait 3
4 terminus.0 {"type":"data","data":"hello\n"}
wait No data
END
  [ "$status" -eq 0 ]
  ends_with 3
  text=$(sed -n 's/^1 //p' <<<"$output" | grep '"data"' | jq -j .data)
  [[ $text == *got\ hello*40\ 90* ]] || { echo "$output"; return 1; }
  [[ $output == *'{"message":"session exiting","status":768,"type":"exit"}'* ]]
  jq -e '.sessions[0] | .id == 0 and .name == "task0" and .clients == 1 and .exited == 0' <<<"$(grep sessions <<<"$output" | cut -d' ' -f2-)"
  context shell.init | jq -e '.pty == "terminus.0" and .size == 1'
}

@test "pty.interactive: a client leaves, and the next one has what came meanwhile" {
  begin 1 -o pty.interactive -- 'stty -echo; echo one; read x; sleep 0.3; echo two; read x; exit 0'
  run talk 0 <<'END'
1+ terminus.0 {"type":"attach","mode":"rw","winsize":{"rows":30,"cols":100}}
wait one
2 terminus.0 {"type":"data","data":"x\n"}
wait 2
3 terminus.0 {"type":"detach"}
wait 3
4 terminus.0 {"type":"data","data":"x\n"}
wait 4
END
  [ "$status" -eq 0 ]
  [[ $output == *'"Client requested detach"'* && $output == *'4 error No such file or directory: this client is not attached'* ]] || { echo "$output"; return 1; }
  sleep 0.5
  run talk 0 <<'END'
1+ terminus.0 {"type":"attach","mode":"rw","winsize":{"rows":30,"cols":100}}
wait two
2 terminus.0 {"type":"data","data":"DQ==","encoding":"base64"}
wait No data
END
  [[ $status -eq 0 && $output != *one* ]] || { echo "$output"; return 1; }
  ends_with 0
}

@test "pty.interactive: a job that has ended waits for its first client, or for a signal" {
  begin 1 -o pty.interactive -- 'echo kept; exit 0'
  sleep 0.5
  kill -0 "$job"
  run talk 0 <<'END'
1+ terminus.0 {"type":"attach","mode":"rw","winsize":{"rows":30,"cols":100}}
wait No data
END
  [[ $status -eq 0 && $output == *kept* ]] || { echo "$output"; return 1; }
  ends_with 0
  rm id
  begin 1 -o pty.interactive -- 'exit 0'
  sleep 0.5
  run talk 0 <<'END'
1 terminus.kill {"id":0,"signal":15}
wait 1
END
  ends_with 0
}

@test "pty: terminals without a client's own are captured; requests that are wrong are refused in words" {
  begin 1 -n 2 -o pty -- 'stty -echo; read x; echo got $x; [ -t 1 ] && echo "$FLUX_TERMINUS_SESSION"'
  run talk 0 <<'END'
1+ terminus.1 {"type":"attach","mode":"rw","winsize":{"rows":30,"cols":100}}
wait attach
2 terminus.1 {"type":"attach","mode":"ro"}
wait 2
3 terminus.7 {"type":"attach","mode":"ro"}
wait 3
4 terminus.0 {"type":"attach","mode":"xy"}
wait 4
5 terminus.0 {"type":"attach","mode":"rw","winsize":{"rows":0,"cols":1}}
wait 5
6 terminus.0 []
wait 6
7 terminus.1 {"type":"data","data":"a\n"}
wait got a
8+ terminus.0 {"type":"attach","mode":"wo"}
wait attach
9 terminus.0 {"type":"data","data":"b\n"}
wait 9
wait 8 error No data
END
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  ends_with 0
  for each in '2 error File exists' '3 error Function not implemented: terminus.7: there is no such terminal' '4 error Invalid argument: mode: expected rw, ro or wo' \
    '5 error Invalid argument: winsize.rows: expected' '6 error Invalid argument'; do
    [[ $output == *"$each"* ]] || { echo "$each: $output"; return 1; }
  done
  [ "$(tr -d '\r' <out | sort | tr '\n' ' ')" = '0 1 got a got b ' ] || { cat out; return 1; }
}

@test "rexec: a command on the node of any shell, with its input, its output and its end" {
  begin 2 -n 2 -N 2 -- 'until [ -e over ]; do sleep 0.05; done'
  run talk 1 --node=1 <<'END'
1+ rexec.exec {"cmd":{"cmdline":["sh","-c","read x; echo got $x; printf '\\377' >&2; exit 3"],"env":{},"opts":{},"channels":[],"msgchan":[]},"flags":11}
wait add-credit
2- rexec.write {"matchtag":1,"io":{"stream":"stdin","rank":"1","data":"hello\n"}}
wait No data
3 rexec.list
wait 3
END
  [ "$status" -eq 0 ]
  [[ $output == *'"data":"got hello\n","rank":"1","stream":"stdout"'* && $output == *'"data":"/w==","encoding":"base64","rank":"1","stream":"stderr"'* &&
    $output == *'{"status":768,"type":"finished"}'* && $output == *'"eof":true,"rank":"1","stream":"stdout"'* && $output == *'3 {"procs":[],"rank":1}'* ]] || { echo "$output"; return 1; }
  run talk 0 <<'END'
1+ rexec.exec {"cmd":{"cmdline":["sleep","100"],"env":{},"opts":{},"channels":[],"label":"nap"},"flags":3}
wait started
2 rexec.list
wait nap
3 rexec.kill {"pid":-1,"label":"nap","signum":15}
wait "finished"
4 rexec.kill {"pid":1,"signum":15}
wait 4
5+ rexec.exec {"cmd":{"cmdline":["/no/such"],"env":{},"opts":{},"channels":[]},"flags":3}
wait 5
6 rexec.exec {"cmd":{"cmdline":["sh","-c","echo said; exit 4"],"env":{},"opts":{},"channels":[]},"flags":16}
wait 6
END
  [ "$status" -eq 0 ]
  [[ $output == *'{"status":15,"type":"finished"}'* && $output == *'4 error No such process: no command has the process 1'* &&
    $output == *'5 error No such file or directory: /no/such: No such file or directory'* ]] || { echo "$output"; return 1; }
  pid=$(sed -n 's/^6 {"pid":\([0-9]*\),.*/\1/p' <<<"$output")
  run talk 0 <<<"1 rexec.wait {\"pid\":$pid}
wait 1"
  [ "$output" = '1 {"status":1024}' ] || { echo "$output"; return 1; }
  touch over
  ends_with 0
}

@test "rexec: a command ends with its client, and with the job's tasks" {
  begin 1 -- 'until [ -e over ]; do sleep 0.05; done'
  run talk 0 <<'END'
1+ rexec.exec {"cmd":{"cmdline":["sh","-c","echo $$ >left; echo written; exec sleep 100"],"env":{},"opts":{},"channels":[]},"flags":3}
wait written
END
  [ "$status" -eq 0 ]
  for _ in {1..200}; do kill -0 "$(<left)" 2>/dev/null || break; sleep 0.02; done
  run kill -0 "$(<left)"
  [ "$status" -ne 0 ]
  { talk 0 >talked || true; } <<'END' &
1+ rexec.exec {"cmd":{"cmdline":["sleep","100"],"env":{},"opts":{},"channels":[]},"flags":3}
wait started
wait No data
END
  talker=$!
  until grep -qs started talked; do sleep 0.02; done
  touch over
  ends_with 0
  wait "$talker"
  grep -q '{"status":15,"type":"finished"}' talked || { cat talked; return 1; }
}

@test "rexec-shutdown-timeout: a command that ignores the end of its node's tasks is killed so much later" {
  begin 2 -n 2 -N 2 -o rexec-shutdown-timeout=2s -- 'until [ -e over ]; do sleep 0.05; done'
  local talkers=() node
  for node in 0 1; do
    : >"talked.$node"
    { talk "$node" --node="$node" >"talked.$node" || true; } <<'END' &
1+ rexec.exec {"cmd":{"cmdline":["sh","-c","trap 'echo asked to end' TERM; echo ready; sleep 100; sleep 100; sleep 100"],"env":{},"opts":{},"channels":[]},"flags":3}
wait ready
wait No data
END
    talkers+=("$!")
  done
  until grep -qs ready talked.0 && grep -qs ready talked.1; do sleep 0.02; done
  touch over
  ends_with 0
  wait "${talkers[@]}"
  for node in 0 1; do
    [ "$(grep -c 'asked to end' "talked.$node")" = 1 ] && grep -q '{"status":9,"type":"finished"}' "talked.$node" || { cat "talked.$node"; return 1; }
  done
  run timeout 60 "$NACRE_SOURCE_DIR/t/kit/flux_broker" --shell="$NACRE_SHELL" -o cpu-affinity=off -o rexec-shutdown-timeout=1.1f -- true
  [[ $status -eq 1 && $output == *"rexec-shutdown-timeout: duration '1.1f': unknown unit"* ]] || { echo "$output"; return 1; }
}

@test "proctable: the tasks of all shells for a debugger" {
  # shellcheck disable=SC2016 # for the tasks
  begin 2 -n 4 -N 2 -- ': >"started.$FLUX_TASK_RANK"; until [ -e over ]; do sleep 0.05; done'
  until [ -e started.0 ] && [ -e started.1 ] && [ -e started.2 ] && [ -e started.3 ]; do sleep 0.02; done
  run talk 0 --node=0 <<'END'
1 proctable {}
wait 1
END
  touch over
  ends_with 0
  table=${output#1 }
  jq -e '.ids == [0, 1, 1, 1] and .ranks == [0, 0, 1, 0] and .executables == ["bash", "bash", "bash", "bash"] and (.hosts | length) == 4 and (.pids | length) == 4' <<<"$table" \
    || { echo "$output"; return 1; }
}

@test "the owner of the instance may have the table of another user's job, and others nothing" {
  begin 2 -N 2 -- 'until [ -e over ]; do sleep 0.05; done'
  for role in user owner; do
    run talk 0 --user=12345 --role="$role" <<'END'
1 proctable
wait 1
2 stdin {"stream":"stdin","rank":"all","eof":true}
wait 2
3 rexec.list
wait 3
END
    echo "$output" >"asked.$role"
  done
  touch over
  ends_with 0
  grep '^1 ' asked.owner | cut -d' ' -f2- | jq -e '.ranks == [0, 1]' || { cat asked.owner; return 1; }
  [[ $(grep 'Operation not permitted' asked.owner) == "3 error"* && $(grep -c 'Operation not permitted' asked.user) = 3 ]] || { cat asked.*; return 1; }
}

@test "a C plugin's handle reaches the broker: attributes, the store, its own service, events" {
  build probe <<'END'
#include <unistd.h>
static int answered(flux_t* h, const char* key) {
  const char* value = NULL;
  flux_future_t* f = flux_kvs_lookup(h, NULL, 0, key);
  int done = f == NULL ? -1 : flux_kvs_lookup_get(f, &value);
  shell_log("lookup %s: %d %s", key, done, done < 0 ? strerror(errno) : value);
  flux_future_destroy(f);
  return done;
}
static void hello(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  struct flux_msg_cred cred;
  const char* name = "";
  flux_msg_get_cred(msg, &cred);
  if (flux_request_unpack(msg, NULL, "{s:s}", "name", &name) < 0) {
    flux_respond_error(h, msg, EPROTO, "a name is missing");
    return;
  }
  answered(h, "probe");
  flux_respond_pack(h, msg, "{s:s s:b}", "hello", name, "own", cred.userid == getuid());
}
static void poked(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) { shell_log("poked"); }
static void seen(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) { shell_log("seen"); }
static void show(flux_future_t* f, const char* what) {
  const char* value = "";
  int done = flux_rpc_get_unpack(f, "{s:s}", "value", &value);
  shell_log("%s: %d %s", what, done, done < 0 ? flux_future_error_string(f) : value);
  flux_future_destroy(f);
}
static void told(flux_future_t* f, void* arg) { show(f, "later"); }
static int init(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  flux_t* h = flux_open(NULL, 0);
  struct flux_match match = FLUX_MATCH_EVENT;
  match.topic_glob = "probe.*";
  flux_msg_handler_t* mh = flux_msg_handler_create(flux_shell_get_flux(shell), match, seen, NULL);
  flux_msg_handler_allow_rolemask(mh, FLUX_ROLE_ALL);
  flux_msg_handler_start(mh);
  if (h == NULL || flux_event_subscribe(h, "probe.") < 0) return -1;
  int done = 0;
  flux_future_t* f = flux_rpc_pack(h, "attr.get", FLUX_NODEID_ANY, 0, "{s:s}", "name", "instance-level");
  show(f, "level");
  flux_close(h);
  h = flux_shell_get_flux(shell);
  show(flux_rpc(h, "no-such.service", NULL, FLUX_NODEID_ANY, 0), "no such");
  f = flux_rpc_pack(h, "attr.get", FLUX_NODEID_ANY, 0, "{s:s}", "name", "size");
  if (flux_future_then(f, -1, told, NULL) < 0) return -1;
  long long id = 0;
  const char* event = NULL;
  if (flux_shell_info_unpack(shell, "{s:I}", "jobid", &id) < 0) return -1;
  f = flux_job_event_watch(h, id, "eventlog", 0);
  while (flux_job_event_watch_get(f, &event) == 0 && strstr(event, "\"submit\"") == NULL) flux_future_reset(f);
  shell_log("event: %.80s", event);
  flux_future_reset(f);
  done = flux_job_event_watch_cancel(f);
  while (flux_job_event_watch_get(f, &event) == 0) flux_future_reset(f);
  shell_log("its end: %d %s", done, strerror(errno));
  flux_future_destroy(f);
  if (flux_shell_add_event_handler(shell, "poke", poked, NULL) < 0) return -1;
  return flux_shell_service_register(shell, "hello", hello, NULL);
}
int flux_plugin_init(flux_plugin_t* p) {
  flux_shell_t* shell = flux_plugin_get_shell(p);
  flux_t* h = flux_shell_get_flux(shell);
  uint32_t rank = 9, size = 9;
  if (flux_get_rank(h, &rank) < 0 || flux_get_size(h, &size) < 0) return -1;
  shell_log("rank %u of %u, hash %s", rank, size, flux_attr_get(h, "tbon.interface-hint"));
  shell_log("unknown: %s", flux_attr_get(h, "no-such") == NULL ? strerror(errno) : "there");
  flux_kvs_txn_t* txn = flux_kvs_txn_create();
  if (flux_kvs_txn_pack(txn, 0, "probe", "{s:i}", "x", 1) < 0 || flux_kvs_txn_put(txn, FLUX_KVS_APPEND, "log", "a") < 0) return -1;
  flux_future_t* f = flux_kvs_commit(h, NULL, 0, txn);
  shell_log("commit: %d", flux_future_get(f, NULL));
  flux_future_destroy(f);
  flux_kvs_txn_destroy(txn);
  answered(h, "no-key");
  int x = 0;
  f = flux_kvs_lookup(h, NULL, 0, "probe");
  int done = flux_kvs_lookup_get_unpack(f, "{s:i}", "x", &x);
  shell_log("unpack: %d %d", done, x);
  flux_future_destroy(f);
  return flux_plugin_add_handler(p, "shell.init", init, NULL);
}
END
  echo "plugin.load { file = '$work/probe.so' }" >rc.lua
  begin 1 -o "initrc=$work/rc.lua" -- 'until [ -e over ]; do sleep 0.05; done'
  run talk 0 <<'END'
1 hello {"name":"you"}
wait 1
2 hello {}
wait 2
3 no-such
wait 3
END
  client=$NACRE_SOURCE_DIR/t/kit/flux_client
  "$client" --uri="local://$work/brokers/local-0" publish probe.x '{}'
  "$client" --uri="local://$work/brokers/local-0" publish "shell-$(<number).poke" '{}'
  for _ in {1..100}; do grep -q 'poked$' err && break; sleep 0.05; done
  touch over
  ends_with 0
  [ "$output" = '1 {"hello":"you","own":true}
2 error Protocol error: a name is missing
3 error Function not implemented: not offered by this shell' ] || { echo "$output"; return 1; }
  for each in 'rank 0 of 1, hash default-route' 'unknown: No such file or directory' 'commit: 0' 'lookup no-key: -1 No such file or directory' 'unpack: 0 1' \
    '"name":"submit"' 'its end: 0 No data available' 'level: 0 0' 'no such: -1 No service matching no-such.service is registered' 'later: 0 1' 'lookup probe: 0 {"x":1}' 'seen' 'poked'; do
    grep -qF -- "$each" err || { echo "$each"; cat err; return 1; }
  done
}

@test "a job that waits for a client, or has commands beside it, ends in words when its broker goes away" {
  begin 1 -o pty.interactive -o pty.capture --then=ready:die=0 -- 'echo ready; exit 0'
  wait "$job" || true
  grep -q 'the Flux instance is gone' err || { cat err; return 1; }
  ! grep -q 'have not ended within' err || { cat err; return 1; }
  rm id
  begin 1 --then=ready:die=0 -- 'until [ -e go ]; do sleep 0.05; done; echo ready; exec sleep 100'
  { talk 0 >talked 2>&1 || true; } <<'END' &
1+ rexec.exec {"cmd":{"cmdline":["sleep","100"],"env":{},"opts":{},"channels":[]},"flags":3}
wait started
wait never
END
  until grep -qs started talked; do sleep 0.02; done
  touch go
  wait "$job" || true
  grep -q 'the Flux instance is gone' err || { cat err; return 1; }
  ! grep -q 'have not ended within' err || { cat err; return 1; }
}
