#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What tasks use of GPUs: usage-gpu, --usage-gpu, nacre top --gpu. No GPU is needed: the tools are stand-ins, which are first in the PATH
# of the shells, note each call in the file calls, and print what is in files here.
load control.bash

uuid=GPU-8a1c5a6e-2b1f-7c0d-9a51-6f1f0a1b2c3d

use_stand_ins() { # TOOL...
  mkdir -p tools
  local tool
  for tool in "$@"; do
    cp "stand-in.$tool" "tools/$tool"
    chmod +x "tools/$tool"
  done
  export PATH=$work/tools:$PATH
}

# Writes tools that know two devices, and the file pids: each line has a process id and its MiB.
write_stand_ins() {
  cat >stand-in.nvidia-smi <<END
#!/bin/sh
cd "$work"
echo "nvidia-smi \$PPID" >>calls
case \$1 in
  --query-gpu=*) printf '0, $uuid, 80, 1000, 4000\n1, GPU-other, [N/A], [N/A], [N/A]\n';;
  *) [ ! -e pids ] || while read -r pid memory; do echo "\$pid, $uuid, \$memory"; done <pids;;
esac
END
  cat >stand-in.rocm-smi <<END
#!/bin/sh
cd "$work"
echo "rocm-smi \$PPID" >>calls
printf '{"card0": {"GPU use (%%)": "25", "VRAM Total Memory (B)": "1000000", "VRAM Total Used Memory (B)": "500000"}, "system": {"Driver version": "6.7"'
[ ! -e pids ] || while read -r pid memory; do printf ', "PID%s": "sleep, 1, %s, 0, unknown"' "\$pid" "\$memory"; done <pids
printf '}}\n'
END
}

is() { # FILTER [FILE]: it is true of all of its lines together
  jq -se "$1" "${2:-u.jsonl}" >/dev/null || { echo "not so: $1"; cat "${2:-u.jsonl}" err; return 1; }
}

# Rank 0 writes its process id, a child of rank 1 its own; the others use nothing. They end once the tools have been
# asked often enough.
tasks='case $FLUX_TASK_RANK in 0) echo $$ 100 >pid.0;; 1) sh -c "echo \$\$ 300 >pid.1; until [ -e go ]; do sleep 0.2; done" & ;; esac
  until [ -e go ]; do sleep 0.2; done; wait'

# Since the last call each of $2 shells has made $1 calls.
are_called() { [ "$(tail -n +$((before + 1)) calls | awk -v least="$1" '{ ++n[$2] } END { for (each in n) found += n[each] >= least; print found + 0 }')" -ge "$2" ]; }

# Once the tasks have written the given files, the tools list the processes in these. Waits until each of $2 shells
# has called tools $1 times since: a look that was under way, a whole one, and the beginning of the next.
list_and_wait() { # CALLS SHELLS FILE...
  local calls=$1 shells=$2 before
  shift 2
  for each in "$@"; do wait_until test -s "$each"; done
  echo "1 77" >pids.new # no process of the job
  cat "$@" >>pids.new
  mv pids.new pids
  touch calls
  before=$(wc -l <calls)
  wait_until are_called "$calls" "$shells"
}

# As above for the two tasks, which then end.
let_be_seen() { # CALLS SHELLS
  list_and_wait "$1" "$2" pid.0 pid.1 || :
  touch go
}

# Runs a job of these tasks in which each of the shells makes $1 calls of the tools.
job_that_is_seen() { # CALLS SHELLS TASKS-PER-SHELL OPTION...
  let_be_seen "$1" "$2" &
  local seen=$!
  job "$2" "$3" "$tasks" "${@:4}"
  wait "$seen" # by its process id, as bats also has a background process
}

# bats test_tags=long
@test "memory of a task and of a process below one, the use of their device, and the devices of the node" {
  write_stand_ins
  use_stand_ins nvidia-smi
  job_that_is_seen 5 1 3 --usage=u.jsonl --usage-gpu
  [ "$code" -eq 0 ]
  [ ! -s err ] || { cat err; return 1; }
  is '.[0].gpu_memory == 100 * 1048576 and .[1].gpu_memory == 300 * 1048576 and .[2].gpu_memory == 0'
  is '.[0].gpu_device_use == 0.8 and .[1].gpu_device_use == 0.8 and (.[2] | has("gpu_device_use") | not)'
  is '.[3].gpus == [{vendor: "nvidia", index: 0, id: "'$uuid'", memory_peak: (1000 * 1048576), memory: (4000 * 1048576), use: 0.8},
    {vendor: "nvidia", index: 1, id: "GPU-other"}]'
  is '.[4].measures.gpu_memory | .n == 3 and .max.rank == 1 and (has("sum") | not)'
  run ! grep -q rocm calls
  "$front" report last --usage >text
  grep -qE '^GPU memory +0 +2 on node0 +100.0M +300.0M +1 on node0$' text || { cat text; return 1; }
  grep -qE '^GPU device use +80.0% ' text
  grep -qE '^node0 +nvidia 0 +1000.0M +3.9G +80.0%$' text
  grep -qE '^node0 +nvidia 1 +- +- +-$' text
}

# bats test_tags=long
@test "two shells, each with its own tasks, and rocm-smi beside nvidia-smi" {
  write_stand_ins
  sed -i 's/\[ ! -e pids \] ||/false \&\&/' stand-in.nvidia-smi
  use_stand_ins nvidia-smi rocm-smi
  job_that_is_seen 7 2 1 -o usage=u.jsonl -o usage-gpu
  [ "$code" -eq 0 ]
  is '.[0].gpu_memory == 100 and .[0].host == "node0" and .[1].gpu_memory == 300 and .[1].host == "node1"'
  is '.[0].gpu_device_use == 0.25 and .[1].gpu_device_use == 0.25'
  is '.[2:4] | map(.gpus | map([.vendor, .index])) == [[["amd", 0], ["nvidia", 0], ["nvidia", 1]], [["amd", 0], ["nvidia", 0], ["nvidia", 1]]]'
}

# bats test_tags=long
@test "no tool is run unless it is asked for, nor while no task runs" {
  write_stand_ins
  use_stand_ins nvidia-smi rocm-smi
  job 1 1 'sleep 1' --usage
  [ ! -e calls ]
  job 1 1 true -o usage=u.jsonl -o usage-gpu=off
  [ ! -e calls ]
  is '.[0] | has("gpu_memory") | not'
  run ! grep -q GPU err
}

# bats test_tags=long
@test "--usage-gpu alone prints nothing, and nacre report has what was measured, while the job runs too" {
  write_stand_ins
  use_stand_ins nvidia-smi
  start_job 1 2 'case $FLUX_TASK_RANK in 0) echo $$ 100 >pid.0; until [ -e ended ]; do sleep 0.2; done; exit 0;; esac; until [ -e go ]; do sleep 0.2; done' \
    --usage-gpu -o exit-timeout=none
  list_and_wait 5 1 pid.0
  touch ended
  wait_until eval '[ "$("$front" report --usage --json "$id" | jq .ended)" = 1 ]'
  "$front" report --usage --all "$id" >text
  grep -qE '^0 +node0 .* 100.0M +80.0%$' text || { cat text; return 1; }
  touch go
  ends_with 0
  [ ! -s err ]
  "$front" report --usage "$id" | grep -qE '^GPU memory '
  "$front" report --bundle=b.tar.zst "$id" >/dev/null
  tar --zstd -xOf b.tar.zst "nacre-$id/usage.json" | jq -e '.measures.gpu_memory.n == 2 and (.nodes[0].gpus | length) == 2'
}

# bats test_tags=long
@test "neither tool: a line says so, and the rest goes on" {
  mkdir bin
  for each in /usr/bin/ /bin/; do
    find "$each" -maxdepth 1 ! -type d ! -name nvidia-smi ! -name rocm-smi -exec ln -sf -t bin {} +
  done
  PATH=$work/bin job 1 2 true --usage=u.jsonl --usage-gpu
  [ "$code" -eq 0 ]
  [ "$(grep -c 'usage-gpu: neither nvidia-smi nor rocm-smi is in the shell.s PATH' err)" -eq 1 ]
  [ "$(wc -l <err)" -eq 1 ]
  is '.[-1].ended == 2 and (.[-1].measures | has("gpu_memory") | not)'
}

# bats test_tags=long
@test "a tool that fails, one that prints something else: one line, once; and one that hangs is ended, with what it has started" {
  write_stand_ins
  cat >stand-in.nvidia-smi <<END
#!/bin/sh
echo "nvidia-smi \$PPID" >>"$work/calls"
echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
exit 9
END
  use_stand_ins nvidia-smi rocm-smi
  job_that_is_seen 9 1 2 --usage=u.jsonl --usage-gpu
  [ "$code" -eq 0 ]
  [ "$(wc -l <err)" -eq 1 ]
  grep -qF "usage-gpu: nvidia-smi: exited with code 9: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.: what tasks use of its GPUs is not known" err
  [ "$(grep -c nvidia-smi calls)" -eq 3 ]
  is '.[0].gpu_memory == 100 and .[1].gpu_memory == 300'

  printf '#!/bin/sh\necho "nvidia-smi $PPID" >>%q\necho a new format\n' "$work/calls" >stand-in.nvidia-smi
  use_stand_ins nvidia-smi
  rm -f go calls pid.* pids
  job_that_is_seen 5 1 2 --usage=u.jsonl --usage-gpu
  [ "$(wc -l <err)" -eq 1 ]
  grep -qF "usage-gpu: nvidia-smi: it prints 'a new format', expected index, UUID" err

  printf '#!/bin/sh\necho $$ >>%q\nsleep 987 &\nsleep 987\n' "$work/hangs" >stand-in.nvidia-smi
  use_stand_ins nvidia-smi
  rm -f go calls pid.* pids
  job_that_is_seen 2 1 2 --usage=u.jsonl --usage-gpu
  [ "$code" -eq 0 ]
  [ "$(wc -l <err)" -eq 1 ]
  grep -qF "usage-gpu: nvidia-smi: took longer than 5 s: " err
  is '.[0].gpu_memory == 100'
  while read -r pid; do wait_until eval "! kill -0 -- -$pid 2>/dev/null"; done <hangs
}

# bats test_tags=long
@test "a tool that hangs does not hold up the end of the job, and does not outlive it" {
  write_stand_ins
  printf '#!/bin/sh\necho $$ >>%q\nsleep 986\n' "$work/hangs" >stand-in.nvidia-smi
  use_stand_ins nvidia-smi
  job 1 1 "until [ -s $work/hangs ]; do sleep 0.2; done" --usage=u.jsonl --usage-gpu
  [ "$code" -eq 0 ]
  [ ! -s err ] || { cat err; return 1; }
  is '.[0].code == 0 and (.[0] | has("gpu_memory") | not)'
  nothing_left 'sleep 986'
}

# bats test_tags=long
@test "nacre top --gpu asks the tools for each look, and only then" {
  write_stand_ins
  use_stand_ins nvidia-smi
  start_job 2 1 'echo $$ $((100 + FLUX_TASK_RANK)) >pid.$FLUX_TASK_RANK; exec sleep 600'
  wait_until all_sleep
  "$front" top --once "$id" >/dev/null
  [ ! -e calls ]
  cat pid.0 pid.1 >pids
  "$front" top --once --gpu "$id" >text
  grep -qE '^HOST +TASKS +CPU% +RSS +GPUMEM +GPU% +LATE$' text || { cat text; return 1; }
  grep -qE '^node0 .* 100.0M +80.0 +-$' text || { cat text; return 1; }
  grep -qE '^node1 .* 101.0M +80.0 +-$' text || { cat text; return 1; }
  [ "$(wc -l <calls)" -eq 4 ]
  "$front" top --once --gpu --tasks "$id" >text
  grep -qE '^ *RANK +HOST +PID +ST +TIME +CPU% +RSS +GPUMEM +GPU% +CMD$' text
  grep -qE '^ *1 +node1 .* 101.0M +80.0 +sleep$' text
  "$front" top --once --gpu --tasks --json "$id" >json
  jq -e '.tasks[1].gpu_memory == 101 * 1048576 and .nodes[0].gpu_device_use == 0.8 and (has("notes") | not)' json
  printf '#!/bin/sh\nexit 3\n' >tools/nvidia-smi
  "$front" top --once --gpu "$id" >text
  grep -qF 'gpu: nvidia-smi: exited with code 3: what tasks use of its GPUs is not known' text || { cat text; return 1; }
  grep -qE '^node0 .* - +- +-$' text
  printf '#!/bin/sh\nsleep 985\n' >tools/nvidia-smi
  "$front" top --once --gpu "$id" >text
  grep -qF 'gpu: the tools of GPUs have not answered within 1.5 s' text || { cat text; return 1; }
  grep -qE '^node1 +1 ' text
  "$front" kill -s KILL "$id"
  ends_with 137
  nothing_left 'sleep 985'
}

# bats test_tags=long
@test "nacre top --gpu of a job with usage-gpu shows its last look, and asks no tool" {
  write_stand_ins
  use_stand_ins nvidia-smi
  start_job 1 1 'echo $$ 100 >pid.0; exec sleep 600' --usage-gpu
  list_and_wait 5 1 pid.0
  # From here on the tools do not answer.
  printf '#!/bin/sh\nexec sleep 984\n' >tools/new
  chmod +x tools/new
  mv tools/new tools/nvidia-smi
  "$front" top --once --gpu "$id" >text
  grep -qE '^node0 .* 100.0M +80.0 +-$' text || { cat text; return 1; }
  "$front" kill -s KILL "$id"
  ends_with 137
  nothing_left 'sleep 984'
}

@test "bad values and contradictions are refused" {
  write_nodes 1 1
  write_jobspec 1 true
  run launch -R R.json --local=1 --usage-gpu -o usage-gpu=off
  [ "$status" -eq 2 ]
  [[ $output == *"--usage-gpu and -o usage-gpu=off contradict each other"* ]]
  run launch -R R.json -o cpu-affinity=off --local=1 -o usage-gpu=nvidia
  [ "$status" -eq 1 ]
  [[ $output == *"usage-gpu: expected"* ]]
}
