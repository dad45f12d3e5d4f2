# SPDX-License-Identifier: Apache-2.0
"""What an instance answers itself, but for jobs: attributes, events, the key-value store, the log."""

import base64
import errno
import os
from collections.abc import Callable
from typing import Any

from flux import archive, kvs
from flux.instance import Handler, Instance, Request

Stop = Callable[[], None]


class Watches:
    """Streams of responses that go on until the client cancels them, or goes."""

    def __init__(self) -> None:
        self.stops: dict[tuple[bytes, int], Stop] = {}

    def add(self, request: Request, stop: Stop) -> None:
        self.stops[request.origin(), request.message.matchtag] = stop

    def cancel(self, request: Request) -> None:
        """The stream ends with ENODATA, as that of one which has no more does."""
        self.end((request.origin(), request.fields["matchtag"]))

    def end(self, key: tuple[bytes, int]) -> None:
        if stop := self.stops.pop(key, None):
            stop()

    def disconnect(self, request: Request) -> None:
        for key in [each for each in self.stops if each[0] == request.origin()]:
            self.stops.pop(key)()


class Services:
    def __init__(self, instance: Instance, store: kvs.Store, attributes: dict[str, str]):
        self.instance, self.store, self.attributes = instance, store, attributes
        self.watches = Watches()
        self.log: list[str] = []
        self.content: archive.Content = {}
        handlers: dict[str, Handler] = {
            "attr.get": self._get_attribute, "log.append": self._append_log, "event.publish": self._publish,
            "kvs.commit": self._commit, "kvs.lookup": self._look_up, "kvs.lookup-plus": self._look_up,
            "kvs.getroot": self._get_root, "kvs.namespace-create": self._create,
            "kvs-watch.lookup": self._watch, "kvs-watch.cancel": self.watches.cancel, "kvs-watch.disconnect": self.watches.disconnect,
            "content.load": self._load}
        instance.handlers.update(handlers)

    def _get_attribute(self, request: Request) -> None:
        name = request.fields["name"]
        of_rank = {"rank": str(request.rank), "local-uri": self.instance.brokers[request.rank].uri()}
        value = of_rank.get(name) or self.attributes.get(name)
        if value is None:
            raise OSError(errno.ENOENT, "")
        request.answer({"value": value, "flags": 1})

    def _append_log(self, request: Request) -> None:
        self.log.append((request.message.payload or b"").rstrip(b"\0").decode(errors="replace"))
        request.answer()

    def _publish(self, request: Request) -> None:
        payload = request.fields.get("payload")
        sequence = self.instance.publish(request.fields["topic"], base64.b64decode(payload) if payload else None,
                                         request.message.userid, request.fields["flags"])
        request.answer({"seq": sequence})

    def _commit(self, request: Request) -> None:
        space = self.store.commit(request.fields["namespace"], request.fields["ops"])
        request.answer({"rootref": space.reference(), "rootseq": space.sequence})

    def _look_up(self, request: Request) -> None:
        name = request.fields.get("namespace", kvs.PRIMARY)
        space = self.store.namespace(name)
        root = {"rootseq": space.sequence, "rootref": space.reference()} if request.message.topic == "kvs.lookup-plus" else {}
        try:
            request.answer({"val": self.store.look_up(name, request.fields["key"], request.fields["flags"]), **root})
        except OSError as error:
            if not root or error.errno != errno.ENOENT:
                raise
            request.answer({"errno": errno.ENOENT, **root})

    def _load(self, request: Request) -> None:
        blob = self.content.get(request.message.payload or b"")
        if blob is None:
            raise OSError(errno.ENOENT, "")
        request.answer(blob)

    def _get_root(self, request: Request) -> None:
        space = self.store.namespace(request.fields["namespace"])
        request.answer({"owner": os.getuid(), "rootseq": space.sequence, "rootref": space.reference(), "flags": 0, "namespace": space.name})

    def _create(self, request: Request) -> None:
        self.store.create(request.fields["namespace"])
        request.answer()

    def _watch(self, request: Request) -> None:
        name, key, flags = (request.fields[each] for each in ("namespace", "key", "flags"))
        if not flags & kvs.WAITCREATE and self.store.find(name, key) is None:
            raise OSError(errno.ENOENT, "")
        if flags & (kvs.WATCH_APPEND | kvs.STREAM):
            self._watch_pieces(request, name, key, flags)
        else:
            self._watch_whole(request, name, key, flags)

    def _watch_pieces(self, request: Request, name: str, key: str, flags: int) -> None:
        stop = self.store.follow(name, key, lambda piece: request.answer({"val": kvs.tree_of([piece])}),
                                 lambda: request.refuse(errno.ENOTSUP))
        if flags & kvs.SENTINEL:
            request.answer()
        self._until_canceled(request, stop)
        if flags & kvs.STREAM:
            self.watches.end((request.origin(), request.message.matchtag))

    def _until_canceled(self, request: Request, stop: Stop) -> None:
        def cancel() -> None:
            stop()
            request.refuse(errno.ENODATA)

        self.watches.add(request, cancel)

    def _watch_whole(self, request: Request, name: str, key: str, flags: int) -> None:
        """At each change of it; without WATCH, once, when it is there."""
        going, last = True, None

        def look() -> bool:
            nonlocal going, last
            if going and self.store.find(name, key) is not None:
                value: Any = self.store.look_up(name, key, flags)
                if value != last:
                    last = value
                    request.answer({"val": value})
                going = bool(flags & kvs.WATCH)
            return going

        def stop() -> None:
            nonlocal going
            going = False

        if look():
            self.store.namespace(name).watchers.append(look)
            self._until_canceled(request, stop)
