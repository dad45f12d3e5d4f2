# SPDX-License-Identifier: Apache-2.0
#
# Part of vcluster: starting the cluster, and a host of it.

# What this machine has to allow, tried in namespaces that are gone afterwards.
check_machine() {
  local tool tools=(ip bridge sshd ssh ssh-keygen nsenter unshare setpriv) said
  if ((SLURM)); then tools+=(slurmctld slurmd munged srun scancel sinfo); fi
  ((EUID == 0)) || die "must be root"
  for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null || die "$tool is missing (vcluster deps)"
  done
  said=$(unshare --mount --uts --ipc --net --pid --fork --propagation private true 2>&1) ||
    die "this machine allows no namespaces: ${said##*$'\n'} (in a container: it has to be privileged)"
  said=$(unshare --mount --uts --ipc --net --pid --fork --propagation private sh -ec '
    mount -t proc -o nosuid,nodev,noexec proc /proc
    mount -t tmpfs tmpfs /dev/shm
    ip link add br0 type bridge
    ip link add port0 type veth peer name port1
    hostname vcluster' 2>&1) ||
    die "this machine allows namespaces, but not what is done in them: ${said##*$'\n'} (in a container: it has to be privileged)"
}

write_files() {
  local host s=$STATE
  mkdir -p "$s"/{etc,ssh,host,log}
  chmod 700 "$s/ssh"

  { echo "127.0.0.1 localhost"
    for host in $(hosts); do echo "$(address "$host") $host"; done
  } >"$s/etc/hosts"
  { grep -v '^hosts:' /etc/nsswitch.conf || :; echo "hosts: files"; } >"$s/etc/nsswitch.conf"
  : >"$s/etc/resolv.conf"
  # sshd refuses an account whose password is locked with '!'.
  (umask 077; sed 's/^root:!*[^:]*:/root:*:/' /etc/shadow >"$s/etc/shadow")
  write_ssh_files
  if ((SLURM)); then write_slurm_files; fi
}

write_ssh_files() {
  local s=$STATE
  ssh-keygen -q -t ed25519 -N '' -C vcluster -f "$s/ssh/id"
  ssh-keygen -q -t ed25519 -N '' -C vcluster -f "$s/ssh/host_key"
  echo "* $(<"$s/ssh/host_key.pub")" >"$s/ssh/known_hosts"
  cat >"$s/ssh/sshd_config" <<END
ListenAddress 0.0.0.0
HostKey $s/ssh/host_key
AuthorizedKeysFile $s/ssh/id.pub
PidFile /run/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
MaxStartups 1000
MaxSessions 1000
AcceptEnv *
SetEnv PATH=$PATH SHLVL=1
Subsystem sftp internal-sftp
END
  cat >"$s/etc/ssh_config" <<END
Host *
  User root
  IdentityFile $s/ssh/id
  IdentitiesOnly yes
  GlobalKnownHostsFile $s/ssh/known_hosts
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 5
  LogLevel ERROR
END
}

# Entries of all namespaces count against one limit of the machine.
raise_neighbour_limit() {
  local want=$((2 * (N + 1) * (N + 1))) limit=/proc/sys/net/ipv4/neigh/default/gc_thresh3 is
  is=$(<$limit)
  if ((is >= want)); then return; fi
  echo "$is $want" >"$STATE/neighbours"
  echo $want 2>/dev/null >$limit || die "$N hosts need $want in $limit, which cannot be written"
}

make_network() {
  local host ns
  ip netns add "$SWITCH"
  for host in $(hosts); do ip netns add "$(netns "$host")"; done
  in_switch ip link add br0 type bridge forward_delay 0 mcast_snooping 0
  { echo "link set br0 up"
    for host in $(hosts); do
      ns=$(netns "$host")
      # The port is created in the switch, its other end in the host.
      echo "link add $host type veth peer name eth0 netns $ns address $(mac "$host")"
      echo "link set $host master br0 up"
    done
  } | in_switch sh -c 'echo 1 2>/dev/null >/proc/sys/net/ipv6/conf/default/disable_ipv6; exec ip -batch -'
  raise_neighbour_limit
}

boot() { # start host $1's init; doesn't wait
  local dir=$STATE/host/$1 log=$STATE/log/$1.init
  mkdir -p "$dir"
  rm -f "$dir"/{init,ready,starter}
  (
    close_descriptors
    exec setsid nsenter --net="/run/netns/$(netns "$1")" unshare --mount --uts --ipc --pid --fork --kill-child \
      --propagation private \
      "$SELF" __init "$1" </dev/null >>"$log" 2>&1
  ) &
  note_process "$dir/starter" $! || die "$1 doesn't start: $(tail -n 1 "$log")"
}

await() { # until the hosts named are ready
  local host deadline=$(($(uptime) + TIMEOUT)) log
  for host; do
    log=$STATE/log/$host.init
    until [[ -e $STATE/host/$host/ready ]]; do
      noted_process "$STATE/host/$host/starter" >/dev/null ||
        die "$host ended while booting: $(tail -n 1 "$log") (all of it is in $log)"
      (($(uptime) < deadline)) || die "$host isn't up after $TIMEOUT s; see $STATE/log/$host.*"
      sleep 0.02
    done
  done
}

shares_of() { # the folders below /tmp that all hosts are to have
  local dir
  for dir in "$STATE" "$@"; do
    dir=$(realpath -m "$dir")
    case $dir/ in
      /run/* | /var/run/* | /dev/*) die "$dir is in a place private to each host" ;;
      /tmp/) die "/tmp itself is shared with --shared-tmp" ;;
      /tmp/*) mkdir -p "$dir" && echo "$dir" ;;
    esac
  done | sort -u # a folder comes before those in it
}

cmd_up() {
  local host shares=() guarded=''
  N='' SLURM=0 SHARED_TMP=0
  while (($#)); do
    case $1 in
      --slurm) SLURM=1 ;;
      --shared-tmp) SHARED_TMP=1 ;;
      --share) (($# > 1)) || usage; shares+=("$2"); shift ;;
      --while) [[ ${2-} =~ ^[0-9]+$ ]] || usage; guarded=$2; shift ;;
      *[!0-9]* | '') usage ;;
      *) N=$1 ;;
    esac
    shift
  done
  [[ $N ]] || usage
  ((N >= 1 && N <= 1000)) || die "N must be 1 to 1000 (the bridge's limit is 1023 ports)"
  [[ $NAME =~ ^[A-Za-z0-9_.-]+$ ]] || die "VCLUSTER_NAME '$NAME' has other characters than letters, digits and _.-"
  check_machine
  [[ ! -e $STATE ]] || die "cluster '$NAME' is up or was left behind in $STATE (vcluster down)"

  SHARES=$(shares_of "${shares[@]}") || exit
  mkdir -p "$STATE"
  printf 'N=%d SLURM=%d SHARED_TMP=%d SHARES=%q\n' "$N" "$SLURM" "$SHARED_TMP" "$SHARES" >"$STATE/config"
  if [[ $guarded ]]; then start_guard "$guarded"; fi
  write_files
  make_network
  for host in $(hosts); do boot "$host"; done
  # shellcheck disable=SC2046
  await $(hosts)
  # shellcheck disable=SC2046
  if ((SLURM)); then await_slurm $(hosts | grep -vx "$CTL"); fi
}

cmd_boot() {
  load
  need_host "$1"
  if init_pid "$1" >/dev/null; then die "$1 is up"; fi
  nsenter --net="/run/netns/$(netns "$1")" ip address flush dev eth0
  set_port "$1" 3
  boot "$1"
  await "$1"
  if ((SLURM)) && [[ $1 != "$CTL" ]]; then await_slurm "$1"; fi
}
