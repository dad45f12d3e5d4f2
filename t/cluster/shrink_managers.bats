#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Hosts that leave a job go back to the manager of its allocation: to Slurm, and to PBS and LSF by their commands, in
# whose place there are programs that record how they are called, as there is no such manager here.
load jobs.bash

cluster=(4 --slurm)

# In an allocation $allocation of three hosts that node0, its first one, has made: nacre run with these options, until there is the file go.
start_in_allocation() {
  slurm node0 true # Slurm is ready
  on node0 salloc -N3 -w "node[0-2]" --no-shell 2>/dev/null
  allocation=$(on node0 squeue -h -o %i)
  limit=150 on node0 env SLURM_JOB_ID="$allocation" SLURM_JOBID="$allocation" SLURM_NNODES=3 SLURM_JOB_NUM_NODES=3 SLURM_JOB_NODELIST="node[0-2]" SLURM_NODELIST="node[0-2]" \
    "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -N 3 -n 3 --timeout=100 "$@" \
    sh -c 'touch $0/started.$FLUX_TASK_RANK; until test -e $0/go; do sleep 0.2; done; echo done $FLUX_TASK_RANK' "$work" >said 2>&1 &
  job=$!
  wait_until have_started_three
  wait_until listed node0
}
have_started_three() { test -e started.0 -a -e started.1 -a -e started.2; }
is_free() { [ "$(on node0 sinfo -h -n "$1" -o %t)" = idle ]; }

@test "Slurm gets a host back, of jobs over ssh and of steps that survive it, and the others go on" {
  local how
  for how in "--hosts=node[0-2]" "--srun --on-lost=go-on"; do
    rm -f started.* go said
    # shellcheck disable=SC2086
    start_in_allocation $how
    [ "$(on node0 squeue -h -o %N)" = "node[0-2]" ]
    [ "$(nacre node0 shrink --hosts=node1 --json | jq -c .manager)" = '[{"hosts":"node1","name":"Slurm","released":true}]' ] || { cat said; return 1; }
    [ "$(on node0 squeue -h -o %N)" = "node[0,2]" ]
    wait_until is_free node1
    [ -z "$(ls slurm_job_* 2>/dev/null)" ]
    touch go
    ends_with 0
    [ "$(grep -c '^done' said)" -eq 2 ] || { cat said; return 1; }
    on node0 scancel "$allocation"
    nothing_left
    wait_until is_free node2
  done
}

@test "Slurm: of a step that would end with it the host stays, which a line reports" {
  write_waiters
  start_by_srun
  nacre node3 shrink --hosts=node2 >answer 2>error
  [ "$(<answer)" = node2 ]
  [ "$(<error)" = "nacre shrink: node2 not given back to Slurm: Slurm would end all shells with it, as srun was not given --no-kill: it stays idle until the job ends" ] || { cat error; return 1; }
  touch go
  ends_with 0
  [ "$(grep -c '^done' said)" -eq 3 ]
  nothing_left
}

# A program in the place of a manager's: records its arguments, and on which hosts the epilog has run, and ends with the code in the file code.
write_stand_in() { # name
  mkdir -p bin
  cat >"bin/$1" <<END
#!/bin/sh
echo "\$@, after \$(cd '$work' && echo gone.*)" >>'$work/called'
echo "what went wrong" >&2
exit \$(cat '$work/code')
END
  chmod +x "bin/$1"
}

@test "PBS and LSF: their commands are called once with the hosts, after departure; a failure is reported, and the shrink stands" {
  local row name variable expected
  for row in "pbs_release_nodes|PBS_JOBID=12.server|-j 12.server node2|PBS" "bresize|LSB_JOBID=34|release node2 34|LSF"; do
    IFS='|' read -r name variable expected manager <<<"$row"
    rm -rf started.* gone.* go said answer error called bin
    write_waiters
    write_stand_in "$name"
    echo 0 >code
    limit=150 on node0 env "$variable" PATH="$PWD/bin:$PATH" "$NACRE_BUILD_DIR/nacre" launch --hosts="node[0-3]" --shell="$NACRE_SHELL" \
      --timeout=100 "${job_options[@]}" -o "epilog=touch $work/gone.\$(uname -n)" >said 2>&1 &
    job=$!
    wait_until have_started
    wait_until listed node0
    [ "$(nacre node0 shrink --hosts=node2 --json | jq -c .manager)" = "[{\"hosts\":\"node2\",\"name\":\"$manager\",\"released\":true}]" ]
    [ "$(<called)" = "$expected, after gone.node2" ] || { cat called; return 1; }
    echo 3 >code
    nacre node0 shrink --hosts=node3 >answer 2>error
    [ "$(<answer)" = node3 ]
    [[ $(<error) == "nacre shrink: node3 not given back to $manager: $name "*": exited with code 3: what went wrong" ]] || { cat error; return 1; }
    [ "$(nacre node0 ps -q | wc -l)" -eq 2 ]
    touch go
    ends_with 0
    [ "$(grep -c '^done' said)" -eq 2 ]
  done
  nothing_left
}
