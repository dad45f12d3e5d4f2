# SPDX-License-Identifier: Apache-2.0
"""What came out of one round of t/e2e/stdio_property, against what the tasks say that they have written."""
import base64
import json
import re
import struct

LONG = 1 << 20  # a longer line may come in parts
TIMES = {"none": b"", "iso": rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z ", "unix": rb"\d+\.\d{6} "}
TAG = re.compile(rb"<(\d+)\.(\d+)\.(\d+)>")


class Wrong(Exception):
    """What came out is not what it should be."""


class Account:
    """What a task says that it has done: DIR/RANK.account."""

    def __init__(self, path):
        numbers = struct.unpack("7Q", path.read_bytes())
        self.begun = {1: numbers[0], 2: numbers[1]}
        self.written = {1: numbers[2], 2: numbers[3]}
        self.read, self.at_end, self.wrong = numbers[4:]


class Checker:
    def __init__(self, work):
        self.work = work
        self.accounts = {rank: Account(work.folder / f"{rank}.account") for rank in range(work.tasks)}

    def whole(self, source):
        """All bytes that a source may have written, and how many of them it is sure to have."""
        rank, fd = source
        account = self.accounts[rank]
        return self.work.data[source][:account.begun[fd]], account.written[fd]

    def check(self):
        for place in self.work.places.values():
            path = self.work.folder / place.where
            try:
                self._check_place(place, path.read_bytes())
            except Wrong as wrong:
                raise Wrong(f"{place.where}: {wrong}") from None
        for rank in range(self.work.tasks):
            self._check_input(rank)

    def _check_place(self, place, text):
        if place.form == "eventlog":
            return self._same(place, eventlog(text))
        if place.form == "json":
            return self._same(place, json_lines(text))
        if place.label is None and place.timestamps == "none" and len(place.sources) == 1:
            return self._same(place, {place.sources[0]: text})
        lines = prefixed(place, text)
        if place.told_apart():
            return self._check_lines(place, lines)
        if self.work.symbols:
            return self._check_symbols(place, b"".join(line for _, line in lines))
        return self._check_tagged(place, lines)

    def _same(self, place, got):
        for source in place.sources:
            self._one(source, got.pop(source, b""))
        if any(got.values()):
            raise Wrong(f"from sources that should not be there: {sorted(got)}")

    def _one(self, source, got):
        data, sure = self.whole(source)
        if data.startswith(got) and len(got) >= sure:
            return
        at = next((i for i, (one, other) in enumerate(zip(data, got)) if one != other), min(len(data), len(got)))
        raise Wrong(f"task {source[0]} has written {sure} to {len(data)} bytes to {source[1]}, and {len(got)} came; "
                    f"they differ at {at}: {data[at:at + 40]!r}, {got[at:at + 40]!r}")

    def _check_lines(self, place, lines):
        """Each line is known to be of one source: its bytes, except that a newline ends each last line."""
        of = {rank: (rank, fd) for rank, fd in place.sources} if place.label else {None: place.sources[0]}
        got = {source: [] for source in place.sources}
        for rank, line in lines:
            if of.get(rank) not in got:
                raise Wrong(f"a line of task {rank}, which should not be there: {line[:60]!r}")
            got[of[rank]].append(line)
        for source, parts in got.items():
            data, sure = self.whole(source)
            if self._in_parts(source):
                self._without_newlines(source, b"".join(parts).replace(b"\n", b""))
                continue
            text = b"".join(parts)
            added = text.endswith(b"\n") and not data.startswith(text)
            self._one(source, text[:-1] if added else text)
            if added and sure == len(text) and data[:sure].endswith(b"\n"):
                raise Wrong(f"task {source[0]}: a newline of its own is not there")

    def _in_parts(self, source):
        stream = self.work.streams[source[1]]
        alone = self.work.tasks == 1
        return stream.buffer == "none" or alone or max(map(len, self.work.data[source].split(b"\n"))) > LONG

    def _without_newlines(self, source, got):
        data, sure = self.whole(source)
        least = sure - data[:sure].count(b"\n")
        if not data.replace(b"\n", b"").startswith(got) or len(got) < least:
            raise Wrong(f"task {source[0]}, {source[1]}: without newlines, {len(got)} bytes came, at least {least} "
                        "were written, or they differ")

    def _check_symbols(self, place, text):
        left = text.replace(b"\n", b"")
        for source in place.sources:
            own = self.work.symbols_of(*source)
            others = bytes(value for value in range(256) if value not in own)
            self._without_newlines(source, left.translate(None, others))
            left = left.translate(None, own)
        if left:
            raise Wrong(f"bytes that nobody has written: {left[:60]!r}")

    def _check_tagged(self, place, lines):
        got = {source: [] for source in place.sources}
        torn = []  # beginnings of tags, where a task was killed
        for rank, line in lines:
            line = line.removesuffix(b"\n")
            tag = TAG.match(line)
            source = (int(tag[1]), int(tag[2])) if tag else None
            if tag is None:
                torn.append(line)
            elif source not in got or rank not in (None, source[0]):
                raise Wrong(f"a line that should not be there (labelled {rank}): {line[:60]!r}")
            else:
                got[source].append(line)
        texts = {source: self._joined(source, parts) for source, parts in got.items()}
        # Beginnings of tags look alike: first come those who lack one for sure.
        for source in sorted(texts, key=lambda each: len(texts[each]) >= self.whole(each)[1]):
            data, sure = self.whole(source)
            text = texts[source]
            if torn and (len(text) < sure or len(text) < len(data)):
                fit = [line for line in torn if data[len(text):].startswith(line) and len(text) + len(line) >= sure]
                part = min(fit, key=len, default=b"")
                if part:
                    torn.remove(part)
                text += part
            self._one(source, text)
        if torn:
            raise Wrong(f"lines without a tag: {[line[:60] for line in torn[:3]]}")

    def _joined(self, source, parts):
        data, _ = self.whole(source)
        text = b"\n".join(parts)
        return text + b"\n" if text and len(text) < len(data) and data[len(text)] == 10 else text

    def _check_input(self, rank):
        account, work = self.accounts[rank], self.work
        wanted = len(work.input) if rank in work.readers else 0
        if account.wrong or account.read > wanted:
            raise Wrong(f"task {rank} has read what was not its stdin: {account.read} bytes of {wanted}")
        if work.reads[rank] and not (account.at_end and account.read == wanted):
            raise Wrong(f"task {rank} has read {account.read} bytes of stdin, not {wanted}")
        # What a task leaves behind is given no more once all tasks have ended.
        if account.at_end and account.read != wanted and rank not in work.forks:
            raise Wrong(f"task {rank}: its stdin ended after {account.read} bytes, not {wanted}")


def prefixed(place, text):
    """(rank or None, line with its newline) of each line, without the prefix that it has to have."""
    label = rb"(\d+)"
    if place.label:
        label = b"".join((re.escape(place.label[0].encode()), label, re.escape(place.label[1].encode())))
    pattern = re.compile(TIMES[place.timestamps] + (label if place.label else b"()"))
    lines = []
    for line in text.split(b"\n") if text else []:
        prefix = pattern.match(line)
        if prefix is None and line:
            raise Wrong(f"a line without its prefix: {line[:60]!r}")
        if prefix and line:
            lines.append((int(prefix[1]) if place.label else None, line[prefix.end():] + b"\n"))
        elif place.label is None and place.timestamps == "none":
            lines.append((None, b"\n"))
    if lines and not text.endswith(b"\n"):
        lines[-1] = (lines[-1][0], lines[-1][1][:-1])
    elif lines and not place.label and place.timestamps == "none":
        lines.pop()
    return lines


def bytes_of(entry):
    data = entry["data"]
    return base64.b64decode(data, validate=True) if entry.get("encoding") == "base64" else data.encode()


def json_lines(text):
    got = {}
    for line in text.splitlines():
        entry = json.loads(line)
        source = (entry["rank"], {"stdout": 1, "stderr": 2}[entry["stream"]])
        got.setdefault(source, []).append(bytes_of(entry) + (b"\n" if entry.get("eol", True) else b""))
    return {source: b"".join(parts) for source, parts in got.items()}


def eventlog(text):
    """RFC 24: of each source its bytes; each has to have come to its end."""
    got, ended = {}, set()
    header, *events = [json.loads(line) for line in text.splitlines()]
    if header["name"] != "header" or header["context"]["version"] != 1:
        raise Wrong(f"the header is {header}")
    for event in events:
        context = event["context"]
        if event["name"] in ("redirect", "log"):
            continue
        if event["name"] != "data":
            raise Wrong(f"an event {event}")
        source = (int(context["rank"]), {"stdout": 1, "stderr": 2}[context["stream"]])
        if source in ended:
            raise Wrong(f"{source}: an event after the end")
        if context.get("eof"):
            ended.add(source)
        parts = got.setdefault(source, [])
        if "data" in context:
            parts.append(bytes_of(context))
    if set(got) - ended:
        raise Wrong(f"no end of {sorted(set(got) - ended)}")
    return {source: b"".join(parts) for source, parts in got.items()}
