# SPDX-License-Identifier: Apache-2.0
#
# Part of vcluster: the end of a cluster.

end_hosts() {
  local dir pid
  for dir in "$STATE"/host/*/; do # first all of them, then wait for each
    end_noted "$dir/relay"
    if pid=$(noted_process "$dir/init"); then kill -KILL "$pid" 2>/dev/null || :; fi
  done
  for dir in "$STATE"/host/*/; do
    end_noted "$dir/init"
    end_noted "$dir/starter" # before its init is noted it is all there is
  done
}

restore_neighbour_limit() {
  local was ours limit=/proc/sys/net/ipv4/neigh/default/gc_thresh3
  read -r was ours 2>/dev/null <"$STATE/neighbours" || return 0
  if [[ $(<$limit) == "$ours" ]]; then echo "$was" >$limit; fi
}

cmd_down() {
  local ns
  if [[ -d $STATE/host ]]; then end_hosts; fi
  for ns in /run/netns/"$NAME"-*; do
    [[ ${ns##*/"$NAME"-} =~ ^(node[0-9]+|$CTL|switch)$ ]] || continue
    ip netns delete "${ns##*/}"
  done
  restore_neighbour_limit
  if [[ -d $STATE ]]; then
    if [[ ${1-} != --by-guard ]]; then end_noted "$STATE/guard"; fi
    rm -rf --one-file-system "$STATE"
  fi
}

# Ends the cluster once the process that wants it is gone, however that ended.
start_guard() { # process
  (
    close_descriptors
    exec setsid "$SELF" __guard "$1" </dev/null >/dev/null 2>&1
  ) &
  note_process "$STATE/guard" $! || :
}

cmd___guard() { # process
  local start idle
  start=$(start_time "$1") || start=gone
  exec {idle}<> <(:) # to wait on; a `sleep` would outlive a guard that is killed
  while [[ $(start_time "$1") == "$start" ]]; do read -r -t 1 -u "$idle" || :; done
  cmd_down --by-guard
}
