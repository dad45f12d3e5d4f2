# SPDX-License-Identifier: Apache-2.0
#
# Part of vcluster: Slurm on the hosts.

write_slurm_files() {
  local s=$STATE host seconds=${VCLUSTER_SLURM_TIMEOUT:-10}
  mkdir -p "$s/slurm" "$s/slurmctld"
  (umask 077; head -c 128 /dev/urandom >"$s/munge.key")
  # slurmd looks for cgroups, whatever it is told to use; this plugin is content without any.
  echo "CgroupPlugin=cgroup/v1" >"$s/slurm/cgroup.conf"
  # No cgroups: linuxproc tracks a job's processes by their parents. More CPUs than the machine has: config_overrides.
  # No binding to CPUs: task/none.
  cat >"$s/slurm/slurm.conf" <<END
ClusterName=$NAME
SlurmctldHost=$CTL($(address "$CTL"))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=$s/slurmctld
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=$s/log/slurmctld
SlurmdLogFile=$s/log/%n.slurmd
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
SlurmdParameters=config_overrides
MpiDefault=none
PropagateResourceLimits=NONE
ReturnToService=2
SlurmdTimeout=$seconds
MessageTimeout=$seconds
TCPTimeout=2
KillWait=2
WaitTime=0
END
  for host in $(hosts); do
    [[ $host == "$CTL" ]] && continue
    echo "NodeName=$host NodeAddr=$(address "$host") CPUs=${VCLUSTER_SLURM_CPUS:-16}" \
      "RealMemory=1024 State=UNKNOWN"
  done >>"$s/slurm/slurm.conf"
  echo "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=YES" \
    >>"$s/slurm/slurm.conf"
}

run_daemon() { # log, program, arguments: says why, if it does not start
  "${@:2}" || {
    echo "${2##*/} doesn't start: $(grep -iE 'error|fatal' "$1" | tail -n 1)"
    return 1
  }
}

start_slurm() { # on host $1, which is this one
  mkdir -p /etc/slurm
  mount --bind "$STATE/slurm" /etc/slurm
  run_daemon "$STATE/log/$1.munged" munged --key-file "$STATE/munge.key" --pid-file /run/munge/munged.pid \
    --seed-file /run/munge/seed --log-file "$STATE/log/$1.munged" --force
  if [[ $1 == "$CTL" ]]; then
    run_daemon "$STATE/log/slurmctld" slurmctld
  else
    run_daemon "$STATE/log/$1.slurmd" slurmd
  fi
}

idle_nodes() { # how many nodes of the list $1 Slurm can use; a '*' behind a state: the node does not answer
  (cmd_exec "$CTL" sinfo -h -N -n "$1" -o %T 2>/dev/null) | grep -cE '^(idle|mixed|allocated)$' || :
}

await_slurm() { # until Slurm calls the hosts named idle
  local list deadline=$(($(uptime) + TIMEOUT)) want=$#
  list=$(IFS=,; echo "$*")
  until (($(idle_nodes "$list") == want)); do
    (($(uptime) < deadline)) || die "Slurm isn't up after $TIMEOUT s; see $STATE/log/"
    sleep 0.1
  done
}
