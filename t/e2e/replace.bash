# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
#
# Jobs that lose shells, whose tasks start again elsewhere.

declare -F start_job >/dev/null || load control.bash

run_() { "$front" run --shell="$NACRE_SHELL" "$@"; }

# Starts a job by nacre run, whose options and command are the arguments. A task writes its shell's pid to
# shell.RANK.TRY first.
start_run() {
  rm -f out err
  run_ -l --on-lost="${on_lost:-replace}" "$@" >out 2>err &
  launcher=$!
  wait_until listed
  id=$("$front" jobs -q)
  "$front" jobs --json | jq .pid >leader
}

# Prints where it is and which start this is, and runs until there is the file `go`.
until_go='echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.$NACRE_TASK_TRY"
  echo "try $NACRE_TASK_TRY, restarts $NACRE_JOB_RESTARTS, local $FLUX_TASK_LOCAL_ID of $FLUX_JOB_SIZE on $FLUX_JOB_NNODES"
  until [ -e go ]; do sleep 0.2; done; echo "done in try $NACRE_TASK_TRY"'

# The same for tasks that do not start again.
begun_until_go='echo $PPID >"pid.$$"; mv "pid.$$" "shell.$FLUX_TASK_RANK.1"; echo begun; until [ -e go ]; do sleep 0.2; done; echo done'

await_try() { # TRY RANK...: each of them runs in this try
  local rank
  for rank in "${@:2}"; do wait_until test -e "shell.$rank.$1"; done
}

# The process $1, which its parent may not have reaped.
has_ended() { [[ ! -e /proc/$1 || $(cut -d' ' -f3 "/proc/$1/stat") == Z ]]; }

lose() { # RANK TRY: kills the shell that the rank is on in this try
  wait_until test -e "shell.$1.$2"
  kill -KILL "$(<"shell.$1.$2")"
}

# hosts by rank, and the tries, as nacre ps has them
places() { "$front" ps --json | jq -r 'select(.rank != null) | "\(.rank) \(.host) \(.try)"'; }

# No shell runs in this folder.
none_here() {
  local pid
  for pid in $(pgrep -f '^nacre-shell: '); do [ "$(readlink "/proc/$pid/cwd")" != "$PWD" ] || return 1; done
}

# A program that goes on from its checkpoint; it waits for files at the steps 5 and 10.
write_train() {
  cat >train <<'END'
#!/bin/sh
# Steps 1 to 40, each a line; it continues behind the last step that its rank has done.
echo $PPID >"pid.$$" && mv "pid.$$" "shell.$RANK.$NACRE_TASK_TRY"
step=$(cat "checkpoint.$RANK" 2>/dev/null || echo 0)
while [ "$step" -lt 40 ]; do
  step=$((step + 1))
  echo "step $step of $WORLD_SIZE"
  echo "$step" >"checkpoint.$RANK.new" && mv "checkpoint.$RANK.new" "checkpoint.$RANK"
  if [ "$step" -eq 5 ] || [ "$step" -eq 10 ] || [ "$step" -eq 15 ]; then until [ -e "go.$step" ]; do sleep 0.1; done; fi
done
END
  chmod +x train
}

# The shell, and the try, of each of these ranks, as nacre ps has them.
shells_of() {
  for rank; do "$front" ps --json | jq -r "select(.rank == $rank) | \"$rank:\(.shell):\(.try)\""; done | paste -sd' '
}

# ---- programs of MPI ($now and start_steady are the suite's), whose ranks touch in.RANK.TRY once they are in their loop

all_in() { # LAST TRY: the ranks up to LAST are in it, in this try
  local rank
  for ((rank = 0; rank <= $1; ++rank)); do wait_until test -e "in.$rank.$2" || { cat out err; return 1; }; done
}

# Four ranks on as many shells, and two spares: the second shell is lost while all wait to start again; there is one
# such restart.
lose_another_as_all_wait() {
  on_lost=replace start_steady 3 -N 4+2 -n 4 --local=6 --restart=on-failure,backoff=3s,max=1
  lose 1 1
  wait_until grep -q "restart 1 of 1" err
  lose 2 1
  wait_until grep -q "shell 2 .* is lost: .*; its task 2 starts again on the spare shell [45]" err
  all_in 3 3
  [ ! -e in.0.2 ] || { cat err; return 1; }
  touch go
  ends_with 0
}
