#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Calls of C plugins from one shell of a job to another: flux_shell_rpc_pack(3).
load nodes.bash
load plugins.bash

# Runs a job of four shells with one task each, and caller.so, whose code is on standard input, behind `service`
# below.
call_among_four() {
  {
    cat <<'END'
#include <signal.h>
#include <unistd.h>
static flux_shell_t* shell;
static int rank;
static char large[8 << 20];
static void on_add(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  int a, b;
  if (flux_request_unpack(msg, NULL, "{s:i s:i}", "a", &a, "b", &b) < 0) flux_respond_error(h, msg, errno, "a and b");
  else flux_respond_pack(h, msg, "{s:i s:i}", "sum", a + b, "rank", rank);
}
static void on_never(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {}
static void on_raise(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) { flux_shell_raise("test", 0, "enough"); }
static void on_die(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) { kill(getpid(), SIGKILL); }
static void on_large(flux_t* h, flux_msg_handler_t* mh, const flux_msg_t* msg, void* arg) {
  int times;
  if (flux_request_unpack(msg, NULL, "{s:i}", "times", &times) < 0) return;
  if (times == 1) flux_respond_pack(h, msg, "{s:s}", "text", large);
  else if (flux_respond_pack(h, msg, "{s:s s:s s:s}", "text", large, "2", large, "3", large) < 0) shell_log("large: %s", strerror(errno));
}
static int serve(flux_plugin_t* p) {
  shell = flux_plugin_get_shell(p);
  flux_shell_info_unpack(shell, "{s:i}", "rank", &rank);
  memset(large, 'x', sizeof large - 1);
  return flux_shell_service_register(shell, "add", on_add, NULL) + flux_shell_service_register(shell, "never", on_never, NULL) +
         flux_shell_service_register(shell, "raise", on_raise, NULL) + flux_shell_service_register(shell, "die", on_die, NULL) +
         flux_shell_service_register(shell, "large", on_large, NULL);
}
static int add(int to, int a, int b) {
  int sum = -1, by = -1;
  flux_future_t* f = flux_shell_rpc_pack(shell, "add", to, 0, "{s:i s:i}", "a", a, "b", b);
  if (f == NULL || flux_rpc_get_unpack(f, "{s:i s:i}", "sum", &sum, "rank", &by) < 0) return shell_log_errno("add %d", to);
  flux_future_destroy(f);
  if (by != to) return shell_log_errno("%d answers for %d", by, to);
  return sum;
}
static const char* fails(int to, const char* method) {
  flux_future_t* f = flux_shell_rpc_pack(shell, method, to, 0, "{}");
  const char* why = f != NULL && flux_future_get(f, NULL) == 0 ? "answered" : strerror(errno);
  flux_future_destroy(f);
  return why;
}
static int all(void) {
  for (int to = 0; to < 4; ++to)
    if (add(to, 100 * rank, to) != 100 * rank + to) return -1;
  return 0;
}
END
    cat
  } | build caller
  prepare 4 true
  write_nodes 4 1
  echo "plugin.load { file = '$work/caller.so' }" >rc.lua
  run launch "${start[@]}" --arity=2 -R R.json --initrc=rc.lua -o cpu-affinity=off "$@"
}

start=(--local=4)

# As above, with the code $2 in the topic $1, and options.
call_in() {
  local topic=$1 code=$2
  shift 2
  call_among_four "$@" <<END
static int go(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) { $code return 0; }
int flux_plugin_init(flux_plugin_t* p) { return serve(p) + flux_plugin_add_handler(p, "$topic", go, NULL); }
END
}

# Each of four shells calls all four from the topic $1.
each_calls_each_in() {
  call_in "$1" 'if (all() < 0) return -1; shell_log("all");'
  [ "$status" -eq 0 ] || { echo "$1: $output"; return 1; }
  [ "$(sort <<<"$output")" = "nacre-shell[0]: caller: all
nacre-shell[1]: caller: all
nacre-shell[2]: caller: all
nacre-shell[3]: caller: all" ] || { echo "$1: $output"; return 1; }
}

@test "each shell calls each, itself too" {
  each_calls_each_in shell.start
}

# bats test_tags=long
@test "each shell calls each, in every other topic that is called outside of the loop" {
  local topic
  for topic in shell.init shell.post-init task.init shell.finish shell.exit; do each_calls_each_in "$topic"; done
}

# bats test_tags=long
@test "of a shell whose plugin is not there, or has no such service: ENOSYS; of no shell: EINVAL" {
  call_in shell.start 'if (rank != 1) return 0;
    shell_log("2: %s", fails(2, "unknown")); shell_log("0: %s", fails(0, "unknown")); shell_log("1: %s", fails(1, "unknown"));
    shell_log("4: %s", fails(4, "add"));'
  [ "$status" -eq 0 ]
  [ "$output" = "nacre-shell[1]: caller: 2: Function not implemented
nacre-shell[1]: caller: 0: Function not implemented
nacre-shell[1]: caller: 1: Function not implemented
nacre-shell[1]: caller: 4: Invalid argument" ]
  echo "if shell.info.rank == 1 then plugin.load { file = '$work/caller.so' } end" >rc.lua
  run launch --local=4 --arity=2 -R R.json --initrc=rc.lua -o cpu-affinity=off
  [ "$status" -eq 0 ]
  [ "$(head -2 <<<"$output")" = "nacre-shell[1]: caller: 2: Function not implemented
nacre-shell[1]: caller: 0: Function not implemented" ]
}

@test "a service that never answers: time-outs of the caller, and of the option rpc-timeout" {
  call_in shell.start 'if (rank != 3) return 0;
    flux_future_t* f = flux_shell_rpc_pack(shell, "never", 2, 0, "{}");
    if (flux_future_wait_for(f, 0.1) == 0) return -1;
    shell_log("first: %s", strerror(errno));
    flux_future_destroy(f);
    shell_log("then: %s", fails(2, "never"));
    if (add(2, 3, 4) == 7) shell_log("and goes on");' -o rpc-timeout=3s # which is the time for the last answer, too
  [ "$status" -eq 0 ]
  [ "$output" = "nacre-shell[3]: caller: first: Connection timed out
nacre-shell[3]: warn: caller: another shell's answer has not come in time (rpc-timeout)
nacre-shell[3]: caller: then: Connection timed out
nacre-shell[3]: caller: and goes on" ]
}

# bats test_tags=long
@test "what waits for ever ends with the job" {
  call_in shell.start 'if (rank == 3) shell_log("%s", fails(1, "raise"));' -o rpc-timeout=none # shell 3 already waits when the job fails
  [ "$status" -ne 0 ]
  [[ $output = *"nacre-shell[3]: caller: Operation canceled"* ]]
}

# bats test_tags=long
@test "a shell that is lost ends the calls that wait for it, and others go on" {
  call_in shell.finish 'if (rank != 3) return 0;
    shell_log("at once: %s", fails(2, "die"));
    shell_log("afterwards: %s", fails(2, "add"));
    if (add(1, 1, 1) == 2 && add(0, 1, 1) == 2) shell_log("others answer");' -o tolerate-loss
  grep -Fx "nacre-shell[3]: caller: at once: No route to host" <<<"$output"
  grep -Fx "nacre-shell[3]: caller: afterwards: No route to host" <<<"$output"
  grep -Fx "nacre-shell[3]: caller: others answer" <<<"$output"
}

# bats test_tags=long
@test "an inner shell that is lost in between loses no message of others" {
  mkdir bin
  ln -s "$NACRE_SOURCE_DIR/t/e2e/srun.py" bin/srun
  PATH=$PWD/bin:$PATH
  start=(--srun -n 4) # so that shell 3, which is below shell 1, does not end with it
  call_in shell.finish 'if (rank != 3) return 0;
    flux_future_t* open[100];
    for (int i = 0; i < 100; ++i) {
      if (i == 50) flux_future_destroy(flux_shell_rpc_pack(shell, "die", 1, FLUX_RPC_NORESPONSE, "{}"));
      open[i] = flux_shell_rpc_pack(shell, "add", 2, 0, "{s:i s:i}", "a", i, "b", i);
    }
    for (int i = 0; i < 100; ++i) {
      int sum = -1;
      if (flux_rpc_get_unpack(open[i], "{s:i}", "sum", &sum) < 0 || sum != 2 * i) return shell_log_errno("%d: %d", i, sum);
      flux_future_destroy(open[i]);
    }
    shell_log("all answered");' -o tolerate-loss
  grep -Fx "nacre-shell[3]: caller: all answered" <<<"$output"
}

# bats test_tags=long
@test "a thousand open calls are answered in their order" {
  call_among_four -o lost-after=1m <<'END' # one handler makes all calls, also under sanitizers
static int answered;
static void on_answer(flux_future_t* f, void* arg) {
  int sum;
  if (flux_rpc_get_unpack(f, "{s:i}", "sum", &sum) < 0) shell_log_errno("%d", answered);
  else if (sum != answered) shell_log("%d instead of %d", sum, answered);
  flux_future_destroy(f);
  if (++answered < 1000) return;
  shell_log("%d answers", answered);
  flux_shell_remove_completion_ref(shell, "calls");
}
static int go(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  flux_shell_add_completion_ref(shell, "calls");
  for (int i = 0; i < 1000; ++i)
    flux_future_then(flux_shell_rpc_pack(shell, "add", (rank + 2) % 4, 0, "{s:i s:i}", "a", i, "b", 0), -1., on_answer, NULL);
  return 0;
}
int flux_plugin_init(flux_plugin_t* p) { return serve(p) + flux_plugin_add_handler(p, "shell.start", go, NULL); }
END
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output")" = "nacre-shell[0]: caller: 1000 answers
nacre-shell[1]: caller: 1000 answers
nacre-shell[2]: caller: 1000 answers
nacre-shell[3]: caller: 1000 answers" ]
}

# bats test_tags=long
@test "a message has at most 16 MiB, a request as a response" {
  call_in shell.start 'if (rank != 3) return 0;
    flux_future_t* f = flux_shell_rpc_pack(shell, "large", 2, 0, "{s:i}", "times", 1);
    const char* text;
    if (flux_rpc_get_unpack(f, "{s:s}", "text", &text) == 0 && strcmp(text, large) == 0) shell_log("8 MiB came");
    flux_future_destroy(f);
    f = flux_shell_rpc_pack(shell, "large", 2, 0, "{s:i}", "times", 3);
    if (flux_future_get(f, NULL) < 0) shell_log("response: %s", flux_future_error_string(f));
    flux_future_destroy(f);
    if (flux_shell_rpc_pack(shell, "add", 2, 0, "{s:s s:s s:s}", "a", large, "b", large, "c", large) == NULL)
      shell_log("request: %s", strerror(errno));'
  [ "$status" -eq 0 ]
  grep -x 'nacre-shell\[3\]: caller: 8 MiB came' <<<"$output"
  grep -x 'nacre-shell\[2\]: caller: large: Message too long' <<<"$output"
  grep -x 'nacre-shell\[3\]: caller: response: a message of [0-9]* bytes to shell 3; at most 16777216' <<<"$output"
  grep -x 'nacre-shell\[3\]: caller: request: Message too long' <<<"$output"
}

# bats test_tags=long
@test "in a callback nothing can be waited for, which is an error at once" {
  call_among_four <<'END'
static int go(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  if (rank == 3) shell_log("%s", fails(2, "add"));
  return 0;
}
int flux_plugin_init(flux_plugin_t* p) { return serve(p) + flux_plugin_add_handler(p, "task.exit", go, NULL); }
END
  [ "$status" -eq 0 ]
  [ "$output" = "nacre-shell[3]: warn: caller: in a callback no answer of another shell can be waited for: use flux_future_then
nacre-shell[3]: caller: $(python3 -c 'import errno, os; print(os.strerror(errno.EDEADLOCK))')" ]
}
