#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# container: tasks in containers of podman, without root, as on most clusters. The other runtimes are stand-ins of their command lines.
#
# The image is a folder with nothing but a mark and links to what this host has in /usr, which the tests bind.
load lib.bash

setup_file() {
  set -euo pipefail
  local root=$BATS_FILE_TMPDIR/root
  mkdir -p "$root"/{usr,etc,tmp,proc,dev,sys,run} && echo made by the test >"$root/mark"
  ln -s usr/bin usr/lib usr/lib64 usr/sbin "$root/"
  tar -C "$root" --owner=0 --group=0 --mode=a+rX -c . |
    podman import -q --change 'ENV OF_IMAGE=yes' --change 'ENV SHARED=image' --change 'WORKDIR /tmp' --change 'ENTRYPOINT ["false"]' - nacre-test
  # crun cannot use cgroups of both versions at once: those of version 2 are hidden in the namespace that podman
  # keeps for this user.
  if ((EUID != 0)) && mountpoint -q "$second_cgroups"; then podman unshare mount -t tmpfs none "$second_cgroups"; fi
}

teardown_file() {
  podman rmi -f nacre-test
  if ((EUID != 0)) && mountpoint -q "$second_cgroups"; then podman unshare umount "$second_cgroups"; fi
}

second_cgroups=/sys/fs/cgroup/unified # where a host has both versions

# nacre run with the image and all that its programs need.
in_image() { "$NACRE_BUILD_DIR/nacre" run --container=nacre-test,bind=/usr:/usr:ro "$@"; }

nothing_is_left() {
  local left
  left=$(podman ps -aq --filter label=nacre.job)
  [ -z "$left" ] || { podman ps -a; return 1; }
}

@test "the tasks run in the image, in the job's directory, as the user, and nothing stays" {
  # shellcheck disable=SC2016 # for the tasks
  (umask 027 && in_image -l -n 2 sh -c 'cat /mark; pwd; id -u; umask; echo >made$NACRE_TASK_RANK') >out
  printf '%s\n' "made by the test" "$PWD" "$UID" 0027 | sort >expected
  for rank in 0 1; do sed -n "s/^$rank: //p" out | sort | diff expected -; done
  [ -O made0 ]
  [ -O made1 ]
  nothing_is_left
}

@test "exit codes, those of podman's own among them, and signals are those of the tasks" {
  for code in 1 7 125 126 127; do
    run "-$code" in_image sh -c "exit $code"
    [[ $output == *"exited with code $code"* ]]
  done
  # shellcheck disable=SC2016 # for the task
  run in_image sh -c 'kill -KILL $$'
  [ "$status" -eq 137 ]
  [[ $output == *"killed by SIGKILL"* ]]
  run -127 in_image nosuch
  [[ $output == *"nosuch: No such file or directory"*"it was looked for in the container"* ]]
  nothing_is_left
}

@test "what the sweep of earlier jobs runs is no process that has outlived its task, and ends with the job" {
  mkdir slow
  # shellcheck disable=SC2016 # for the script
  printf '#!/bin/sh\n[ "$1" = ps ] || exec /usr/bin/podman "$@"\ntrap "" TERM\ntouch %s/swept\nsleep 76.5 & wait\nsleep 76.5\n' "$PWD" >slow/podman
  chmod +x slow/podman
  # shellcheck disable=SC2016 # for the task
  PATH=$PWD/slow:$PATH run -3 in_image sh -c 'until [ -e swept ]; do sleep 0.1; done; exit 3'
  [[ $output != *outlived* ]] || { echo "$output"; return 1; }
  run ! pgrep -u "$UID" -fx "sleep 76.5"
  nothing_is_left
}

@test "standard input and output are the tasks' own; a terminal, too" {
  seq 10000 >in
  in_image -n 2 -l cat <in >out
  sed -n 's/^1: //p' out | cmp - in
  in_image sh -c 'echo to stderr >&2' 2>err >out
  grep -qx "to stderr" err # where it takes long there is a line on that, too
  [ ! -s out ]
  in_image --pty=0 sh -c 'test -t 0 && test -t 1 && echo a terminal' >out
  grep -q "a terminal" out
}

@test "cpus, limits and descriptors are as without a container" {
  # shellcheck disable=SC2016 # for the task
  facts='grep -E "^(Cpus_allowed_list|Mems_allowed_list|Seccomp)" /proc/self/status; ulimit -a; ls /proc/self/fd; cat /proc/self/cgroup'
  "$NACRE_BUILD_DIR/nacre" run -n 2 --cpu-bind=core -o rlimit.nofile=77 -l sh -c "$facts" | sort >without
  in_image -n 2 --cpu-bind=core -o rlimit.nofile=77 -l sh -c "$facts" | sort >within
  diff without within
  grep -q " 77$" within
}

# bats test_tags=long
@test "what those of pyxis and podman type: doc/coming-from.md" {
  printf '#!/bin/sh\necho app ran\n' >app
  chmod +x app
  mkdir data
  "$NACRE_SOURCE_DIR/t/kit/coming_from" "pyxis, podman" >lines
  [ "$(wc -l <lines)" -ge 5 ]
  while read -r line; do
    line=${line//IMAGE/nacre-test,bind=/usr:/usr:ro}
    PATH=$NACRE_BUILD_DIR:$PATH run sh -c "${line//=\/data:/=$PWD/data:}" </dev/null
    [ "$status" -eq 0 ] && [ -n "$output" ] || { echo "$line: $status: $output"; return 1; }
  done <lines
  nothing_is_left
}

# bats test_tags=long
@test "what the tasks use is measured" {
  # shellcheck disable=SC2016 # for the task
  in_image --usage=used sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'
  jq -es 'any(.type == "task" and .user > 0 and .maxrss > 0)' used || { cat used; return 1; }
}

@test "signals that are sent to the job reach the tasks" {
  in_image --name=signalled sh -c 'trap "echo got it; exit 3" USR1; echo ready >ready; while :; do sleep 0.1; done' >out &
  wait_until 30 test -s ready
  wait_until 30 "$NACRE_BUILD_DIR/nacre" kill -s USR1 signalled
  wait $! || status=$?
  [ "$status" -eq 3 ]
  [ "$(<out)" = "got it" ]
  nothing_is_left
}

@test "however the job ends, no container stays" {
  # A background process of bash would ignore SIGINT.
  env --default-signal=INT "$NACRE_BUILD_DIR/nacre" run --container=nacre-test,bind=/usr:/usr:ro -n 2 \
    sh -c 'echo >ready; trap "" INT TERM; sleep 1000' &
  wait_until 30 test -s ready
  kill -INT $! # a second interrupt at once
  pause 0.3
  kill -INT $!
  wait $! || status=$?
  [ "$status" -ne 0 ]
  nothing_is_left
  rm ready
  run in_image --time-limit=1s sleep 1000
  [ "$status" -ne 0 ]
  nothing_is_left
  # shellcheck disable=SC2016 # for the task
  run in_image -n 2 -K sh -c '[ $NACRE_TASK_RANK = 0 ] && kill -SEGV $$; sleep 1000'
  [ "$status" -eq 139 ]
  nothing_is_left
}

@test "if the shell is killed its tasks end and the container goes" {
  in_image sh -c 'echo $$ >pid; sleep 1000' &
  wait_until 30 test -s pid
  kill -KILL "$(ps -o ppid= -p "$(<pid)")"
  wait $! || status=$?
  [ "$status" -ne 0 ]
  wait_until 30 nothing_is_left >/dev/null
  # shellcheck disable=SC2016 # for eval
  wait_until 30 eval '! kill -0 "$(<pid)" 2>/dev/null'
}

# bats test_tags=long
@test "a podman that hangs at the start ends with the job" {
  mkdir bin
  printf '#!/bin/sh\ntrap "" TERM\n: >begun\nwhile :; do sleep 43.25; done\n' >bin/podman
  chmod +x bin/podman
  PATH=$PWD/bin:$PATH "$NACRE_BUILD_DIR/nacre" run --container=nacre-test true 2>err &
  wait_until 30 test -e begun
  kill -TERM $!
  wait $! || status=$?
  [ "$status" -eq 143 ]
  grep "podman hangs, and is killed" err
  run ! pgrep -u "$UID" -f "$PWD/bin/podman"
  run ! pgrep -u "$UID" -fx "sleep 43.25"
}

# bats test_tags=long
@test "what is left where all processes of a job are killed the next job removes" {
  in_image sh -c 'echo $$ >pid; sleep 1000' &
  wait_until 30 test -s pid
  job=$(podman ps -q --filter label=nacre.job)
  shell=$(ps -o ppid= -p "$(<pid)" | tr -d ' ')
  conmon=$(podman inspect -f '{{.State.ConmonPid}}' "$job")
  keeper=$(podman inspect -f '{{.State.Pid}}' "$job")
  # shellcheck disable=SC2046 # numbers
  kill -KILL "$conmon" "$keeper" "$shell" $(pgrep -P "$shell" podman)
  wait $! || status=$?
  podman container exists "$job"
  # shellcheck disable=SC2016 # for the task
  in_image sh -c 'i=0; while [ $i -lt 100 ] && [ ! -e swept ]; do sleep 0.1; i=$((i+1)); done' &
  # shellcheck disable=SC2016 # for eval
  wait_until 30 eval '! podman container exists "$job"'
  touch swept
  wait $!
  nothing_is_left
}

# bats test_tags=long
@test "two jobs of one image at once" {
  in_image sh -c 'echo >one; while [ ! -e two ]; do sleep 0.05; done; cat /mark' >out1 &
  in_image sh -c 'echo >two; while [ ! -e one ]; do sleep 0.05; done; cat /mark' >out2
  wait $!
  cmp out1 out2
  nothing_is_left
}

# bats test_tags=long
@test "tasks that start again run in the container, too" {
  # shellcheck disable=SC2016 # for the task
  in_image --restart=on-failure,max=2,backoff=0s sh -c 'cat /mark >>marks; [ $NACRE_TASK_TRY = 3 ]'
  [ "$(wc -l <marks)" -eq 3 ]
  nothing_is_left
}

@test "of the variables those of the host's places are the image's, and so is what the job has only inherited" {
  export SHARED=host ONLY_HOST=yes LD_LIBRARY_PATH=/nowhere
  # shellcheck disable=SC2016 # for the task
  print='echo "$PATH|$OF_IMAGE|$SHARED|$ONLY_HOST|${LD_LIBRARY_PATH-none}|$NACRE_JOB_SIZE"'
  in_image sh -c "$print" >out
  [ "$(<out)" = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin|yes|image|yes|none|1" ]
  "$NACRE_BUILD_DIR/nacre" run --container=nacre-test,bind=/usr:/usr,env=SHARED,env=LD_LIBRARY_PATH sh -c "$print" >out
  [ "$(<out)" = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin|yes|host|yes|/nowhere|1" ]
}

@test "a variable that --env sets counts, whatever the image has" {
  # shellcheck disable=SC2016 # for the task
  in_image --env=PATH=/usr/bin:/bin --env=SHARED='a, b' sh -c 'echo "$PATH|$SHARED|$OF_IMAGE"' >out
  [ "$(<out)" = "/usr/bin:/bin|a, b|yes" ]
}

@test "binds: a file, a folder that is only read, and what is wrong with them" {
  mkdir folder && echo text >file
  in_image -o container.bind="[\"$PWD/file:/else/where\",\"$PWD/folder:/folder:ro\"]" \
    sh -c 'cat /else/where; echo >/folder/new || echo refused' >out 2>/dev/null
  [ "$(<out)" = $'text\nrefused' ]
  bad() { # IMAGE... TEXT
    run "$NACRE_BUILD_DIR/nacre" run --container="$1" true
    [ "$status" -eq "$2" ]
    [[ $output == *"$3"* ]] || { echo "no '$3' in $output"; return 1; }
  }
  bad nacre-test,bind=/a 2 "bind='/a': expected SOURCE:TARGET"
  bad nacre-test,bind=a:/b 2 "both paths have to be absolute"
  bad nacre-test,bind=/a:b 2 "both paths have to be absolute"
  bad nacre-test,bind=/usr:/ 2 "the target may not be the root"
  bad nacre-test,bind=/usr:/x,bind=/etc:/x 2 "another one has /x as its target, too"
  bad nacre-test,bind=/nowhere/at/all:/x 1 "/nowhere/at/all: No such file or directory"
  bad nacre-test,binds=/a:/b 2 "there is no 'binds'; did you mean bind?; container has bind, env, runtime"
  bad nacre-test,runtime=padman 2 "did you mean podman?"
  bad ,bind=/a:/b 2 "expected the name of an image"
  bad nacre-test,/a:/b 2 "expected NAME=VALUE behind a comma"
}

@test "an image that is nowhere is one line with the host and what to do, and no task starts" {
  run "$NACRE_BUILD_DIR/nacre" run -n 2 --container=localhost/nosuch:1 touch started
  [ "$status" -eq 1 ]
  last=${lines[-1]}
  [[ $last == *"container: localhost/nosuch:1 is not on "*", and podman cannot bring it: "*"(try there: podman pull localhost/nosuch:1; or bring it before the job)" ]]
  [ ! -e started ]
}

@test "an image is brought once to a host, whatever the number of its shells" {
  # There is no registry: what podman would pull is tagged.
  mkdir bin
  real=$(command -v podman)
  cat >bin/podman <<END
#!/bin/sh
[ "\$1" = pull ] || exec $real "\$@"
echo pull >>$PWD/pulls
echo "Getting image source signatures" >&2
sleep 2
$real tag nacre-test "\$2" && echo "\$2"
END
  chmod 755 bin/podman
  PATH=$PWD/bin:$PATH run --separate-stderr "$NACRE_BUILD_DIR/nacre" run --hosts=localhost,localhost -n 2 \
    --container="localhost/brought:1,bind=/usr:/usr" cat /mark
  podman untag nacre-test localhost/brought:1
  [ "$status" -eq 0 ]
  [ "$output" = $'made by the test\nmade by the test' ]
  # shellcheck disable=SC2154 # of bats
  [[ $stderr == *"container: "*": podman "*" localhost/brought:1, "*" s"* ]] # for any operation of podman
  [ "$(wc -l <pulls)" -eq 1 ]
  nothing_is_left
}

# bats test_tags=long
@test "an image may be a file" {
  podman save -q -o image.tar nacre-test
  "$NACRE_BUILD_DIR/nacre" run --container="docker-archive:$PWD/image.tar,bind=/usr:/usr" cat /mark >out
  [ "$(<out)" = "made by the test" ]
  nothing_is_left
}

@test "a runtime that is not there is named; --explain names the one that is" {
  run "$NACRE_BUILD_DIR/nacre" run --container=nacre-test,runtime=enroot true
  [ "$status" -eq 1 ]
  [[ ${lines[-1]} == *"enroot is not installed, or not in the shell's PATH" ]]
  run "$NACRE_BUILD_DIR/nacre" run --container=nacre-test --explain true
  [[ $output == *"in a container of nacre-test, made by podman"* ]]
  nothing_is_left
}

@test "programs of MPICH and Open MPI find each other from within" {
  mpicc.mpich -o allreduce "$BATS_TEST_DIRNAME/mpi/allreduce.c"
  [ "$(in_image -n 4 ./allreduce)" = "allreduce ok, 4 ranks" ]
  mpicc.openmpi -o allreduce_ompi "$BATS_TEST_DIRNAME/mpi/allreduce.c"
  [ "$("$NACRE_BUILD_DIR/nacre" run --container=nacre-test,bind=/usr:/usr:ro,bind=/etc:/etc:ro -n 2 -o pmi=pmix ./allreduce_ompi)" = "allreduce ok, 2 ranks" ]
  nothing_is_left
}

# bats test_tags=root
@test "root's containers are as other users'" {
  # shellcheck disable=SC2016 # for the shell
  of_one_version=(unshare -m sh -c '! mountpoint -q "$0" || umount "$0"; exec "$@"' "$second_cgroups")
  # shellcheck disable=SC2016 # for the tasks
  "${of_one_version[@]}" "$NACRE_BUILD_DIR/nacre" run -n 2 --container=nacre-test,bind=/usr:/usr:ro sh -c 'cat /mark; id -u; echo >made$NACRE_TASK_RANK' >out
  [ "$(sort out)" = $'0\n0\nmade by the test\nmade by the test' ]
  [ -e made1 ]
  nothing_is_left
  # shellcheck disable=SC2016 # for the task
  run "${of_one_version[@]}" "$NACRE_BUILD_DIR/nacre" run --container=nacre-test,bind=/usr:/usr sh -c 'kill -SEGV $$'
  [ "$status" -eq 139 ]
  nothing_is_left
}

# bats test_tags=long
@test "processes that tasks spawn are in the container, too" {
  cat >spawn.c <<'END'
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char** argv) {
  MPI_Comm parent, others;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL)
    MPI_Comm_spawn("./spawn", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others, MPI_ERRCODES_IGNORE);
  printf("%s: %s\n", parent == MPI_COMM_NULL ? "parent" : "child", access("/mark", F_OK) == 0 ? "within" : "without");
  MPI_Comm_disconnect(parent == MPI_COMM_NULL ? &others : &parent);
  return MPI_Finalize();
}
END
  mpicc.openmpi -o spawn spawn.c
  in_image -o container.bind=/etc:/etc:ro -o pmi=pmix ./spawn >out
  [ "$(sort out)" = $'child: within\nchild: within\nparent: within' ]
  nothing_is_left
}

# A program $1 that notes its arguments, and does the script $2 then.
stand_in() {
  mkdir -p bin
  printf '#!/bin/sh\necho "%s $*" >>%s/said\n%s\n' "$1" "$PWD" "$2" >"bin/$1"
  chmod 755 "bin/$1"
}

@test "apptainer, by a stand-in: the image is pulled once, and each task executed" {
  # shellcheck disable=SC2016 # for the script
  stand_in apptainer 'case $1 in pull) echo image >"$3" ;; exec) while [ "${1%.sif}" = "$1" ]; do shift; done; test -s "$1" && shift && exec "$@" ;; esac'
  PATH=$PWD/bin:$PATH "$NACRE_BUILD_DIR/nacre" run -n 2 --container=docker://debian:12,runtime=apptainer,bind=/usr:/x:ro sh -c 'exit 3' || status=$?
  [ "$status" -eq 3 ]
  [ "$(grep -c "^apptainer pull --force .*/image.sif docker://debian:12$" said)" -eq 1 ]
  [ "$(grep -c "^apptainer exec --pwd=$PWD --bind=/usr:/x:ro --bind=$PWD:$PWD .*/image.sif sh -c exit 3$" said)" -eq 2 ]
  PATH=$PWD/bin:$PATH run "$NACRE_BUILD_DIR/nacre" run --container=/no/image.sif,runtime=apptainer true
  [ "$status" -eq 1 ]
  [[ $output == *"/no/image.sif is not on "*"No such file or directory"* ]]
}

@test "enroot, by a stand-in: the image becomes a container of the node, which is removed" {
  # shellcheck disable=SC2016 # for the script
  stand_in enroot 'case $1 in import) echo image >"$3" ;; start) while [ "$1" != sh ]; do shift; done; exec "$@" ;; esac'
  PATH=$PWD/bin:$PATH "$NACRE_BUILD_DIR/nacre" run -n 2 --container=nvcr.io/a/b:1,runtime=enroot sh -c 'kill -TERM $$' || status=$?
  [ "$status" -eq 143 ]
  name=$(sed -n 's/^enroot create --name \(nacre-[^ ]*\) .*image.sqsh$/\1/p' said)
  grep -q "^enroot import --output .*/image.sqsh docker://nvcr.io#a/b:1$" said
  [ "$(grep -c "^enroot start --rw .*--env=NACRE_TASK_RANK .*$name sh -c cd" said)" -eq 2 ]
  [ "$(tail -n 1 said)" = "enroot remove --force $name" ]
  run ! grep -q -e --env=PATH said
}

@test "docker, by a stand-in: a container for each task, which is removed if its client was killed" {
  # shellcheck disable=SC2016 # for the script
  stand_in docker 'case $1 in image) exit 1 ;; run) kill -KILL $$ ;; esac'
  PATH=$PWD/bin:$PATH run "$NACRE_BUILD_DIR/nacre" run --container=debian:12,runtime=docker cat
  [ "$status" -eq 137 ]
  grep -qx "docker pull debian:12" said
  name=$(sed -n 's/^docker run .*--name=\(nacre-[^ ]*\) .*--entrypoint=cat debian:12$/\1/p' said)
  grep -qx "docker rm --force $name" said
}
