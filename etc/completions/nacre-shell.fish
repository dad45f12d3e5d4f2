# SPDX-License-Identifier: Apache-2.0
#
# Fish completion for nacre-shell. The program's own options come from its --help; those of -o are what the program prints with
# --list-options=fish, which the build puts before this.

function __nacre_shell_own
    nacre-shell --help 2>/dev/null | string match -r -a -- '(?:^|[ ,])(--?[A-Za-z][A-Za-z-]*)' | string match -- '-*'
end

complete -c nacre-shell -f
complete -c nacre-shell -n 'string match -q -- "-*" (commandline -ct)' -a '(__nacre_shell_own)'
complete -c nacre-shell -s o -l setopt -x -a '(__nacre_shell_options)' -d 'Set a shell option'
complete -c nacre-shell -s j -l jobspec -r -F -d 'Read the jobspec from FILE'
complete -c nacre-shell -s R -l resources -r -F -d 'Read the resource set R from FILE'
complete -c nacre-shell -l initrc -r -F -d 'Load the initrc from FILE'
complete -c nacre-shell -l eventlog -r -F -d 'Write events to FILE'
complete -c nacre-shell -l secret-file -r -F -d 'Read the secret from FILE'
complete -c nacre-shell -l record-dir -x -a '(__fish_complete_directories)' -d 'Keep the record in DIR'
complete -c nacre-shell -l boot -x -a 'auto pmi pmix slurm index hosts standalone' -d 'How shells find each other'
complete -c nacre-shell -l list-options -x -a 'json bash zsh fish' -d 'Print all shell options'
