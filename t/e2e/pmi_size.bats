#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What the programs of a job may store by PMI.
load pmi.bash

# Puts $1 keys with values of 1000 bytes; prints how many were taken and the most memory that the shell had meanwhile, in MiB.
put_much() {
  cat >put.py <<'END'
import os, re, socket, sys
s = socket.socket(fileno=int(os.environ["PMI_FD"]))
answers = s.makefile("r")
def ask(text):
    s.sendall(text.encode() + b"\n")
    return answers.readline()
ask("cmd=init pmi_version=1 pmi_subversion=1")
space = ask("cmd=get_my_kvsname").split("kvsname=")[1].split()[0]
taken = sum("rc=0" in ask(f"cmd=put kvsname={space} key=k{i} value={'x' * 1000}") for i in range(int(sys.argv[1])))
with open(f"/proc/{os.getppid()}/status") as status:
    print(taken, int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) // 1024)
ask("cmd=finalize")
END
  prepare 1 python3 put.py "$1"
}

@test "pmi.max-size: what a job puts beyond it is refused, and that is said once" {
  clients 2 init 'cmd=put kvsname=%k key=a%r value=12345' has:rc=0 barrier \
    '1:cmd=put kvsname=%k key=b value=1' '1:has:rc=-1 msg=the_keys_of_the_job_would_have' \
    '1:cmd=put kvsname=%k key=c value=1' 1:has:rc=-1 'cmd=get kvsname=%k key=a1' has:value=12345 barrier finalize
  run nacre -o pmi.max-size=450
  [ "$status" -eq 0 ] || { echo "$output"; return 1; }
  [[ $output =~ ^"nacre-shell[0]: warn: pmi: rank 1"[^$'\n']*": what it puts is refused: with it the keys of the job would have "[0-9]+" bytes, and they may have 450 (-o pmi.max-size=SIZE)"$ ]]
  run nacre -o pmi.max-size=1G
  [ "$status" -eq 9 ]
  run nacre -o pmi.max-size=much
  ends_with 1 "pmi.max-size: expected a number of bytes, such as 4096 or \"10M\", got \"much\""
}

# bats test_tags=long
@test "a job that puts without end takes no more memory than pmi.max-size says, and little more than it puts" {
  # An option of the sanitizer, if it is there: it keeps no freed memory.
  export ASAN_OPTIONS=quarantine_size_mb=0:$ASAN_OPTIONS
  put_much 1
  run nacre
  [ "$status" -eq 0 ] && [ "${#lines[@]}" -eq 1 ] || { echo "$output"; return 1; }
  before=${output#* }
  put_much 66000
  run nacre
  [ "$status" -eq 0 ]
  [[ $output == *"warn: pmi: rank 0"*"and they may have 67108864 (-o pmi.max-size=SIZE)"* ]]
  read -r taken after < <(grep -E '^[0-9]' <<<"$output")
  [ "$taken" -gt 62000 ] && [ "$taken" -lt 63000 ] || { echo "$output"; return 1; }
  [ $((after - before)) -lt 140 ] || { echo "from $before to $after MiB"; return 1; }
}

