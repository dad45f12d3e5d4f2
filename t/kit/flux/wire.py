# SPDX-License-Identifier: Apache-2.0
"""Messages of Flux (RFC 3), as its local connector carries them over a unix socket."""

import asyncio
import dataclasses
import json
import struct
from typing import Any

MAGIC = 0xffee0012
REQUEST, RESPONSE, EVENT, CONTROL = 1, 2, 4, 8
TOPIC, PAYLOAD, NORESPONSE, ROUTE, UPSTREAM, PRIVATE, STREAMING = 1, 2, 4, 8, 16, 32, 64
OWNER, USER, LOCAL = 1, 2, 4
UNKNOWN = 0xffffffff  # a userid that the broker is to fill in
ANY = 0xffffffff  # a nodeid
LARGEST = 1 << 30

_PROTO = struct.Struct(">BBBBIIII")
_HEAD = struct.Struct("=I")
_SIZE = struct.Struct(">I")


class Malformed(Exception):
    """What came is not a message."""


@dataclasses.dataclass
class Message:
    """`number` is the node of a request, the errno of a response, or the sequence of an event."""

    kind: int
    topic: str = ""
    payload: bytes | None = None
    flags: int = 0
    number: int = 0
    matchtag: int = 0
    userid: int = UNKNOWN
    rolemask: int = 0
    routes: list[bytes] = dataclasses.field(default_factory=list)  # the newest first

    def has(self, flag: int) -> bool:
        return bool(self.flags & flag)

    def value(self) -> Any:
        """What its JSON says; {} without a payload."""
        return json.loads(self.payload.rstrip(b"\0")) if self.payload else {}

    def service(self) -> str:
        return self.topic.rpartition(".")[0]


def payload_of(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\0"


def _frame(data: bytes) -> bytes:
    return (bytes([len(data)]) if len(data) < 0xff else b"\xff" + _SIZE.pack(len(data))) + data


def encode(message: Message) -> bytes:
    """With magic and size."""
    flags = message.flags & ~(TOPIC | PAYLOAD) | ROUTE | (TOPIC if message.topic else 0)
    flags |= PAYLOAD if message.payload is not None else 0
    frames = [*message.routes, b""]
    if message.topic:
        frames.append(message.topic.encode())
    if message.payload is not None:
        frames.append(message.payload)
    frames.append(_PROTO.pack(0x8e, 1, message.kind, flags, message.userid, message.rolemask, message.number, message.matchtag))
    body = b"".join(map(_frame, frames))
    return _HEAD.pack(MAGIC) + _SIZE.pack(len(body)) + body


def _frames(body: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(body):
        size, at = body[at], at + 1
        if size == 0xff:
            if at + 4 > len(body):
                raise Malformed("a frame's size is cut off")
            size, at = _SIZE.unpack_from(body, at)[0], at + 4
        if at + size > len(body):
            raise Malformed("a frame is cut off")
        found.append(body[at:at + size])
        at += size
    return found


def decode(body: bytes) -> Message:
    """Without magic and size."""
    frames = _frames(body)
    if not frames or len(frames[-1]) != _PROTO.size:
        raise Malformed("the last frame is not of 20 bytes")
    first, version, kind, flags, userid, rolemask, number, matchtag = _PROTO.unpack(frames.pop())
    if first != 0x8e or version != 1 or kind not in (REQUEST, RESPONSE, EVENT, CONTROL):
        raise Malformed("the last frame does not begin as that of a message")
    message = Message(kind, "", None, flags, number, matchtag, userid, rolemask)
    if flags & ROUTE:
        if b"" not in frames:
            raise Malformed("no empty frame ends the routes")
        end = frames.index(b"")
        message.routes, frames = frames[:end], frames[end + 1:]
    if len(frames) != bool(flags & TOPIC) + bool(flags & PAYLOAD):
        raise Malformed(f"{len(frames)} frames, flags {flags:#x}")
    if flags & TOPIC:
        message.topic = frames.pop(0).decode()
    if flags & PAYLOAD:
        message.payload = frames.pop(0)
    return message


def size_in(head: bytes) -> int:
    """How long the message is whose first 8 bytes these are."""
    size = _SIZE.unpack_from(head, 4)[0]
    if _HEAD.unpack_from(head)[0] != MAGIC:
        raise Malformed(f"it begins with {head[:4].hex()}, not with the magic number")
    if size > LARGEST:
        raise Malformed(f"its size is {size}")
    return size


async def read(reader: asyncio.StreamReader) -> Message | None:
    """None at the end, also in the middle of a message."""
    try:
        size = size_in(await reader.readexactly(8))
        return decode(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
