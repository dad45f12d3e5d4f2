# SPDX-License-Identifier: Apache-2.0
"""doctor_python.py WHAT: waits or computes in nested functions, for e2e.doctor_python, which knows the lines."""

import asyncio
import ctypes
import os
import sys
import threading
import time


def there():
    with open(f"there.{os.environ['FLUX_TASK_RANK']}", "w", encoding="ascii"):
        pass


class Trainer:
    def step(self):
        total = 0
        while True:
            total += 1


def busy():
    there()
    Trainer().step()


def sleeps():
    def naps():
        time.sleep(600)

    there()
    naps()


def locked():
    """A thread waits for a lock, and the first one for the thread."""
    lock = threading.Lock()
    lock.acquire()

    def take():
        there()
        lock.acquire()  # again

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()


async def never():
    there()
    await asyncio.Event().wait()


def asynchronous():
    asyncio.run(never())


def holds():
    """A thread waits in C, and does not give the interpreter's lock away."""

    def pause():
        there()
        ctypes.PyDLL(None).pause()

    threading.Thread(target=pause).start()
    while True:
        time.sleep(0.01)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
