# SPDX-License-Identifier: Apache-2.0
"""One job: its shells, eventlogs, barriers and exceptions, as Flux's job manager and its execution service have them."""

import asyncio
import base64
import contextlib
import errno
import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from flux import idset, kvs, wire
from flux.instance import Instance, Request
from flux.services import Services

LOOKUP_DECODED, LOOKUP_CURRENT, WATCH_WAITCREATE, WATCH_SENTINEL = 1, 2, 1, 2
ON_THE_WAY = 0.02  # seconds that an exception takes to whom signals the shells: one that raises it has time to end by itself
SHELL_KILLS = 5  # so many times the kill timeout after the first signal, the shells themselves are killed


def signed(jobspec: dict[str, Any]) -> str:
    """J: as by the owner of the instance, without a signature."""
    header = b"".join(word + b"\0" for word in (b"version", b"i1", b"userid", b"i%d" % os.getuid(), b"mechanism", b"snone"))
    return ".".join([base64.b64encode(header).decode(), base64.b64encode(json.dumps(jobspec).encode()).decode(), "none"])


def entry(name: str, context: dict[str, Any] | None) -> bytes:
    """A line of an eventlog (RFC 18)."""
    value: dict[str, Any] = {"timestamp": time.time(), "name": name}
    if context is not None:
        value["context"] = context
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


class Job:
    def __init__(self, instance: Instance, services: Services, jobspec: dict[str, Any], resources: dict[str, Any], shell: list[str], kill_timeout: float):
        self.instance, self.services, self.store = instance, services, services.store
        self.jobspec, self.resources, self.shell, self.kill_timeout = jobspec, resources, shell, kill_timeout
        self.id = int(time.monotonic() * 1000) << 24
        self.space = f"job-{self.id}"
        self.ranks = [rank for each in resources["execution"]["R_lite"] for rank in idset.read_set(each["rank"])]
        self.hosts = [name for each in resources["execution"]["nodelist"] for name in each.split(",")]
        self.processes: dict[int, asyncio.subprocess.Process] = {}
        self.status = 0
        self.codes: dict[int, int] = {}  # of shells that have ended, as subprocess has them
        self.in_barrier: dict[int, Request] = {}
        self.barriers: list[list[int]] = []  # the ranks in the order in which they came
        self.exceptions: list[dict[str, Any]] = []
        self.aborted = False
        self.aborted_status = -1
        self.updates: list[Request] = []  # who is told of a new R
        self.timers: list[asyncio.TimerHandle] = []
        self.expiry: asyncio.TimerHandle | None = None
        self.ended = asyncio.Event()
        self.store.create(self.space)
        self._offer()

    def _offer(self) -> None:
        self.instance.handlers.update({
            "job-info.lookup": self._look_up, "job-info.update-watch": self._watch_update, "job-info.eventlog-watch": self._watch_eventlog,
            "job-info.eventlog-watch-cancel": self.services.watches.cancel, "job-info.disconnect": self.services.watches.disconnect,
            "job-info.update-watch-cancel": self._cancel_update,
            "job-exec.shell-barrier": self._enter_barrier, "job-exec.critical-ranks": self._accept, "job-manager.memo": self._accept,
            "job-manager.raise": self._raise, "job-manager.kill": self._kill, "job-list.list-id": self._list})

    # What is said of it.

    def key(self, path: str) -> tuple[str, str]:
        """Namespace and key."""
        if path.startswith("guest."):
            return self.space, path.removeprefix("guest.")
        digits = f"{self.id:016x}"
        return kvs.PRIMARY, ".".join(["job", *(digits[at:at + 4] for at in range(0, 16, 4)), path])

    def say(self, path: str, name: str, context: dict[str, Any] | None = None) -> None:
        self.store.append(*self.key(path), entry(name, context))

    def eventlog(self, path: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.store.text(*self.key(path)) or b"").splitlines()]

    def event(self, path: str, name: str) -> dict[str, Any] | None:
        return next((each for each in self.eventlog(path) if each["name"] == name), None)

    # Start and end.

    async def start(self) -> None:
        public = json.loads(json.dumps(self.jobspec))
        public["attributes"]["system"].pop("environment", None)
        for path, text in (("J", signed(self.jobspec)), ("R", json.dumps(self.resources)), ("jobspec", json.dumps(public))):
            self.store.put(*self.key(path), text.encode())
        self.say("eventlog", "submit", {"userid": os.getuid(), "urgency": 16, "flags": 0, "version": 1})
        for name, context in (("validate", None), ("depend", None), ("priority", {"priority": 16}), ("alloc", None)):
            self.say("eventlog", name, context)
        self.say("guest.exec.eventlog", "init")
        self.say("guest.exec.eventlog", "starting")
        for rank in self.ranks:
            await self._start_shell(rank)
        if len(self.processes) == len(self.ranks):
            self.say("eventlog", "start")
            self._set_expiry()
        if not self.processes:
            self._finish()

    async def _start_shell(self, rank: int) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FLUX_")}
        environment |= {"FLUX_URI": self.instance.brokers[rank].uri(), "FLUX_KVS_NAMESPACE": self.space}
        try:
            process = await asyncio.create_subprocess_exec(
                *self.shell, str(self.id), env=environment, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, limit=1 << 20)
        except OSError as error:
            self.abort(f"job shell exec error on broker {self.hosts[self.ranks.index(rank)]} (rank {rank}): {self.shell[0]}: {error.strerror}")
            return
        self.processes[rank] = process
        assert process.stdout and process.stderr
        pipes = [self._take_log(rank, "stdout", process.stdout), self._take_log(rank, "stderr", process.stderr)]
        self.instance.keep(self._wait(rank, process, pipes))

    async def _take_log(self, rank: int, stream: str, pipe: asyncio.StreamReader) -> None:
        while data := await pipe.read(1 << 16):
            self.say("guest.exec.eventlog", "log", {"component": os.path.basename(self.shell[0]), "stream": stream, "rank": str(rank),
                                                    "data": data.decode(errors="replace")})

    async def _wait(self, rank: int, process: asyncio.subprocess.Process, pipes: list[Any]) -> None:
        await asyncio.gather(*pipes, process.wait())
        code = process.returncode or 0
        self.codes[rank] = code
        self.status = max(self.status, code << 8 if code >= 0 else -code)
        self._tell_of_end(rank, code)
        if len(self.codes) == len(self.processes):
            self._finish()

    def _tell_of_end(self, rank: int, code: int) -> None:
        active = [each for each in self.processes if each not in self.codes]
        if rank == self.ranks[0]:
            context: dict[str, Any] = {"rank": rank, "wait_status": code << 8 if code >= 0 else -code}
            self.say("guest.exec.eventlog", "shell-exit", {**context, "active_ranks": idset.write_set(active)} if active else context)
        if len(self.ranks) == 1:
            return
        index = self.ranks.index(rank)
        if not self.barriers and not self.aborted:
            self.abort(f"{self.hosts[index]} (rank {rank}) terminated before first barrier")
        for request in self.in_barrier.values():
            request.refuse(errno.EIO, always=True)
        self.in_barrier.clear()
        if code < 0:
            text = f"shell rank {index} (on {self.hosts[index]}): {signal.strsignal(-code)}"
            if index == 0:
                self.abort(text)
            else:
                self._lose(index, text)

    def lose_broker(self, rank: int) -> None:
        if rank in self.ranks and rank not in self.codes:
            index = self.ranks.index(rank)
            text = f"node failure on {self.hosts[index]} (rank {rank})"
            self._lose(index, text)
            self.abort(text)

    def _lose(self, index: int, text: str) -> None:
        """Tells the first shell, which would wait for what this one has."""
        if event := self.event("guest.exec.eventlog", "shell.init"):
            payload = wire.payload_of({"type": "lost-shell", "severity": 0, "shell_rank": index, "message": text})
            self.instance.request(wire.Message(wire.REQUEST, f'{event["context"]["service"]}.exception', payload, wire.NORESPONSE,
                                               self.ranks[0], 0, os.getuid(), wire.OWNER | wire.LOCAL), 0)

    def _finish(self) -> None:
        if self.aborted and self.aborted_status >= 0:
            self.status = self.aborted_status
        elif self.aborted and self.status == 0:
            self.status = 1 << 8
        for timer in [*self.timers, *([self.expiry] if self.expiry else [])]:
            timer.cancel()
        self.say("guest.exec.eventlog", "complete", {"status": self.status})
        self.say("eventlog", "finish", {"status": self.status})
        self.say("guest.exec.eventlog", "done")
        space = self.store.namespace(self.space)
        space.closed = True
        space.changed()
        self.say("eventlog", "release", {"ranks": "all", "final": True})
        self.say("eventlog", "free")
        self.say("eventlog", "clean")
        self.ended.set()

    def code(self) -> int:
        """The exit code, as `flux run` has it."""
        signum = self.status & 0x7f
        return 128 + signum if signum else self.status >> 8

    # What ends it early.

    def abort(self, note: str) -> None:
        if not self.aborted:
            self.raise_exception("exec", 0, note)

    def raise_exception(self, kind: str, severity: int, note: str = "", wait_status: int = -1) -> None:
        context = {"type": kind, "severity": severity, "note": note, "userid": os.getuid()}
        self.exceptions.append(context)
        self.say("eventlog", "exception", context)
        self.instance.publish("job-exception", wire.payload_of({"id": self.id, "type": kind, "severity": severity}), os.getuid(), wire.PRIVATE)
        if severity > 0 or self.aborted:
            return
        self.aborted, self.aborted_status = True, wait_status
        loop = asyncio.get_running_loop()
        self.timers.append(loop.call_later(ON_THE_WAY, self.signal_shells, signal.SIGALRM if kind == "timeout" else signal.SIGTERM))
        self.timers.append(loop.call_later(self.kill_timeout, self._kill_again))
        self.timers.append(loop.call_later(SHELL_KILLS * self.kill_timeout, self.signal_shells, signal.SIGKILL))

    def _kill_again(self) -> None:
        self.signal_tasks(signal.SIGKILL)
        self.timers.append(asyncio.get_running_loop().call_later(self.kill_timeout, self._kill_again))

    def signal_shells(self, signum: int) -> None:
        """Not by send_signal(), which takes the exit code of one that has just ended from asyncio's own wait: it would be 255."""
        for rank, process in self.processes.items():
            if rank not in self.codes and process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signum)

    def signal_tasks(self, signum: int) -> None:
        self.instance.publish(f"shell-{self.id}.kill", wire.payload_of({"signum": signum}), os.getuid())

    def _set_expiry(self) -> None:
        if self.expiry:
            self.expiry.cancel()
        if expiration := self.resources["execution"]["expiration"]:
            self.expiry = asyncio.get_running_loop().call_later(
                max(0.0, expiration - time.time()), self.raise_exception, "timeout", 0, "resource allocation expired")

    def set_expiration(self, expiration: float) -> None:
        self.resources["execution"]["expiration"] = expiration
        self.say("eventlog", "resource-update", {"expiration": expiration})
        for request in self.updates:
            request.answer({"R": self.resources})
        self._set_expiry()

    # Requests.

    @staticmethod
    def _accept(request: Request) -> None:
        request.answer()

    def _check(self, request: Request) -> None:
        if request.fields["id"] != self.id:
            raise OSError(errno.ENOENT, "unknown job id")

    def _check_runs(self, request: Request) -> None:
        self._check(request)
        if self.ended.is_set():
            raise OSError(errno.EINVAL, "job is inactive")

    def _look_up(self, request: Request) -> None:
        self._check(request)
        found: dict[str, Any] = {"id": self.id}
        for path in request.fields["keys"]:
            text = self.store.text(*self.key(path))
            if text is None:
                raise OSError(errno.ENOENT, "")
            if path == "R" and request.fields["flags"] & LOOKUP_CURRENT:
                text = json.dumps(self.resources).encode()
            decoded = request.fields["flags"] & LOOKUP_DECODED and path in ("R", "jobspec")
            found[path] = json.loads(text) if decoded else text.decode()
        request.answer(found)

    def _watch_update(self, request: Request) -> None:
        self._check(request)
        if request.fields["key"] != "R":
            raise OSError(errno.EINVAL, "only R is followed here")
        self.updates.append(request)
        request.answer({"R": self.resources})

    def _cancel_update(self, request: Request) -> None:
        for each in [each for each in self.updates if (each.origin(), each.message.matchtag) == (request.origin(), request.fields["matchtag"])]:
            self.updates.remove(each)
            each.refuse(errno.ENODATA)

    def _watch_eventlog(self, request: Request) -> None:
        self._check(request)
        space, key = self.key(request.fields["path"])
        flags, watch_key = request.fields["flags"], (request.origin(), request.message.matchtag)
        if not flags & WATCH_WAITCREATE and self.store.find(space, key) is None:
            raise OSError(errno.ENOENT, "")
        stop: Callable[[], None] = lambda: None

        def end() -> None:
            self.services.watches.stops.pop(watch_key, None)
            stop()
            request.refuse(errno.ENODATA)

        def deliver(piece: bytes) -> None:
            for line in piece.splitlines(keepends=True):
                request.answer({"event": line.decode()})
                if space == kvs.PRIMARY and json.loads(line)["name"] == "clean":
                    asyncio.get_running_loop().call_soon(end)

        self.services.watches.stops[watch_key] = end
        stop = self.store.follow(space, key, deliver, end)
        if flags & WATCH_SENTINEL:
            request.answer()

    def _enter_barrier(self, request: Request) -> None:
        self._check(request)
        rank = request.fields["rank"]
        if rank not in self.ranks or rank in self.in_barrier:
            request.refuse(errno.EINVAL, f"rank {rank} is not pending in barrier", always=True)
            return
        if self.codes:
            request.refuse(errno.EIO, always=True)
            return
        self.in_barrier[rank] = request
        if len(self.in_barrier) == len(self.ranks):
            self.barriers.append(list(self.in_barrier))
            for each in self.in_barrier.values():
                each.answer(always=True)
            self.in_barrier.clear()

    def _raise(self, request: Request) -> None:
        self._check_runs(request)
        severity, fields = request.fields["severity"], request.fields
        if severity not in range(8):
            raise OSError(errno.EPROTO, "invalid exception severity")
        request.answer()
        self.raise_exception(fields["type"], severity, fields.get("note", ""), fields.get("wait_status", -1))

    def _kill(self, request: Request) -> None:
        self._check_runs(request)
        if request.fields["signum"] not in range(1, signal.NSIG):
            raise OSError(errno.EINVAL, "Invalid signal number")
        self.signal_tasks(request.fields["signum"])
        request.answer()

    def _list(self, request: Request) -> None:
        self._check(request)
        request.answer({"job": {"id": self.id}})
