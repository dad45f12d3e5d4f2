#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The table of shell options that the program prints, and what is generated from it; and the verbs of nacre.
load lib.bash

table() { "$NACRE_SHELL" --list-options=json; }

@test "the table is JSON, and each option has a type, an owner and a help" {
  [ "$(table | jq '.version')" = 1 ]
  [ "$(table | jq '.options | length')" -gt 100 ]
  [ "$(table | jq '[.options[] | select(.type == "" or .owner == "" or .help == "")] | length')" -eq 0 ]
  [ "$(table | jq '[.options[].name] | length - (unique | length)')" -eq 0 ]
  [ "$(table | jq -r '.options[] | select(.name == "cpu-affinity") | .default')" = on ]
  [ "$(table | jq -c '.options[] | select(.name == "exit-timeout.after") | .values')" = '["exit","failure"]' ]
}

# The options that nacre-shell-options(7) has an entry for.
names_in_man_page() {
  python3 - "$NACRE_SOURCE_DIR/doc/man/nacre-shell-options.7.scd" <<'END'
import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
text = text.split("# TEMPLATES")[0] + "\n# ENV\n\n*env-expand*\n" + text.split("# TERMINALS")[1]
for line in text.splitlines():
    if not re.match(r"\*[a-z]", line) or line.startswith(("*nacre", "*export*", "*unset*", "*print*")):
        continue
    line = re.sub(r"=.*?(?=, \*|$)|\[=.*?(?=, \*|$)", "", line)  # values
    line = line.replace("*_STREAM_*", "STREAM").replace("\\_", "_")
    for name in re.findall(r"\*([a-z][A-Za-z.-]*)\*", line):
        for stream in ("stdout", "stderr") if "STREAM" in name else ("",):
            print(name.replace("STREAM", stream))
END
}

@test "nacre-shell-options(7) and the table have the same options" {
  names_in_man_page | sort -u >in-man
  # Objects are one entry in the page, and members with any name are described there.
  table | jq -r '.options[].name' | sed -E 's/\.<NAME>.*//; s/^(taskmap|per-resource|signal)\..*/\1/' | sort -u >in-table
  # Members that the text of an entry names; and "likewise for the other three".
  cp in-man b
  grep -vE '^(exit-notify\.(to|path|fd)|output.spill-limit|node-health.then|(task-)?epilog\.(command|timeout)|task-prolog\.(command|timeout))$' in-table >a
  grep -vxFf b a >only-in-table || true
  grep -vxFf in-table b >only-in-man || true
  echo "only in the table: $(cat only-in-table); only in the page: $(cat only-in-man)"
  [ ! -s only-in-table ]
  [ ! -s only-in-man ]
}

@test "each option that the shell, a builtin plugin or a file of lua.d reads is in the table" {
  table | jq -r '.options[].name' | cut -d. -f1 | sort -u >names.known
  {
    grep -rhoE 'options(_|\(\))?\.(at|find|flag|value_at)\("[a-z.-]+"' "$NACRE_SOURCE_DIR/shell" "$NACRE_SOURCE_DIR/plugins" | grep -oE '"[a-z-]+' | tr -d '"'
    grep -rhoE 'nacre\.option \{ ?name = "[a-z-]+' "$NACRE_SOURCE_DIR/etc/lua.d" | grep -oE '[a-z-]+$'
  } | sort -u >names.read
  [ "$(wc -l <names.read)" -gt 25 ]
  run grep -vxFf names.known names.read
  echo "not in the table: $output"
  [ "$status" -eq 1 ]
}

@test "nacre(1) has the verbs of nacre --help, by name, and each has a page that nacre(1) refers to" {
  "$NACRE_BUILD_DIR/nacre" --help | sed -n '/^Subcommands:/,$ s/^  \([a-z]*\) .*/\1/p' | sort >verbs
  [ "$(wc -l <verbs)" -ge 20 ]
  sed -n '/^# VERBS/,/^# OPTIONS/ s/^\*\([a-z]*\)\*$/\1/p' "$NACRE_SOURCE_DIR/doc/man/nacre.1.scd" >in-page
  diff verbs in-page
  while read -r verb; do
    [ -e "$NACRE_SOURCE_DIR/doc/man/nacre-$verb.1.scd" ] || { echo "no page of $verb"; return 1; }
    grep -q "\*nacre-$verb\*(1)" "$NACRE_SOURCE_DIR/doc/man/nacre.1.scd" || { echo "no reference to the page of $verb"; return 1; }
  done <verbs
}

@test "an unknown format is refused, with those that there are" {
  run "$NACRE_SHELL" --list-options=xml
  [ "$status" -eq 2 ]
  [[ $output == *"--list-options: expected json, bash, zsh, fish, got 'xml'"* ]]
}

@test "fish completes options, shell options and their values" {
  command -v fish >/dev/null || skip "fish is not installed"
  export HOME=$work PATH=$NACRE_BUILD_DIR:$PATH
  complete_in_fish() { fish --no-config -c "source '$NACRE_BUILD_DIR/etc/nacre-shell.fish'; complete -C '$1'" | cut -f1; }
  [ "$(complete_in_fish 'nacre-shell -o exit-timeout.af' | sort | paste -sd' ')" = "exit-timeout.after= exit-timeout.after=exit exit-timeout.after=failure" ]
  [[ $(complete_in_fish 'nacre-shell --stand') == *--standalone* ]]
  complete_nacre() { fish --no-config -c "source '$NACRE_SOURCE_DIR/etc/completions/nacre.fish'; complete -C '$1'" | cut -f1 | paste -sd' '; }
  [ "$(complete_nacre 'nacre ini')" = initrc ]
  [ "$(complete_nacre 'nacre archive cr')" = create ]
  [[ $(complete_nacre 'nacre launch --fail') == *--fail-fast* ]]
  complete_built() { fish --no-config -c "source '$NACRE_BUILD_DIR/etc/nacre.fish'; complete -C '$1'" | cut -f1 | sort | paste -sd' '; }
  [ "$(complete_built 'nacre run --exit-policy ')" = "all first main main+all max" ]
  [ "$(complete_built 'nacre launch -o exit-timeout.af')" = "exit-timeout.after= exit-timeout.after=exit exit-timeout.after=failure" ]
  [[ $(complete_built 'nacre report ') == *last ]]
}

@test "zsh completes options, shell options and their values" {
  command -v zsh >/dev/null || skip "zsh is not installed"
  cat >complete.zsh <<'END'
# Completion outside of the line editor: what would be offered is printed.
compset() { return 0; }
compadd() { while [[ ${1-} == -* ]]; do if [[ $1 == -- ]]; then shift; break; fi; shift; done; print -l -- $@; }
_describe() { local name=$argv[3]; [[ $1 == -V ]] || name=$argv[2]; print -l -- ${(P)name}; }
_call_program() { shift; eval $@; }
_files() { print files; }
file=$1; shift
words=("$@"); CURRENT=$#words
complete_it() { source $file; }
complete_it
END
  zsh_nacre_shell() { zsh -f complete.zsh "$NACRE_BUILD_DIR/etc/nacre-shell.zsh" "$NACRE_SHELL" "$@"; }
  [ "$(zsh_nacre_shell -o exit-timeout.after=)" = $'exit\nfailure' ]
  zsh_nacre_shell -o exit | grep -F 'exit-timeout.after=:what begins that time'
  [ "$(zsh_nacre_shell --boot '' | paste -sd' ')" = "auto pmi pmix slurm index hosts standalone" ]
  zsh_nacre_shell -- | grep -x -- --standalone
  zsh_nacre() { zsh -f complete.zsh "$NACRE_SOURCE_DIR/etc/completions/nacre.zsh" "$NACRE_BUILD_DIR/nacre" "$@"; }
  zsh_nacre '' | grep '^initrc:'
  zsh_nacre archive '' | grep '^create:'
  zsh_nacre launch - | grep -x -- --fail-fast
  zsh_built() { zsh -f complete.zsh "$NACRE_BUILD_DIR/etc/nacre.zsh" "$NACRE_BUILD_DIR/nacre" "$@"; }
  [ "$(zsh_built run --exit-policy '' | paste -sd' ')" = "max main all main+all first" ]
  [ "$(zsh_built launch -o exit-timeout.after=)" = $'exit\nfailure' ]
  [ "$(zsh_built wait '' | head -n 1)" = last ]
}
