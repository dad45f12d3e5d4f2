# SPDX-License-Identifier: Apache-2.0
"""Run jobs with nacre: the tasks of an MPI program, or copies of any command, on this host, on others, or in an allocation.

>>> import nacre
>>> result = nacre.run(["./app", "--steps=10"], n=4, hosts="node[0-3]")
>>> result.code, result.output
(0, '...')

A job that fails raises nothing: its code is not 0, and `cause` says which task failed first. With `check()` it raises:

>>> nacre.run(["sh", "-c", "exit $NACRE_TASK_RANK"], n=2).check()
Traceback (most recent call last):
  ...
nacre.JobFailed: exit code 1: rank 1 on node0 exited with code 1

`jobs()` lists the jobs that run. The programs `nacre` and `nacre-shell` come with this module; their manual is in share/man of
the environment: `man nacre-run`.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Mapping, Optional, Sequence, Union

__all__ = ["JobFailed", "Result", "jobs", "program", "run"]

Word = Union[str, "os.PathLike[str]"]
OLDEST_LIBC = (2, 34)


class JobFailed(RuntimeError):
    """A job has ended with another code than 0; `result` is what `run` has returned for it."""

    def __init__(self, result: Result) -> None:
        super().__init__(str(result))
        self.result = result


@dataclass(frozen=True)
class Result:
    """How a job has ended."""

    code: int
    """The exit code of the job: 0 if all is well; nacre-exits(7) has the rules."""
    cause: Optional[dict[str, Any]]
    """The task that failed first, as the report has it: `rank`, `host`, `kind` and `value` of its end, `stderr` ...; or None."""
    report: Optional[dict[str, Any]]
    """The report of `--report`, see nacre-exits(7); None if the job could not be started: `errors` says why."""
    output: str
    """What the tasks have written to standard output; empty if it was not captured."""
    errors: str
    """What the tasks and nacre have written to standard error; empty if it was not captured."""

    def check(self) -> Result:
        """Raise JobFailed if the code is not 0; else return this."""
        if self.code != 0:
            raise JobFailed(self)
        return self

    def __str__(self) -> str:
        if self.cause is not None and "rank" in self.cause:
            return f"exit code {self.code}: rank {self.cause['rank']} on {self.cause.get('host', '?')} {_end_of(self.cause)}"
        last = self.errors.strip().splitlines()[-1:]
        return f"exit code {self.code}" + (f": {last[0]}" if self.code != 0 and last else "")


def run(
    command: Union[str, Sequence[Word]],
    n: Optional[int] = None,
    *,
    hosts: Union[str, Sequence[str], None] = None,
    setopt: Optional[Mapping[str, Any]] = None,
    input: Union[str, bytes, None] = None,
    capture: bool = True,
    **options: Any,
) -> Result:
    """Run `command` as `n` tasks, wait for the job's end, and return how it has ended.

    command: a program and its arguments; a text is split as a shell does it, but run by none.
    n: how many tasks; by default one, or as many as the allocation or the hosts have slots.
    hosts: where: "node[0-3]" or ["node0", "node1"]; by default those of the allocation, else this host.
    setopt: shell options, see nacre-shell-options(7): {"cpu-affinity": "off"}.
    input: what the tasks read from standard input; by default it is empty.
    capture: False: what the tasks write is not returned, but goes where this process writes.
    options: any other option of nacre-run(1), with _ for -: tasks_per_node=8, label_io=True, env=["A=1", "-B"]. True is an
        option without a value, None and False leave it out, a list repeats it. env={"A": "1"} sets variables as they are.

    Raises ValueError for wrong usage of these, and RuntimeError where nacre cannot be run. Not for a job that fails. Ctrl-C
    (KeyboardInterrupt) is the job's, too: it is raised when the job has ended.
    """
    words = _words(command)
    if not words:
        raise ValueError("nacre.run: no command")
    if n is not None:
        options["ntasks"] = n
    if hosts is not None:
        options["hosts"] = hosts if isinstance(hosts, str) else ",".join(hosts)
    if setopt:
        options["setopt"] = [f"{name}={_text(value)}" for name, value in setopt.items()]
    with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
        report_file = os.fspath(options.setdefault("report", os.path.join(folder, "report.json")))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(report_file)
        arguments = [program(), "run", *_option_words(options), "--", *words]
        ended = _run(arguments, input.encode() if isinstance(input, str) else input, capture)
        report = _read(report_file)
    errors = (ended.stderr or b"").decode(errors="replace")
    if ended.returncode == 2 and report is None:
        raise ValueError((errors.strip().splitlines() or ["nacre run: wrong usage"])[0])
    code = ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
    cause = report.get("cause") if report is not None else None
    return Result(code, cause or None, report, (ended.stdout or b"").decode(errors="replace"), errors)


def _run(arguments: Sequence[str], data: Optional[bytes], capture: bool) -> subprocess.CompletedProcess[bytes]:
    pipe = subprocess.PIPE if capture else None
    interrupt: Optional[KeyboardInterrupt] = None
    with subprocess.Popen(arguments, stdin=subprocess.DEVNULL if data is None else subprocess.PIPE, stdout=pipe, stderr=pipe) as process:
        while True:
            try:
                out, errors = process.communicate(data if interrupt is None else None)
                break
            except KeyboardInterrupt as caught:
                interrupt = caught
                process.send_signal(signal.SIGINT)
    if interrupt is not None:
        raise interrupt
    return subprocess.CompletedProcess(arguments, process.returncode, out, errors)


def jobs(ended: bool = False) -> list[dict[str, Any]]:
    """The jobs of this user that run, or with `ended` also those that have ended: `id`, `name`, `tasks`, `status` ..., as
    `nacre jobs --json` has them, see nacre-jobs(1)."""
    arguments = [program(), "jobs", "--json"] + (["--all"] if ended else [])
    listed = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if listed.returncode != 0:
        raise RuntimeError(listed.stderr.decode(errors="replace").strip() or "nacre jobs has failed")
    return [json.loads(line) for line in listed.stdout.splitlines() if line]


def program(name: str = "nacre") -> str:
    """The path of the program of this name that came with this module, else of the first in PATH."""
    try:
        files = metadata.files("nacre") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = os.path.realpath(str(file.locate()))
        if file.name == name and file.parent.name == "bin" and os.access(path, os.X_OK):
            _check_libc()
            return path
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is neither installed with this module nor in PATH")
    return found


def _check_libc() -> None:
    library, version = platform.libc_ver()
    numbers = tuple(int(each) for each in version.split(".")[:2] if each.isdigit())
    if library != "glibc" or numbers < OLDEST_LIBC:
        has = f"{library} {version}".strip() or "another C library"
        raise RuntimeError(f"nacre needs glibc 2.34 or later (Ubuntu 22.04, RHEL 9, Debian 12), and this system has {has}")


def _words(command: Union[str, Sequence[Word]]) -> list[str]:
    if isinstance(command, str):
        return shlex.split(command)
    return [os.fspath(word) for word in command]


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (bool, dict, list)) else str(value)


def _option_words(options: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        option = f"-{name}" if len(name) == 1 else "--" + name.replace("_", "-")
        if isinstance(value, Mapping):
            value = [f"{key}={str(each).replace('$', '$$')}" for key, each in value.items()]
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is True:
                words.append(option)
            elif each is not None and each is not False:
                words += [option, str(each)] if len(name) == 1 else [f"{option}={os.fspath(each) if isinstance(each, os.PathLike) else each}"]
    return words


def _end_of(cause: Mapping[str, Any]) -> str:
    """Its record in words; see RECORDS in nacre-exits(7)."""
    kind, value = cause.get("kind"), cause.get("value")
    if kind == "l":
        return "was lost"
    ways = {"x": f"exited with code {value}", "s": f"was killed by signal {value}", "f": "could not be started", "t": "ran out of time"}
    return ways.get(str(kind), f"ended as {cause.get('record')}")


def _read(path: str) -> Optional[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
            return found
    except FileNotFoundError:
        return None
