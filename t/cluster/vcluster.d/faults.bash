# SPDX-License-Identifier: Apache-2.0
#
# Part of vcluster: what can go wrong with a host, or between two.

# The switch's ports that belong to host $1: its own, or with a delay the relay's.
set_port() { # host, state of its port (3 forwards, 0 drops both ways)
  local port=$1
  if in_switch ip link show "$1.tap" &>/dev/null; then port=$1.tap; fi
  in_switch bridge link set dev "$port" state "$2"
}

# A neighbour entry that no one answers to: silence, as on a broken path, where a route or a filter on the sender would
# be an error that the sender sees.
cut_pair() {
  nsenter --net="/run/netns/$(netns "$1")" \
    ip neigh replace "$(address "$2")" dev eth0 lladdr 02:de:ad:00:00:00 nud permanent
}
heal_pair() { nsenter --net="/run/netns/$(netns "$1")" ip neigh del "$(address "$2")" dev eth0 2>/dev/null || :; }

cmd_cut() {
  need_host "$1"
  if (($# == 1)); then set_port "$1" 0; return; fi
  need_host "$2"
  cut_pair "$1" "$2"
  cut_pair "$2" "$1"
}

cmd_heal() {
  need_host "$1"
  if (($# == 1)); then set_port "$1" 3; return; fi
  need_host "$2"
  heal_pair "$1" "$2"
  heal_pair "$2" "$1"
}

cmd_kill() {
  local pid
  need_host "$1"
  case ${2-} in '') ;; --power) set_port "$1" 0 ;; *) usage ;; esac
  pid=$(init_pid "$1") || die "$1 is down already"
  end_process "$pid"
  end_noted "$STATE/host/$1/starter" # it waits for the init
  rm -f "$STATE/host/$1/init" "$STATE/host/$1/ready"
}

# The kernel may lack netem, so a process passes the frames on, each when it is due: between the host's port, taken off
# the bridge, and a tap put in its place.
start_relay() { # host, milliseconds
  local dir=$STATE/host/$1 log=$STATE/log/$1.relay deadline
  rm -f "$dir/relay.ready"
  (
    close_descriptors
    exec setsid nsenter --net="/run/netns/$SWITCH" "$(python)" "$PARTS/relay.py" "$1" "$1.tap" "$2" \
      </dev/null >"$dir/relay.ready" 2>"$log"
  ) &
  note_process "$dir/relay" $! || :
  deadline=$(($(uptime) + TIMEOUT))
  until [[ -s $dir/relay.ready ]]; do
    noted_process "$dir/relay" >/dev/null || die "the relay doesn't start: $(tail -n 1 "$log")"
    (($(uptime) < deadline)) || die "the relay isn't up after $TIMEOUT s; see $log"
    sleep 0.02
  done
}

python() { # Debian's, if it is there: another one may be a wrapper that starts more processes
  if [[ -x /usr/bin/python3 ]]; then echo /usr/bin/python3; else command -v python3; fi
}

cmd_delay() {
  local host=$1 ms=${2:?MS is missing}
  need_host "$host"
  [[ $ms =~ ^[0-9]+(\.[0-9]+)?$ ]] || usage
  end_noted "$STATE/host/$host/relay" # the tap goes with it
  if [[ $ms =~ ^0+(\.0+)?$ ]]; then
    in_switch ip link set "$host" master br0
    return
  fi
  [[ -c /dev/net/tun ]] || die "delay needs /dev/net/tun, which this machine has not"
  in_switch ip link set "$host" nomaster
  start_relay "$host" "$ms"
  in_switch ip link set "$host.tap" master br0 up
}
