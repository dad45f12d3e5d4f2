#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# srun.py [OPTION...] --nodes=N [OPTION...] COMMAND...: stands in for Slurm's srun where there is no Slurm: starts COMMAND as N tasks
# of a step with one task a node, all nodes this host, and copies its standard input to each. Exits with the largest of their
# exit codes.
import os
import socket
import subprocess
import sys
import threading

words = sys.argv[1:]
nodes = 1
while words and words[0].startswith("-"):
    word = words.pop(0)
    if word.startswith("--nodes="):
        nodes = int(word.split("=")[1])
    elif word.startswith("-N"):
        nodes = int(word[2:])

tasks = []
for rank in range(nodes):
    step = {
        "SLURM_JOB_ID": "41",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_NODEID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(nodes),
        "SLURM_STEP_NODELIST": ",".join([socket.gethostname()] * nodes),
    }
    tasks.append(subprocess.Popen(words, stdin=subprocess.PIPE, bufsize=0, env=dict(os.environ, **step)))


def copy_input():
    while True:
        data = os.read(0, 65536)
        for task in tasks:
            try:
                if data:
                    task.stdin.write(data)
                else:
                    task.stdin.close()
            except BrokenPipeError:
                pass
        if not data:
            return


threading.Thread(target=copy_input, daemon=True).start()
codes = [task.wait() for task in tasks]
os._exit(max(code if code >= 0 else 128 - code for code in codes))
