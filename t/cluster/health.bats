#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# health over hosts: a slow link, a full disk and a fault of a GPU in the kernel's log; the host that has it is left out, and no other.
# HEALTH_TRIALS: how many jobs with such a host there are, and as many without (3).
load lib.bash

cluster=(5)
PATH=$PATH:/usr/local/sbin # of the hosts, too: a made-up nvidia-smi is there on the first two

# A round trip with the other host of the pair, for a hundred times: role 0 answers. Perl is there in a moment, also beside other work.
pair_command='perl -MIO::Socket::INET -e "
  my (\$role, \$peer, \$port) = (@ENV{qw(NACRE_HEALTH_ROLE NACRE_HEALTH_PEER)}, 20000 + \$ENV{NACRE_HEALTH_ROUND});
  my (\$other, \$byte);
  if (\$role == 0) {
    my \$door = IO::Socket::INET->new(Listen => 1, LocalPort => \$port, ReuseAddr => 1) or die \$!;
    \$other = \$door->accept;
    syswrite(\$other, \$byte) while sysread(\$other, \$byte, 1);
  } else {
    my \$end = time + 20;
    until (\$other = IO::Socket::INET->new(PeerAddr => \$peer, PeerPort => \$port)) {
      die \$! if time > \$end;
      select(undef, undef, undef, 0.02);
    }
    for (1 .. 100) { syswrite(\$other, \"x\"); sysread(\$other, \$byte, 1); }
  }"'

write_job_with_gpus() {
  jq -n '{version: 1, execution: {R_lite: [{rank: "0-4", children: {core: "0", gpu: "0"}}], nodelist: ["node[0-4]"], starttime: 0, expiration: 0}}' >R.json
  jq -n --arg cwd "$PWD" '{version: 1, resources: [{type: "slot", count: 4, label: "task", with: [{type: "core", count: 1}, {type: "gpu", count: 1}]}],
    tasks: [{command: ["uname", "-n"], slot: "task", count: {per_slot: 1}}], attributes: {system: {duration: 0, cwd: $cwd, environment: {PATH: "/usr/bin:/bin"}}}}' >jobspec.json
  mkdir tools
  # One GPU that is there, without errors or users.
  printf '#!/bin/sh\ncase $1 in --query-gpu=*ecc*) echo 0, 0;; --query-gpu=*) echo 0, GPU-a, 0, 0, 4000;; esac\n' >tools/nvidia-smi
  chmod +x tools/nvidia-smi
  local host
  for host in node0 node1; do on "$host" mount --bind "$work/tools" /usr/local/sbin; done
  for host in "${nodes[@]}"; do on "$host" touch /dev/kmsg; done
}

hurt() { # WHAT HOST
  case $1 in
    link) "$vcluster" delay "$2" 20 ;;
    disk) on "$2" mount -t tmpfs -o size=8m,mode=1777 full /tmp ;;
    xid) on "$2" sh -c 'echo "4,1,$(sed "s/\..*//" /proc/uptime)000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus." >/dev/kmsg' ;;
  esac
}
heal() { # WHAT HOST
  case $1 in
    link) "$vcluster" delay "$2" 0 ;;
    disk) on "$2" umount /tmp ;;
    xid) on "$2" sh -c ': >/dev/kmsg' ;;
  esac
}

run_checked() {
  rm -f report
  code=0
  limit=120 on node0 "$NACRE_BUILD_DIR/nacre" launch --hosts="node[0-4]" --shell="$NACRE_SHELL" --timeout=100 -j jobspec.json -R R.json -o cpu-affinity=off \
    -o spares=1 --health=pairs -o health.timeout=60s -o health.pair-command="$pair_command" -o report="$PWD/report" >out 2>err || code=$?
}

told_wrong() {
  { echo "trial $trial, $1: exit code $code"; jq -c .health report; cat out err; } 2>&1 | sed 's/^/# /' >&3
}

@test "a slow link, a full disk, an XID: the host that has it is left out, and healthy ones never" {
  write_job_with_gpus
  local trial what host kinds=(link disk xid) right=0 healthy=0
  for ((trial = 0; trial < ${HEALTH_TRIALS:-3}; ++trial)); do
    what=${kinds[trial % 3]}
    host=$((trial % 4))
    hurt "$what" "node$host"
    run_checked
    heal "$what" "node$host"
    if [ "$code" -eq 0 ] && [ "$(jq -c '[.health[] | [.shell, .done]]' report)" = "[[$host,\"replaced\"]]" ] && [ "$(sort out | paste -sd,)" = "$(printf 'node%s\n' 0 1 2 3 4 | grep -v "node$host" | paste -sd,)" ]; then
      right=$((right + 1))
    else
      told_wrong "$what on node$host"
    fi
    run_checked
    if [ "$code" -eq 0 ] && [ "$(jq -c '.health // []' report)" = "[]" ] && [ "$(sort out | paste -sd,)" = node0,node1,node2,node3 ]; then
      healthy=$((healthy + 1))
    else
      told_wrong "all healthy"
    fi
  done
  echo "# health: $right of $trial bad hosts left out, no healthy host left out in $healthy of $trial jobs" >&3
  [ "$right,$healthy" = "$trial,$trial" ]
}
