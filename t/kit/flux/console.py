# SPDX-License-Identifier: Apache-2.0
"""What `flux run` does once a job is there: prints its output and exceptions, and sends it the standard input."""

import asyncio
import base64
import errno
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from flux import idset, wire
from flux.job import Job

LEVELS = ("FATAL", "FATAL", "FATAL", "ERROR", " WARN", "", "DEBUG", "TRACE")
CHUNK = 1 << 16
ROUTE = b"console"


def data_of(context: dict[str, Any]) -> bytes:
    """Of an entry `data` (RFC 24)."""
    data = context.get("data", "")
    whole = base64.b64decode(data) if context.get("encoding") == "base64" else data.encode()
    return whole * context.get("repeat", 1)


class Console:
    def __init__(self, job: Job, label: bool, ranks: str, on_output: Callable[[bytes], None]):
        """`ranks`: of the tasks that have standard input; "" or "all": every one."""
        self.job, self.label, self.ranks, self.on_output = job, label, ranks or "all", on_output
        self.began = 0.0
        self.answers: asyncio.Queue[wire.Message] = asyncio.Queue()
        job.instance.internal[ROUTE] = self.answers.put_nowait

    def follow(self) -> None:
        for path, show in (("eventlog", self._show_event), ("guest.exec.eventlog", self._show_exec), ("guest.output", self._show_output)):
            self._follow(*self.job.key(path), show)

    def _follow(self, space: str, key: str, show: Callable[[float, str, Any], None]) -> None:
        def deliver(piece: bytes) -> None:
            for line in piece.splitlines():
                event = json.loads(line)
                self.began = self.began or event["timestamp"]
                show(event["timestamp"] - self.began, event["name"], event.get("context", {}))
            sys.stdout.buffer.flush()
            sys.stderr.flush()

        self.job.store.follow(space, key, deliver, lambda: None)

    @staticmethod
    def _say(at: float, text: str) -> None:
        print(f"{at:.3f}s: {text}", file=sys.stderr, flush=True)

    def _show_event(self, at: float, name: str, context: Any) -> None:
        if name == "exception":
            shown = "ƒ" + idset.write_id(self.job.id)[1:]
            self._say(at, f"job.exception {shown} type={context['type']} severity={context['severity']} {context['note']}")

    def _show_exec(self, at: float, name: str, context: Any) -> None:
        if name == "log":
            self._say(at, f"{context['component']}[{context['rank']}]: {context['stream']}: {context['data'].rstrip()}")
        elif name == "shell.start":
            self.job.instance.keep(self._send_input())

    def _show_output(self, at: float, name: str, context: Any) -> None:
        if name == "data":
            data = data_of(context)
            if data:
                file = sys.stdout.buffer if context["stream"] == "stdout" else sys.stderr.buffer
                file.write(f"{context['rank']}: ".encode() + data if self.label else data)
                self.on_output(data)
        elif name == "redirect":
            path = f" to {context['path']}" if "path" in context else ""
            print(f"{context['rank']}: {context['stream']} redirected{path}", file=sys.stderr, flush=True)
        elif name == "log":
            words = [f"flux-shell[{context['rank']}]" if "rank" in context else "flux-shell", LEVELS[context["level"]].strip(),
                     context.get("component", ""), context["message"]]
            self._say(at, ": ".join(filter(None, words)))

    @staticmethod
    async def _read_input() -> bytes:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        try:
            loop.add_reader(0, ready.set)
        except PermissionError:  # that of epoll for a file, which is always ready
            return os.read(0, CHUNK)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(0)
        return os.read(0, CHUNK)

    async def _send_input(self) -> None:
        """One piece at a time: the shell answers when it has it. First the tasks that are to have none get its end."""
        if others := self._others():
            if not await self._send({"stream": "stdin", "rank": idset.write_set(others), "eof": True}):
                return
        data = b"-"
        while data:
            data = await self._read_input()
            context: dict[str, Any] = {"stream": "stdin", "rank": self.ranks}
            try:
                context |= {"data": data.decode()} if data and b"\0" not in data else {}
            except UnicodeDecodeError:
                pass
            if not data:
                context["eof"] = True
            elif "data" not in context:
                context |= {"encoding": "base64", "data": base64.b64encode(data).decode()}
            if not await self._send(context):
                return

    def _others(self) -> set[int]:
        """The tasks that are to have no standard input."""
        if self.ranks == "all":
            return set()
        start = self.job.event("guest.exec.eventlog", "shell.start")
        assert start
        tasks = sum(nodes * per_node * repeat for _, nodes, per_node, repeat in start["context"]["taskmap"]["map"])
        return set(range(tasks)) - set(idset.read_set(self.ranks))

    async def _send(self, context: dict[str, Any]) -> bool:
        """Whether the shell has taken it."""
        event = self.job.event("guest.exec.eventlog", "shell.init")
        assert event
        service, node = event["context"]["service"], event["context"]["leader-rank"]
        self.job.instance.request(wire.Message(wire.REQUEST, f"{service}.stdin", wire.payload_of(context), 0, node, 1,
                                               os.getuid(), wire.OWNER | wire.LOCAL, [ROUTE]), 0)
        answer = await self.answers.get()
        if answer.number not in (0, errno.ENOSYS, errno.EPIPE):
            print(f"flux_broker: {service}.stdin: {os.strerror(answer.number)}", file=sys.stderr, flush=True)
        return answer.number == 0
