#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The option container over two hosts, each with its own images, by ssh and by srun. On one host:
# t/e2e/container.bats.
load lib.bash

cluster=(2 --slurm)

setup_file() {
  start_cluster
  local host root=$BATS_FILE_TMPDIR/root
  mkdir -p "$root"/{usr,etc,tmp,proc,dev,sys,run} /var/lib/containers
  ln -s usr/bin usr/lib usr/lib64 usr/sbin "$root/"
  tar -C "$root" --owner=0 --group=0 --mode=a+rX -c . >"$VCLUSTER_STATE/$VCLUSTER_NAME/image.tar"
  for host in node0 node1; do "$vcluster" exec $host mount -t tmpfs images /var/lib/containers; done
  # node0 is slow, so that node1 ends the job.
  "$vcluster" exec node0 sh -c 'cp /usr/bin/podman /run/podman-itself
    printf "%s\n" "#!/bin/sh" "[ \$1 != run ] || sleep 3" "exec /run/podman-itself \"\$@\"" >/run/podman
    chmod +x /run/podman; mount --bind /run/podman /usr/bin/podman'
  "$vcluster" exec node0 podman import -q "$VCLUSTER_STATE/$VCLUSTER_NAME/image.tar" nacre-test
}

by_ssh() { on node0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --hosts=node0,node1 --container=nacre-test,bind=/usr:/usr:ro "$@"; }
by_srun() { on node0 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" --srun -N 2 --container=nacre-test,bind=/usr:/usr:ro "$@"; }

no_containers() {
  local host
  for host in node0 node1; do
    [ -z "$("$vcluster" exec $host podman ps -aq)" ] || { "$vcluster" exec $host podman ps -a; return 1; }
  done
}

@test "a host that has not the image: one line names it, and nothing is left on either" {
  for way in by_ssh by_srun; do
    run $way touch "$work/started"
    [ "$status" -eq 1 ]
    [ "$(grep -c . <<<"$output")" -eq 1 ] || { echo "$way: $output"; return 1; }
    [[ $output == *"container: nacre-test is not on node1, and podman cannot bring it"*"podman pull nacre-test"* ]]
    [ ! -e started ]
    no_containers
  done
  nothing_left
}
