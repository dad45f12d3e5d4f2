# SPDX-License-Identifier: Apache-2.0
"""The source tree that is checked: its files, its cache of checks that passed, and the offences found in it."""

import concurrent.futures
import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

CXX_SUFFIXES = (".cpp", ".hpp", ".c", ".h")
HEADER_SUFFIXES = (".hpp", ".h")


@dataclass(frozen=True, order=True)
class Offence:
    """One thing that is wrong, at one place. Line 0 is the file as a whole."""

    path: str
    line: int
    what: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.what}"


class Tree:
    """Files are named by their path below the root, with forward slashes."""

    def __init__(self, root):
        self.root = Path(root).resolve()
        self.cache = self.root / "build" / "lint"
        self.files = sorted(self._list())
        self._text = {}

    def _list(self):
        """What git tracks or would track; in an unpacked release, which has no git, all files outside of build/."""
        if (self.root / ".git").exists():
            command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
            listed = subprocess.run(command, cwd=self.root, check=True, capture_output=True).stdout
            names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
        else:
            names = [path.relative_to(self.root).as_posix() for path in self.root.rglob("*")]
            names = [name for name in names if not name.startswith("build")]
        return [name for name in names if (self.root / name).is_file()]

    def text(self, path):
        if path not in self._text:
            self._text[path] = (self.root / path).read_text(encoding="utf-8", errors="replace")
        return self._text[path]

    def lines(self, path):
        return self.text(path).splitlines()

    def has(self, path):
        return (self.root / path).is_file()

    def executable(self, path):
        return os.access(self.root / path, os.X_OK)

    def interpreter(self, path):
        """The program named on a script's first line, without its folder: "bash", "python3"; "" if there is none."""
        if not self.executable(path):
            return ""
        match = re.match(r"#!\s*(?:/usr/bin/env\s+)?(?:\S*/)?(\S+)", self.text(path))
        return match.group(1) if match else ""

    def sources(self, *folders, suffixes=CXX_SUFFIXES):
        return [path for path in self.files if path.endswith(suffixes) and path.startswith(folders)]

    def run(self, command, text=None):
        """Runs a tool at the root of the tree; returns its exit code and all that it said."""
        done = subprocess.run(command, cwd=self.root, input=text, capture_output=True, text=True, errors="replace")
        return done.returncode, done.stdout + done.stderr

    def cached(self, kind, paths, key, check, at_once=1):
        """What check(paths) finds, called for so many paths at once, in parallel; not for those that passed with the same key(path)."""
        self.cache.mkdir(parents=True, exist_ok=True)

        def stamp(path):
            name = hashlib.sha256("\0".join([kind, path, key(path)]).encode()).hexdigest()
            return self.cache / f"{kind}-{name}"

        def check_some(some):
            offences = check(list(some))
            if not offences:
                for mark in some.values():
                    mark.touch()
            return offences

        stamps = [(path, stamp(path)) for path in paths]
        unknown = [(path, mark) for path, mark in stamps if not mark.exists()]
        parts = [dict(unknown[first : first + at_once]) for first in range(0, len(unknown), at_once)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return [offence for found in pool.map(check_some, parts) for offence in found]


def version_of(program):
    """The first line of PROGRAM --version, as a part of a cache's key."""
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    return said.strip().splitlines()[0]
