# SPDX-License-Identifier: Apache-2.0
"""A client of the store of torch.distributed (PyTorch's TCPStore), without PyTorch: one connection.

Numbers are in this machine's order. `since_2_2`: as the clients of PyTorch 2.2 and later speak; else as those before."""
import os
import socket
import struct

KINDS = ("set compare_set get add check wait count_keys delete_key append multi_get multi_set cancel_wait ping queue_push queue_pop "
         "queue_size").split()
BEFORE = "set compare_set get add check wait count_keys watch_key delete_key append multi_get multi_set cancel_wait".split()


class Store:
    def __init__(self, port=None, since_2_2=True, timeout=30):
        self.since_2_2 = since_2_2
        port = int(port or os.environ["MASTER_PORT"])
        self.socket = socket.create_connection((os.environ.get("MASTER_ADDR", "127.0.0.1"), port), timeout)
        self.file = self.socket.makefile("rb")
        if since_2_2:
            self.socket.sendall(struct.pack("=BI", 0, 0x3C85F7CE))

    def send(self, kind, *parts):
        """A str or bytes is a text, an int a number of 8 bytes; the rest goes as it is."""
        code = KINDS.index(kind) + 1 if self.since_2_2 else BEFORE.index(kind)
        out = bytes([code])
        for part in parts:
            if isinstance(part, int):
                out += struct.pack("=q", part)
            elif isinstance(part, bytearray):
                out += part
            else:
                text = part.encode() if isinstance(part, str) else part
                out += struct.pack("=Q", len(text)) + text
        self.socket.sendall(out)

    def bytes(self, size):
        out = self.file.read(size)
        if len(out) < size:
            raise EOFError("the store has closed the connection")
        return out

    def number(self):
        return struct.unpack("=q", self.bytes(8))[0]

    def text(self):
        return self.bytes(self.number())

    def set(self, key, value):
        self.send("set", key, value)

    def append(self, key, value):
        self.send("append", key, value)

    def multi_set(self, pairs):
        self.send("multi_set", len(pairs), *[part for pair in pairs.items() for part in pair])

    def queue_push(self, queue, value):
        self.send("queue_push", queue, value)

    def compare_set(self, key, expected, value):
        self.send("compare_set", key, expected, value)
        return self.text()

    def wait(self, *keys):
        self.send("wait", len(keys), *keys)
        assert self.bytes(1) == b"\0"

    def get(self, key):
        """As PyTorch does it: it waits for the key."""
        self.wait(key)
        return self.get_now(key)

    def get_now(self, key):
        self.send("get", key)
        return self.text()

    def multi_get(self, *keys):
        self.send("multi_get", len(keys), *keys)
        return [self.text() for _ in keys]

    def add(self, key, number=1):
        self.send("add", key, number)
        return self.number()

    def check(self, *keys):
        self.send("check", len(keys), *keys)
        return {b"\0": True, b"\1": False}[self.bytes(1)]

    def count_keys(self):
        self.send("count_keys")
        return self.number()

    def delete_key(self, key):
        self.send("delete_key", key)
        return self.number()

    def ping(self, nonce):
        self.send("ping", bytearray(struct.pack("=I", nonce)))
        return struct.unpack("=I", self.bytes(4))[0]

    def queue_pop(self, queue, block=True):
        if block:
            self.wait(queue)
        self.send("queue_pop", queue)
        return self.text() if self.number() > 0 else None

    def queue_size(self, queue):
        self.send("queue_size", queue)
        return self.number()

    def barrier(self, name, size):
        """All of `size` are here."""
        if self.add(name) == size:
            self.set(name + "/all", "")
        self.wait(name + "/all")
