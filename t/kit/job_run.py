# SPDX-License-Identifier: Apache-2.0
"""One job of a test in Python: started in a folder of its own, waited for with an end, and what it leaves is found.

Its processes are known by a variable of their environment, or by the job's folder in their arguments; its files by TMPDIR.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

MARK = "NACRE_TEST_MARK"
SANITIZER_FACTOR = 3  # a build with sanitizers has so many times the time
SANITIZER_WORDS = ("AddressSanitizer", "LeakSanitizer", "runtime error:")
LONGEST_STEP = 0.5  # seconds that count of the time between two looks: a machine that stands still uses up no more
KILL_TIME = 10  # seconds within which the kernel ends what got SIGKILL


class Deadline:
    def __init__(self, seconds):
        self.left, self.last = seconds, time.monotonic()

    def over(self):
        now = time.monotonic()
        self.left -= min(now - self.last, LONGEST_STEP)
        self.last = now
        return self.left < 0


def count(text):
    """The type of an argument that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got '{text}'")
    return int(text)


def build_folder(text):
    """The type of an argument that is a build folder."""
    program_under_test = os.path.join(os.path.abspath(text), "nacre-shell")
    if not os.path.exists(program_under_test):
        raise argparse.ArgumentTypeError(f"{program_under_test}: no such program: build it, or name another build folder")
    return os.path.dirname(program_under_test)


def wait_for(condition, seconds):
    """The first true result of the condition; what it is in the end if the time is over before."""
    deadline = Deadline(seconds)
    pause = 0.002
    while not (result := condition()):
        if deadline.over():
            return condition()
        time.sleep(pause)
        pause = min(2 * pause, 0.03)
    return result


def default_signals():
    """To be called first: what runs the test may ignore or block signals, which its children would inherit."""
    for signum in (signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD, signal.SIGTSTP):
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def time_factor(build):
    """How much more time the programs of a build folder may take."""
    with open(os.path.join(build, "nacre-shell"), "rb") as file:
        return SANITIZER_FACTOR if b"__asan_init" in file.read() else 1


def blocks(pid, signum):
    """Whether it has this signal blocked: a copy of a shell that is to be its guard has all, and so has one that is to become a task.

    Unlike what a process runs, which only root can see of a shell, anybody can see that.
    """
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            masks = [int(line.split()[1], 16) for line in file if line.startswith("SigBlk:")]
    except OSError:
        return True
    return not masks or masks[0] >> (signum - 1) & 1 == 1


def children(pid):
    """Processes that it has started, and those that it has adopted."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def variable(pid, name):
    """Of the process's environment, as it was when its program started; None if it is not there, or cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            found = [each for each in file.read().split(b"\0") if each.startswith(name.encode() + b"=")]
    except OSError:
        return None
    return found[0].split(b"=", 1)[1].decode(errors="replace") if found else None


def program(pid):
    """Its name, as ps has it."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


class JobRun:
    """To be used by `with`: at its end every process of the job is killed, and the folder goes unless `keep` is set.

    An ordinary user may not read the environment of a shell (transport/secret.hpp), only its command line. So its program is a
    link in the job's folder, by which it is known.
    """

    def __init__(self, build, prefix="nacre-job-", parent=None):
        self.folder = tempfile.mkdtemp(prefix=prefix, dir=parent)
        self.build = os.path.join(self.folder, "bin")
        os.mkdir(self.build)
        for program_name in ("nacre", "nacre-shell"):
            os.symlink(os.path.join(os.path.abspath(build), program_name), os.path.join(self.build, program_name))
        self.tmp = os.path.join(self.folder, "tmp")
        os.mkdir(self.tmp)
        self.environment = {**os.environ, MARK: self.folder, "TMPDIR": self.tmp,
                            "NACRE_JOBS_DIR": os.path.join(self.folder, "jobs")}
        self.process = None
        self.keep = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill_all()
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        """"" if there is no such file."""
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def write_job(self, nodes, command, tasks=1, **system):
        """`tasks` on each of node0, node1 ...; `system`: attributes of the jobspec."""
        ranks = f"0-{nodes - 1}" if nodes > 1 else "0"
        cores = f"0-{tasks - 1}" if tasks > 1 else "0"
        resources = {"version": 1, "execution": {"R_lite": [{"rank": ranks, "children": {"core": cores}}],
                                                 "nodelist": [f"node[{ranks}]"], "starttime": 0, "expiration": 0}}
        environment = {"PATH": "/usr/bin:/bin", MARK: self.folder}
        jobspec = {"version": 1, "resources": [{"type": "slot", "count": nodes * tasks, "label": "task",
                                                "with": [{"type": "core", "count": 1}]}],
                   "tasks": [{"command": command, "slot": "task", "count": {"per_slot": 1}}],
                   "attributes": {"system": {"duration": 0, "environment": environment, **system}}}
        self.write("R.json", json.dumps(resources))
        self.write("jobspec.json", json.dumps(jobspec))

    def launch_command(self, *arguments):
        """nacre launch of that job."""
        options = [each for each in arguments if each.startswith("--shell=")] or [f"--shell={self.build}/nacre-shell"]
        return [os.path.join(self.build, "nacre"), "launch", "-j", "jobspec.json", "-R", "R.json", "-o", "cpu-affinity=off", *options,
                *(each for each in arguments if each not in options)]

    def start(self, command, **options):
        """Its standard output and error are the files stdout and stderr of the folder."""
        options.setdefault("stdin", subprocess.DEVNULL)
        with open(self.path("stdout"), "wb") as out, open(self.path("stderr"), "wb") as err:
            options.setdefault("stdout", out)
            options.setdefault("stderr", err)
            self.process = subprocess.Popen(command, cwd=self.folder, env=self.environment, **options)

    def ended(self):
        return self.process.poll() is not None

    def code(self):
        """The exit code as a command interpreter has it: 128 + N if signal N ended it. None: it runs."""
        code = self.process.poll()
        return code if code is None or code >= 0 else 128 - code

    def signal(self, signum):
        """Nothing if it has ended: poll() has not yet reaped it, so its number is not another's."""
        if self.process.returncode is None:
            os.kill(self.process.pid, signum)

    def processes(self):
        """{id: command line} of all that are of the job, but for those that have ended and were not yet reaped."""
        folder = self.folder.encode()
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read()
            except OSError:
                continue
            if folder in words or variable(pid, MARK) == self.folder:
                found[int(pid)] = words.replace(b"\0", b" ").decode(errors="replace").strip()
        return found

    def left(self, seconds):
        """What still runs when that time is over."""
        wait_for(lambda: not self.processes(), seconds)
        return self.processes()

    def files_left(self, seconds):
        """What is still below TMPDIR when that time is over."""
        wait_for(lambda: not os.listdir(self.tmp), seconds)
        return sorted(os.path.relpath(os.path.join(at, name), self.tmp)
                      for at, folders, files in os.walk(self.tmp) for name in folders + files)

    def kill_all(self):
        def none_left():
            pids = self.processes()
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return not pids
        if self.process is not None and not wait_for(none_left, KILL_TIME):
            self.keep = True
        if self.process is not None:
            self.process.wait()
