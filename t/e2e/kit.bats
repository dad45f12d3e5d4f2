#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What the tests themselves rely on.
load lib.bash

# bats test_tags=root
@test "a test that has failed ends what it has left in its folder, and nothing else; one without a folder ends nothing" {
  needs_root "for a PID namespace"
  mkdir "$work/a" "$work/ab"
  # shellcheck disable=SC2016 # for the command
  unshare --pid --fork --mount-proc env -u BATS_TEST_COMPLETED bash -c '
    . "$0"
    (cd "$1/a" && exec sleep 60) & own=$!
    (cd "$1/ab" && exec sleep 60) & other=$!
    until [ "$(readlink /proc/$own/cwd)" = "$1/a" ] && [ "$(readlink /proc/$other/cwd)" = "$1/ab" ]; do sleep 0.1; done
    work=
    end_what_is_left
    kill -0 $own && kill -0 $other || exit 1
    unset work
    end_what_is_left
    kill -0 $own && kill -0 $other || exit 2
    work=$1/a
    end_what_is_left
    wait $own
    [ $? -eq 137 ] || exit 3
    kill -0 $other || exit 4' "$NACRE_SOURCE_DIR/t/kit/tests.bash" "$work"
}

# As if root had cloned it below /root, where the programs of PATH are as well.
# bats test_tags=root
@test "as_user is an ordinary user also where only root may enter a folder above the source" {
  needs_root "for another user"
  closed=$(mktemp -d /tmp/closed.XXXXXX) # no folder of nobody else's is above it
  mkdir -p "$closed/source/t" "$closed/source/bin"
  cp -r "$NACRE_SOURCE_DIR/t/kit" "$closed/source/t/"
  for program in bash sh setpriv getent id cut chmod env ls unshare flock mount umount mktemp mkdir rmdir test; do
    ln -s "$(readlink -f -- "$(type -P "$program")")" "$closed/source/bin/$program" # not a link that only root may follow
  done
  chmod 700 "$closed"
  run timeout 30 env PATH="$closed/source/bin" NACRE_SOURCE_DIR="$closed/source" \
    "$closed/source/t/kit/as_user" sh -c 'id -un && ls "$NACRE_SOURCE_DIR" && umask'
  rm -r "$closed"
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [ "$output" = $'nacre-check\nbin\nt\n0077' ] || { echo "$output"; return 1; }
}

@test "a jobspec has the command as it is given, and the options, the environment and the directory" {
  local arguments=(sh -c $'echo "a\\b" & $x \'q\'\n\ttab' '' 'ünï')
  write_jobspec 3 "${arguments[@]}"
  [ "$(jq -c '[.tasks[0].command, .resources[0].count, .attributes.system.environment.PATH, .attributes.system.shell.options]' jobspec.json)" = \
    "$(jq -nc '[$ARGS.positional, 3, "/usr/bin:/bin", {}]' --args -- "${arguments[@]}")" ]
  options='{"a": {"b": 1}}' environment='{"K": "v"}' cwd='/a "b' write_jobspec 1 true
  [ "$(jq -c '.attributes.system | [.shell.options, .environment, .cwd]' jobspec.json)" = '[{"a":{"b":1}},{"K":"v"},"/a \"b"]' ]
  run -1 write_jobspec 1 $'a\001'
}

@test "what is waited for is seen, and named if it does not come" {
  (sleep 0.1 && touch come) &
  wait_until test -e come
  run -1 wait_until 1 test -e gone
  [ "$output" = "not true within 1 s: test -e gone" ]
}
