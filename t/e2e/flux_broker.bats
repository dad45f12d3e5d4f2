#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# t/kit/flux_broker, which stands in for an instance of Flux. What it answers here, a real instance has answered to the same requests.
load lib.bash

broker=$NACRE_SOURCE_DIR/t/kit/flux_broker
client=$NACRE_SOURCE_DIR/t/kit/flux_client

# beside SIZE: runs the script on standard input beside brokers; in it `ask` and the others are those of flux_client, and $second is the URI of broker 1.
beside() {
  { printf 'client() { timeout 20 %q "$@" 2>&1; }\nask() { client ask "$@"; }\nsecond=${FLUX_URI%%0}1\n' "$client"; cat; } >script
  run timeout 60 "$broker" --size="$1" --dir="$work/brokers" bash script
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
}

# with_shell ARG...: runs a job whose shell is the script on standard input, with `client` and `ask` as above, and $id, $rank.
# $input is a file for flux_broker to read.
with_shell() {
  {
    printf '#!/bin/bash\nclient() { timeout 20 %q "$@"; }\nask() { client ask "$@"; }\nid=$1 space=$FLUX_KVS_NAMESPACE rank=${FLUX_URI##*-}\n' "$client"
    printf 'append() { ask kvs.commit "{\\"namespace\\":\\"$space\\",\\"flags\\":0,\\"ops\\":[{\\"key\\":\\"$1\\",\\"flags\\":32,\\"dirent\\":{\\"ver\\":1,\\"type\\":\\"val\\",\\"data\\":\\"$(base64 -w0)\\"}}]}" >/dev/null; }\n'
    cat
  } >shell
  chmod +x shell
  run timeout 60 "$broker" --dir="$work/brokers" --shell="$work/shell" "$@" <"${input:-/dev/null}"
}

# Prints parts of record.json.
recorded() { jq -c "$1" brokers/record.json; }

@test "a request is answered by the broker that it names, or by the nearest; what is not there is an error" {
  beside 2 <<'END'
ask attr.get '{"name":"rank"}'
client --node=1 ask attr.get '{"name":"rank"}'
client --uri="$second" ask attr.get '{"name":"rank"}'
ask attr.get '{"name":"no-such"}'
ask attr.get '{}'
ask no-such.service
client --node=7 ask attr.get '{"name":"rank"}'
ask attr.get '{"name":"size"}'
END
  [ "$output" = '{"value":"0","flags":1}
{"value":"1","flags":1}
{"value":"1","flags":1}
No such file or directory
Protocol error
Function not implemented: No service matching no-such.service is registered
No route to host
{"value":"2","flags":1}' ] || { echo "$output"; return 1; }
  [ "$(recorded '[.requests[] | [.rank, .topic]][2]')" = '[1,"attr.get"]' ]
}

@test "a client's service has requests with who asks, from its own broker and from others, and hears when a client goes" {
  beside 2 <<'END'
client --uri="$second" --count=4 serve my-service >served &
until grep -qs added served; do sleep 0.02; done
client --node=1 ask my-service.hello '{"a":1}'
ask my-service.hello
client --uri="$second" ask service.add '{"service":"my-service"}'
client --uri="$second" ask my-service.hello '{"a":2}'
wait
cat served
END
  [ "$output" = '{"a":1}
Function not implemented: No service matching my-service.hello is registered
File exists
{"a":2}
added
my-service.hello user=True roles=1 {"a":1}
my-service.disconnect user=True roles=1 
my-service.hello user=True roles=5 {"a":2}
my-service.disconnect user=True roles=5 ' ] || { echo "$output"; return 1; }
}

@test "events come in order at all brokers, to those that have subscribed" {
  beside 2 <<'END'
client --uri="$second" --count=2 listen foo. >events &
until grep -qs subscribed events; do sleep 0.02; done
client publish foo.a '{"b":2}'
client publish bar.a '{"b":2}'
ask event.publish '{"topic":"foo.x","flags":0,"payload":"e30="}'
wait
cat events
END
  [ "$output" = '{"seq":3}
subscribed
foo.a 1 {"b":2}
foo.x 3 {}' ] || { echo "$output"; return 1; }
}

@test "the store keeps what is committed, appended and unlinked; a value can be followed" {
  beside 1 <<'END'
put() { ask kvs.commit '{"namespace":"primary","flags":0,"ops":[{"key":"'"$1"'","flags":'"$2"',"dirent":'"$3"'}]}' | cut -d: -f3; }
get() { ask kvs.lookup '{"key":"'"$1"'","namespace":"primary","flags":0}'; }
put e 0 '{"ver":1,"type":"val","data":"YQ=="}'
put e 32 '{"ver":1,"type":"val","data":"Yg=="}'
put x.y 0 '{"ver":1,"type":"symlink","data":{"target":"e"}}'
get e
get x.y
get x
get z
put e 0 null
get e
ask kvs.commit '{"namespace":"no-such","flags":0,"ops":[]}'
client --stream ask kvs-watch.lookup '{"key":"w","namespace":"primary","flags":268}' >followed &
until grep -qs Yg followed; do put w 32 '{"ver":1,"type":"val","data":"Yg=="}' >/dev/null; done
head -1 followed
kill $!
END
  [ "$output" = '1}
2}
3}
{"val":{"ver":1,"type":"val","data":"YWI="}}
{"val":{"ver":1,"type":"val","data":"YWI="}}
Is a directory
No such file or directory
4}
No such file or directory
Operation not supported
{"val":{"ver":1,"type":"val","data":"Yg=="}}' ] || { echo "$output"; return 1; }
}

@test "a client that sends no message is put out, and others go on" {
  beside 1 <<'END'
client raw deadbeef00000004
client raw 1200eeff00000002027f
client raw 1200eeffffffffff
ask attr.get '{"name":"rank"}'
END
  [ "$output" = '{"value":"0","flags":1}' ] || { echo "$output"; return 1; }
  [ "$(recorded '[.notes[] | sub("process [0-9]+ "; "")]')" = '["broker 0: sent what is no message: it begins with deadbeef, not with the magic number",'\
'"broker 0: sent what is no message: a frame is cut off","broker 0: sent what is no message: its size is 4294967295"]' ] || { recorded .notes; return 1; }
}

@test "a job has its shells started with J and R; its output is printed, its exit code is theirs" {
  with_shell --size=2 -N2 -n2 -l -- some command <<'END'
ask job-info.lookup '{"id":'"$id"',"keys":["J","R"],"flags":0}' >looked-up-$rank
ask job-exec.shell-barrier '{"id":'"$id"',"rank":'"$rank"'}' || exit
[ "$rank" -eq 0 ] || exit 3
printf '%s\n' '{"timestamp":1,"name":"header","context":{"version":1}}' '{"timestamp":1,"name":"data","context":{"stream":"stdout","rank":"1","data":"a\n","repeat":2}}' \
  '{"timestamp":1,"name":"data","context":{"stream":"stderr","rank":"0","encoding":"base64","data":"/wo="}}' | append output
echo of the shell itself >&2
END
  [ "$status" -eq 3 ] || { echo "exit code $status: $output"; return 1; }
  [[ $output == *$'1: a\na\n'* && $output == *$'0: \xff\n'* && $output == *"s: shell[0]: stderr: of the shell itself"* ]] || { echo "$output"; return 1; }
  [ "$(jq -r .J looked-up-1 | cut -d. -f2 | base64 -d | jq -c '[.tasks[0].command, .resources[0].count]')" = '[["some","command"],2]' ]
  [ "$(jq -r .R looked-up-1 | jq -c '.execution.R_lite')" = '[{"rank":"0-1","children":{"core":"0"}}]' ]
  [ "$(recorded '[.barriers | length, (.[0] | sort)]')" = '[1,[0,1]]' ]
  [ "$(recorded '[.eventlogs["guest.exec.eventlog"][].name]')" = '["init","starting","log","shell-exit","complete","done"]' ] ||
    { recorded '.eventlogs["guest.exec.eventlog"]'; return 1; }
  [ "$(recorded '[.eventlogs.eventlog[].name]')" = '["submit","validate","depend","priority","alloc","start","finish","release","free","clean"]' ]
}

@test "standard input goes to the service that the shell has told of, and so does its end" {
  printf 'a\n\377' >given
  input=given with_shell -- true <<'END'
client --count=2 serve my-shell >served &
until grep -qs added served; do sleep 0.02; done
printf '%s\n' '{"timestamp":1,"name":"shell.init","context":{"service":"my-shell","leader-rank":0,"size":1}}' '{"timestamp":2,"name":"shell.start"}' | append exec.eventlog
wait
END
  [ "$status" -eq 0 ] || { echo "exit code $status: $output"; return 1; }
  [ "$(<served)" = 'added
my-shell.stdin user=True roles=5 {"stream":"stdin","rank":"all","encoding":"base64","data":"YQr/"}
my-shell.stdin user=True roles=5 {"stream":"stdin","rank":"all","eof":true}' ] || { cat served; return 1; }
}

@test "a shell that ends before the first barrier ends the job, and the others are told in the barrier" {
  with_shell --size=2 -N2 -- true <<'END'
[ "$rank" -eq 0 ] || exit 5
ask job-exec.shell-barrier '{"id":'"$id"',"rank":0}' 2>barrier
trap '' TERM
exit 1
END
  [ "$status" -eq 5 ] || { echo "exit code $status: $output"; return 1; }
  [[ $output == *"type=exec severity=0 "*" (rank 1) terminated before first barrier"* ]] || { echo "$output"; return 1; }
  [ "$(<barrier)" = "Input/output error" ]
}

@test "a job is canceled, runs out of time, is killed if it does not end, and a signal to its tasks is an event" {
  with_shell --then=go:cancel=enough -- true <<'END'
exec {open}<><(:)
trap 'exit 143' TERM
printf '%s\n' '{"timestamp":1,"name":"data","context":{"stream":"stdout","rank":"0","data":"go"}}' | append output
read -rt 60 <&$open
END
  [ "$status" -eq 143 ] || { echo "exit code $status: $output"; return 1; }
  [ "$(recorded '[.exceptions[] | [.type, .severity, .note]]')" = '[["cancel",0,"enough"]]' ]
  with_shell -t 0.3s --kill-timeout=2 -- true <<'END'
exec {open}<><(:)
trap 'client listen shell-$id.; exit 9' ALRM
read -rt 60 <&$open
END
  [ "$status" -eq 9 ] || { echo "exit code $status: $output"; return 1; }
  [[ $output == *'stdout: subscribed'*'shell-'*'.kill '*' {"signum":9}'* ]] || { echo "$output"; return 1; }
  [ "$(recorded '[.exceptions[] | [.type, .severity]]')" = '[["timeout",0]]' ]
  with_shell --then=0:cancel --kill-timeout=0.05 -- true <<'END'
exec {open}<><(:)
trap '' TERM
printf '%s\n' '{"timestamp":2,"name":"shell.start"}' | append exec.eventlog
until read -rt 60 <&$open; do :; done
END
  [ "$status" -eq 137 ] || { echo "exit code $status: $output"; return 1; }
}

@test "a fault: answers are late, refused, garbage or cut off, or the broker goes away" {
  local said=() fault
  run timeout 60 "$broker" --fault="service.add:refuse=EEXIST" "$client" serve a-service
  [ "$status" -eq 1 ]
  [ "$output" = "File exists: refused, as a fault of the test" ]
  for fault in late=0.5 refuse=ENOSPC garbage=1 half=1 magic=1 die=1; do
    run timeout 60 "$broker" --fault="attr.*:$fault" --dir="$work/brokers" "$client" ask attr.get '{"name":"rank"}'
    said+=("$status ${lines[-1]}")
  done
  [ "${said[*]}" = '0 {"value":"0","flags":1} 1 No space left on device: refused, as a fault of the test 1 flux_client: what came is no message: a frame is cut off '\
'1 flux_client: what came is no message: a frame is cut off 1 flux_client: what came is no message: it begins with deadbeef, not with the magic number '\
'1 flux_client: the broker has closed the connection' ] || { printf '%s\n' "${said[@]}"; return 1; }
}

@test "an option that is wrong says what was expected" {
  local option text
  while IFS='|' read -r option text; do
    run -2 "$broker" "$option" true
    [[ ${lines[-1]} == "flux_broker: error: "*"$text"* ]] || { echo "$output"; return 1; }
  done <<'END'
--fault=kvs.commit:late|kvs.commit:late: expected TOPIC:KIND=VALUE
--fault=kvs.commit:refuse=ENOTHING|expected TOPIC:KIND=VALUE
--then=ready:jump|ready:jump: expected WHEN:ACTION
--time=soon|soon: expected a duration
--nodes=2|--size=1: there are fewer brokers than nodes
END
}
