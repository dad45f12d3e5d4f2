#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# One job over the shells of four hosts: started by Slurm, by Hydra and by nacre launch; and what happens to it when
# hosts or links fail. Other faults are in faults_*.bats.
load jobs.bash

cluster=(4 --slurm)

# The four ways to start a shell on each host.
by_pmi2() { shells_by_srun; }
by_srun() { on node0 "$NACRE_BUILD_DIR/nacre" launch --srun --nodes=4 --shell="$NACRE_SHELL" "${job_options[@]}" "$@"; }
by_hydra() {
  on node0 mpiexec.hydra -launcher ssh -hosts node0,node1,node2,node3 -ppn 1 -n 4 "$NACRE_SHELL" "${job_options[@]}"
}
by_ssh() { launch node0; }

# The shells' own lines in the output of srun or mpiexec.
own_words() { grep -vE '^(srun: |$)' <<<"$output" || :; }

@test "the same job runs under srun, with PMI and without, under Hydra, and over ssh" {
  expected=$(for i in 0 1 2 3 4 5 6 7; do
    echo "$i of 8 on node$((i / 2))"
    echo "nacre-shell[0]: error: task $i on node$((i / 2)): exit code $((i + 1))"
  done | sort)
  write_job 2 sh -c 'echo $FLUX_TASK_RANK of $FLUX_JOB_SIZE on $(uname -n); exit $((FLUX_TASK_RANK + 1))'
  job_options+=(-o exit-report=line)
  for way in by_pmi2 by_srun by_hydra by_ssh; do
    run "$way"
    [ "$status" -eq 8 ] || { echo "$way: exit code $status: $output"; return 1; }
    [ "$(own_words | sort)" = "$expected" ] ||
      { echo "$way: said: $output"; return 1; }
  done
  nothing_left
}

# bats test_tags=long
@test "nacre launch works from a host that is not in the job's list first" {
  write_job 1 sh -c 'echo $FLUX_TASK_RANK on $(uname -n)'
  run launch node3
  said_lines "0 on node0" "1 on node1" "2 on node2" "3 on node3"
  nothing_left
}

# OPTION...: the shells of a job of Slurm with a time limit of a minute, of which shell 0 is told $minus seconds
# less: Slurm 21.08 does not set the variable.
by_slurm_for_a_minute() {
  on node0 srun --quiet --time=1 -N4 --ntasks-per-node=1 --mpi=pmi2 sh -c \
    'export SLURM_JOB_END_TIME=$(($(date -d "$(squeue -h -j "$SLURM_JOB_ID" -o %e)" +%s) - '"${minus:-0}"')); exec "$@"' sh \
    "$NACRE_SHELL" "${job_options[@]}" "$@"
}

# bats test_tags=long
@test "a job of Slurm: all tasks get the signal before its time is over; what runs then counts as 124" {
  write_job 2 sh -c 'trap "echo \$FLUX_TASK_RANK was warned; exit 7" USR1; sleep 76543 & wait'
  run by_slurm_for_a_minute -o signal.timeleft=50s
  [ "$status" -eq 7 ] || { echo "exit code $status: $output"; return 1; }
  [ "$(own_words | grep -vE '^nacre(-shell)?' | sort)" = "$(for i in 0 1 2 3 4 5 6 7; do echo "$i was warned"; done)" ] || { echo "$output"; return 1; }
  [[ $output =~ "nacre-shell[0]: signal: the job expires in "(4[89]|50)" s: sending SIGUSR1 to the tasks" ]] || { echo "$output"; return 1; }
  minus=50 run by_slurm_for_a_minute
  [ "$status" -eq 124 ] || { echo "exit code $status: $output"; return 1; }
  [[ $output == *"nacre-shell[0]: error: timeout: the time that Slurm has given is over, and these tasks still run: 0-7"* ]] || { echo "$output"; return 1; }
  nothing_left
}

# bats test_tags=long
@test "notices of how tasks end come to the launcher's host, under srun and over ssh" {
  write_job 2 sh -c 'case $FLUX_TASK_RANK in 5) exit 3;; esac; sleep 1; echo text >&2'
  for way in by_srun "launch node3"; do
    run -3 eval "$way --notify=notices -o exit-report=off"
    # One notice, or two if the others end a moment later, and the notice of the end.
    [ "$(jq -sc '[([.[:-1][].end] | unique), last.end, .[0].x.x3, .[0].first, last.code]' notices)" = '[[0],1,"5",5,3]' ] || { cat notices; return 1; }
    [ "$(grep -c '^text$' <<<"$output")" -eq 7 ]
    [[ $output != *$'\x1e'* && $output != *'"seq"'* ]]
  done
  # The report goes to a descriptor that only the launcher has.
  on node3 bash -c '"$@" 7>given' - "$NACRE_BUILD_DIR/nacre" launch --hosts="node[0-3]" --shell="$NACRE_SHELL" "${job_options[@]}" --notify=7 || true
  [ "$(tail -n 1 given | jq -c '[.end, .code]')" = '[1,3]' ]
}

# bats test_tags=long
@test "the report comes to the launcher's host, under srun and over ssh" {
  write_job 2 sh -c 'case $FLUX_TASK_RANK in 5) echo why >&2; exit 3;; esac'
  for way in by_srun "launch node3"; do
    rm -f r.json
    run -3 eval "$way --report=r.json"
    [[ $output == *"rank 5 on node"*"exited with code 3"*"last of its stderr:   | why"*"exit code 3 (policy max: the cause)"* ]]
    [[ $output != *$'\x1e'* ]]
    jq -e '.cause | .rank == 5 and .stderr == "why\n" and .host == "node2"' r.json || { cat r.json; return 1; }
  done
}

# bats test_tags=long
@test "output to a closed standard output is an error, over ssh and under srun" {
  write_job 1 echo something
  for way in by_srun by_ssh; do
    run --separate-stderr eval "$way >&-"
    [ "$status" -eq 1 ] || { echo "$way: exit code $status, $stderr"; return 1; }
    [[ $stderr == *"standard output"* || $stderr == *"stdout"* ]] || { echo "$way: $stderr"; return 1; }
  done
  write_job 1 true
  run eval "by_srun >&-"
  [ "$status" -eq 0 ]
}

# bats test_tags=long
@test "programs of MPICH on 16 ranks, under srun and over ssh" {
  build_mpi_programs mpich allreduce alltoall
  for name in allreduce alltoall; do
    environment='{"LD_PRELOAD": "'$programs/ucx_leave.so'"}' write_job 4 "$programs/$name.mpich"
    for way in by_pmi2 by_ssh; do
      run "$way"
      said_lines "$name ok, 16 ranks"
    done
  done
  nothing_left
}

@test "a host that is killed ends the job, which names it" {
  start_sleepers node0
  "$vcluster" kill node2
  job_fails_with "node2"
  wait_until no_tasks node0 node1 node3
  "$vcluster" boot node2
  nothing_left
}

# bats test_tags=long
@test "a host that is cut off for a second loses nothing" {
  write_job 1 sh -c 'touch $0/started.$FLUX_TASK_RANK; until test -e $0/go; do sleep 0.2; done; echo $FLUX_TASK_RANK is done' "$work"
  launch node0 >said 2>&1 &
  job=$!
  wait_until test -e started.0 -a -e started.1 -a -e started.2 -a -e started.3
  "$vcluster" cut node2
  sleep 1
  "$vcluster" heal node2
  touch go
  wait "$job" || { echo "exit code $?: $(cat said)"; return 1; }
  [ "$(sort said)" = "0 is done"$'\n'"1 is done"$'\n'"2 is done"$'\n'"3 is done" ] || { cat said; return 1; }
  nothing_left
}

# bats test_tags=long
@test "a host that does not answer is named, and the job does not start" {
  write_job 1 sh -c 'echo ran'
  "$vcluster" kill node2
  run launch node0
  "$vcluster" boot node2
  [ "$status" -ne 0 ]
  [[ $output == *node2* && $output != *ran* ]] || { echo "said: $output"; return 1; }
  nothing_left
}

# bats test_tags=long
@test "a host whose shell cannot be run is named, and the job does not start" {
  write_job 1 sh -c 'echo ran'
  touch no-program
  "$vcluster" exec node1 mount --bind no-program "$NACRE_SHELL"
  run launch node0
  "$vcluster" exec node1 umount "$NACRE_SHELL"
  [ "$status" -ne 0 ]
  [[ $output == *"shell 1 on node1 was not started: "*"Permission denied"* && $output != *ran* ]] || { echo "said: $output"; return 1; }
  nothing_left
}
