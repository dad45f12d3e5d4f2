# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Bash completion for nacre. Verbs and options come from the program's own --help, so that they are always right; those of -o are
# completed by _nacre_shell_setopt: the build puts that before this.

# WORD...: the command line so far, without the word at the cursor. Prints what --help has of subcommands, or options.
_nacre_help() { "$@" --help 2>/dev/null; }

_nacre_verbs() { _nacre_help "$@" | sed -n '/^Subcommands:/,$ s/^  \([a-z][a-z-]*\) .*/\1/p'; }

_nacre_options() { _nacre_help "$@" | grep -oE -- '^ +--?[A-Za-z][A-Za-z-]*(,--[a-z][a-z-]*)?' | tr -d ' ' | tr , '\n'; }

_nacre() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} each
  # The program and its verbs, and what says where archives are.
  local command=("${COMP_WORDS[0]}") directory=()
  for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $each == -* ]] && break
    mapfile -t COMPREPLY < <(_nacre_verbs "${command[@]}" | grep -xF -- "$each")
    [[ ${#COMPREPLY[@]} -eq 0 ]] && break
    command+=("$each")
  done
  for ((each = 1; each < COMP_CWORD - 1; ++each)); do
    [[ ${COMP_WORDS[each]} == --dir ]] && directory=(--dir "${COMP_WORDS[each + 1]}")
  done
  COMPREPLY=()
  # Bash makes words of their own of = and : in NAME=VALUE: put together what was one word.
  local start=$COMP_CWORD whole
  while ((start > 1)) && [[ ${COMP_WORDS[start]} == [=:] || ${COMP_WORDS[start - 1]} == [=:] ]]; do
    start=$((start - 1))
  done
  printf -v whole %s "${COMP_WORDS[@]:start:COMP_CWORD-start+1}"
  if [[ ${command[1]-} == @(run|launch) && (${COMP_WORDS[start - 1]} == @(-o|--setopt) || $whole == --setopt=*) ]]; then
    _nacre_shell_setopt "${whole#--setopt=}"
    return
  fi
  if [[ $whole == --*=* ]]; then previous=${whole%%=*} word=${whole#*=}; fi

  case $previous in
    -n | --name)
      [[ ${command[1]-} == archive ]] || return
      mapfile -t COMPREPLY < <(compgen -W "$("${command[0]}" archive list --archives "${directory[@]}" 2>/dev/null)" -- "$word")
      return
      ;;
    -C | --directory | --dir | --cwd | --chdir)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return
      ;;
    --lang)
      mapfile -t COMPREPLY < <(compgen -W "c c++ lua" -- "$word")
      return
      ;;
    --taskmap)
      mapfile -t COMPREPLY < <(compgen -W "block cyclic cyclic: manual: hostfile:" -- "$word")
      return
      ;;
    --cpu-bind)
      mapfile -t COMPREPLY < <(compgen -W "thread core l3 numa package none" -- "$word")
      return
      ;;
    --health)
      mapfile -t COMPREPLY < <(compgen -W "off quick pairs" -- "$word")
      return
      ;;
    --on-lost)
      mapfile -t COMPREPLY < <(compgen -W "end go-on replace replace,else=end replace,else=go-on" -- "$word")
      return
      ;;
    --restart)
      mapfile -t COMPREPLY < <(compgen -W "never on-request on-failure always on-failure,max= on-failure,no-progress= on-failure,scope=node on-failure,scope=job on-failure,where=spare" -- "$word")
      return
      ;;
    --mem-bind)
      mapfile -t COMPREPLY < <(compgen -W "bind prefer interleave" -- "$word")
      return
      ;;
    --exit-policy | --policy)
      mapfile -t COMPREPLY < <(compgen -W "max main all main+all first" -- "$word")
      return
      ;;
    --initrc | -j | --jobspec | -R | --resources | --hostfile | --shell | --agent | --notify | --report | --joblog | --usage-plot | --plot | --file | --multi-prog | \
      --env-file | --input | --output | --error)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    -o)
      if [[ ${command[1]-} == timeline ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
      fi
      ;;
    --tail)
      mapfile -t COMPREPLY < <(compgen -W "all none 10 100" -- "$word")
      return
      ;;
    --format)
      mapfile -t COMPREPLY < <(compgen -W "text json" -- "$word")
      return
      ;;
    --via)
      mapfile -t COMPREPLY < <(compgen -W "unix srun flux ssh" -- "$word")
      return
      ;;
    -s | --signal)
      mapfile -t COMPREPLY < <(compgen -W "TERM KILL INT HUP QUIT USR1 USR2 STOP CONT" -- "$word")
      return
      ;;
    -c | --compression)
      [[ ${command[1]-} == archive ]] || return
      mapfile -t COMPREPLY < <(compgen -W "none gzip zstd xz" -- "$word")
      return
      ;;
  esac
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_nacre_options "${command[@]}")" -- "$word")
    return
  fi
  case ${command[1]-} in
    run)
      if ((COMP_CWORD > 1)); then # a command, or a file for it
        mapfile -t COMPREPLY < <(compgen -c -- "$word"; compgen -f -- "$word")
        return
      fi
      ;;
    exec)
      mapfile -t COMPREPLY < <(compgen -W "$("${command[0]}" jobs -q 2>/dev/null)" -- "$word"; compgen -c -- "$word"; compgen -f -- "$word")
      return
      ;;
    attach | ps | top | doctor | kill | cancel | restart | shrink | grow)
      mapfile -t COMPREPLY < <(compgen -W "$("${command[0]}" jobs -q 2>/dev/null)" -- "$word")
      return
      ;;
    wait | report | timeline)
      mapfile -t COMPREPLY < <(compgen -W "last $("${command[0]}" jobs -a -q 2>/dev/null)" -- "$word")
      return
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$(_nacre_verbs "${command[@]}")" -- "$word")
  if [[ ${#COMPREPLY[@]} -eq 0 && ${command[*]: -1} == @(create|check) ]]; then
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -F _nacre nacre
