# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Bash completion of -o NAME=VALUE, for nacre-shell and nacre. The names and values (_nacre_shell_options, _nacre_shell_values) are
# what nacre-shell prints with --list-options=bash: the build puts that before this.

_nacre_shell_setopt() { # WORD: completes NAME or NAME=VALUE
  local name=${1%%=*} value=${1#*=}
  if [[ $1 == *=* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_nacre_shell_values "$name")" -- "$value")
    # Where bash makes words of colons, too, it replaces what is behind the last one.
    [[ $COMP_WORDBREAKS != *:* ]] || COMPREPLY=("${COMPREPLY[@]#"${value%"${value##*:}"}"}")
  else
    mapfile -t COMPREPLY < <(compgen -W "${_nacre_shell_options[*]}" -- "$1")
    if [[ ${COMPREPLY[*]} == *[=.] ]]; then compopt -o nospace; fi
  fi
}
