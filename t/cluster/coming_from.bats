#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The tables of doc/coming-from.md: the lines under "with nacre" are run as they are, and work.
load jobs.bash

cluster=(4 --slurm)

setup_file() { start_cluster && build_mpi_programs mpich hello && build_mpi_programs openmpi hello; }

# Writes the files that those lines name: app, one, train.py, and lists of hosts, programs and arguments.
write_files() {
  ln -s "$programs/hello.${1:-mpich}" app
  printf '#!/bin/sh\necho "one $1"\n' >one
  printf '#!/bin/sh\n' >before
  chmod +x one before
  printf 'import os\nprint("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])\n' >train.py
  printf 'node0:2\nnode1:2\n' >hosts
  printf '0 ./app\n1 ./app\n' >programs
  printf 'a\nb\nc\n' >args
  A=1 nacre node0 run --dry-run -n 2 ./one x >job.json
  printf '{"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0-1"}}], "nodelist": ["node0"], "starttime": 0, "expiration": 0}}' >R.json
}

# SECTION LEAST COMMAND...: runs all lines of the section, at least LEAST, each behind COMMAND: each ends with 0,
# and prints something, but no error.
runs_all() {
  local section=$1 least=$2 count=0 line
  shift 2
  "$NACRE_SOURCE_DIR/t/kit/coming_from" "$section" >lines
  while read -r line; do
    run on node0 "$@" env PATH="$NACRE_BUILD_DIR/mpi:$NACRE_BUILD_DIR:$PATH" LD_PRELOAD="$preload" NACRE_TEST_RANKS=1 sh -c "$line" </dev/null
    [ "$status" -eq 0 ] || { echo "$line: exit code $status: $output"; return 1; }
    [[ $line == *" >"* || $line == *'>'job.json || $line == *--output* || $line == *-outfile-* || $line == *--log-dir=out* || -n $output ]] || { echo "$line: says nothing"; return 1; }
    [[ $output != *error* ]] || { echo "$line: $output"; return 1; }
    count=$((count + 1))
  done <lines
  [ "$count" -ge "$least" ] || { echo "$section: $count lines"; return 1; }
  nothing_left
}

@test "what those of mpiexec type" {
  write_files
  preload=$programs/ucx_leave.so runs_all mpiexec 8
}

# bats test_tags=long
@test "what those of srun type, in an allocation of Slurm" {
  write_files
  CUDA_VISIBLE_DEVICES=0,1 preload=$programs/ucx_leave.so runs_all srun 12 salloc --quiet -N2 -n4 --time=2
}

# bats test_tags=long
@test "what those of mpirun type" {
  write_files openmpi
  preload='' runs_all mpirun 8
}

# bats test_tags=long
@test "what those of torchrun type" {
  write_files
  CUDA_VISIBLE_DEVICES=0,1 preload='' runs_all torchrun 5
}

# bats test_tags=long
@test "what those of flux run type" {
  write_files
  preload='' runs_all "flux run" 7
}

# bats test_tags=long
@test "what those of parallel, pdsh and clush type" {
  write_files
  preload='' runs_all parallel 9
  preload='' runs_all "pdsh, clush" 5
}
