#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Jobspecs as `flux run`, `flux submit` and `flux batch` write them.
load lib.bash

# jobspec.json gets the members $1 of attributes.system.
add_system() { jq --argjson more "$1" '.attributes.system += $more' jobspec.json >more.json && mv more.json jobspec.json; }

@test "taskmap with an empty value, and options that only affect Flux" {
  options='{"taskmap": {"scheme": "cyclic", "value": ""}, "output": {"batch-timeout": 0.05}, "input": {"batch-timeout": 0.0}}'
  prepare 2 echo ran
  run nacre
  [ "$status" -eq 0 ]
  [ "$output" = $'ran\nran' ]
  run nacre -o output.batch-timeout=soon
  fails_with 1 output.batch-timeout
}

@test "the limits of the submit host: one above the hard limit here is lowered with a warning; by -o it is an error" {
  options='{"rlimit": {"nofile": 101, "ofile": 101, "core": 0}}'
  prepare 1 sh -c 'ulimit -Sn'
  run prlimit --nofile=64:100 "${nacre[@]}"
  [ "$status" -eq 0 ]
  [ "${lines[0]}" = "nacre-shell[0]: warn: rlimit: rlimit.nofile: 101 is above the hard limit of this node; tasks have 100" ]
  [ "${lines[-1]}" = 100 ]
  run prlimit --nofile=64:100 "${nacre[@]}" -o rlimit.nofile=101
  fails_with 1 "rlimit.nofile: 101 is above the hard limit" "100"
  run prlimit --nofile=64:100 "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -n 1 -o rlimit.nofile=101 true
  fails_with 1 "rlimit.nofile: 101 is above the hard limit" "100"
}

@test "flux batch: the script is in the job's directory, and runs" {
  mkdir bin
  cat >bin/flux <<'END'
#!/bin/sh
[ "$1" = broker ] && shift
exec "$@"
END
  chmod +x bin/flux
  environment="{\"PATH\": \"$work/bin:/usr/bin:/bin\"}" prepare 1 flux broker '{{tmpdir}}/script' one 'two words'
  add_system '{"files": {"script": {"mode": 33216, "encoding": "utf-8", "data": "#!/bin/sh\necho \"$2 in ${0%/*}\"; cat \"${0%/*}/conf.json\"; test \"${0%/*}\" = \"$FLUX_JOB_TMPDIR\"\n"},
    "conf.json": {"mode": 33152, "data": {"resource": {}}}}}'
  run nacre
  [ "$status" -eq 0 ]
  [[ ${lines[0]} == "two words in $TMPDIR/"* ]]
  [ "${lines[1]}" = '{"resource":{}}' ]
  [ -z "$(ls "$TMPDIR")" ]
}

@test "flux batch of older versions: attributes.system.batch" {
  mkdir bin
  printf '#!/bin/sh\necho "$@"\n' >bin/flux
  chmod +x bin/flux
  environment="{\"PATH\": \"$work/bin:/usr/bin:/bin\"}" prepare 2 job.sh arg
  add_system '{"batch": {"script": "#!/bin/sh\n", "broker-opts": ["-Sx=1"]}}'
  run nacre -o label-io
  [ "$status" -eq 0 ]
  [[ "$(sort <<<"$output")" == "0: broker -Sx=1 $TMPDIR/"*"/script arg
1: broker -Sx=1" ]]
}

@test "a file that --add-file has put into the jobspec is in the job's directory" {
  prepare 2 cat '{{tmpdir}}/data'
  add_system '{"files": {"data": {"mode": 33188, "size": 4, "encoding": "base64", "data": "YWJjCg=="}}}'
  run nacre
  [ "$status" -eq 0 ]
  [ "$output" = $'abc\nabc' ]
  add_system '{"files": {"../data": {"mode": 33188, "encoding": "utf-8", "data": "x"}}}'
  run nacre
  fails_with 1 "attributes.system.files" "a path with a '..' part"
}

@test "the environment of the submit host: TMPDIR and HOSTNAME are this node's" {
  environment="{\"PATH\": \"/usr/bin:/bin\", \"TMPDIR\": \"$work/none\", \"HOSTNAME\": \"login1\"}" \
    prepare 1 sh -c 'echo "$HOSTNAME"; touch "$TMPDIR/here"'
  run nacre
  [ "$status" -eq 0 ]
  [ "$output" = "$(uname -n)" ]
  [ -e none/here ]
  environment="{\"PATH\": \"/usr/bin:/bin\", \"TMPDIR\": \"$work/no/such\"}" prepare 1 sh -c 'echo "$TMPDIR ${HOSTNAME-none}"'
  run nacre
  [ "$status" -eq 0 ]
  [[ ${lines[0]} == *"the tasks' TMPDIR: cannot make $work/no/such: "*"/tmp takes its place" ]]
  [ "${lines[1]}" = "/tmp none" ]
}

@test "the id begins with f where the job's locale is not of UTF-8, or where that is forced" {
  prepare 1 sh -c 'echo "$FLUX_JOB_ID $NACRE_JOB_ID {{id}} {{id.f58}}"'
  run nacre ƒ2Ct
  [ "$output" = "ƒ2Ct ƒ2Ct ƒ2Ct ƒ2Ct" ]
  FLUX_F58_FORCE_ASCII=1 run nacre ƒ2Ct
  [ "$output" = "f2Ct f2Ct f2Ct f2Ct" ]
  environment='{"PATH": "/usr/bin:/bin", "LANG": "C"}' prepare 1 sh -c 'echo "$FLUX_JOB_ID $NACRE_JOB_ID {{id}} {{id.f58}}"'
  run nacre ƒ2Ct
  [ "$output" = "f2Ct f2Ct f2Ct f2Ct" ]
}

@test "a name of -o pmi that is not nacre's is that of a plugin; a warning if there is none" {
  prepare 1 sh -c 'echo "${PMI_FD:+PMI}"'
  run nacre -o pmi=cray-pals,simple
  [ "$status" -eq 0 ]
  [ "$output" = "nacre-shell[0]: warn: pmi: pmi: there is no plugin 'cray-pals', and tasks do without it; nacre has simple, pmi2 and pmix
PMI" ]
  echo 'plugin.register { name = "cray_pals", handlers = { { topic = "shell.init", fn = function () end } } }' >rc.lua
  run nacre -o pmi=cray-pals --initrc=rc.lua
  [ "$status" -eq 0 ]
  [ "$output" = "" ]
  run nacre -o pmi=smiple
  [[ $output == *"did you mean simple?"* ]]
}

@test "a jobspec with levels of RFC 14" {
  write_R 8
  cat >jobspec.json <<'END'
{"version": 1, "resources": [{"type": "node", "count": {"min": 1, "max": 4}, "with": [{"type": "socket", "count": 2, "with": [
  {"type": "slot", "count": 2, "label": "task", "with": [{"type": "core", "count": 2}, {"type": "memory", "count": 4, "unit": "GB"}]}]}]}],
 "tasks": [{"command": ["sh", "-c", "echo $A"], "slot": "task", "count": {"per_slot": 1}, "attributes": {"environment": {"A": "task"}}}],
 "attributes": {"system": {"environment": {"PATH": "/usr/bin:/bin", "A": "job"}}}}
END
  run nacre
  [ "$status" -eq 0 ]
  [ "$output" = $'task\ntask\ntask\ntask' ]
}

@test "exit-on-error of a jobspec is about the first task to end, that of nacre run and -o about any" {
  # shellcheck disable=SC2016 # for the tasks
  tasks=(sh -c '[ $FLUX_TASK_RANK = $FIRST ] && exit $CODE; sleep 0.4; [ $FLUX_TASK_RANK = 2 ] || exit 3; sleep 0.4; echo over')
  for given in 1 true '"on"'; do
    options="{\"exit-on-error\": $given}"
    environment="${usual_environment%\}}, \"FIRST\": \"0\", \"CODE\": \"0\"}" prepare 3 "${tasks[@]}"
    run nacre
    [ "$status" -eq 3 ]
    if [ "$given" = '"on"' ]; then [[ $output != *over* ]]; else [[ $output == *over* ]]; fi
    environment="${usual_environment%\}}, \"FIRST\": \"0\", \"CODE\": \"4\"}" prepare 3 "${tasks[@]}"
    run nacre
    [ "$status" -eq 4 ]
    [[ $output != *over* ]]
  done
  FIRST=0 CODE=0 run "$NACRE_BUILD_DIR/nacre" run --shell="$NACRE_SHELL" -n 3 -o exit-on-error -o cpu-affinity=off "${tasks[@]}"
  [ "$status" -eq 3 ]
  [[ $output != *over* ]]
}
