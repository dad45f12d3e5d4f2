# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Bash completion for nacre-shell. The program's own options come from its --help, so that they are always right; the
# shell options of -o are those of nacre-shell-options(7).

_nacre_shell_options=(
  cpu-affinity= env-expand. exit-on-error exit-timeout= gpu-affinity= hwloc.restrict hwloc.xmlfile initrc= kill-timeout=
  label-io nosetpgrp omp-threads= oom.adjust= output.stderr.label output.stdout.label per-resource.count=
  per-resource.type= rlimit. signal signal.signum= signal.timeleft= stop-tasks-in-exec taskmap.scheme= taskmap.value=
  torch torch.port= userrc= verbose= wrap=
)

_nacre_shell_values() { # NAME: the values that the shell option NAME takes
  case $1 in
    cpu-affinity) echo on off per-task map: verbose dry-run ;;
    gpu-affinity) echo on off per-task map: ;;
    exit-timeout) echo none 30s 5m ;;
    taskmap.scheme) echo block cyclic hostfile manual ;;
    omp-threads) echo per-task ;;
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
    -j | --jobspec | -R | --resources | --initrc | --eventlog)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    -r | --rank) return ;;
  esac
  case $word in
    --setopt=*) _nacre_shell_setopt "${word#*=}" ;;
    --jobspec=* | --resources=* | --initrc=* | --eventlog=*)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "${word#*=}")
      ;;
    -*)
      local options
      options=$("$1" --help 2>/dev/null | grep -oE -- '(^|[ ,])--?[A-Za-z][A-Za-z-]*' | tr -d ' ,')
      mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
      ;;
  esac
}
complete -F _nacre_shell nacre-shell
