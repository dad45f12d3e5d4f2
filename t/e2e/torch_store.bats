#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The store of torch.distributed that the shells serve with the option torch, with a client of the tests' own (t/kit/torch_store.py); what
# PyTorch itself does with it needs python3-torch, and is in `make check-long`.
# shellcheck disable=SC2154 # bats sets status, output, lines
load replace.bash

setup_file() { export PYTHONPATH=$NACRE_SOURCE_DIR/t/kit PYTHONDONTWRITEBYTECODE=1; }

# Runs a job with --torch of the Python script on standard input, with `rank`, `size` and Store; the arguments are
# options. Its output is that of `run`.
torch_job() {
  { echo "import os, sys, time; from torch_store import Store; rank = int(os.environ['RANK']); size = int(os.environ['WORLD_SIZE'])"; cat; } >task.py
  run --separate-stderr timeout 60 "$front" run --shell="$NACRE_SHELL" --torch "$@" python3 task.py
}

succeeds() { [ "$status" -eq 0 ] || { echo "exit code $status"; echo "$output$stderr"; return 1; }; }

@test "each request, as clients before and since PyTorch 2.2 make it" {
  torch_job -n 1 <<'END'
assert os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "True" and os.environ["MASTER_ADDR"] == "127.0.0.1"
for since in False, True:
    p = "since" if since else "before"
    s = Store(since_2_2=since)
    s.set(p + "a", "1"); assert s.get(p + "a") == b"1"
    s.set(p + "a", b"\0" * 100000); assert s.get(p + "a") == b"\0" * 100000
    assert s.add(p + "n", 5) == 5 and s.add(p + "n", -7) == -2 and s.get(p + "n") == b"-2"
    assert s.compare_set(p + "c", "old", "new") == b"old" and s.compare_set(p + "c", "", "new") == b"new"
    assert s.compare_set(p + "c", "other", "newer") == b"new" and s.compare_set(p + "c", "new", "newer") == b"newer"
    s.append(p + "d", "x"); s.append(p + "d", "y"); assert s.get(p + "d") == b"xy"
    s.multi_set({p + "e": "1", p + "f": "2"}); assert s.multi_get(p + "e", p + "none", p + "f") == [b"1", b"", b"2"]
    assert s.check(p + "e", p + "f") and not s.check(p + "e", p + "g")
    keys = s.count_keys()
    assert s.delete_key(p + "e") == 1 and s.delete_key(p + "e") == 0 and s.count_keys() == keys - 1
    s.send("wait", 2, p + "f", p + "g"); s.send("cancel_wait"); assert s.bytes(1) == b"\1"
    s.set(p + "g", ""); assert s.check(p + "g") and s.get_now(p + "g") == b""
s.set("after", "a change"); assert s.check("after"), "a client sees what it has changed"
assert s.ping(0xfedcba98) == 0xfedcba98
assert s.queue_pop("q", block=False) is None and s.queue_size("q") == 0
s.queue_push("q", "1"); s.queue_push("q", "2"); assert s.queue_size("q") == 2 and s.check("q")
assert s.queue_pop("q") == b"1" and s.queue_pop("q") == b"2" and not s.check("q")
print("all")
END
  succeeds
  [ "$output" = all ]
  [ -z "$stderr" ] || { echo "$stderr"; return 1; }
}

@test "the tasks of several shells have one store: keys, sums, and each element of a queue once" {
  torch_job --local=3 -n 6 <<'END'
s = Store(since_2_2=rank % 2 == 0)
s.set(f"address/{rank}", "x" * 1000 * rank)
for other in range(size):
    assert s.get(f"address/{other}") == b"x" * 1000 * other
sums = {s.add("sum") for _ in range(50)}
s.barrier("added", size)
assert s.add("sum", 0) == 50 * size and len(sums) == 50
s.barrier("summed", size)
q = Store()
if rank == 5:
    for i in range(30):
        q.queue_push("work", str(i))
print(*sorted(q.queue_pop("work").decode() for _ in range(5)), sep="\n")
END
  succeeds
  [ "$(sort -n <<<"$output")" = "$(seq 0 29)" ] || { echo "$output"; return 1; }
}

@test "a value of 8 MiB gets to all shells, and many that come at once" {
  torch_job --local=2 -n 2 <<'END'
s = Store()
big = bytes(range(256)) * 32768
if rank == 0:
    for i in range(4):
        s.set(f"big{i}", big)
    for i in range(20000):
        s.set("last", str(i))
    s.set("done", "")
s.wait("done")
assert s.get("last") == b"19999" and all(s.get(f"big{i}") == big for i in range(4))
print("fine")
END
  succeeds
  [ "$output" = $'fine\nfine' ]
}

@test "what is no request, or too much, closes that connection in one line" {
  torch_job -n 1 <<'END'
def refused(*sent, since=True):
    s = Store(since_2_2=since)
    for each in sent:
        s.socket.sendall(each)
    assert s.file.read() == b"", "it is closed"
import struct
refused(b"GET / HTTP/1.1\r\n\r\n", since=False)
refused(b"\x63")
refused(b"\x01" + struct.pack("=Q", 9000) + b"k")
refused(b"\x01" + struct.pack("=Q", 1) + b"k" + struct.pack("=Q", 1 << 40))
refused(b"\x06" + struct.pack("=Q", 1 << 40))
refused(b"\x07" + struct.pack("=Q", 3) + b"key", since=False)
s = Store()
s.set("word", "a"); s.send("add", "word", 1)
try:
    s.number(); raise SystemExit("a word has no sum")
except EOFError:
    pass
s = Store()
try:
    for i in range(9):
        s.set(f"big{i}", b"x" * (8 << 20))
        s.add("n")
    raise SystemExit("it has no end")
except (EOFError, OSError):
    pass
assert Store().get("n") in (b"7", b"8") and Store().get("word") == b"a"
END
  succeeds
  for line in "a request of the unknown kind 71" "a request of the unknown kind 99" "a key of 9000 bytes; at most 8192" \
    "a value of 1099511627776 bytes; at most 8388608" "a request with 1099511627776 keys; at most 131072" "a request to watch a key" \
    "1 is added to the key 'word', which has 'a'" "the store is full: 56 MiB are in it, and at most 64"; do
    grep -qF "torch: the store of torch.distributed: $line: the connection is closed" <<<"$stderr" || { echo "$line?"; echo "$stderr"; return 1; }
  done
}

@test "when all tasks start again the store is empty again" {
  torch_job --local=2 -n 4 --restart=on-failure,scope=job,max=1,backoff=0s <<'END'
s = Store()
n = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
mine = s.add("first")
if mine == 1:
    s.set("leaves", "something")
s.barrier("here", size)
assert s.count_keys() == 4, s.count_keys()
if n == 0 and rank == 3:
    sys.exit(1)
s.barrier("there", size) if n == 0 else print(rank, mine)
END
  succeeds
  [ "$(cut -d' ' -f2 <<<"$output" | sort)" = $'1\n2\n3\n4' ] || { echo "$output$stderr"; return 1; }
}

# Writes tasks that set a key, and print all keys once there is the file `go`. A task writes its shell's process id,
# as those of start_run do.
write_keepers() {
  cat >task.py <<'END'
import os, time
from torch_store import Store
rank, size, attempt = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["NACRE_TASK_TRY"]
s = Store()
if attempt == "1":
    s.set(f"of/{rank}", f"rank {rank}")
    s.barrier("all", size)
open(f"shell.{rank}.{attempt}.new", "w").write(str(os.getppid()))
os.rename(f"shell.{rank}.{attempt}.new", f"shell.{rank}.{attempt}")
while not os.path.exists("go"):
    time.sleep(0.02)
print(*[s.get(f"of/{each}").decode() for each in range(size)], sep=", ")
END
}

@test "a shell that is lost takes no key with it: its tasks start again on the spare, and find all" {
  write_keepers
  start_run --torch -N 3+1 -n 3 --local=4 python3 task.py
  await_try 1 0 1 2
  lose 1 1
  await_try 2 1
  touch go
  ends_with 0
  [ "$(sort out)" = "$(for i in 0 1 2; do echo "$i: rank 0, rank 1, rank 2"; done)" ] || { cat out err; return 1; }
}

@test "a shell that joins while the job runs has all keys that were set before, and after" {
  write_keepers
  start_run --torch -n 2 --local=2 python3 task.py
  await_try 1 0 1
  "$front" grow --count=1
  lose 1 1
  await_try 2 1
  touch go
  ends_with 0
  [ "$(sort out)" = $'0: rank 0, rank 1\n1: rank 0, rank 1' ] || { cat out err; return 1; }
}

@test "torch.port is the port on each host; torch.store=rank0 leaves the store to rank 0; other words are refused" {
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  torch_job --local=2 -n 2 -o torch.port="$port" <<<'Store().barrier("met", 2); print(os.environ["MASTER_PORT"])'
  succeeds
  [ "$output" = "$port"$'\n'"$port" ]
  torch_job -n 1 -o torch.store=rank0 <<<'print(os.environ["TORCHELASTIC_USE_AGENT_STORE"], os.environ["MASTER_ADDR"])'
  [ "$output" = "False 127.0.0.1" ]
  torch_job -n 1 -o torch.store=rank1 <<<''
  [ "$status" -eq 1 ]
  [[ $stderr == *"torch.store: expected shells or rank0"* ]] || { echo "$stderr"; return 1; }
  python3 -c 'import socket, time; s = socket.socket(); s.bind(("127.0.0.1", '"$port"')); s.listen(); open("bound", "w"); time.sleep(60)' 3>&- &
  wait_until test -e bound
  torch_job -n 1 -o torch.port="$port" <<<''
  kill %%
  [ "$status" -eq 1 ]
  [[ $stderr == *"torch: cannot listen on 127.0.0.1:$port"* ]] || { echo "$stderr"; return 1; }
}

# bats test_tags=root
@test "another user does not get in" {
  torch_job -n 1 <<'END'
if os.fork() == 0:
    os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
    try:
        s = Store(); s.set("key", "theirs"); s.ping(1)
        os._exit(1)
    except (EOFError, OSError):
        os._exit(0)
assert os.wait()[1] == 0
assert not Store().check("key")
import socket
mapped = socket.create_connection(("::ffff:127.0.0.1", int(os.environ["MASTER_PORT"])))  # PyTorch connects so
mapped.sendall(b"\x06"); assert len(mapped.recv(8)) == 8
END
  succeeds
  [[ $stderr == *"user 65534 connects, and the job is that of user 0"* ]] || { echo "$stderr"; return 1; }
}

# bats test_tags=long
@test "PyTorch: gloo's group over three shells, and one that starts again after its first host is lost" {
  python=/usr/bin/python3
  "$python" -c 'import torch' || { echo "python3-torch is needed"; return 1; }
  cat >train.py <<'END'
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.ones(4) * (dist.get_rank() + 1)
dist.all_reduce(t)
print(int(t[0]), flush=True)
n = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
open(f"shell.{dist.get_rank()}.{n + 1}", "w").write(str(os.getppid()))
while n == 0:
    time.sleep(0.1)
dist.barrier()
END
  start_run --torch -N 3+1 -n 6 --local=4 --restart=on-failure,scope=job,backoff=0s "$python" train.py
  await_try 1 0 1 2 3 4 5
  wait_until test -s shell.2.1
  lose 2 1
  ends_with 0
  [ "$(grep -c ': 21$' out)" -eq 12 ] || { cat out err; return 1; }
}
