# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Bash completion for nacre-shell. The program's own options come from its --help, so that they are always right; those of -o, and
# their values are completed by _nacre_shell_setopt: the build puts that before this.

_nacre_shell() {
  local word previous start=$COMP_CWORD
  # Bash makes words of their own of = and : in NAME=VALUE: put together what was one word.
  while ((start > 1)) && [[ ${COMP_WORDS[start]} == [=:] || ${COMP_WORDS[start - 1]} == [=:] ]]; do
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
    --list-options)
      mapfile -t COMPREPLY < <(compgen -W "json bash zsh fish" -- "$word")
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
      mapfile -t COMPREPLY < <(compgen -W "auto pmi pmix slurm index hosts standalone" -- "$word")
      return
      ;;
    -r | --rank | --arity) return ;;
  esac
  case $word in
    --setopt=*) _nacre_shell_setopt "${word#*=}" ;;
    --boot=*) mapfile -t COMPREPLY < <(compgen -W "auto pmi pmix slurm index hosts standalone" -- "${word#*=}") ;;
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
