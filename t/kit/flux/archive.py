# SPDX-License-Identifier: Apache-2.0
"""The archives of `flux archive`: file system objects (RFC 37), of which what is not small is in the content store by its hash (RFC 10)."""

import base64
import hashlib
import os
import stat
from typing import Any

SMALL = 8  # bytes of a file that is in its object
BLOB = 1000  # bytes

Content = dict[bytes, bytes]  # by hash


def _blobs(data: bytes, content: Content) -> list[list[Any]]:
    found = []
    for offset in range(0, len(data), BLOB):
        blob = data[offset:offset + BLOB]
        if any(blob):  # else a hole
            content[hashlib.sha1(blob).digest()] = blob
            found.append([offset, len(blob), "sha1-" + hashlib.sha1(blob).hexdigest()])
    return found


def _add_data(entry: dict[str, Any], data: bytes, content: Content) -> None:
    if len(data) > SMALL:
        entry |= {"encoding": "blobvec", "data": _blobs(data, content)}
    elif data:
        try:
            entry |= {"encoding": "utf-8", "data": data.decode()}
        except UnicodeDecodeError:
            entry |= {"encoding": "base64", "data": base64.b64encode(data).decode()}


def _object(path: str, content: Content) -> dict[str, Any]:
    info = os.lstat(path)
    entry: dict[str, Any] = {"path": path, "mode": info.st_mode, "mtime": int(info.st_mtime), "ctime": int(info.st_ctime)}
    if stat.S_ISLNK(info.st_mode):
        entry["data"] = os.readlink(path)
    elif stat.S_ISREG(info.st_mode):
        entry["size"] = info.st_size
        with open(path, "rb") as file:
            _add_data(entry, file.read(), content)
    return entry


def of_folder(path: str, content: Content) -> list[dict[str, Any]]:
    """All that is in it, with its own name at the beginning of each path."""
    found = [_object(path, content)]
    if not os.path.isdir(path) or os.path.islink(path):
        return found
    for name in sorted(os.listdir(path)):
        found += of_folder(os.path.join(path, name), content)
    return found
