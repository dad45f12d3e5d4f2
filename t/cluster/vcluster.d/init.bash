# SPDX-License-Identifier: Apache-2.0
#
# Part of vcluster: a host's init, process 1 of its PID namespace.

# A file of the host's own in the place of the machine's, which may be a link to what is no longer there.
own_file() { # file, place
  local place
  place=$(readlink -m "$2")
  if [[ ! -e $place ]]; then mkdir -p "${place%/*}" && : >"$place"; fi
  mount --bind "$1" "$place"
}

# Where /run is a tmpfs of this host already, and /tmp and /dev are still the machine's.
mount_tmp() {
  local dir
  mkdir /run/tmp
  mount -t tmpfs -o mode=1777 tmpfs /run/tmp
  while read -r dir; do
    [[ $dir ]] || continue
    mkdir -p "/run$dir"
    mount --bind "$dir" "/run$dir"
  done <<<"$SHARES"
  mount --move /run/tmp /tmp
  rmdir /run/tmp
}

# A /dev of the host's own: what a test does to /dev/null stays in the host.
mount_dev() {
  mkdir /run/dev
  mount -t tmpfs -o mode=755 tmpfs /run/dev
  cp -a /dev/{null,zero,full,random,urandom,tty} /run/dev
  ln -s /proc/self/fd /run/dev/fd
  ln -s /proc/self/fd/0 /run/dev/stdin
  ln -s /proc/self/fd/1 /run/dev/stdout
  ln -s /proc/self/fd/2 /run/dev/stderr
  ln -s pts/ptmx /run/dev/ptmx
  mkdir /run/dev/pts /run/dev/shm
  mount --move /run/dev /dev
  rmdir /run/dev
  mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts /dev/pts
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
}

mount_all() {
  local file
  mount -t proc -o nosuid,nodev,noexec proc /proc
  # Other clusters' namespaces must not live on in this host's copy of their mounts.
  umount --lazy --recursive /run/netns 2>/dev/null || :
  mount -t tmpfs -o mode=755 tmpfs /run
  # A sysfs of this network namespace, with the cgroup mounts put back.
  mkdir /run/cgroup
  if mount --rbind /sys/fs/cgroup /run/cgroup 2>/dev/null; then
    mount -t sysfs sysfs /sys
    mount --move /run/cgroup /sys/fs/cgroup
  fi
  rmdir /run/cgroup
  mkdir -p /run/sshd /run/lock /run/munge /run/slurmd
  mount_dev
  if ((!SHARED_TMP)); then mount_tmp; fi
  for file in hosts resolv.conf nsswitch.conf shadow; do own_file "$STATE/etc/$file" /etc/$file; done
  own_file "$STATE/etc/ssh_config" /etc/ssh/ssh_config
}

set_up_network() { # of host $1
  local file
  for file in default eth0; do echo 1 2>/dev/null >/proc/sys/net/ipv6/conf/$file/disable_ipv6 || :; done
  ip -batch - <<END
link set lo up
link set eth0 up
address add $(address "$1")/16 dev eth0
END
}

cmd___init() {
  local host=$1 pid
  load
  read -r pid _ </proc/self/stat # /proc is still the machine's
  note_process "$STATE/host/$host/init" "$pid"
  hostname "$host"
  mount_all
  set_up_network "$host"
  "$(command -v sshd)" -f "$STATE/ssh/sshd_config" -E "$STATE/log/$host.sshd"
  if ((SLURM)); then start_slurm "$host"; fi
  until [[ -s /run/sshd.pid ]]; do sleep 0.01; done # written once it listens
  : >"$STATE/host/$host/ready"

  # Nothing more to do but to be there; bash reaps the orphans it inherits.
  mkfifo /run/init.fifo
  exec 3<>/run/init.fifo
  while :; do read -r -u 3 _ || :; done
}
