#compdef nacre
# SPDX-License-Identifier: Apache-2.0
#
# Zsh completion for nacre. Verbs and options come from the program's own --help.

local word=${words[CURRENT]} each
local -a command verbs found

# The program and the verbs so far.
command=(${words[1]})
for each in ${words[2,CURRENT - 1]}; do
  [[ $each == -* ]] && break
  verbs=(${(f)"$(_call_program verbs $command --help 2>/dev/null | sed -n '/^Subcommands:/,$ s/^  \([a-z][a-z-]*\) .*/\1/p')"})
  (( ${verbs[(Ie)$each]} )) || break
  command+=($each)
done

if [[ $word == -* ]]; then
  found=(${(f)"$(_call_program options $command --help 2>/dev/null | grep -oE -- '^ +--?[A-Za-z][A-Za-z-]*(,--[a-z][a-z-]*)?' | tr -d ' ' | tr , '\n')"})
  compadd -- $found
  return
fi
found=(${(f)"$(_call_program verbs $command --help 2>/dev/null | sed -n '/^Subcommands:/,$ s/^  \([a-z][a-z-]*\) \{1,\}\(.*\)/\1:\2/p')"})
if (( $#found )); then
  _describe verb found
else
  _files
fi
