#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""t/unit/overlay/decode.py VECTORS: reads messages as doc/protocol.md says, and compares them with what they should be.

VECTORS has a line for each: the frame in hexadecimal, and the message as JSON, bytes in hexadecimal.
"""

import json
import sys

MAX_FRAME = 1 << 20
MAX_DEPTH = 8


def number(data, at):
    """(value, offset after it) of the number that goes with the byte at `at`."""
    low = data[at] & 31
    if low < 24:
        return low, at + 1
    size = {24: 1, 25: 2, 26: 4, 27: 8}[low]
    value = int.from_bytes(data[at + 1 : at + 1 + size], "big")
    least = 24 if size == 1 else 1 << (size * 4)
    assert len(data) >= at + 1 + size and value >= least, "a number in its shortest form"
    return value, at + 1 + size


def item(data, at, depth=0):
    """(value, offset after it) of one CBOR item."""
    kind = data[at] >> 5
    if data[at] in (0xF4, 0xF5):
        return data[at] == 0xF5, at + 1
    assert kind <= 5, "a kind that is used"
    count, at = number(data, at)
    if kind == 0:
        return count, at
    if kind == 1:
        return -1 - count, at
    if kind in (2, 3):
        assert at + count <= len(data), "a string inside of the frame"
        raw = data[at : at + count]
        return (raw if kind == 2 else raw.decode("ascii")), at + count
    assert depth < MAX_DEPTH, "nesting"
    if kind == 4:
        values = []
        for _ in range(count):
            value, at = item(data, at, depth + 1)
            values.append(value)
        return values, at
    found, last = {}, None
    for _ in range(count):
        key, at = item(data, at, depth + 1)
        assert isinstance(key, str) and (last is None or key > last), "keys ascend"
        found[key], at = item(data, at, depth + 1)
        last = key
    return found, at


def decode(stream):
    assert 0 < len(stream) <= MAX_FRAME, "a frame"
    message, end = item(stream, 0)
    assert end == len(stream) and isinstance(message, dict), "one map"
    return message


def plain(value):
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


def main():
    wrong = count = 0
    with open(sys.argv[1], encoding="ascii") as file:
        for line in file:
            frame, expected = line.split(" ", 1)
            found = plain(decode(bytes.fromhex(frame)))
            count += 1
            if found != json.loads(expected):
                wrong += 1
                print(f"expected {expected.strip()}\n     got {json.dumps(found)}")
    if count < 24:
        sys.exit(f"only {count} messages")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
