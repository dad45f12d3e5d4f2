#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# How nacre launch ends whose shells srun has started: with the job, and with its code, whatever becomes of the step.
load faults.bash

cluster=(4 --slurm)

setup_file() { start_cluster && build_hold; }

by_srun() { # OPTION...: $job; what it says goes to `said`
  limit=150 on node3 "$NACRE_BUILD_DIR/nacre" launch --srun -n 4 --shell="$NACRE_SHELL" "${job_options[@]}" -o lost-after=3s "$@" >said 2>&1 3>&- &
  job=$!
}

write_waiting() {
  write_job 1 sh -c 'touch $0/started.$FLUX_TASK_RANK; until test -e $0/go; do sleep 0.1; done; [ $FLUX_TASK_RANK != 0 ] || exit 3' "$PWD"
}

says_nothing_of_srun() {
  ! grep -E '^srun: error: |^slurmstepd: ' said || { cat said; return 1; }
}

@test "a shell that stands still does not keep the step, and with it nacre, once the job is over" {
  write_waiting
  by_srun
  files_come started.0 started.1 started.2 started.3
  kill_shell node2 STOP
  job_ends_with 1 "shell 2 on node2 is lost" "the job has ended, and not all of its shells"
  says_nothing_of_srun
  wait_until 60 no_shells node0 node1 node2 node3
}

@test "the same with one that stands still while the job starts" {
  write_waiting
  by_srun -o hold.at=shell.init -o hold.rank=2 -o hold.marks="$PWD" -- --initrc="$programs/hold.lua"
  files_come shell.init.2
  kill_shell node2 STOP
  job_ends_with 1 "shell 2 on node2 is lost" "the job has ended, and not all of its shells"
  says_nothing_of_srun
  wait_until 60 no_shells node0 node1 node2 node3
}

launcher_gets() { on node3 pkill "-$1" -x nacre; } # SIGNAL

@test "a leader that stands still does not keep the step, and with it nacre, once a signal was to end the job" {
  local signal
  for signal in TERM HUP; do
    rm -f started.*
    write_waiting
    by_srun -o lost-after=100s
    files_come started.0 started.1 started.2 started.3
    kill_shell node0 STOP
    launcher_gets $signal
    job_ends_with $((128 + $(kill -l $signal))) "SIG$signal was not taken within 5 s; ending the step of srun"
    says_nothing_of_srun
    wait_until 60 no_shells node0 node1 node2 node3
  done
}

@test "with lines that srun labels (--label) all is as without: what the shells report is read, and does not come out" {
  write_waiting
  by_srun --srun-arg=--label -o lost-after=100s
  files_come started.0 started.1 started.2 started.3
  kill_shell node0 STOP
  launcher_gets TERM
  job_ends_with 143 "SIGTERM was not taken within 5 s; ending the step of srun"
  ! grep -E 'srun: error: |slurmstepd: ' said || { cat said; return 1; }
  wait_until 60 no_shells node0 node1 node2 node3
  # The code is the job's, not that of the shell that was killed; of a leader that has taken a signal nothing is said.
  rm -f started.* go
  write_job 1 sh -c 'trap "echo a line >&2; sleep 8; exit 5" TERM; touch $0/started.$FLUX_TASK_RANK; while :; do sleep 0.1; done' "$PWD"
  by_srun --srun-arg=-l -o kill-timeout=60s
  files_come started.0 started.1 started.2 started.3
  launcher_gets TERM
  job_ends_with 5
  [ "$(grep -c '^0: a line$' said)" -eq 4 ] || { cat -v said; return 1; }
  ! grep -vE '^([0-3]: .+|nacre: .+)$' said || return 1
  ! grep -aF -e "was not taken" -e $'\x1e' said || { cat -v said; return 1; }
}

@test "a leader that has taken a signal may take its time, and so may its tasks" {
  write_job 1 sh -c 'trap "sleep 8; exit 5" TERM; touch $0/started.$FLUX_TASK_RANK; while :; do sleep 0.1; done' "$PWD"
  by_srun -o kill-timeout=60s
  files_come started.0 started.1 started.2 started.3
  launcher_gets TERM
  job_ends_with 5
  ! grep -F "was not taken" said || { cat said; return 1; }
}

@test "the exit code is the job's, not the largest of srun's tasks, whose ends srun does not name" {
  write_waiting
  by_srun -o on-lost=go-on
  files_come started.0 started.1 started.2 started.3
  kill_shell node2 KILL
  says "shell 2 on node2 is lost"
  touch go
  job_ends_with 3
  says_nothing_of_srun
}
