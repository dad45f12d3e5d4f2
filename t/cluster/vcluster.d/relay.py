# SPDX-License-Identifier: Apache-2.0
"""relay.py PORT TAP MS: passes Ethernet frames between the link PORT and a new tap, each MS milliseconds after it came.

Part of vcluster. Prints "ready" once it works; ends by a signal, and the tap goes with it.
"""

import collections
import fcntl
import os
import select
import socket
import struct
import sys
import time

# Of linux/if_tun.h, linux/if_packet.h and linux/if_ether.h.
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x2, 0x1000, 0x4000
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
TUN_F_CSUM, TUN_F_TSO4 = 0x1, 0x2
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
SO_RCVBUFFORCE = 33
ETH_P_ALL = 3

LARGEST = 70000  # bytes of a frame whose segmentation is left to be done
AT_ONCE = 64  # frames, before the other end has its turn


def open_tap(name):
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)
    fcntl.ioctl(tap, TUNSETIFF, request)
    fcntl.ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)  # both stay undone
    return tap


def open_port(name):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    port.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)  # the same header as the tap's
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    port.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    port.bind((name, ETH_P_ALL))
    port.setblocking(False)
    return port


def read_into(queue, fd, delay):
    try:
        for _ in range(AT_ONCE):
            queue.append((time.monotonic() + delay, os.read(fd, LARGEST)))
    except BlockingIOError:
        pass


def write_due(queue, fd):
    now = time.monotonic()
    while queue and queue[0][0] <= now:
        try:
            os.write(fd, queue.popleft()[1])
        except OSError:
            pass  # dropped, as by a full wire


def main():
    port_name, tap_name, delay = sys.argv[1], sys.argv[2], float(sys.argv[3]) / 1000
    tap, port = open_tap(tap_name), open_port(port_name)
    ends = {tap: (collections.deque(), port.fileno()), port.fileno(): (collections.deque(), tap)}
    print("ready", flush=True)
    while True:
        due = min((queue[0][0] for queue, _ in ends.values() if queue), default=None)
        wait = None if due is None else max(0, due - time.monotonic())
        for fd in select.select(list(ends), [], [], wait)[0]:
            read_into(ends[fd][0], fd, delay)
        for queue, out in ends.values():
            write_due(queue, out)


main()
