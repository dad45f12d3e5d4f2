#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre shrink over hosts: of jobs over ssh and of those that srun has started, from another host than the leader's.
load jobs.bash

cluster=(4 --slurm)

# HOST...: at the answer nothing of the job is there: no task, shell or guard. Who takes the connection there is of the host itself, and
# ends with it; Slurm's step is the manager's.
none_of_it_on() {
  local host left
  for host; do
    left=$(strays_on "$host" | grep -vE '^ *[0-9]+ (sshd: |slurmstepd: )' || :)
    [ -z "$left" ] || { echo "left on $host: $left"; return 1; }
  done
}

# The end of the shells but the leader's, once they have left the others, takes 5 s.
write_long_end() {
  cat >rc.lua <<'LUA'
rank = shell.info.rank
last = setmetatable ({}, { __gc = function () if rank > 0 then os.execute ("sleep 5") end end })
LUA
}

@test "over ssh: hosts leave, nothing is left on them, and the others end well" {
  write_waiters
  limit=150 launch node1 >said 2>&1 &
  job=$!
  wait_until have_started
  wait_until listed node1
  runs_on node0 '^ssh .* node2 '
  [ "$(nacre node3 shrink --hosts=node2)" = node2 ]
  none_of_it_on node2
  none_on node0 '^ssh .* node2 '
  [ "$(nacre node1 shrink --count=1 --json | jq -r .hosts)" = node3 ]
  none_of_it_on node3
  none_on node0 '^ssh .* node3 '
  [ "$(nacre node1 ps -q | wc -l)" -eq 2 ]
  touch go
  ends_with 0
  [ "$(grep -c '^done' said)" -eq 2 ]
  nothing_left
}

joins_and_leaves() { # how many times
  local time
  write_job 1 sh -c 'touch $0/started.$FLUX_TASK_RANK; until test -e $0/go; do sleep 0.2; done; echo done $FLUX_TASK_RANK' "$work"
  limit=200 launch node1 >said 2>&1 &
  job=$!
  wait_until have_started
  wait_until listed node0
  for ((time = 0; time < $1; ++time)); do
    nacre node0 shrink --quiet --hosts=node3
    none_of_it_on node3
    none_on node0 '^ssh .* node3 '
    nacre node0 grow --quiet --hosts=node3
  done
  touch go
  ends_with 0
  nothing_left
}

# bats test_tags=long
@test "over ssh: a host joins and leaves, and nothing is left on it at the answer" { joins_and_leaves 3; }

# bats test_tags=long
@test "over ssh, 20 times: a host joins and leaves, and nothing is left on it at the answer" { joins_and_leaves 20; }

# bats test_tags=long
@test "a deep tree of shells whose end takes long: a whole branch leaves, and nothing is left at the answer" {
  write_waiters
  write_long_end
  limit=150 launch node2 --arity=2 -- --initrc="$work/rc.lua" >said 2>&1 &
  job=$!
  wait_until have_started
  wait_until listed node0
  nacre node2 shrink --quiet --shells=1,3
  none_of_it_on node1 node3
  touch go
  ends_with 0
  [ "$(grep -c '^done' said)" -eq 2 ]
  nothing_left
}

# bats test_tags=long
@test "a deep tree: an inner shell leaves, those below it go on" {
  write_waiters
  limit=150 launch node1 --arity=2 >said 2>&1 &
  job=$!
  wait_until have_started
  wait_until listed node1
  [ "$(nacre node3 shrink --shells=1)" = node1 ]
  wait_until none_on node1 '^sh -c touch'
  [ "$(nacre node3 exec uname -n | sort | tr '\n' ' ')" = "node0: node0 node2: node2 node3: node3 " ]
  touch go
  ends_with 0
  [ "$(grep -c '^done' said)" -eq 3 ]
  nothing_left
}

leaves_srun() { # how many times
  local time host
  write_waiters
  for ((time = 0; time < $1; ++time)); do
    rm -f go started.*
    start_by_srun
    [ "$(nacre node3 shrink --hosts=node1)" = node1 ]
    none_of_it_on node1
    [ "$(nacre node1 shrink --hosts='node[2-3]')" = "node[2-3]" ]
    none_of_it_on node2 node3
    touch go
    ends_with 0
  done
  nothing_left
}

# bats test_tags=long
@test "a job that srun has started: nothing is left on the hosts at the answer" { leaves_srun 1; }

# bats test_tags=long
@test "a job that srun has started, 7 times 3 hosts: nothing is left on them at the answer" { leaves_srun 7; }

# bats test_tags=long
@test "a job that srun has started, of shells whose end takes long: nothing is left at the answer" {
  write_waiters
  write_long_end
  limit=150 shells_by_srun --initrc="$work/rc.lua" >said 2>&1 &
  job=$!
  wait_until have_started
  wait_until listed node0
  [ "$(nacre node3 shrink --hosts='node[1-2]')" = "node[1-2]" ]
  none_of_it_on node1 node2
  touch go
  ends_with 0
  [ "$(grep -c '^done' said)" -eq 2 ]
  nothing_left
}

# bats test_tags=long
@test "a job that nacre has started by srun goes on however long a shell has been gone" {
  write_waiters
  limit=150 on node3 "$NACRE_BUILD_DIR/nacre" launch --srun -n 4 --shell="$NACRE_SHELL" "${job_options[@]}" >said 2>&1 &
  job=$!
  wait_until have_started
  wait_until listed node0
  [ "$(nacre node3 shrink --hosts=node2)" = node2 ]
  none_of_it_on node2
  # Longer than the 4 s that srun once gave the others: that an end does not come has no other sign than time.
  sleep 6
  [ "$(nacre node3 ps -q | wc -l)" -eq 3 ]
  touch go
  ends_with 0
  [ "$(grep -c '^done' said)" -eq 3 ]
  nothing_left
}
