# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Bash completion for nacre-shell. The program's own options come from its --help, so that they are always right; the
# shell options of -o are those of nacre-shell-options(7).

_nacre_shell_options=(
  coprocess-kill-timeout= coprocess. cpu-affinity= env-expand. epilog.command= epilog.timeout= epilog= exit-main=
  exit-notify= exit-notify.threshold= exit-ok=
  exit-on-error exit-on-error= exit-on-error.codes= exit-on-error.grace= exit-on-error.ranks= exit-on-error.then= exit-policy= exit-report=
  exit-timeout= exit-timeout.after= gpu-affinity= hwloc.restrict hwloc.xmlfile initrc= kill-timeout= label-io lua-timeout= mpi=
  nosetpgrp omp-threads= oom.adjust= output.stderr.label output.stdout.label per-resource.count= per-resource.type=
  prolog.command= prolog.timeout= prolog= pty pty.capture= pty.interactive pty.ranks= report= rlimit. signal signal.signum=
  signal.timeleft= stage-in stage-in.destination= stage-in.dir= stage-in.names= stage-in.overwrite stage-in.pattern=
  stop-tasks-in-exec sysmon sysmon.period= task-epilog.command= task-epilog.timeout= task-epilog= task-prolog.command=
  task-prolog.timeout= task-prolog= taskmap.scheme= taskmap.value= time-limit= torch torch.port= userrc= verbose= vmstat
  vmstat.output= wrap=
)

_nacre_shell_values() { # NAME: the values that the shell option NAME takes
  case $1 in
    cpu-affinity) echo on off per-task map: verbose dry-run ;;
    gpu-affinity) echo on off per-task map: ;;
    exit-policy) echo max main all main+all first ;;
    exit-report) echo off line full ;;
    exit-on-error) echo 1 10% first off ;;
    exit-on-error.then) echo end note ;;
    exit-timeout.after) echo exit failure ;;
    exit-timeout) echo none 30s 5m ;;
    time-limit) echo none 10m 1h ;;
    lua-timeout) echo none 10s ;;
    mpi) echo openmpi openmpi@5 mpich intel mvapich spectrum none ;;
    taskmap.scheme) echo block cyclic hostfile manual ;;
    omp-threads) echo per-task ;;
    stage-in.destination) echo local: global: ;;
    per-resource.type) echo core node ;;
    verbose) echo 0 1 2 ;;
  esac
}

_nacre_shell_setopt() { # WORD: completes NAME or NAME=VALUE
  local name=${1%%=*}
  if [[ $1 == *=* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_nacre_shell_values "$name")" -- "${1#*=}")
  else
    mapfile -t COMPREPLY < <(compgen -W "${_nacre_shell_options[*]}" -- "$1")
    if [[ ${COMPREPLY[*]} == *[=.] ]]; then compopt -o nospace; fi
  fi
}

_nacre_shell() {
  local word previous start=$COMP_CWORD
  # Bash makes words of their own of the = in NAME=VALUE: put together what was one word.
  while ((start > 1)) && [[ ${COMP_WORDS[start]} == = || ${COMP_WORDS[start - 1]} == = ]]; do
    start=$((start - 1))
  done
  printf -v word %s "${COMP_WORDS[@]:start:COMP_CWORD-start+1}"
  previous=${COMP_WORDS[start - 1]}
  COMPREPLY=()

  case $previous in
    -o | --setopt)
      _nacre_shell_setopt "$word"
      return
      ;;
    -j | --jobspec | -R | --resources | --initrc | --eventlog | --secret-file)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --record-dir)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return
      ;;
    --boot)
      mapfile -t COMPREPLY < <(compgen -W "auto pmi pmix slurm hosts standalone" -- "$word")
      return
      ;;
    -r | --rank | --arity) return ;;
  esac
  case $word in
    --setopt=*) _nacre_shell_setopt "${word#*=}" ;;
    --boot=*) mapfile -t COMPREPLY < <(compgen -W "auto pmi pmix slurm hosts standalone" -- "${word#*=}") ;;
    --jobspec=* | --resources=* | --initrc=* | --eventlog=* | --secret-file=*)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "${word#*=}")
      ;;
    --record-dir=*)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "${word#*=}")
      ;;
    -*)
      local options
      options=$("$1" --help 2>/dev/null | grep -oE -- '(^|[ ,])--?[A-Za-z][A-Za-z-]*' | tr -d ' ,')
      mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
      ;;
  esac
}
complete -F _nacre_shell nacre-shell
