#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The node's topology, shared with the tasks: hwloc.xmlfile and hwloc.restrict.
load lib.bash

# A task that uses hwloc: whether its topology is of this system, and the cpus of each core, a line each.
build_cores() {
  cc -xc - -o cores -lhwloc <<'END'
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  hwloc_topology_t t;
  if (hwloc_topology_init(&t) < 0 || hwloc_topology_load(t) < 0) return 1;
  printf("this system: %d\n", hwloc_topology_is_thissystem(t));
  for (hwloc_obj_t core = NULL; (core = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_CORE, core));) {
    char *cpus;
    hwloc_bitmap_list_asprintf(&cpus, core->cpuset);
    printf("%s\n", cpus);
    free(cpus);
  }
  hwloc_topology_destroy(t);
}
END
}

R_with_core() {
  jq --arg core "$1" '.execution.R_lite[0].children.core = $core' R.json >other.json
  mv other.json R.json
}

variables='for n in XMLFILE THISSYSTEM COMPONENTS; do eval "echo $n=\${HWLOC_$n-unset}"; done'

@test "without the options the tasks hear nothing of hwloc, and have their own settings" {
  environment='{"PATH": "/usr/bin:/bin", "HWLOC_COMPONENTS": "x86"}' prepare 1 \
    sh -c "$variables"'; ls -A "$FLUX_JOB_TMPDIR"'
  run nacre
  [ "$status" -eq 0 ]
  [ "$output" = $'XMLFILE=unset\nTHISSYSTEM=unset\nCOMPONENTS=x86' ]
}

@test "hwloc.xmlfile puts the topology into the job's tmpdir, and names it to each task" {
  prepare 2 sh -c "$variables"'; [ "$HWLOC_XMLFILE" = "$FLUX_JOB_TMPDIR/hwloc.xml" ] && head -c 5 "$HWLOC_XMLFILE"; echo'
  run nacre -o hwloc.xmlfile -o label-io
  [ "$status" -eq 0 ]
  for rank in 0 1; do
    grep -q "^$rank: XMLFILE=$TMPDIR/.*/hwloc.xml$" <<<"$output"
    grep -qx "$rank: THISSYSTEM=1" <<<"$output"
    grep -qx "$rank: COMPONENTS=unset" <<<"$output"
    grep -qx "$rank: <?xml" <<<"$output"
  done
  # The file goes with the tmpdir.
  [ -z "$(ls "$TMPDIR")" ]
}

@test "hwloc in a task reads it as the topology of this system, which is what it would discover" {
  build_cores
  prepare 1 ./cores
  discovered=$(./cores)
  [[ $discovered == "this system: 1"$'\n'* ]]
  run nacre -o hwloc.xmlfile
  [ "$status" -eq 0 ]
  [ "$output" = "$discovered" ]
}

@test "it is that file which is read" {
  build_cores
  prepare 1 sh -c 'sed -i "/type=\"Core\"/s/cpuset=\"0x[0-9a-f,]*\"/cpuset=\"broken\"/" "$HWLOC_XMLFILE"; ./cores'
  discovered=$(./cores)
  run nacre -o hwloc.xmlfile
  [ "$output" != "$discovered" ]
}

@test "a choice of components in the job's environment does not hide it" {
  build_cores
  environment='{"PATH": "/usr/bin:/bin", "HWLOC_COMPONENTS": "no_os,stop"}' prepare 1 ./cores
  run nacre
  [ "$output" = "this system: 1" ]
  discovered=$(./cores)
  run nacre -o hwloc.xmlfile
  [ "$status" -eq 0 ]
  [ "$output" = "$discovered" ]
}

@test "hwloc.xmlfile has PCI devices, where the node has any" {
  grep -qs '^0x0[123]' /sys/bus/pci/devices/*/class || skip "no disk, network card or gpu on PCI"
  prepare 1 sh -c 'grep -c "type=\"\(Bridge\|PCIDev\)\"" "$HWLOC_XMLFILE"'
  run nacre -o hwloc.xmlfile
  [ "$status" -eq 0 ]
  [ "$output" -gt 0 ]
}

# bats test_tags=long
@test "hwloc.restrict leaves the job's cores only" {
  build_cores
  mapfile -t discovered < <(./cores)
  [ "${#discovered[@]}" -gt 2 ] || skip "one core"
  prepare 1 ./cores
  run nacre -o hwloc.xmlfile -o hwloc.restrict
  [ "$status" -eq 0 ]
  [ "$output" = "${discovered[0]}"$'\n'"${discovered[1]}" ]
  # Logical indexes count the job's cores alone.
  R_with_core 1
  run nacre -o hwloc.xmlfile -o hwloc.restrict
  [ "$status" -eq 0 ]
  [ "$output" = "${discovered[0]}"$'\n'"${discovered[2]}" ]
  # Without the option there is no file.
  run nacre -o hwloc.xmlfile
  [ "${#lines[@]}" -eq "${#discovered[@]}" ]
}

@test "a shell that is confined to as many cores as R gives has these in the file, whatever R calls them" {
  build_cores
  prepare 1 ./cores
  last=$(./cores | tail -n 1)
  run taskset -c "$last" "${nacre[@]}" -o hwloc.xmlfile -o hwloc.restrict
  [ "$status" -eq 0 ]
  [ "$output" = $'this system: 1\n'"$last" ]
}

@test "hwloc.xmlfile in the jobspec counts, and the command line wins over it" {
  options='{"hwloc": {"xmlfile": 1}}' prepare 1 sh -c 'echo "${HWLOC_XMLFILE:+set}"'
  run nacre
  [ "$output" = set ]
  run nacre -o hwloc.xmlfile=0
  [ "$status" -eq 0 ]
  [ -z "$output" ]
}

@test "the initrc may ask for it" {
  prepare 1 sh -c 'echo "${HWLOC_XMLFILE:+set}"'
  cat >init.lua <<'END'
shell.options["hwloc"] = { xmlfile = true }
END
  run nacre --initrc=init.lua
  [ "$status" -eq 0 ]
  [ "$output" = set ]
}

@test "the plan has it, and leaves nothing behind" {
  prepare 1 true
  run nacre --explain -o hwloc.xmlfile
  [ "$status" -eq 0 ]
  [[ $output == *"+HWLOC_THISSYSTEM='1'"* ]]
  [[ $output == *"+HWLOC_XMLFILE='$TMPDIR/"*"/hwloc.xml'"* ]]
  [ -z "$(ls "$TMPDIR")" ]
}

@test "the options of hwloc: wrong values, and one without the other" {
  prepare 1 true
  run nacre -o hwloc.xmlfile=foo
  fails_with 1 'hwloc.xmlfile: expected on or off, got "foo"'
  run nacre -o hwloc.xmlfile -o hwloc.restrict=[]
  fails_with 1 "hwloc.restrict: expected on or off, got an array"
  run nacre -o hwloc.restrict
  fails_with 1 "hwloc.restrict: there is no topology file to restrict; add -o hwloc.xmlfile"
  run nacre -o hwloc.xmlfile=0 -o hwloc.restrict
  fails_with 1 "hwloc.restrict: there is no topology file to restrict; add -o hwloc.xmlfile"
  [ -z "$(ls "$TMPDIR")" ]
}

@test "hwloc.restrict to cores that the node does not have" {
  prepare 1 true
  R_with_core 60000
  run nacre -o hwloc.xmlfile -o hwloc.restrict
  fails_with 1 "hwloc" "R gives core 60000 of this node, which has" "correct R, or leave hwloc.restrict out"
  run nacre -o hwloc.xmlfile
  [ "$status" -eq 0 ]
}

# bats test_tags=root
@test "no room for the topology" {
  needs_root "to mount a full file system"
  prepare 1 true
  mkdir full
  mount -t tmpfs -o nr_blocks=1 tmpfs full
  TMPDIR=$work/full run nacre -o hwloc.xmlfile
  umount full
  fails_with 1 "hwloc.xmlfile: cannot write $work/full/" "/hwloc.xml: No space left on device"
}

# A machine of two packages with four cores each, as XML.
foreign_topology() {
  cc -xc - -o foreign -lhwloc <<'END'
#include <hwloc.h>
int main(void) {
  hwloc_topology_t t;
  if (hwloc_topology_init(&t) < 0 || hwloc_topology_set_synthetic(t, "package:2 core:4 pu:1") < 0) return 1;
  return hwloc_topology_load(t) < 0 || hwloc_topology_export_xml(t, "foreign.xml", 0) < 0;
}
END
  ./foreign
}

# bats test_tags=long
@test "FLUX_HWLOC_XMLFILE in the job's environment is the topology: for the tasks' file, and for a dry run" {
  build_cores
  foreign_topology
  environment="{\"PATH\": \"/usr/bin:/bin\", \"FLUX_HWLOC_XMLFILE\": \"$work/foreign.xml\"}" prepare 2 ./cores
  run nacre -o hwloc.xmlfile
  [ "$status" -eq 0 ]
  [ "$(head -n 9 <<<"$output")" = "$(echo "this system: 1"; seq 0 7)" ]
  R_with_core 4-7
  run nacre -o cpu-affinity=dry-run,per-task
  [ "$status" -eq 0 ]
  [[ $output == *"cpu-affinity: task 0: cpus: 4-5"*"cpu-affinity: task 1: cpus: 6-7"* ]]
  jq '.attributes.system.environment |= with_entries(if .key == "PATH" then . else .key = "HWLOC_XMLFILE" end)' jobspec.json >h.json
  mv h.json jobspec.json
  run nacre -o hwloc.xmlfile
  [ "$(head -n 9 <<<"$output")" = "$(echo "this system: 1"; seq 0 7)" ]
}

@test "a topology that cannot be read is named, with its variable" {
  environment='{"PATH": "/usr/bin:/bin", "FLUX_HWLOC_XMLFILE": "/no/such"}' prepare 1 true
  run nacre -o hwloc.xmlfile
  fails_with 1 "hwloc.xmlfile: FLUX_HWLOC_XMLFILE: cannot read the topology /no/such: No such file or directory"
}
