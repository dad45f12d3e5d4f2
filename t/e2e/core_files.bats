#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What a process of nacre leaves when it is killed by a signal that dumps core: nothing that has the job's secret in it.
load nodes.bash

setup_file() {
  [[ $(</proc/sys/kernel/core_pattern) == core* ]] || skip "core files do not go to the working directory here"
}

# Writes a wrapper of the shell that keeps the secret for the test, and sets a working directory for the core file.
write_shell() {
  cat >shell <<END
#!/bin/bash
IFS= read -r secret
echo "\$secret" >secret
exec "$NACRE_SHELL" "\$@" < <(echo "\$secret"; exec cat)
END
  chmod +x shell
}

# There are exactly $1 core files here, and none has the secret.
no_core_file_has_secret() {
  python3 - "$1" <<'END' || return 1
import glob, sys
secret = open("secret").read().strip()
forms = (secret.encode(), secret.upper().encode(), bytes.fromhex(secret))
files = sorted(glob.glob("**/core*", recursive=True))
for file in files:
    data = open(file, "rb").read()
    for form in forms:
        if form in data:
            sys.exit(f"{file} has the secret")
if len(files) != int(sys.argv[1]):
    sys.exit(f"core files: {files}")
END
}

# A job of two shells whose tasks wait; its launcher is $launcher.
start_job() {
  # With the sanitizer too, signals have their usual effect.
  export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0:disable_coredump=0
  ulimit -c unlimited
  write_shell
  write_nodes 2 1
  write_jobspec 2 sh -c 'echo $PPID >shell.$FLUX_TASK_RANK; sleep 1000; exit 0'
  "$NACRE_BUILD_DIR/nacre" launch --shell="$work/shell" -j jobspec.json --local=2 -R R.json -o cpu-affinity=off >out 2>&1 3>&- &
  launcher=$!
  wait_until test -s shell.0
  wait_until test -s shell.1
}

@test "a shell of several leaves no core file with the secret" {
  start_job
  kill -SEGV "$(<shell.1)"
  status=0
  wait "$launcher" || status=$?
  [ "$status" -ne 0 ]
  no_core_file_has_secret 0
}

@test "the leader, and nacre launch, leave no core file with the secret" {
  start_job
  kill -ABRT "$(<shell.0)"
  status=0
  wait "$launcher" || status=$?
  [ "$status" -ne 0 ]
  no_core_file_has_secret 0
  rm shell.*
  start_job
  kill -SEGV "$launcher"
  status=0
  wait "$launcher" || status=$?
  [ "$status" -eq 139 ]
  for rank in 0 1; do wait_until sh -c '! kill -0 "$1" 2>/dev/null' sh "$(<shell.$rank)"; done
  no_core_file_has_secret 0
}

# bats test_tags=long
@test "a task of several shells leaves a core file as ulimit -c says, without the secret" {
  start_job
  task=$(pgrep -P "$(<shell.1)" -x sh)
  pkill -SEGV -P "$task" -x sleep
  wait_until sh -c '[ -n "$(ls | grep ^core)" ]'
  kill "$launcher"
  wait "$launcher" || true
  no_core_file_has_secret 1
}

# bats test_tags=long,root
@test "oom.adjust of a user that is not root, where the shells have a secret" {
  needs_root "to run as another user"
  write_nodes 2 16
  write_jobspec 32 cat /proc/self/oom_score_adj
  local program shell
  program=$(copy_for_all "$NACRE_BUILD_DIR/nacre")
  shell=$(copy_for_all "$NACRE_SHELL")
  chmod -R a+rwX "$work"
  mkdir "$work/own"
  chown 65534:65534 "$work/own"
  run setpriv --reuid=65534 --regid=65534 --clear-groups env PATH=/usr/bin:/bin NACRE_JOBS_DIR="$work/own/jobs" "$program" launch --shell="$shell" -j jobspec.json \
    --local=2 -R R.json -o cpu-affinity=off -o oom.adjust=321
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ "$(sort -u <<<"$output")" = 321 ]
  [ "${#lines[@]}" -eq 32 ]
}
