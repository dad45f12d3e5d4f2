# SPDX-License-Identifier: Apache-2.0
"""The key-value store: namespaces, each a tree of values (lists of what was appended), folders and links (RFC 11)."""

import base64
import errno
import hashlib
from collections.abc import Callable
from typing import Any

READDIR, READLINK, WATCH, WAITCREATE, TREEOBJ, APPEND = 1, 2, 4, 8, 16, 32
WATCH_APPEND, STREAM, SENTINEL = 256, 512, 1024
PRIMARY = "primary"
MOST_LINKS = 10

Node = Any  # list[bytes]: a value in pieces; dict[str, Node]: a folder; str: the target of a link


def node_of(tree: dict[str, Any]) -> Node:
    kind, data = tree.get("type"), tree.get("data")
    if kind == "val":
        return [base64.b64decode(data)] if data else [b""]
    if kind == "dir":
        return {name: node_of(each) for name, each in data.items()}
    if kind == "symlink":
        return f'{data["namespace"]}::{data["target"]}' if "namespace" in data else data["target"]
    raise OSError(errno.EINVAL, "")


def tree_of(node: Node) -> dict[str, Any]:
    if isinstance(node, dict):
        return {"ver": 1, "type": "dir", "data": {name: tree_of(each) for name, each in node.items()}}
    if isinstance(node, str):
        namespace, _, target = node.rpartition("::")
        return {"ver": 1, "type": "symlink", "data": {"target": target, **({"namespace": namespace} if namespace else {})}}
    return {"ver": 1, "type": "val", "data": base64.b64encode(b"".join(node)).decode()}


class Namespace:
    def __init__(self, name: str):
        self.name, self.sequence, self.root = name, 0, {}
        self.closed = False  # no more commits: its job has ended
        self.watchers: list[Callable[[], bool]] = []  # called after each change, until one returns False

    def reference(self) -> str:
        return "sha1-" + hashlib.sha1(f"{self.name} {self.sequence}".encode()).hexdigest()

    def changed(self) -> None:
        self.watchers = [watch for watch in list(self.watchers) if watch()]


class Store:
    def __init__(self) -> None:
        self.namespaces = {PRIMARY: Namespace(PRIMARY)}

    def create(self, name: str) -> None:
        if name in self.namespaces:
            raise OSError(errno.EEXIST, "")
        self.namespaces[name] = Namespace(name)

    def namespace(self, name: str) -> Namespace:
        if name not in self.namespaces:
            raise OSError(errno.ENOTSUP, "")
        return self.namespaces[name]

    def commit(self, name: str, operations: list[dict[str, Any]]) -> Namespace:
        space = self.namespace(name)
        if space.closed:
            raise OSError(errno.ENOTSUP, "")
        for each in operations:
            self._apply(space, each)
        space.sequence += 1
        space.changed()
        return space

    def append(self, name: str, key: str, text: bytes) -> None:
        self.commit(name, [{"key": key, "flags": APPEND, "dirent": tree_of([text])}])

    def put(self, name: str, key: str, text: bytes) -> None:
        self.commit(name, [{"key": key, "flags": 0, "dirent": tree_of([text])}])

    @staticmethod
    def _apply(space: Namespace, operation: dict[str, Any]) -> None:
        *folders, last = operation["key"].split(".")
        at = space.root
        for name in folders:
            if not isinstance(at.get(name), dict):
                at[name] = {}
            at = at[name]
        if operation["dirent"] is None:
            at.pop(last, None)
        elif operation["flags"] & APPEND and last in at:
            if not isinstance(at[last], list):
                raise OSError(errno.EINVAL, "")
            at[last] += node_of(operation["dirent"])
        else:
            at[last] = node_of(operation["dirent"])

    def find(self, name: str, key: str, follow: bool = True) -> Node | None:
        """None if it is not there. A link at the end is followed unless `follow` says no."""
        for _ in range(MOST_LINKS):
            at, words = self.namespace(name).root, [word for word in key.split(".") if word]
            for index, word in enumerate(words):
                if not isinstance(at, dict) or word not in at:
                    return None
                at = at[word]
                if isinstance(at, str) and (follow or index + 1 < len(words)):
                    space, _, target = at.rpartition("::")
                    name, key = space or name, ".".join([target, *words[index + 1:]])
                    break
            else:
                return at
        raise OSError(errno.ELOOP, "")

    def look_up(self, name: str, key: str, flags: int) -> dict[str, Any]:
        """The tree object of what is there, as flags want it."""
        node = self.find(name, key, not flags & READLINK)
        if node is None:
            raise OSError(errno.ENOENT, "")
        if not flags & TREEOBJ:
            wanted = dict if flags & READDIR else str if flags & READLINK else list
            if not isinstance(node, wanted):
                raise OSError(errno.EISDIR if isinstance(node, dict) else errno.ENOTDIR if flags & READDIR else errno.EINVAL, "")
        return tree_of(node)

    def text(self, name: str, key: str) -> bytes | None:
        node = self.find(name, key) if name in self.namespaces else None
        return b"".join(node) if isinstance(node, list) else None

    def follow(self, name: str, key: str, deliver: Callable[[bytes], None], ended: Callable[[], None]) -> Callable[[], None]:
        """Delivers each piece of a value, old and new; `ended` once the namespace is closed. Returns what stops it."""
        space, seen, going = self.namespace(name), 0, True

        def look() -> bool:
            nonlocal seen, going
            pieces = self.find(name, key) if going else None
            while going and pieces and seen < len(pieces):
                seen += 1
                deliver(pieces[seen - 1])
            if going and space.closed:
                going = False
                ended()
            return going

        def stop() -> None:
            nonlocal going
            going = False

        if look():
            space.watchers.append(look)
        return stop
