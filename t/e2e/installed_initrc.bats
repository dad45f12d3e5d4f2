#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The initrc and the Lua files that are installed, by their effects on tasks.
load lib.bash
load initrc.bash

# Runs with the installed initrc and its lua.d, without the plugins of a system.
run_installed() {
  echo "plugin.searchpath = '$work' source '$NACRE_SOURCE_DIR/etc/initrc.lua'" >rc.lua
  run nacre --initrc=rc.lua "$@"
}

@test "the installed initrc loads plugins, sources lua.d and the user's file" {
  prepare 1 sh -c 'echo $OMP_NUM_THREADS $MINE'
  make_plugin a
  echo "shell.setenv ('MINE', shell.options['omp-threads'] + 1)" >user.lua
  run_installed -o omp-threads=3 -o userrc=user.lua
  says "nacre-shell[0]: test: a -" "3 4"
}

# The variables of the tasks that match $1. Without PMI, so that only variables that were given are left.
mpi_variables() {
  local pattern=$1
  shift
  write_R 2
  environment='{"PATH": "/usr/bin:/bin", "OMPI_COMM_WORLD_RANK": "9", "OMPI_MCA_btl": "tcp", "PMIX_RANK": "9",
    "PMIX_MCA_gds": "hash", "PMI_RANK": "9", "HYDI_CONTROL_FD": "9", "I_MPI_PMI_LIBRARY": "/libpmi.so"}' \
    write_jobspec 2 sh -c "[ \$FLUX_TASK_RANK = 0 ] || env | grep -E '$pattern' | grep -v -e NACRE_ -e FLUX_ | sort"
  run_installed -o pmi=off "$@"
  [ "$status" -eq 0 ]
}

@test "mpi=openmpi clears what another mpirun has left, and keeps settings" {
  mpi_variables 'OMPI|PMI' -o mpi=openmpi
  [[ ${lines[0]} == I_MPI_PMI_LIBRARY=/libpmi.so ]]
  [[ ${lines[1]} == OMPI_MCA_btl=tcp ]]
  [[ ${lines[2]} == OMPI_MCA_btl_sm_backing_directory="$TMPDIR"/* ]]
  [[ ${lines[3]} == OMPI_MCA_btl_vader_backing_directory="$TMPDIR"/* ]]
  # As pmi is off Open MPI does not look for it.
  [ "$(printf '%s\n' "${lines[@]:4}")" = $'OMPI_MCA_ess_singleton_isolated=1\nOMPI_MCA_pmix=^flux\nOMPI_MCA_schizo=^flux\nPMIX_MCA_gds=hash\nPMI_RANK=9' ]
}

@test "mpi=openmpi@5 does so too, and asks for pmix" {
  # Takes the place of the plugin that would be loaded.
  echo 'plugin.register { name = "pmix", handlers = { { topic = "shell.init", fn = function ()
    shell.log (shell.options.pmi) end } } }' >user.lua
  mpi_variables 'OMPI_COMM' -o mpi=openmpi@5 -o userrc=user.lua
  says "nacre-shell[0]: pmix: off"
  run_installed -o mpi=openmpi@5 -o userrc=user.lua
  [ "$status" -eq 0 ]
  [[ $output == *"nacre-shell[0]: pmix: pmix"* ]]
}

@test "mpi=mpich, intel and mvapich clear what Hydra has left" {
  mpi_variables 'PMI|HYDI' -o mpi=mpich
  says I_MPI_PMI_LIBRARY=/libpmi.so PMIX_MCA_gds=hash
  mpi_variables 'PMI_|HYDI' -o mpi=intel
  says ""
  mpi_variables 'PMI_R|HYDI|MV2' -o mpi=mvapich
  says MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=2 MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 \
    MV2_USE_MPIRUN_MAPPING=0
}

@test "mpi=spectrum says where Spectrum MPI is" {
  mpi_variables 'MPI_ROOT|OPAL|PMIX_INSTALL|OMPI_COMM|pml|^LD_PRELOAD' -o mpi=spectrum
  grep -v "LD_PRELOAD cannot be preloaded" <<<"$output" >out # it is not installed here
  output=$(<out)
  says LD_PRELOAD=/opt/ibm/spectrum_mpi/lib/libpami_cudahook.so MPI_ROOT=/opt/ibm/spectrum_mpi OMPI_COMM_WORLD_RANK=1 OMPI_MCA_pml=ucx OPAL_LIBDIR=/opt/ibm/spectrum_mpi/lib \
    OPAL_PREFIX=/opt/ibm/spectrum_mpi PMIX_INSTALL_PREFIX=/opt/ibm/spectrum_mpi
}

@test "mpi=none changes nothing, and an unknown name gets those that there are" {
  mpi_variables 'OMPI_COMM|PMI_RANK' -o mpi=none
  says OMPI_COMM_WORLD_RANK=9 PMI_RANK=9
  run_installed -o mpi=opnmpi
  fails_with 1 "initrc.lua:14: shell option mpi: unknown 'opnmpi'; known: intel, mpich, mvapich, none, openmpi, openmpi@5, spectrum"
}

@test "an option that a file of the installed initrc reads is named where another initrc does not load it" {
  prepare 1 true
  echo >own.lua
  run nacre --initrc=own.lua -o omp-threads=per-task -o mpi=openmpi -o scratch=off
  [ "$status" -eq 0 ]
  [ "$(grep -c 'has no effect' <<<"$output")" -eq 2 ]
  [[ $output == *"warn: the option mpi has no effect: only mpi/*.lua of the installed initrc reads it, and this job's initrc does not load that"* ]]
  run nacre --initrc=own.lua -o omp-threads=per-task -o strict
  fails_with 1 "the option omp-threads has no effect" "(an error by -o strict)"
  run_installed -o omp-threads=per-task -o mpi=none
  [[ $output != *"no effect"* ]]
}
