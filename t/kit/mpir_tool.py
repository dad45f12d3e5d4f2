# SPDX-License-Identifier: Apache-2.0
"""A tool that starts a job as debuggers do, by MPIR: gdb -batch -nx -x mpir_tool.py --args nacre run ...

Symbols and memory alone, as of a stripped program. Prints a line for each task in MPIR_proctable: mpir RANK HOST EXE PID,
then, with $MPIR_RUN set, runs that by a shell while the tasks stand still, and lets the job go on to its end. $MPIR_ATTACH:
the process of this number is there already, and is looked at as it is.
"""
import os
import struct

import gdb


def value(symbol, kind):
    return int(gdb.parse_and_eval(f"*({kind}*)&{symbol}"))


def text(address):
    return gdb.selected_inferior().read_memory(address, 1) and gdb.Value(address).cast(
        gdb.lookup_type("char").pointer()).string()


def show():
    print(f"mpir state {value('MPIR_debug_state', 'int')}", flush=True)
    table = value("MPIR_proctable", "unsigned long")
    for rank in range(value("MPIR_proctable_size", "int")):
        row = bytes(gdb.selected_inferior().read_memory(table + 24 * rank, 24))
        host, executable, pid = struct.unpack("QQi4x", row)
        print(f"mpir {rank} {text(host)} {text(executable)} {pid}", flush=True)


for each in ("confirm off", "pagination off", "breakpoint pending on", "debuginfod enabled off"):
    try:
        gdb.execute(f"set {each}")
    except gdb.error:
        pass
if "MPIR_ATTACH" in os.environ:
    gdb.execute(f"attach {os.environ['MPIR_ATTACH']}")
    show()
    gdb.execute("detach")
else:
    gdb.execute("handle SIGCONT SIGCHLD SIGPIPE SIGTTIN SIGTTOU nostop noprint pass", to_string=True)
    gdb.execute("starti", to_string=True)
    for symbol in ("MPIR_i_am_starter", "MPIR_partial_attach_ok", "MPIR_acquired_pre_main", "MPIR_debug_abort_string"):
        gdb.parse_and_eval(f"&{symbol}")  # fails if it is not there
    gdb.execute("set var *(int*)&MPIR_being_debugged = 1")
    gdb.execute("break MPIR_Breakpoint", to_string=True)
    while True:
        gdb.execute("continue", to_string=True)
        if not gdb.selected_inferior().pid:
            break
        if gdb.selected_frame().name() != "MPIR_Breakpoint":
            print(f"mpir stopped in {gdb.selected_frame().name()}", flush=True)
            continue
        if value("MPIR_debug_state", "int") == 2:
            print(f"mpir aborting: {text(value('MPIR_debug_abort_string', 'unsigned long'))}", flush=True)
            continue
        show()
        if "MPIR_RUN" in os.environ:
            os.system(os.environ["MPIR_RUN"])
