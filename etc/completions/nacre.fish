# SPDX-License-Identifier: Apache-2.0
#
# Fish completion for nacre. Verbs, options and their values come from the program's own --help; those of -o are what nacre-shell
# prints with --list-options=fish, which the build puts before this.

# The program and the verbs so far.
function __nacre_command
    set -l command nacre
    for each in (commandline -opc)[2..-1]
        string match -q -- '-*' $each; and break
        $command --help 2>/dev/null | sed -n '/^Subcommands:/,$ s/^  \([a-z][a-z-]*\) .*/\1/p' | string match -q -- $each; or break
        set -a command $each
    end
    printf '%s\n' $command
end

function __nacre_verbs
    set -l command (__nacre_command)
    $command --help 2>/dev/null | sed -n '/^Subcommands:/,$ s/^  \([a-z][a-z-]*\) \{1,\}\(.*\)/\1\t\2/p'
end

function __nacre_own
    set -l command (__nacre_command)
    $command --help 2>/dev/null | string match -r -a -- '^ +(--?[A-Za-z][A-Za-z-]*)(?:,(--[a-z][a-z-]*))?' | string match -- '-*'
end

# "--exit-policy max|main|all" in the help: the values of the option before the cursor.
function __nacre_values
    set -l option (commandline -opc)[-1]
    switch $option
        case --via
            printf '%s\n' unix srun flux ssh
        case -s --signal
            printf '%s\n' TERM KILL INT HUP QUIT USR1 USR2 STOP CONT
        case --taskmap
            printf '%s\n' block cyclic cyclic: manual: hostfile:
        case '-*'
            set -l command (__nacre_command)
            $command --help 2>/dev/null | sed -nE 's/^ +(-.,)?([^ ]+) \[?=?([^ ]*)( .*)?$/\2 \3/p' | grep -- "^$option .*|" | sed -E 's/^[^ ]* //; s/\[[^]]*\]//g; s/\]//' | tr '|' '\n' | grep -x '[a-z][a-z0-9+-]*'
    end
end

function __nacre_is_verb
    contains -- (__nacre_command)[2] $argv
end

complete -c nacre -n 'test -n "$(__nacre_values)"' -x -a '(__nacre_values)'
complete -c nacre -n '__nacre_is_verb run launch' -s o -l setopt -x -a '(__nacre_shell_options)' -d 'Set a shell option'
complete -c nacre -n '__nacre_is_verb attach ps top doctor kill cancel restart shrink grow exec' -a '(nacre jobs -q 2>/dev/null)'
complete -c nacre -n '__nacre_is_verb wait report timeline' -f -a 'last (nacre jobs -a -q 2>/dev/null)'
complete -c nacre -n 'test -n "$(__nacre_verbs)"' -f
complete -c nacre -n 'test -n "$(__nacre_verbs)"' -a '(__nacre_verbs)'
complete -c nacre -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__nacre_own)'
