# SPDX-License-Identifier: Apache-2.0
#
# Zsh completion for nacre. Verbs, options and their values come from the program's own --help, so that they are always right; those
# of -o are completed by _nacre_shell_setopt: the build puts that before this.

local word=${words[CURRENT]} previous=${words[CURRENT - 1]} each
local -a command verbs found

# The program and the verbs so far.
command=(${words[1]})
for each in ${words[2,CURRENT - 1]}; do
  [[ $each == -* ]] && break
  verbs=(${(f)"$(_call_program verbs $command --help 2>/dev/null | sed -n '/^Subcommands:/,$ s/^  \([a-z][a-z-]*\) .*/\1/p')"})
  (( ${verbs[(Ie)$each]} )) || break
  command+=($each)
done

if [[ $command[2] == (run|launch) ]]; then
  if [[ $previous == (-o|--setopt) ]]; then _nacre_shell_setopt $word; return; fi
  if [[ $word == --setopt=* ]]; then compset -P '--setopt='; _nacre_shell_setopt ${word#*=}; return; fi
fi

# "--exit-policy max|main|all" in the help: the values of an option.
if [[ $word == --*=* ]]; then previous=${word%%=*}; compset -P '*='; word=${word#*=}; fi
case $previous in
  --via) found=(unix srun flux ssh) ;;
  -s | --signal) found=(TERM KILL INT HUP QUIT USR1 USR2 STOP CONT) ;;
  --taskmap) found=(block cyclic cyclic: manual: hostfile:) ;;
  -*) found=(${(f)"$(_call_program values $command --help 2>/dev/null | sed -nE 's/^ +(-.,)?([^ ]+) \[?=?([^ ]*)( .*)?$/\2 \3/p' | grep -- "^$previous .*|" | sed -E 's/^[^ ]* //; s/\[[^]]*\]//g; s/\]//' | tr '|' '\n' | grep -x '[a-z][a-z0-9+-]*')"}) ;;
esac
if (( $#found )); then
  compadd -- $found
  return
fi
if [[ $word == -* ]]; then
  found=(${(f)"$(_call_program options $command --help 2>/dev/null | grep -oE -- '^ +--?[A-Za-z][A-Za-z-]*(,--[a-z][a-z-]*)?' | tr -d ' ' | tr , '\n')"})
  compadd -- $found
  return
fi
case $command[2] in
  attach | ps | top | doctor | kill | cancel | restart | shrink | grow | exec)
    found=(${(f)"$(_call_program jobs $command[1] jobs -q 2>/dev/null)"})
    compadd -- $found
    [[ $command[2] != exec ]] || _files
    return
    ;;
  wait | report | timeline)
    found=(last ${(f)"$(_call_program jobs $command[1] jobs -a -q 2>/dev/null)"})
    compadd -- $found
    return
    ;;
esac
found=(${(f)"$(_call_program verbs $command --help 2>/dev/null | sed -n '/^Subcommands:/,$ s/^  \([a-z][a-z-]*\) \{1,\}\(.*\)/\1:\2/p')"})
if (( $#found )); then
  _describe verb found
else
  _files
fi
