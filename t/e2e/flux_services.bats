#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The services of a job in an instance of Flux: what clients ask its shells while it runs, in brokers of the tests' own (t/kit/flux_broker).
load lib.bash

# begin SIZE [OPTION...] -- SCRIPT: a job of tasks that run the script, in the background. Returns once task 0 runs, with $service.
begin() {
  local options=() size=$1 id
  shift
  while [[ $1 != -- ]]; do options+=("$1") && shift; done
  cat >task <<END
[ "\$FLUX_TASK_RANK" != 0 ] || { printf %s "\$FLUX_JOB_ID" >id.new; mv id.new id; }
$2
END
  timeout 60 "$NACRE_SOURCE_DIR/t/kit/flux_broker" --size="$size" --dir="$work/brokers" --shell="$NACRE_SHELL" -o cpu-affinity=off \
    "${options[@]}" -- bash task >out 2>err </dev/null 3>&- &
  job=$!
  until [[ -s id ]]; do
    kill -0 "$job" || { cat err; return 1; }
    sleep 0.05
  done
  id=$(<id)
  service=$UID-shell-f${id#ƒ}
}

# The job's exit code is this.
ends_with() {
  local code=0
  wait "$job" || code=$?
  [ "$code" -eq "$1" ] || { echo "exit code $code"; cat out err; return 1; }
}

# talk RANK: the script of flux_talk on standard input, to the service by that broker.
talk() { timeout 30 "$NACRE_SOURCE_DIR/t/kit/flux_talk" --uri="local://$work/brokers/local-$1" "${@:2}" "$service"; }

# `context NAME` of the job's guest.exec.eventlog.
context() { jq -c '.eventlogs["guest.exec.eventlog"][] | select(.name == "'"$1"'") | .context' brokers/record.json; }

@test "pty.interactive: a client attaches, types, resizes, and is told the exit" {
  begin 1 -o pty.interactive -- 'stty -echo; echo $FLUX_TERMINUS_SESSION; stty size; read x; echo got $x; stty size; exit 3'
  run talk 0 <<'END'
1+ terminus.0 {"type":"attach","mode":"rw","winsize":{"rows":30,"cols":100}}
wait "attach"
wait 24 80
2 terminus.list
wait "sessions"
3 terminus.0 {"type":"resize","winsize":{"rows":40,"cols":90}}
wait 3
4 terminus.0 {"type":"data","data":"hello\n"}
wait No data
END
  [ "$status" -eq 0 ]
  ends_with 3
  text=$(sed -n 's/^1 //p' <<<"$output" | grep '"data"' | jq -j .data)
  [[ $text == *got\ hello*40\ 90* ]] || { echo "$output"; return 1; }
  [[ $output == *'{"message":"session exiting","status":768,"type":"exit"}'* ]]
  jq -e '.sessions[0] | .id == 0 and .name == "task0" and .clients == 1 and .exited == 0' <<<"$(grep sessions <<<"$output" | cut -d' ' -f2-)"
  context shell.init | jq -e '.pty == "terminus.0" and .size == 1'
}

@test "pty.interactive: a client leaves, and the next one has what came meanwhile" {
  begin 1 -o pty.interactive -- 'stty -echo; echo one; read x; sleep 0.3; echo two; read x; exit 0'
  run talk 0 <<'END'
1+ terminus.0 {"type":"attach","mode":"rw","winsize":{"rows":30,"cols":100}}
wait one
2 terminus.0 {"type":"data","data":"x\n"}
wait 2
3 terminus.0 {"type":"detach"}
wait 3
4 terminus.0 {"type":"data","data":"x\n"}
wait 4
END
  [ "$status" -eq 0 ]
  [[ $output == *'"Client requested detach"'* && $output == *'4 error No such file or directory: this client is not attached'* ]] || { echo "$output"; return 1; }
  sleep 0.5
  run talk 0 <<'END'
1+ terminus.0 {"type":"attach","mode":"rw","winsize":{"rows":30,"cols":100}}
wait two
2 terminus.0 {"type":"data","data":"DQ==","encoding":"base64"}
wait No data
END
  [[ $status -eq 0 && $output != *one* ]] || { echo "$output"; return 1; }
  ends_with 0
}

@test "pty.interactive: a job that has ended waits for its first client, or for a signal" {
  begin 1 -o pty.interactive -- 'echo kept; exit 0'
  sleep 0.5
  kill -0 "$job"
  run talk 0 <<'END'
1+ terminus.0 {"type":"attach","mode":"rw","winsize":{"rows":30,"cols":100}}
wait No data
END
  [[ $status -eq 0 && $output == *kept* ]] || { echo "$output"; return 1; }
  ends_with 0
  rm id
  begin 1 -o pty.interactive -- 'exit 0'
  sleep 0.5
  run talk 0 <<'END'
1 terminus.kill {"id":0,"signal":15}
wait 1
END
  ends_with 0
}

@test "pty: terminals without a client's own are captured; requests that are wrong are refused in words" {
  begin 1 -n 2 -o pty -- 'stty -echo; read x; echo got $x; [ -t 1 ] && echo "$FLUX_TERMINUS_SESSION"'
  run talk 0 <<'END'
1+ terminus.1 {"type":"attach","mode":"rw","winsize":{"rows":30,"cols":100}}
wait attach
2 terminus.1 {"type":"attach","mode":"ro"}
wait 2
3 terminus.7 {"type":"attach","mode":"ro"}
wait 3
4 terminus.0 {"type":"attach","mode":"xy"}
wait 4
5 terminus.0 {"type":"attach","mode":"rw","winsize":{"rows":0,"cols":1}}
wait 5
6 terminus.0 []
wait 6
7 terminus.1 {"type":"data","data":"a\n"}
wait got a
8+ terminus.0 {"type":"attach","mode":"wo"}
wait attach
9 terminus.0 {"type":"data","data":"b\n"}
wait 9
wait 8 error No data
END
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  ends_with 0
  for each in '2 error File exists' '3 error Function not implemented: terminus.7: there is no such terminal' '4 error Invalid argument: mode: expected rw, ro or wo' \
    '5 error Invalid argument: winsize.rows: expected' '6 error Invalid argument'; do
    [[ $output == *"$each"* ]] || { echo "$each: $output"; return 1; }
  done
  [ "$(tr -d '\r' <out | sort | tr '\n' ' ')" = '0 1 got a got b ' ] || { cat out; return 1; }
}
