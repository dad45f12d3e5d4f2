#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Stands in for nacre-shell where a test looks at what a launcher says: prints its arguments, the launch record, and all that
# comes behind it, a line each, as it comes. Ends when "quit N" comes as input, with N, or when its launcher goes, with 99.
import json
import os
import signal
import sys


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def exactly(size):
    data = b""
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            say("the launcher is gone")
            sys.exit(99)
        data += more
    return data


def line():
    data = b""
    while not data.endswith(b"\n"):
        data += exactly(1)
    return data[:-1].decode()


say("arguments " + " ".join(sys.argv[1:]))
secret = line()
say("secret of %d digits" % len(secret))
if any(secret in word for word in sys.argv):
    say("the secret is on the command line")
record = json.loads(line())
say("record " + json.dumps(record, sort_keys=True))

held = b""
while True:
    length = int.from_bytes(exactly(4), "big")
    record = exactly(length)
    kind, body = record[0], record[1:]
    if kind == 1:
        say("frame " + body.decode())
    elif kind == 2:
        held += body[4:]
        while b"\n" in held:
            text, held = held.split(b"\n", 1)
            say("input " + text.decode())
            if text.startswith(b"quit "):
                sys.exit(int(text[5:]))
            if text == b"die":
                os.kill(os.getpid(), signal.SIGKILL)
    elif kind == 4:
        say("end of input")
    else:
        say("record of kind %d" % kind)
