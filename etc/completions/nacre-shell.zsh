# SPDX-License-Identifier: Apache-2.0
#
# Zsh completion for nacre-shell. The program's own options come from its --help; those of -o are completed by _nacre_shell_setopt:
# the build puts that before this.

local previous=${words[CURRENT - 1]} word=${words[CURRENT]}
local -a own

case $previous in
  -o | --setopt) _nacre_shell_setopt $word; return ;;
  -j | --jobspec | -R | --resources | --initrc | --eventlog | --secret-file) _files; return ;;
  --record-dir) _files -/; return ;;
  --boot) compadd auto pmi pmix slurm index hosts standalone; return ;;
  --list-options) compadd json bash zsh fish; return ;;
  -r | --rank | --arity) return ;;
esac
case $word in
  --setopt=*) compset -P '--setopt='; _nacre_shell_setopt ${word#*=} ;;
  --boot=*) compset -P '*='; compadd auto pmi pmix slurm index hosts standalone ;;
  --record-dir=*) compset -P '*='; _files -/ ;;
  --*=*) compset -P '*='; _files ;;
  *)
    own=(${(f)"$(_call_program options ${words[1]} --help 2>/dev/null | grep -oE -- '(^|[ ,])--?[A-Za-z][A-Za-z-]*' | tr -d ' ,')"})
    compadd -- $own
    ;;
esac
