#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# nacre report --bundle: one archive with all that is known of a job that runs, or has ended.
load control.bash

# The bundle $1 is unpacked to the folder b, without its own folder.
unpack() {
  rm -rf b && mkdir b
  zstd -dqc "$1" | tar -x -C b --strip-components=1
}

# Checks that the text is in no file of the unpacked bundle, nor in the details beside the list of jobs.
nowhere() {
  local text
  for text in "$@"; do
    ! grep -rF -- "$text" b "$NACRE_JOBS_DIR"/*.details || { echo "'$text' is there"; return 1; }
  done
}

is() { jq -e "$1" "b/$2" >/dev/null || { echo "not so in $2: $1"; cat "b/$2"; return 1; }; }

@test "of a job that has failed: report, exits, usage, plan, versions, options, output, the eventlog; named and counted by the manifest" {
  code=0
  OMP_NUM_THREADS=3 run_job -n2 --oversubscribe --usage -l -o verbose=1 sh -c 'echo "out $FLUX_TASK_RANK"; echo "err $FLUX_TASK_RANK" >&2; exit 3' >out 2>err || code=$?
  [ "$code" -eq 3 ]
  id=$("$front" jobs -aq)
  run -0 "$front" report --bundle last
  [[ $output == "nacre-$id.tar.zst: "*" files of job $id, "*" bytes; look through it"* ]]
  [ "$(stat -c %a "nacre-$id.tar.zst")" = 600 ]
  zstd -dqc "nacre-$id.tar.zst" | tar -tv >list
  [ "$(awk '{print $1}' list | sort -u)" = -rw------- ]
  run ! grep -vF " nacre-$id/" list
  unpack "nacre-$id.tar.zst"
  is '.format == 1 and .job == "'"$id"'" and .state == "ended" and .time > 1e9' MANIFEST.json
  # The manifest names all files, with their sizes.
  diff <(jq -r '.files[] | "\(.path) \(.bytes)"' b/MANIFEST.json | sort) <(cd b && find . -type f ! -name MANIFEST.json -printf '%P %s\n' | sort)
  grep -q 'ended with exit code 3' b/report.txt
  is '.end.code == 3' report.json
  is '.[0].record == "x3" and .[0].ranks == "0-1"' exits.json
  is '.measures.wall.n == 2' usage.json
  grep -q '^max RSS' b/usage.txt
  is '.["nacre-shell"] == "'"$("$front" --version | cut -d' ' -f2)"'" and (.kernel | startswith("Linux ")) and (.libraries | any(contains("libc.so")))' versions.json
  is 'any(.name == "verbose" and .value == 1 and .from == "jobspec") and any(.name == "usage")' options.json
  is '.values.OMP_NUM_THREADS == "3" and (.names | index("PATH"))' environment.json
  grep -q '^task 1 (local 1)' b/plan.txt
  grep -q '^tasks     2 on 1 node' b/plan.txt
  is '.tasks | length == 2' plan.json
  jq -se 'map(.name) | index("shell.init") != null and index("shell.start") != null' b/eventlog.jsonl
  grep -qx '0: out 0' b/output/last.txt
  grep -qx '1: err 1' b/output/last.txt
  is '.missing | any(.what == "doctor") and any(.what == "timeline")' MANIFEST.json
}

# bats test_tags=long
@test "of a job that runs, on two hosts: how far it is, what the doctor has found last, the output so far; the job goes on" {
  start_job 2 1 'echo "hello from $FLUX_TASK_RANK"; until [ -e go ]; do sleep 0.2; done' -o timeline
  wait_until grep -q 'hello from 1' out
  wait_until grep -q 'hello from 0' out
  "$front" doctor --twice=100ms "$id" >doctor.out
  run -0 "$front" report --bundle=b.tar.zst "$id"
  unpack b.tar.zst
  is '.state == "running"' MANIFEST.json
  grep -q 'ranks 0-1' b/report.txt
  is '.running == "0-1"' report.json
  is '(.groups | length) >= 1 and .time > 1e9' doctor.json
  grep -q '^=> ' b/doctor.txt
  grep -q '^launch ' b/timeline.txt
  is '.launched and (.steps | any(.name == "spawn"))' timeline.json
  grep -qx '1: hello from 1' b/output/last.txt
  is '.missing | any(.what == "plan" and (.why | contains("other hosts"))) and any(.what == "usage")' MANIFEST.json
  [ "$("$front" jobs -q)" = "$id" ]
  touch go
  ends_with 0
  # The doctor's last look is kept, as the ended job cannot be asked.
  "$front" report --bundle=after.tar.zst "$id"
  unpack after.tar.zst
  is '.groups | length >= 1' doctor.json
  is '.missing | any(.what == "output/last.txt" and (.why | contains("ended well")))' MANIFEST.json
}

@test "nothing that looks like a secret is in it: variables by the table, words of the command, options, messages, output" {
  code=0
  env MY_APP=app1 AWS_SECRET_ACCESS_KEY=sec1 SLURM_JWT=sec2 NACRE_TOKEN=sec3 OMPI_MCA_password=sec4 UCX_TLS=tcp OMP_PLACES=cores \
    NCCL_PROXY=http://user:sec5@proxy/ OMPI_MCA_x='token=sec6' SLURM_NOTE=eyJhbGciOiJIUzI1NiJ9.sec7sec7sec7sec7sec7 \
    "$front" run --shell="$NACRE_SHELL" -o site.api-key=sec8 -o site.url=ftp://me:sec9@there/x --env=GITHUB_AUTH=sec10 \
    sh -c 'echo "Authorization: Bearer sec11"; echo "the password=sec12 is it" >&2; echo fine; exit 2' sh --token sec13 --db-password=sec14 --user me >out 2>err || code=$?
  [ "$code" -eq 2 ]
  "$front" report --bundle=b.tar.zst last
  unpack b.tar.zst
  nowhere app1 sec1 sec2 sec3 sec4 sec5 sec6 sec7 sec8 sec9 sec10 sec13 sec14
  run ! grep -rF "Bearer sec11" b
  run ! grep -rF "password=sec12" b/output
  is '.names | index("MY_APP") and index("AWS_SECRET_ACCESS_KEY") and index("SLURM_JWT") and index("GITHUB_AUTH")' environment.json
  is '.values | .UCX_TLS == "tcp" and .OMP_PLACES == "cores" and (has("NCCL_PROXY") or has("SLURM_NOTE") | not)' environment.json
  is 'any(.name == "site.api-key" and .value == "(left out)")' options.json
  grep -q -- '--token (left out) --db-password=(left out) --user me' b/report.txt
  grep -qx fine b/output/last.txt
}

# bats test_tags=long
@test "tails of the files of output: the last 64 KiB of each, whose place and size the manifest has; those that cannot be read are named" {
  run_job -n2 --oversubscribe --output='out.{{task.rank}}' --error=err.all \
    sh -c 'if [ $FLUX_TASK_RANK = 0 ]; then seq 1 20000; else echo small; fi; echo "e $FLUX_TASK_RANK" >&2; until ls "$NACRE_JOBS_DIR"/*.details >/dev/null 2>&1; do sleep 0.02; done'
  "$front" report --bundle=b.tar.zst last
  unpack b.tar.zst
  [ "$(stat -c %s b/output/01-stdout-out.0)" -eq 65536 ]
  tail -c 65536 out.0 | cmp - b/output/01-stdout-out.0
  cmp out.1 b/output/02-stdout-out.1
  [ "$(sort b/output/03-stderr-err.all | xargs)" = "e 0 e 1" ]
  is '.files[] | select(.path == "output/01-stdout-out.0") | .bytes == 65536 and .of == {path: "'"$PWD"'/out.0", bytes: '"$(stat -c %s out.0)"'}' MANIFEST.json
  rm out.1
  mkfifo out.1
  "$front" report --bundle=b.tar.zst --force last
  unpack b.tar.zst
  is '.missing | any(.what == "output/02-stdout-out.1" and (.why | contains("is no file")))' MANIFEST.json
}

# bats test_tags=long
@test "of a job whose leader was killed: what was known as it ran" {
  start_job 1 1 'echo here; exec sleep 60'
  wait_until test -e "$NACRE_JOBS_DIR/$id.details"
  kill -KILL "$(<leader)"
  wait "$launcher" || :
  "$front" report --bundle=b.tar.zst "$id"
  unpack b.tar.zst
  grep -q vanished b/report.txt
  is '.names | length > 0' environment.json
  [ -s b/plan.txt ]
}

@test "of a job that was too short for details, and has ended well, the manifest says so" {
  run_job true
  rm -f "$NACRE_JOBS_DIR"/*.details
  "$front" report --bundle=b.tar.zst last
  unpack b.tar.zst
  is '.missing | any(.why | contains("half a second"))' MANIFEST.json
  [ -s b/report.txt ]
}

# bats test_tags=long
@test "a file that is there is not replaced without --force; a folder that is missing or not writable, a limit of the size of files: one line, and nothing is left" {
  run_job false || :
  echo mine >b.tar.zst
  run "$front" report --bundle=b.tar.zst last
  fails_with 1 "nacre report: b.tar.zst: exists already; --force replaces it"
  [ "$(<b.tar.zst)" = mine ]
  "$front" report --bundle=b.tar.zst --force last
  unpack b.tar.zst
  run "$front" report --bundle=none/b.tar.zst last
  fails_with 1 "cannot write to $PWD/none: No such file"
  [ ! -e none ]
  run "$front" report --bundle=/proc/b.tar.zst last
  fails_with 1 "/proc"
  run "$front" report --bundle="$PWD" --force last
  fails_with 1 "is no file"
  mkdir small
  run bash -c 'ulimit -f 0; exec "$0" report --bundle=small/b.tar.zst last' "$front"
  fails_with 1 "small/b.tar.zst: write: File too large"
  [ -z "$(ls -A small)" ]
  run "$front" report --bundle --usage last
  [ "$status" -eq 2 ]
  run "$front" report --force last
  [ "$status" -eq 2 ]
}

# bats test_tags=long,root
@test "on a full disk no part of a bundle is left" {
  needs_root "to mount a file system"
  run_job false || :
  mkdir small
  mount -t tmpfs -o size=4k none small
  head -c 4096 /dev/zero >small/full
  run "$front" report --bundle=small/b.tar.zst last
  rest=$(ls -A small)
  umount small
  fails_with 1 "No space left"
  [ "$rest" = full ]
}

@test "details go with their entry, and old ones that have none" {
  run_job sh -c 'until ls "$NACRE_JOBS_DIR"/*.details >/dev/null 2>&1; do sleep 0.02; done'
  [ -n "$(find "$NACRE_JOBS_DIR" -name '*.details')" ]
  [ "$(stat -c %a "$NACRE_JOBS_DIR"/*.details)" = 600 ]
  touch -d '8 days ago' "$NACRE_JOBS_DIR/fAAAA.details"
  rm "$NACRE_JOBS_DIR"/*.json
  "$front" jobs -aq
  [ ! -e "$NACRE_JOBS_DIR/fAAAA.details" ]
}
