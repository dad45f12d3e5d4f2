# SPDX-License-Identifier: Apache-2.0
#
# Zsh completion of -o NAME=VALUE, for nacre-shell and nacre. The names and values (_nacre_shell_options, _nacre_shell_values) are
# what nacre-shell prints with --list-options=zsh: the build puts that before this.

# Of "NAME=VALUE" the values; of "NAM" the names.
_nacre_shell_setopt() {
  if [[ $1 == *=* ]]; then
    local name=${1%%=*}
    compset -P '*='
    compadd -- ${=_nacre_shell_values[$name]}
  else
    _describe -V 'shell option' _nacre_shell_options -S '' -q
  fi
}
