#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What holds for a job of MPI holds whichever way its processes come to their ranks: rules by ways (PMI-1, PMI-2, PMIx) by
# numbers of shells (one, and two on one host), in each cell the same program, mpi/ways.c.
load pmix.bash

setup_file() { build_ways; }

# Runs a job of 4 tasks of the program, or of the command in `task`, with the arguments: by the way $1, on $2 shells
# of $3 cores each (R names no hosts, so that all are on one), with the options in `more`.
more=()
task=()
in_cell() {
  local way=$1 shells=$2 cores=$3 rc=/dev/null pmi=simple,pmi2
  shift 3
  jq -n --argjson shells "$shells" --argjson cores "$cores" '{version: 1, execution: {
    R_lite: [{rank: "0-\($shells - 1)", children: {core: "0-\($cores - 1)"}}], starttime: 0, expiration: 0}}' >R.json
  environment="${usual_environment%\}}, \"MARK\": \"$work\"}" write_jobspec 4 "${task[@]:-$BATS_FILE_TMPDIR/$way}" "$@"
  if [ "$way" = PMIx ]; then
    pmi=pmix rc=rc.lua
    echo 'plugin.load { file = os.getenv ("NACRE_BUILD_DIR") .. "/plugins/pmix/pmix.so" }' >rc.lua
  fi
  run_with_pmix "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" -j jobspec.json -R R.json --local="$shells" \
    -o cpu-affinity=off -o pmi=$pmi -o exit-report=off "${more[@]}" -- --initrc=$rc
}

# Runs each cell of the rule $1: the job's code is $2, its standard output $3; the rest are arguments.
in_all_cells() {
  local rule=$1 code=$2 wanted=$3 way shells said
  shift 3
  for way in "${ways[@]}"; do
    for shells in 1 2; do
      in_cell "$way" "$shells" $((4 / shells + spare_cores / shells)) "$rule" "$@"
      said=$(grep -E '^([0-9] went on|universe|child: )' <<<"$output" | sort | uniq | paste -sd' ')
      [[ $status -eq $code && $said == "$wanted" ]] ||
        { echo "$rule by $way on $shells shells: exit code $status, not $code; '$said', not '$wanted': $output"; return 1; }
      no_trace_left || { echo "$rule by $way on $shells shells"; return 1; }
    done
  done
}
spare_cores=0

# ---- a process that is lost ends the job --------------------------------------

@test "one that is killed after init ends the job" {
  in_all_cells kill-after-init 137 "" 1
}

# bats test_tags=long
@test "one that leaves after init without finalize ends the job, with a failure" {
  in_all_cells exit-after-init 3 "" 1 3
  in_all_cells exit-after-init 1 "" 1 0
}

@test "one that leaves with 0 and without finalize is what the report is about" {
  local way shells
  more=(-o exit-report=full)
  for way in "${ways[@]}"; do
    for shells in 1 2; do
      in_cell "$way" "$shells" $((4 / shells)) exit-after-init 1 0
      [[ $status -eq 1 ]] && grep -qE '^nacre: .* rank 1 .*exited with code 0 .*without PMI(x_F| f)inalize' <<<"$output" ||
        { echo "$way on $shells shells: exit code $status: $output"; return 1; }
    done
  done
}

# bats test_tags=long
@test "one that is killed before init, as others have called it, ends the job" {
  in_all_cells kill-before-init 137 "" 1
}

# PMI knows at once that the others wait; libpmix does not say so before all have come, and exit-timeout ends the job.
# bats test_tags=long
@test "one that leaves before init, as others wait for it, ends the job" {
  more=(-o exit-timeout=2s)
  in_all_cells exit-before-init 3 "" 1 3
}

# bats test_tags=long
@test "one that is killed after finalize ends the job" {
  local way shells
  for way in "${ways[@]}"; do
    for shells in 1 2; do
      in_cell "$way" "$shells" $((4 / shells)) kill-after-finalize 1
      [ "$status" -eq 137 ] || { echo "$way on $shells shells: exit code $status: $output"; return 1; }
    done
  done
}

# bats test_tags=long
@test "where nobody calls init one that is killed is no loss to the others" {
  in_all_cells no-init 137 "0 went on 2 went on 3 went on" 1
}

# Not by PMI-2: Slurm's library passes no exit code on.
# bats test_tags=long
@test "abort ends the job, with its code" {
  ways=(PMI-1 PMIx)
  in_all_cells abort 7 "" 1 7
  ways=(PMI-2)
  in_all_cells abort 1 "" 1 7
}

# ---- fault-tolerance -----------------------------------------------------------

# bats test_tags=long
@test "fault-tolerance: the others of one that is lost go on" {
  more=(-o fault-tolerance)
  in_all_cells kill-after-init 137 "0 went on 2 went on 3 went on" 1
  in_all_cells exit-after-init 3 "0 went on 2 went on 3 went on" 1 3
  in_all_cells kill-before-init 137 "0 went on 2 went on 3 went on" 1
  in_all_cells exit-before-init 3 "0 went on 2 went on 3 went on" 1 3
}

# Without the option exit-timeout would be 30 s.
# bats test_tags=long
@test "fault-tolerance: the others go on for as long as they like" {
  more=(-o fault-tolerance)
  local way shells
  for way in "${ways[@]}"; do
    for shells in 1 2; do # all at once, as each takes that long
      mkdir "cell.$way.$shells"
      (cd "cell.$way.$shells" && in_cell "$way" "$shells" $((4 / shells)) stay 1 33 && echo "$status" "$(grep 'went on$' <<<"$output" | xargs)" >said
        echo "$output" >all) 3>&- &
    done
  done
  wait_for_jobs
  for way in "${ways[@]}"; do
    for shells in 1 2; do
      [ "$(cat "cell.$way.$shells/said")" = "137 0 went on 2 went on 3 went on" ] || { echo "$way on $shells shells"; cat "cell.$way.$shells/all"; return 1; }
    done
  done
  no_trace_left
}

# bats test_tags=long
@test "fault-tolerance: an abort ends the job all the same" {
  more=(-o fault-tolerance)
  ways=(PMI-1 PMIx)
  in_all_cells abort 7 "" 1 7
}

# ---- how many there may be ------------------------------------------------------

@test "the universe has what R has room for" {
  spare_cores=2
  in_all_cells universe 0 "universe 6" 0
}

# bats test_tags=long
@test "where R has no more room there is no universe; PMIx and libpmi, which have to have one, have the number of tasks" {
  ways=(PMI-2)
  in_all_cells universe 0 "universe open" 0
  ways=(PMI-1 PMIx)
  in_all_cells universe 0 "universe 4" 0
}

# bats test_tags=long
@test "the universe of what is spawned is its processes, and what is free beside them" {
  spare_cores=4
  in_all_cells spawn 0 "child: universe 4" 0 2
  spare_cores=2
  ways=(PMI-2)
  in_all_cells spawn 0 "child: universe open" 0 2
  ways=(PMI-1 PMIx)
  in_all_cells spawn 0 "child: universe 2" 0 2
}

# ---- what Open MPI is told --------------------------------------------------------

@test "shared memory of two shells of a host is apart, and ranks that share cores yield" {
  local way shells cores segments yield said
  # shellcheck disable=SC2016 # for the tasks
  task=(sh -c 'echo "${OMPI_MCA_btl_vader_backing_directory-unset} ${OMPI_MCA_btl_sm_backing_directory-unset} ${OMPI_MCA_mpi_yield_when_idle-unset}"')
  for way in "${ways[@]}"; do
    for shells in 1 2; do
      for cores in 4 1; do
        more=(-o oversubscribe=share)
        in_cell "$way" "$shells" $cores
        segments=$(cut -d' ' -f1,2 <<<"$output" | tr ' ' '\n' | sort -u | wc -l)
        yield=$(cut -d' ' -f3 <<<"$output" | sort -u)
        said="$way on $shells shells of $cores cores: $output"
        [ "$status" -eq 0 ] || { echo "$said"; return 1; }
        [ "$yield" = "$([ $cores -gt 1 ] && echo unset || echo 1)" ] || { echo "yield '$yield', $said"; return 1; }
        [ "$segments" -eq "$shells" ] || { echo "$segments directories, $said"; return 1; }
        [ "$shells" -eq 1 ] || ! grep -q '^unset' <<<"$output" || { echo "$said"; return 1; }
      done
    done
  done
}

# Debian's mpi4py is of Open MPI: by PMI-1, as no program says that Python will load it, and by PMIx.
# bats test_tags=long
@test "mpi4py: one job, with two ranks on each of two shells of a host" {
  cat >ranks.py <<'END'
from mpi4py import MPI
comm = MPI.COMM_WORLD
total = comm.allreduce(comm.Get_rank(), op=MPI.SUM)
data = comm.alltoall([bytes([comm.Get_rank()]) * 200000] * comm.Get_size())
if comm.Get_rank() == 0:
    print("universe", total, [part[0] for part in data])
END
  local way shells
  export OMPI_ALLOW_RUN_AS_ROOT=1
  usual_environment="${usual_environment%\}}, \"HOME\": \"$work\"}"
  task=(/usr/bin/python3 ranks.py)
  more=(-o oversubscribe=share)
  for way in PMI-1 PMIx; do
    for shells in 1 2; do
      in_cell "$way" "$shells" $((4 / shells))
      [ "$status" -eq 0 ] && [ "$output" = "universe 6 [0, 1, 2, 3]" ] || { echo "$way on $shells shells: $output"; return 1; }
    done
  done
}
