# SPDX-License-Identifier: Apache-2.0
"""doctor_task.py WHAT [MILLISECONDS]: as doctor_task.c, in Python."""

import asyncio
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time

BAD = 1
RANK = int(os.environ["FLUX_TASK_RANK"])
SIZE = int(os.environ["FLUX_JOB_SIZE"])
OWN = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def there():
    with open(f"there.{RANK}", "w", encoding="ascii"):
        pass


def tell(other):
    while True:
        try:
            OWN.sendto(b"x", f"sock.{other}")
            return
        except (FileNotFoundError, ConnectionRefusedError):
            time.sleep(0.005)


def fibonacci(number):
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)


def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        fibonacci(12)
        sorted(str(i) for i in range(100))


def ring(seconds):
    if RANK == 0:
        tell(1 % SIZE)
    while True:
        OWN.recv(1)
        compute(seconds)
        tell((RANK + 1) % SIZE)


def pool(seconds):
    """A thread gives work to others; on rank 0 there is little of it."""
    work = queue.Queue(4)

    def take():
        while True:
            compute(work.get())

    for _ in range(2):
        threading.Thread(target=take, daemon=True).start()
    while True:
        work.put(seconds)
        if RANK == 0:
            time.sleep(seconds * 4)


def commands(seconds):
    while True:
        subprocess.run([sys.executable, "-c", f"import time; time.sleep({seconds})"], check=True)


def forever(seconds):
    while True:
        compute(seconds)


def naps(seconds):
    while True:
        time.sleep(seconds)


def hang_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def hang_queue():
    queue.Queue().get()


def hang_threads():
    one, two, both = threading.Lock(), threading.Lock(), threading.Barrier(2)

    def take(first, second):
        with first:
            both.wait()
            with second:
                pass

    threads = [threading.Thread(target=take, args=order) for order in ((one, two), (two, one))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def hang_select():
    ends = socket.socketpair()
    select.select([ends[0]], [], [])


def events(seconds):
    """Coroutines that wait for each other's queues, for a time, and for a thread."""
    async def give(work):
        while True:
            await asyncio.sleep(seconds)
            await work.put(seconds)

    async def take(work):
        while True:
            await asyncio.to_thread(compute, await work.get() / 2)

    async def both():
        work = asyncio.Queue(1)
        await asyncio.gather(give(work), take(work))

    asyncio.run(both())


def hang_event():
    async def never():
        await asyncio.Event().wait()

    asyncio.run(never())


def hang_futures():
    """Two coroutines wait for each other."""
    async def wait_for(other):
        await other[0]

    async def both():
        one, two = [None], [None]
        one[0], two[0] = asyncio.create_task(wait_for(two)), asyncio.create_task(wait_for(one))
        await asyncio.shield(asyncio.gather(one[0]))

    asyncio.run(both())


def hang_child():
    """The child writes more than a pipe holds, and nobody reads it."""
    with subprocess.Popen([sys.executable, "-c", "print('x' * 1000000)"], stdout=subprocess.PIPE) as child:
        child.wait()


def main():
    OWN.bind(f"sock.{RANK}")
    there()
    what, value = sys.argv[1:3]
    if what == "hang":
        if RANK != BAD:
            OWN.recv(1)
        globals()[f"hang_{value}"]()
        sys.exit(f"doctor_task.py: {value} does not hang")
    {"ring": ring, "pool": pool, "commands": commands, "compute": forever, "naps": naps, "events": events}[what](int(value) / 1000)


if __name__ == "__main__":
    main()
