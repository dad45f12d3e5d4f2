#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Hosts that leave a job go back to the manager of its allocation: to PBS and LSF by their commands, in whose
# place there are programs that record how they are called, as there is no such manager here.
load lib.bash
load jobs.bash

cluster=(4 --slurm)

@test "Slurm: the host stays, which a line reports" {
  write_waiters
  start_by_srun
  nacre node3 shrink --hosts=node2 >answer 2>error
  [ "$(<answer)" = node2 ]
  [ "$(<error)" = "nacre shrink: node2 not given back to Slurm: nacre does not give single hosts back to Slurm: it stays idle until the job ends" ] || { cat error; return 1; }
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
