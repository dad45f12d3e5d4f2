#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Debuggers: the tasks of a job in MPIR_proctable, as a tool on gdb (t/kit/mpir_tool.py) finds them there; and gdb beside a task.
load control.bash

tool() { timeout 120 gdb -batch -nx -x "$NACRE_SOURCE_DIR/t/kit/mpir_tool.py" --args "$@"; }

# Checks for lines "mpir RANK HOST EXE PID" of $1 tasks whose program is $2, and which are stopped if $3 is T.
has_tasks() { # number, program, state
  local rank host executable pid program
  program=$(readlink -f "$2")
  for rank in $(seq 0 $(($1 - 1))); do
    read -r host executable pid < <(sed -n "s/^mpir $rank //p" said)
    [ "$executable" = "$program" ] || { cat said; return 1; }
    if [ -z "$host" ] || ! grep -qx "$rank $pid $3" states; then cat said states; return 1; fi
  done
}

# What the tool runs while it stands in MPIR_Breakpoint: the states of all sh below this job.
states='for pid in $(pgrep -f "^[^ ]*sh -c echo ran"); do rank=$(tr "\\0" "\\n" </proc/$pid/environ | sed -n "s/^NACRE_TASK_RANK=//p"); \
  echo "$rank $pid $(sed "s/.*) //; s/ .*//" /proc/$pid/stat)"; done >states'

@test "run: the table has all tasks, which stand still until the tool goes on" {
  MPIR_RUN=$states tool "$front" run --shell="$NACRE_SHELL" -n 3 sh -c 'echo ran $NACRE_TASK_RANK' >said 2>&1
  has_tasks 3 /bin/sh T
  [ "$(grep -c '^ran [0-2]$' said)" -eq 3 ] || { cat said; return 1; }
  grep -qx 'mpir state 1' said
  [ "$(grep -c aborting said)" -eq 0 ]
}

@test "run over several shells, mpiexec, and launch" {
  MPIR_RUN=$states tool "$front" run --shell="$NACRE_SHELL" --local=2 -n 4 sh -c 'echo ran $NACRE_TASK_RANK' >said 2>&1
  has_tasks 4 /bin/sh T
  [ "$(grep -c '^ran [0-3]$' said)" -eq 4 ] || { cat said; return 1; }
  MPIR_RUN=$states tool "$front" mpiexec -n 2 sh -c 'echo ran $NACRE_TASK_RANK' >said 2>&1
  has_tasks 2 /bin/sh T
  write_nodes 2 1
  write_jobspec 2 sh -c 'echo ran $NACRE_TASK_RANK'
  MPIR_RUN=$states tool "$front" launch --shell="$NACRE_SHELL" -j jobspec.json --local=2 -R R.json -o cpu-affinity=off >said 2>&1
  has_tasks 2 /bin/sh T
  [ "$(grep -c '^ran [01]$' said)" -eq 2 ] || { cat said; return 1; }
}

@test "a job that fails is told as one that aborts" {
  tool "$front" run --shell="$NACRE_SHELL" -n 2 sh -c 'exit 7' >said 2>&1
  [ "$(grep -c '^mpir [01] ' said)" -eq 2 ] || { cat said; return 1; }
  grep -Eq '^mpir aborting: job [^ ]+: exit code 7$' said || { cat said; return 1; }
}

@test "attach --mpir: of a job that runs, for a tool that starts it, and for one that attaches to it" {
  "$front" run --shell="$NACRE_SHELL" -n 2 sh -c 'echo up >up.$NACRE_TASK_RANK; until test -e go; do sleep 0.05; done; echo over' >out 2>&1 3>&- &
  wait_until 30 listed
  wait_until 30 test -e up.0 -a -e up.1
  "$front" attach --mpir last >watched 2>&1 3>&- &
  shows() {
    MPIR_ATTACH=$! tool "$front" >said 2>&1
    [ "$(grep -c '^mpir [01] ' said)" -eq 2 ]
  }
  wait_until 30 shows || { cat said; return 1; }
  pids=$("$front" ps --json last | jq -r 'select(.rank != null) | "\(.rank) \(.pid)"' | sort)
  [ "$(sed -n 's/^mpir \([01]\) .* \([0-9]*\)$/\1 \2/p' said)" = "$pids" ] || { cat said; return 1; }
  MPIR_RUN='touch go' tool "$front" attach last >said 2>&1
  [ "$(sed -n 's/^mpir \([01]\) .* \([0-9]*\)$/\1 \2/p' said)" = "$pids" ] || { cat said; return 1; }
  grep -q '^over$' said
  wait_for_jobs
  [ "$(grep -c over watched)" -eq 2 ]
}

@test "without a debugger nothing is held, and no table is made" {
  run "$front" run --shell="$NACRE_SHELL" --local=2 -n 2 sh -c 'sed -n "s/^State:[[:space:]]*//p" /proc/$$/status; echo ran'
  [ "$status" -eq 0 ] || { echo "$status $output"; return 1; }
  [ "$(grep -c ran <<<"$output")" -eq 2 ]
}

@test "the symbols are exported, and no others" {
  symbols() { nm -D --defined-only "$1" | sed 's/^[^ ]* //' | grep MPIR | sort; }
  [ "$(symbols "$front")" = "$(printf '%s\n' 'B MPIR_being_debugged' 'B MPIR_debug_abort_string' 'B MPIR_debug_state' 'B MPIR_proctable' \
    'B MPIR_proctable_size' 'D MPIR_acquired_pre_main' 'D MPIR_i_am_starter' 'D MPIR_partial_attach_ok' 'T MPIR_Breakpoint' | sort)" ] || { symbols "$front"; return 1; }
}

@test "exec: gdb beside a task, as its page prints it" {
  "$front" run --shell="$NACRE_SHELL" -n 4 sh -c 'echo up >up.$NACRE_TASK_RANK; exec sleep 76584' >out 2>&1 3>&- &
  wait_until 30 test -e up.3
  # What nacre-exec(1) has as an example.
  example=$(sed -n 's/^\tnacre \(exec -r 3 sh -c .*gdb.*\)$/\1/p' "$NACRE_SOURCE_DIR/doc/man/nacre-exec.1.scd")
  [ -n "$example" ]
  wait_until 30 sleeps 3
  run bash -c "'$front' $example"
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [[ $output == *nanosleep* ]] || { echo "$output"; return 1; }
  "$front" kill last
  wait_for_jobs || true
}
sleeps() { [ "$("$front" ps --json last | jq -r "select(.rank == $1).command")" = sleep ]; }
