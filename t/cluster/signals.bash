# SPDX-License-Identifier: Apache-2.0
#
# A signal to nacre launch while a job over four hosts starts, by ssh or by srun, ends it with 128 + the signal, and nothing is left on
# any host; after lib.bash, jobs.bash and faults.bash. Many more moments, on one host: t/e2e/start_signals.
# shellcheck disable=SC2154

signals=(INT TERM HUP QUIT)

# Starts the job by the way $1 from node3, with these options; it is $job, and what it says goes to `said`.
begin_by() {
  local way=$1
  shift
  rm -f started.*
  write_job 1 sh -c 'touch $0/started.$FLUX_TASK_RANK; exec sleep 76542' "$PWD"
  began=$(uptime_ms)
  if [ "$way" = ssh ]; then
    limit=240 launch node3 "$@" >said 2>&1 3>&- &
  else
    limit=240 on node3 "$NACRE_BUILD_DIR/nacre" launch --srun --nodes=4 --shell="$NACRE_SHELL" --timeout=100 "${job_options[@]}" \
      "$@" >said 2>&1 3>&- &
  fi
  job=$!
}

launcher() { "$vcluster" exec node3 pgrep -o -x nacre; }

# The job ends with the code of the signal $1 within 10 s, and leaves nothing.
ends_by() {
  local code=0 wanted
  wait_until 10 job_is_over || { echo "SIG$1: it has not ended after 10 s: $(tail -c 3000 said)"; return 1; }
  wait "$job" || code=$?
  wanted=$((128 + $(kill -l "$1")))
  [ "$code" -eq "$wanted" ] || { echo "SIG$1: exit code $code, not $wanted: $(tail -c 3000 said)"; return 1; }
  nothing_left
}

job_is_over() { ! kill -0 "$job" 2>/dev/null; }

not_started() { # a task whose rank matches
  ! compgen -G "started.$1" || { echo "tasks were started, though the signal came before"; return 1; }
}

signal_launcher() { "$vcluster" exec node3 kill -s "$1" "$(launcher)"; }

# One shell is held at the topic $3 until the signal $2 has come, by the way $1; no task of it may be started, and none at all
# that matches $4.
held_at() {
  mkdir "$work/$1-$2-$3" && cd "$work/$1-$2-$3" || return
  begin_by "$1" -o hold.at="$3" -o hold.rank=2 -o hold.marks="$PWD" -- --initrc="$programs/hold.lua"
  files_come "$3.2"
  signal_launcher "$2"
  sleep 0.5
  not_started "$4"
  touch go
  ends_by "$2"
  not_started "$4"
}

# The shell on the host $1 makes the file `late`, and begins to start once there is the file `go`; until `recover`.
delay_shell() {
  wrap_shell "$1" "touch $PWD/late; until [ -e $PWD/go ]; do sleep 0.2; done; exec \$shell \"\$@\""
}

# A shell that is started by ssh has not joined when the signal $1 comes.
not_joined_at() {
  mkdir "$work/late-$1" && cd "$work/late-$1" || return
  delay_shell node2
  begin_by ssh
  files_come late
  signal_launcher "$1"
  sleep 0.5
  touch go
  ends_by "$1"
  not_started '*'
  recover
}

# One shell, on the host $2, gets the signal $1 while that on the host $3, which may be the same, has not joined; srun has started
# them.
one_gets() {
  mkdir "$work/$1-$2-$3" && cd "$work/$1-$2-$3" || return
  delay_shell "$3"
  begin_by srun
  files_come late
  wait_until waits "$2"
  kill_shell "$2" "$1"
  sleep 0.2
  touch go
  ends_by "$1"
  not_started '*'
  recover
}

# The way $1, each signal at $2 random moments of the first 1.2 s.
at_random() {
  local signal moment
  for signal in "${signals[@]}"; do
    for ((i = 0; i < $2; ++i)); do
      moment=$((RANDOM % 1200))
      begin_by "$1"
      wait_until launcher >/dev/null
      sleep "$(printf '0.%03d' $((moment % 1000)))"
      ((moment < 1000)) || sleep 1
      echo "# $1: SIG$signal after $moment ms" >&3
      signal_launcher "$signal"
      ends_by "$signal"
    done
  done
}
