# SPDX-License-Identifier: Apache-2.0
#
# Part of vcluster: the hosts' names, addresses and processes.

load() { # the running cluster's N, SLURM, SHARED_TMP and SHARES
  [[ -f $STATE/config ]] || die "no cluster '$NAME' is up"
  # shellcheck source=/dev/null
  . "$STATE/config"
}

hosts() {
  local i
  if ((SLURM)); then echo "$CTL"; fi
  for ((i = 0; i < N; i++)); do echo "node$i"; done
}

# A host's number: its port on the switch, and the source of its address.
index() { if [[ $1 == "$CTL" ]]; then echo 62500; else echo "${1#node}"; fi; }
address() { local i; i=$(index "$1"); echo "10.77.$((i / 250)).$((i % 250 + 1))"; }
mac() { local i; i=$(index "$1"); printf '02:77:00:00:%02x:%02x' $((i / 256)) $((i % 256)); }
netns() { echo "$NAME-$1"; }

need_host() { [[ -d $STATE/host/${1:?HOST is missing} ]] || die "no host '$1' in cluster '$NAME'"; }

uptime() { # in seconds; unlike SECONDS it does not jump with the wall clock
  local seconds
  read -r seconds _ </proc/uptime
  echo "${seconds%.*}"
}

start_time() { # of process $1; with its id it names a process for good
  local stat fields
  read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
  read -ra fields <<<"${stat##*) }" # from the third on
  [[ ${fields[0]} != [ZX] ]] && echo "${fields[19]}"
}

# Files that name a process: its id and start time.
note_process() { # file, process
  local start
  start=$(start_time "$2") || return 1
  echo "$2 $start" >"$1.new"
  mv "$1.new" "$1"
}

noted_process() { # the id of the process that file $1 names, if that is alive
  local pid start
  read -r pid start 2>/dev/null <"$1" || return 1
  [[ $(start_time "$pid") == "$start" ]] && echo "$pid"
}

init_pid() { noted_process "$STATE/host/$1/init"; }

end_process() { # SIGKILL process $1 and wait until it is gone
  local start
  start=$(start_time "$1") || return 0
  kill -KILL "$1" 2>/dev/null || return 0
  while [[ $(start_time "$1") == "$start" ]]; do sleep 0.01; done
}

end_noted() { # the process that file $1 names, if there is one
  local pid
  if pid=$(noted_process "$1"); then end_process "$pid"; fi
  rm -f "$1"
}

# What the caller has open must not stay open in what outlives it.
close_descriptors() {
  local fd
  for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    if ((fd > 2 && fd != 255)); then eval "exec $fd>&-"; fi
  done
}

in_switch() { nsenter --net="/run/netns/$SWITCH" "$@"; }
