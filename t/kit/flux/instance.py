# SPDX-License-Identifier: Apache-2.0
"""Brokers, one for each rank, all in this process: their clients, how messages are routed, and faults that a test asks for."""

import argparse
import asyncio
import collections
import dataclasses
import errno
import fnmatch
import os
import socket
import struct
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from flux import wire
from flux.wire import Message

LINGER = 2  # seconds
KINDS_OF_FAULT = ("late", "slow", "refuse", "die", "garbage", "half", "magic")


@dataclasses.dataclass
class Fault:
    """What goes wrong with the requests for a topic; `value` is seconds, bytes each second, an errno, or which of the requests it is."""

    topic: str
    kind: str
    value: float
    seen: int = 0
    turn: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)

    @staticmethod
    def parse(text: str) -> "Fault":
        topic, _, rest = text.partition(":")
        kind, _, value = rest.partition("=")
        try:
            if not topic or kind not in KINDS_OF_FAULT:
                raise ValueError
            number = getattr(errno, value) if kind == "refuse" else float(value)
        except (ValueError, AttributeError):
            kinds = "|".join(KINDS_OF_FAULT)
            raise argparse.ArgumentTypeError(f"{text}: expected TOPIC:KIND=VALUE, KIND one of {kinds}, as in kvs.commit:late=2") from None
        return Fault(topic, kind, number)


class Client:
    """What has connected to a broker."""

    def __init__(self, broker: "Broker", writer: asyncio.StreamWriter):
        credentials = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.pid, self.userid, _ = struct.unpack("3i", credentials)
        self.broker, self.writer = broker, writer
        self.id = uuid.uuid4().hex.encode()
        self.subscriptions: collections.Counter[str] = collections.Counter()
        self.asked: dict[tuple[str, int], Message] = {}  # the first request for each service and node: they hear when it goes

    def send(self, message: Message) -> None:
        self.write(wire.encode(message))

    def write(self, data: bytes) -> None:
        if not self.writer.is_closing():
            self.writer.write(data)


class Broker:
    def __init__(self, instance: "Instance", rank: int):
        self.instance, self.rank = instance, rank
        self.path = os.path.join(instance.folder, f"local-{rank}")
        self.services: dict[str, Client] = {}
        self.clients: dict[bytes, Client] = {}
        self.server: asyncio.AbstractServer | None = None
        self.gone = False

    def uri(self) -> str:
        return f"local://{self.path}"

    async def open(self) -> None:
        self.server = await asyncio.start_unix_server(self._serve, self.path, limit=1 << 20)

    def go_away(self) -> None:
        """At once, as if its process were killed."""
        self.gone = True
        if self.server:
            self.server.close()
        for client in self.clients.values():
            client.writer.transport.abort()  # its task reads the end
        if os.path.exists(self.path):
            os.unlink(self.path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(self, writer)
        self.clients[client.id] = client
        client.write(b"\0")
        try:
            while not self.gone and (message := await wire.read(reader)):
                self._receive(client, message)
        except wire.Malformed as error:
            self.instance.note(f"broker {self.rank}: process {client.pid} sent what is no message: {error}")
        finally:
            self._forget(client)
            writer.close()

    def _receive(self, client: Client, message: Message) -> None:
        if message.userid == wire.UNKNOWN:
            message.userid = client.userid
        if not message.rolemask:
            message.rolemask = wire.LOCAL | (wire.OWNER if client.userid == os.getuid() else wire.USER)
        if message.kind == wire.RESPONSE:
            self.instance.respond(message)
        elif message.kind == wire.EVENT:
            self.instance.publish(message.topic, message.payload, message.userid)
        elif message.kind == wire.REQUEST:
            self.instance.record(self.rank, client, message)
            local = {"event.subscribe": self._subscribe, "event.unsubscribe": self._subscribe,
                     "service.add": self._add_service, "service.remove": self._remove_service}.get(message.topic)
            message.routes.insert(0, client.id)
            if local:
                self.instance.ask(Request(self.instance, message, self.rank, self._of_client(client, local)))
                return
            if not message.has(wire.NORESPONSE):
                client.asked.setdefault((message.service(), message.number), message)
            self.instance.request(message, self.rank)

    @staticmethod
    def _of_client(client: Client, change: Callable[[Client, Message], None]) -> "Handler":
        def handle(request: Request) -> None:
            change(client, request.message)
            request.answer()

        return handle

    @staticmethod
    def _subscribe(client: Client, message: Message) -> None:
        client.subscriptions[message.value()["topic"]] += 1 if message.topic == "event.subscribe" else -1

    def _add_service(self, client: Client, message: Message) -> None:
        name = message.value()["service"]
        if name in self.services or self.instance.has_service(name):
            raise OSError(errno.EEXIST, "")
        self.services[name] = client

    def _remove_service(self, client: Client, message: Message) -> None:
        name = message.value()["service"]
        if self.services.get(name) is not client:
            raise OSError(errno.ENOENT, "")
        del self.services[name]

    def _forget(self, client: Client) -> None:
        """Tells the services that it has asked that they need not answer."""
        self.clients.pop(client.id, None)
        self.services = {name: each for name, each in self.services.items() if each is not client}
        for (service, node), first in client.asked.items():
            message = dataclasses.replace(first, topic=f"{service}.disconnect", payload=None, flags=wire.NORESPONSE, number=node,
                                          matchtag=0, routes=[client.id])
            self.instance.request(message, self.rank)


class Request:
    """One that a service of the instance answers."""

    def __init__(self, instance: "Instance", message: Message, rank: int, handle: "Handler | None" = None):
        self.instance, self.message, self.rank = instance, message, rank
        self.handle = handle or instance.handlers.get(message.topic)
        self.fields: dict[str, Any] = {}

    def origin(self) -> bytes:
        """Of the client that has asked."""
        return self.message.routes[-1] if self.message.routes else b""

    def answer(self, value: Any = None, number: int = 0, always: bool = False) -> None:
        """`value`: JSON, bytes as they are, or nothing. `always`: also where the request says that it wants none."""
        if self.message.has(wire.NORESPONSE) and not always:
            return
        payload = value if value is None or isinstance(value, bytes) else wire.payload_of(value)
        self.instance.respond(dataclasses.replace(
            self.message, kind=wire.RESPONSE, payload=payload, number=number, routes=list(self.message.routes),
            flags=self.message.flags & wire.STREAMING, userid=os.getuid(), rolemask=wire.OWNER | wire.LOCAL))

    def refuse(self, number: int, text: str = "", always: bool = False) -> None:
        self.answer(text.encode() + b"\0" if text else None, number, always)


Handler = Callable[[Request], None]
BY_BYTES = ("content.load",)  # topics of requests that have no JSON


class Instance:
    def __init__(self, size: int, folder: str, faults: list[Fault]):
        self.folder, self.faults = folder, faults
        self.brokers = [Broker(self, rank) for rank in range(size)]
        self.handlers: dict[str, Handler] = {}  # by topic
        self.internal: dict[bytes, Callable[[Message], None]] = {}  # who else gets responses, by route
        self.requests: list[dict[str, Any]] = []  # of clients, as they came
        self.notes: list[str] = []
        self.sequence = 0
        self.on_broker_gone: Callable[[int], None] = lambda rank: None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        for broker in self.brokers:
            await broker.open()

    async def close(self) -> None:
        """Waits for clients that have not yet read to the end."""
        deadline = time.monotonic() + LINGER
        while any(broker.clients for broker in self.brokers):
            if time.monotonic() > deadline:
                for broker in self.brokers:
                    broker.go_away()
            await asyncio.sleep(0.01)
        for broker in self.brokers:
            broker.go_away()
        for task in self._tasks:
            task.cancel()

    def note(self, text: str) -> None:
        self.notes.append(text)

    def record(self, rank: int, client: Client, message: Message) -> None:
        self.requests.append({"rank": rank, "pid": client.pid, "topic": message.topic, "nodeid": message.number, "flags": message.flags})

    def has_service(self, name: str) -> bool:
        return any(topic.startswith(f"{name}.") for topic in self.handlers)

    def client(self, identity: bytes) -> Client | None:
        return next((broker.clients[identity] for broker in self.brokers if identity in broker.clients), None)

    def request(self, message: Message, rank: int) -> None:
        """To the service of the rank that it names; for any rank, to the nearest on the way to rank 0."""
        any_rank = message.number == wire.ANY or message.has(wire.UPSTREAM)
        for there in [rank, 0] if any_rank else [message.number]:
            if there >= len(self.brokers) or self.brokers[there].gone:
                Request(self, message, rank).refuse(errno.EHOSTUNREACH)
                return
            if there != rank:
                message.rolemask &= ~wire.LOCAL
            name = message.service()
            while name and name not in self.brokers[there].services:
                name = name.rpartition(".")[0]
            if name:
                self.brokers[there].services[name].send(dataclasses.replace(message, routes=[f"rank-{there}".encode(), *message.routes]))
                return
        self.ask(Request(self, message, rank if any_rank else message.number))

    def respond(self, message: Message) -> None:
        while message.routes:
            route = message.routes.pop(0)
            if route in self.internal:
                self.internal[route](message)
                return
            if client := self.client(route):
                client.send(message)
                return

    def publish(self, topic: str, payload: bytes | None, userid: int, flags: int = 0) -> int:
        self.sequence += 1
        event = Message(wire.EVENT, topic, payload, flags, self.sequence, 0, userid, wire.OWNER | wire.LOCAL, [b"event"])
        for broker in self.brokers:
            for client in list(broker.clients.values()):
                if any(count > 0 and topic.startswith(prefix) for prefix, count in client.subscriptions.items()):
                    client.send(event)
        return self.sequence

    def ask(self, request: Request) -> None:
        faults = [each for each in self.faults if fnmatch.fnmatchcase(request.message.topic, each.topic)]
        if not faults:
            self._handle(request)
            return
        self.keep(self._go_wrong(request, faults))

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs it beside the rest, until close()."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _handle(self, request: Request) -> None:
        topic = request.message.topic
        if not request.handle:
            if not topic.endswith(".disconnect"):
                request.refuse(errno.ENOSYS, f"No service matching {topic} is registered")
            return
        try:
            request.fields = {} if topic in BY_BYTES else request.message.value()
            request.handle(request)
        except OSError as error:
            request.refuse(error.errno or errno.EPROTO, error.strerror or "")
        except (KeyError, TypeError, ValueError, AttributeError):
            request.refuse(errno.EPROTO)

    async def _go_wrong(self, request: Request, faults: list[Fault]) -> None:
        for fault in faults:
            fault.seen += 1
            async with fault.turn:  # requests stay in turn
                if fault.kind in ("late", "slow"):
                    size = len(request.message.payload or b"")
                    await asyncio.sleep(fault.value if fault.kind == "late" else size / fault.value)
                elif fault.kind == "refuse":
                    request.refuse(int(fault.value), "refused, as a fault of the test", always=True)
                    return
                elif fault.seen == fault.value:
                    self._break(request, fault.kind)
                    return
        self._handle(request)

    def _break(self, request: Request, kind: str) -> None:
        client = self.client(request.origin())
        if kind == "die":
            rank = client.broker.rank if client else 0
            self.note(f"broker {rank} goes away, as a fault of the test")
            self.brokers[rank].go_away()
            self.on_broker_gone(rank)
            return
        whole = wire.encode(Message(wire.RESPONSE, request.message.topic, wire.payload_of({}), 0, 0, request.message.matchtag))
        if client:
            client.write({"garbage": whole[:8] + b"\x7f" * (len(whole) - 8), "half": whole[:len(whole) // 2],
                          "magic": b"\xde\xad\xbe\xef" + whole[4:]}[kind])
            if kind == "half":
                client.writer.close()
