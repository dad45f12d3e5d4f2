# SPDX-License-Identifier: Apache-2.0
"""doctor_torch.py HOW: as a rank of torch that waits in a collective, and writes a dump of its Flight Recorder when asked.

HOW: healthy, lags (rank 3 has not called the last one), differs (rank 2 has called another one), runs (the dump of rank 1
would run a function), silent (rank 1 writes none).
"""

import os
import pickle
import sys
import time

RANK = int(os.environ["RANK"])
PIPE = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + f"{RANK}.pipe"
FILE = os.environ["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] + f"{RANK}"


class Runs:
    def __reduce__(self):
        return (os.system, ("touch it-was-run",))


def entry(number, name, state, ago):
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": time.time_ns() - ago * 10**9,
        "input_sizes": [[1024]],
        "input_dtypes": ["Float"],
        "output_sizes": [[1024]],
        "output_dtypes": ["Float"],
        "state": state,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": state == "completed",
        "timeout_ms": 600000,
        "is_p2p": False,
        "frames": [{"name": "step", "filename": "train.py", "line": 12}],
    }


def dump(how):
    entries = [entry(number, "all_reduce", "completed", 200 - number) for number in range(30, 42)]
    last = "broadcast" if how == "differs" and RANK == 2 else "all_reduce"
    if not (how == "lags" and RANK == 3):
        entries.append(entry(42, last, "started", 65))
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    out = {"version": "2.10", "pg_config": config, "entries": entries}
    return Runs() if how == "runs" and RANK == 1 else out


def main():
    how = sys.argv[1]
    os.mkfifo(PIPE)
    pipe = os.open(PIPE, os.O_RDONLY | os.O_NONBLOCK)
    with open(f"there.{RANK}", "w", encoding="ascii"):
        pass
    while True:
        time.sleep(0.1)
        try:
            asked = os.read(pipe, 128)
        except BlockingIOError:
            continue
        if asked and not (how == "silent" and RANK == 1):
            with open(FILE, "wb") as file:
                file.write(pickle.dumps(dump(how), protocol=2))


main()
