# SPDX-License-Identifier: Apache-2.0
"""doctor_ras.py HOW: as a rank of NCCL that waits; rank 0 answers as NCCL's RAS at NCCL_RAS_ADDR.

HOW: lags (rank 1 has launched fewer), text (the same, by a version without JSON), healthy, on (the counts grow), mute (it
says nothing), nonsense.
"""

import json
import os
import socketserver
import sys
import time

RANK = int(os.environ["FLUX_TASK_RANK"])
SIZE = int(os.environ["FLUX_JOB_SIZE"])
HOW = sys.argv[1]
ASKED = [0]


def pid_of(rank):
    with open(f"pid.{rank}", encoding="ascii") as file:
        return int(file.read())


def count_of(rank):
    behind = 1 if HOW in ("lags", "text", "on") and rank == 1 else 0
    return 42 - behind + (ASKED[0] if HOW == "on" else 0)


def in_json():
    ranks = [
        {
            "rank": rank,
            "host": "127.0.0.1",
            "pid": pid_of(rank),
            "cuda_dev": rank,
            "nvml_dev": rank,
            "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False},
            "collective_counts": {"Broadcast": 3, "AllReduce": count_of(rank)},
        }
        for rank in range(SIZE)
    ]
    group = {"hash": "0xae94423cfbb2ef4a", "secondary_hash": "0x1:0x2", "size": SIZE, "ranks": ranks, "missing_ranks": []}
    return json.dumps({"nccl_version": "2.29.1", "communicators": [group], "ras": {"timeouts_count": 0}}, indent=2)


def in_text():
    return f"""NCCL version 2.26.2 compiled with CUDA 12.8

Communicators... (0.00s)
=============

Warnings
========

#0-0 (ae94423cfbb2ef4a) MISMATCH
  Communicator ranks have different AllReduce operation counts
  {SIZE - 1} ranks have launched up to operation 42
  Rank 1 has launched up to operation 41 -- GPU 1 managed by process {pid_of(1)} on node 127.0.0.1
"""


class Client(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            command = line.decode().strip().upper()
            if HOW == "mute":
                continue
            if HOW == "nonsense":
                self.wfile.write(b"HTTP/1.1 400 Bad Request\n")
                return
            if command.startswith("CLIENT PROTOCOL "):
                self.wfile.write(b"SERVER PROTOCOL 2\n")
            elif command.startswith("TIMEOUT ") or (command == "SET FORMAT JSON" and HOW != "text"):
                self.wfile.write(b"OK\n")
            elif command == "VERBOSE STATUS":
                ASKED[0] += 1
                self.wfile.write((in_text() if HOW == "text" else in_json()).encode())
                return
            else:
                self.wfile.write(f"ERROR: Unknown command {command}\n".encode())


def main():
    with open(f"pid.{RANK}", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    if RANK != 0:
        open(f"there.{RANK}", "w", encoding="ascii").close()
        time.sleep(600)
    host, port = os.environ["NCCL_RAS_ADDR"].split(":")
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    with socketserver.ThreadingTCPServer((host, int(port)), Client) as server:
        open(f"there.{RANK}", "w", encoding="ascii").close()
        server.serve_forever()


main()
