#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# HPCC, a program of Open MPI that checks its own results: HPL, PTRANS, random access, FFT, latency and bandwidth.
load ../e2e/lib.bash

@test "HPCC on four ranks passes its own checks" {
  sed -e 's/^1000 .*Ns$/256 Ns/' -e 's/^80 .*NBs$/32 NBs/' /usr/share/doc/hpcc/examples/_hpccinf.txt >hpccinf.txt
  prepare 4 hpcc
  cat >rc.lua <<END
plugin.load { file = "$NACRE_BUILD_DIR/plugins/pmix/pmix.so" }
source "$NACRE_SOURCE_DIR/etc/lua.d/mpi/openmpi.lua"
END
  export LSAN_OPTIONS=suppressions=$NACRE_SOURCE_DIR/t/e2e/pmix/lsan.supp:print_suppressions=0
  run timeout 600 "${nacre[@]}" --initrc=rc.lua -o pmi=pmix -o input.stdin.type=null
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  grep -x "Success=1" hpccoutf.txt
  grep -x "CommWorldProcs=4" hpccoutf.txt
  grep -c "PASSED" hpccoutf.txt
  run grep -w "FAILED" hpccoutf.txt
  [ "$status" -eq 1 ]
}
