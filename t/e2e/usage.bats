#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What tasks use: the options usage and joblog, nacre run and launch --usage and --joblog, nacre report --usage.
load control.bash

is() { # FILTER [FILE]: it is true of all of its lines together
  jq -se "$1" "${2:-u.jsonl}" >/dev/null || { echo "not so: $1"; cat "${2:-u.jsonl}" err; return 1; }
}

r='case $FLUX_TASK_RANK in'
full_block=$'\xe2\x96\x88' # U+2588: where no locale is set, bash knows no \u2588

@test "rows of tasks of two shells as lines of JSON: one burns cpu time, one touches memory, one is killed, one writes" {
  job 2 2 "$r 0) i=0; while [ \$i -lt 200000 ]; do i=\$((i + 1)); done;;
    1) exec python3 -c 'b = bytearray(300 << 20)';;
    2) kill -KILL \$\$;;
    3) printf 12345; printf 123 >&2; cat $NACRE_SHELL >/dev/null;; esac" --usage=u.jsonl
  [ "$code" -eq 137 ]
  is 'map(.type) == ["task", "task", "task", "task", "node", "node", "summary"]'
  is '[.[:4][] | .rank] == [0, 1, 2, 3] and [.[:4][] | .host] == ["node0", "node0", "node1", "node1"]'
  is '.[:4] | all(.wall >= 0 and .started > 1e9 and .user >= 0 and .maxrss > 0 and .minor_faults > 0 and .voluntary_switches >= 0)'
  is '.[0].user > 0.02 and .[0].wall >= .[0].user / 2 and .[0].code == 0'
  is '.[1].maxrss > (300 * 1024 * 1024) and (.[1] | has("maxrss_is_bound") | not)'
  is '.[2].signal == 9 and (.[2] | has("code") | not)'
  is '.[3].stdout == 5 and .[3].stderr == 3 and .[0].stdout == 0'
  is ".[3].read_chars >= $(stat -c %s "$NACRE_SHELL") and .[3].written_chars >= 8"
  is '.[4:6] | map([.shell, .host, .tasks]) == [[0, "node0", 2], [1, "node1", 2]]'
  is '.[4].cpu >= .[0].user and .[6].measures.maxrss.max.rank == 1 and .[6].measures.maxrss.max.host == "node0"'
}

# bats test_tags=long
@test "the memory of a small task is at most the shell's, which is said" {
  job 1 1 true -o usage=u.jsonl
  is '.[0].maxrss_is_bound == true and .[0].maxrss > 0'
  job 1 1 true --usage
  grep -qE '^nacre: max RSS +<=[0-9.]+M ' err
}

@test "a sum of peaks is not made, and sums are those of the rows" {
  job 2 2 'echo "$FLUX_TASK_RANK"' -o usage=u.jsonl
  is '.[-1].measures.maxrss | has("sum") | not'
  is '.[-1].measures.output.sum == 8 and .[-1].measures.output.n == 4'
  is '(.[-1].measures.user.sum - ([.[:4][].user] | add)) * 1000 | . < 1 and . > -1'
}

@test "the summary at the end of the job: on standard error, or an event; not without the option" {
  job 2 2 'echo out' --usage
  [ "$(sort -u out)" = out ]
  grep -q '^nacre: usage: 4 of 4 tasks ended, .* of cpu time$' err
  grep -qE '^nacre: +MIN +RANK +MEDIAN +MAX +RANK$' err
  grep -qE '^nacre: time +[0-9.]+s +[0-3] on node[01] ' err
  grep -qE '^nacre: output +4 +0 on node0 +4 +4 +0 on node0$' err
  grep -qE '^nacre: node1 +2 +[0-9.]+s ' err
  job 2 2 true --usage --format=json
  jq -se 'map(select(.name == "usage").context | [.tasks, .ended]) == [[4, 4]]' out
  [ ! -s err ]
  job 2 2 true
  [ ! -s err ]
}

# bats test_tags=long
@test "who is far from the others is named" {
  write_nodes 2 4
  job 2 4 "[ \$FLUX_TASK_RANK != 6 ] || exec python3 -c 'b = bytearray(400 << 20)'" --usage
  grep -q '^nacre: far from the others: task 6 on node1: .*max RSS 4[0-9.]*M (median [<=]*[0-9.]*M)' err
  # On a busy machine a task's `true` may take far longer than the others': only that may be named.
  run ! grep -E 'far from the others: task [0-57] ' <(grep -vE ': time [0-9.]+s \(median [<=]*[0-9.]+s\)$' err)
}

# bats test_tags=long
@test "one shell without a launcher, and nacre run on this host" {
  prepare 2 true
  run --separate-stderr nacre -o usage
  [ "$status" -eq 0 ]
  [[ $stderr == *"nacre: usage: 2 of 2 tasks ended"* ]]
  run_job -n2 --oversubscribe --usage true 2>err
  grep -q 'nacre: usage: 2 of 2 tasks ended' err
  run_job -n2 --oversubscribe --usage=u.jsonl --joblog=j sh -c 'exit 0'
  is '.[-1].ended == 2'
  [ "$(cut -f9 j | sort -u)" = "$(printf "Command\nsh -c 'exit 0'")" ]
}

# bats test_tags=long
@test "--joblog has the columns of GNU parallel, with several programs too" {
  job 2 2 "$r 1) echo 12345; exit 3;; 2) kill -TERM \$\$;; 3) echo 1; echo 2 >&2;; esac" --joblog=j
  [ "$code" -eq 143 ]
  [ "$(head -n 1 j)" = "$(printf 'Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand')" ]
  [ "$(wc -l <j)" -eq 5 ]
  [ "$(tail -n +2 j | sort -n | cut -f1,2,5-8)" = "$(printf '1\tnode0\t0\t0\t0\t0\n2\tnode0\t0\t6\t3\t0\n3\tnode1\t0\t0\t0\t15\n4\tnode1\t0\t4\t0\t0')" ]
  [ "$(tail -n +2 j | awk -F'\t' '$3 > 1e9 && $4 >= 0 && $4 < 200' | wc -l)" -eq 4 ]
  [ "$(tail -n +2 j | awk -F'\t' '{print NF}' | sort -u)" = 9 ]
  [ ! -s err ] || run ! grep -q usage err
  printf '0-1 echo one two\n2 echo %%t\n' >programs
  run_job --multi-prog=programs -n3 --oversubscribe --joblog=j >out
  [ "$(tail -n +2 j | sort -n | cut -f9)" = "$(printf 'echo one two\necho one two\necho 2')" ]
}

@test "tasks that could not be started, and those that never were" {
  prepare 3 /no/such/program
  run -127 --separate-stderr nacre -o usage=u.jsonl -o joblog=j
  is '.[-1].ended == 0 and .[-1].unstarted >= 1 and .[-1].measures == {}'
  is '.[0].started == null and .[0].code == 127 and (.[0] | has("wall") | not)'
  [ "$(sed -n 2p j | cut -f3,7)" = "$(printf '0.000\t127')" ]
  run -127 --separate-stderr nacre -o usage -o exit-on-error=off
  [[ $stderr == *"nacre: usage: 0 of 3 tasks ended; 3 could not be started"* ]]
  cat >rc.lua <<'END'
plugin.register{name = "no", handlers = {{topic = "shell.post-init", fn = function() error("not today") end}}}
END
  run --separate-stderr nacre --initrc=rc.lua -o usage -o joblog=j
  [ "$status" -ne 0 ]
  [[ $stderr == *"nacre: usage: 0 of 3 tasks ended"* ]]
  [ "$(wc -l <j)" -eq 1 ]
}

# bats test_tags=long
@test "a shell that is lost: what it has not sent is not known" {
  write_nodes 3 1
  write_jobspec 3 sh -c "$r 1) until [ -e others ]; do sleep 0.1; done; kill -KILL \$PPID; sleep 100;; *) touch o.\$FLUX_TASK_RANK;
    [ -e o.0 ] && [ -e o.2 ] && touch others; until [ -e gone ]; do sleep 0.1; done;; esac"
  launch -R R.json -o cpu-affinity=off --local=3 -o tolerate-loss -o usage=u.jsonl >out 2>err &
  launcher=$!
  wait_until grep -q lost err
  touch gone
  wait "$launcher" || :
  is '.[-1].missing == "1" and .[-1].ended == 2 and .[-1].tasks == 3'
  is 'map(select(.type == "node").shell) == [0, 2]'
}

@test "a file that cannot be made is refused; one that cannot be written is a warning, and the job's exit code stays" {
  for option in usage joblog usage-plot report timeline; do
    job 1 2 'touch ran' "--$option=/no/such/dir/u"
    [ "$code" -eq 1 ] || { cat err; return 1; }
    [ "$(grep -c "$option: .*/no/such/dir/u: No such file or directory" err)" -eq 1 ] || { cat err; return 1; }
    [ ! -e ran ]
  done
  job 1 1 true --usage=/dev/full
  [ "$code" -eq 0 ]
  grep -qF '/dev/full: No space left on device' err
}

@test "bad options are refused, with the remedy" {
  write_nodes 1 1
  write_jobspec 1 true
  run launch -R R.json --local=1 --usage=a -o usage=b
  [ "$status" -eq 2 ]
  [[ $output == *"--usage=a and -o usage=b contradict each other"* ]]
  run launch -R R.json --local=1 --joblog=
  [ "$status" -eq 2 ]
  run launch -R R.json -o cpu-affinity=off --local=1 -o 'usage={"a":1}'
  [ "$status" -eq 1 ]
  [[ $output == *"usage: expected a file, or the number of a descriptor"* ]]
  run "$front" report --all
  [ "$status" -eq 2 ]
  run "$front" report --usage --policy=max
  [ "$status" -eq 2 ]
}

# bats test_tags=long
@test "nacre report --usage: while the job runs, with a row for each task that has ended; and after its end" {
  start_job 2 2 "$r 1|3) echo x;; *) until [ -e go ]; do sleep 0.1; done;; esac" -o usage=u.jsonl
  wait_until eval '[ "$("$front" report --usage --all --json "$id" | jq -s "map(select(.type == \"task\").rank)" -c)" = "[1,3]" ]'
  "$front" report --usage "$id" >text
  grep -q '^usage: 2 of 4 tasks ended' text
  run ! grep -q 'lost or late' text
  "$front" report --usage --all "$id" >text
  grep -qE '^1 +node0 +x0 +[0-9.]+s ' text
  touch go
  ends_with 0
  "$front" report --usage --json "$id" >after
  is 'map(.type) == ["summary"] and .[0].ended == 4 and .[0].measures.output.sum == 4 and (.[0].nodes | length) == 2' after
  "$front" report --usage "$id" >text
  grep -q '^usage: 4 of 4 tasks ended' text
  run "$front" report --usage --all "$id"
  [ "$status" -eq 1 ]
  [[ $output == *"job $id has ended: --all is for one that runs"* ]]
}

@test "nacre report --usage of a job that measures nothing: cpu time and the largest memory, by one shell and by four" {
  for shells in 1 4; do
    start_job "$shells" 2 "until [ -e go$shells ]; do sleep 0.1; done
      [ \$FLUX_TASK_RANK != $((2 * shells - 1)) ] || exec python3 -c 'b = bytearray(300 << 20); [None for _ in range(10**6)]'"
    run "$front" report --usage "$id"
    [ "$status" -eq 1 ]
    [[ $output == *"what its tasks use is not measured, and only its end tells their CPU time and largest RSS: start it with --usage, or -o usage"* ]]
    touch "go$shells"
    ends_with 0
    "$front" report --usage -q "$id" >text
    grep -qE "^usage: $((2 * shells)) of $((2 * shells)) tasks ended, [0-9.]+s of cpu time, max RSS of the largest 3[0-9.]+M$" text || { cat text; return 1; }
    grep -q '^more is known of a job that is started with --usage' text
    "$front" report --usage --json "$id" >u.jsonl
    is ".[0] | .tasks == $((2 * shells)) and .ended == .tasks and .cpu > 0.03 and .maxrss > (300 * 1024 * 1024) and (has(\"maxrss_is_bound\") | not)"
    run "$front" report --usage --plot=x.svg "$id"
    [ "$status" -eq 1 ]
    [[ $output == *"--plot=x.svg: what its tasks have used was not measured, so there is nothing to draw: start it with --usage, or -o usage"* ]]
    [ ! -e x.svg ]
  done
}

@test "without --usage: of small tasks the largest memory is at most the shell's; those of a lost shell are missing" {
  job 3 2 'case $FLUX_TASK_RANK in 5) while [ ! -e others ]; do sleep 0.1; done; kill -KILL $PPID;; 0) : >others;; esac' -o on-lost=go-on
  "$front" report --usage -q last >text
  grep -qE '^usage: 4 of 6 tasks ended, [0-9.]+s of cpu time, max RSS of the largest <=[0-9.]+M; not known, as their shell is lost or late: 4-5$' text || { cat text err; return 1; }
  "$front" report --usage --json last >u.jsonl
  is '.[0].missing == "4-5" and .[0].maxrss_is_bound == true'
}

# SVG that a parser takes, with BARS bars of time.
is_picture() { # FILE BARS
  python3 - "$1" "$2" <<'END'
import sys
import xml.etree.ElementTree as tree

root = tree.parse(sys.argv[1]).getroot()
svg = "{http://www.w3.org/2000/svg}"
assert root.tag == svg + "svg", root.tag
panels = {}
for group in root.findall(svg + "g"):
    panels[group.find(svg + "text").text.split(":")[0]] = group.findall(svg + "g")
assert len(panels["time"]) == int(sys.argv[2]), {name: len(bars) for name, bars in panels.items()}
width, height = float(root.get("width")), float(root.get("height"))
for rect in root.iter(svg + "rect"):
    x, y = float(rect.get("x", 0)), float(rect.get("y", 0))
    assert 0 <= x <= width and 0 <= y <= height, rect.attrib
    assert x + float(rect.get("width")) <= width + 1 and y + float(rect.get("height")) <= height + 1, rect.attrib
END
}

@test "of a set-user-ID program an ordinary user may not know what it has read: that is said once" {
  ((EUID != 0)) || skip "root may know it"
  write_nodes 1 3
  write_jobspec 3 sh -c '[ $FLUX_TASK_RANK = 0 ] || exec su --version'
  launch --local=1 -R R.json -o cpu-affinity=off --usage=u.jsonl >out 2>err
  [ "$(grep -c 'what 2 of the tasks have read and written only root may know' err)" -eq 1 ] || { cat err; return 1; }
  is '.[0].read_chars > 0 and (.[1:3] | all(has("read_chars") | not)) and .[1].user >= 0'
}

# bats test_tags=long
@test "a picture at the end of the job, of a job that has ended, and of one that runs" {
  job 2 2 'echo out' --usage-plot=u.svg
  [ "$code" -eq 0 ]
  [ ! -s err ]
  is_picture u.svg 4
  grep -qF "<title>job $("$front" jobs -aq | awk '{print $1}'): sh -c 'echo out'</title>" u.svg || { head -5 u.svg; return 1; }
  "$front" report last --usage --plot=later.svg >out
  is_picture later.svg 4
  grep -q '^time ' out
  run ! grep -q "$full_block" out
  run "$front" report last --plot=x.svg
  [ "$status" -eq 2 ]
  run "$front" report last --usage --plot=/no/such/dir/x.svg
  [ "$status" -eq 1 ]
  [[ $output == *"/no/such/dir/x.svg: No such file or directory"* ]]
  start_job 1 3 '[ $FLUX_TASK_RANK = 2 ] || exit 0; exec sleep 600' -o usage -o exit-timeout=none
  wait_until eval '[ "$("$front" report --usage --json "$id" | jq .ended)" = 2 ]'
  "$front" report --usage --plot=runs.svg "$id" >out
  is_picture runs.svg 2
  "$front" kill "$id"
  ends_with 143
}

@test "block characters only on a terminal that shows UTF-8" {
  job 1 3 true --usage
  on_terminal() { script -qec "env -u LC_ALL -u LC_CTYPE LANG=$1 TERM=$2 '$front' report last --usage" /dev/null </dev/null; }
  on_terminal C.UTF-8 xterm >with
  grep -q 'MAX  *RANK  RANKS 0-2' with || { cat with; return 1; }
  grep -q "^time .*  .*$full_block" with || { cat with; return 1; }
  for each in "C xterm" "C.UTF-8 dumb"; do
    # shellcheck disable=SC2086 # two words
    on_terminal $each >without
    grep -q '^time ' without
    run ! grep -q RANKS without
  done
}
