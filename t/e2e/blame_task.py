#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A task of t/e2e/blame: the rank in CULPRIT fails, and the others see it go.

  blame_task.py tcp|connection|pipe|gloo

tcp: a mesh of TCP connections, one raises. connection: the same with multiprocessing.connection. pipe: a chain of FIFOs, and one
exits with a message. gloo: torch.distributed, one raises between two collectives. Only the first try fails.
"""

import os
import random
import select
import socket
import sys
import time
from multiprocessing.connection import Client, Listener

RANK = int(os.environ["NACRE_TASK_RANK"])
SIZE = int(os.environ["NACRE_JOB_SIZE"])
CULPRIT = int(os.environ["CULPRIT"]) if os.environ.get("NACRE_TASK_TRY", "1") == "1" else -1


def put(name, text):
    with open(f"{name}.new.{RANK}", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(f"{name}.new.{RANK}", name)


def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)
    with open(name, encoding="utf-8") as file:
        return file.read()


TRY = os.environ.get("NACRE_TASK_TRY", "1")


def all_are_here():
    put(f"here.{TRY}.{RANK}", "")
    for rank in range(SIZE):
        wait_for(f"here.{TRY}.{rank}")
    if RANK == CULPRIT:
        time.sleep(0.2 + random.random() / 5)


def solve(step):
    if RANK == CULPRIT:
        raise ValueError(f"matrix is singular in step {step}")


def mesh():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(SIZE)
    put(f"port.{TRY}.{RANK}", str(listener.getsockname()[1]))
    peers = [socket.create_connection(("127.0.0.1", int(wait_for(f"port.{TRY}.{rank}")))) for rank in range(RANK)]
    peers += [listener.accept()[0] for _ in range(RANK + 1, SIZE)]
    return peers


def tcp():
    peers = mesh()
    all_are_here()
    solve(1)
    if CULPRIT < 0:
        return
    ready, _, _ = select.select(peers, [], [])
    for peer in ready:
        if not peer.recv(8):
            raise ConnectionError("connection closed by a peer")


def connection():
    with Listener(("127.0.0.1", 0), backlog=SIZE) as listener:
        put(f"port.{TRY}.{RANK}", str(listener.address[1]))
        peers = [Client(("127.0.0.1", int(wait_for(f"port.{TRY}.{rank}")))) for rank in range(RANK)]
        peers += [listener.accept() for _ in range(RANK + 1, SIZE)]
    all_are_here()
    if CULPRIT < 0:
        return
    solve(1)
    while True:
        for peer in peers:
            peer.send(b"x" * 100)
            peer.recv()


def pipe():
    for rank in range(SIZE):
        if rank == RANK and not os.path.exists(f"fifo.{TRY}.{rank}"):
            os.mkfifo(f"fifo.{TRY}.{rank}")
    all_are_here()
    # Each opens its own one for reading and, the other way round for one of them, the next one for writing.
    own = os.open(f"fifo.{TRY}.{RANK}", os.O_RDONLY | os.O_NONBLOCK)
    put(f"open.{TRY}.{RANK}", "")
    wait_for(f"open.{TRY}.{(RANK + 1) % SIZE}")
    to = os.open(f"fifo.{TRY}.{(RANK + 1) % SIZE}", os.O_WRONLY)
    put(f"write.{TRY}.{RANK}", "")
    wait_for(f"write.{TRY}.{(RANK - 1) % SIZE}")
    os.set_blocking(own, True)
    if CULPRIT < 0:
        return
    if RANK == CULPRIT:
        time.sleep(0.3)
        sys.exit("no space left on device")
    while True:
        os.write(to, b"data")
        if not os.read(own, 4):
            raise EOFError("unexpected end of file")


def gloo():
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo")
    store = dist.FileStore(os.path.abspath(f"store.{TRY}"), SIZE)
    dist.init_process_group("gloo", store=store, rank=RANK, world_size=SIZE)
    data = torch.ones(1000)
    dist.all_reduce(data)
    if CULPRIT >= 0:
        all_are_here()
        solve(2)
        dist.all_reduce(data)


{"tcp": tcp, "connection": connection, "pipe": pipe, "gloo": gloo}[sys.argv[1]]()
