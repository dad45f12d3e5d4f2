# SPDX-License-Identifier: Apache-2.0
#
# Fish completion for nacre. Verbs and options come from the program's own --help.

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

complete -c nacre -n 'test -n "$(__nacre_verbs)"' -f
complete -c nacre -n 'test -n "$(__nacre_verbs)"' -a '(__nacre_verbs)'
complete -c nacre -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__nacre_own)'
