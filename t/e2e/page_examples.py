# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of a page (Markdown or scdoc) as they are printed: page_examples.py [--write] PAGE.

A fenced block after a line that ends with `NAME`: or _NAME_: is that file. One whose first line begins with "$ " is commands, each
with what it prints, on either stream: "..." stands for any text. A heading of level 2 begins a new folder, which has the files
that the page has shown so far. Programs are those of PATH. Exits with 1 if what is printed is not what is there;
--write puts it there, and is for who writes the page.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^```\w*$")
FILE = re.compile(r"[`_]([\w.-]+\.\w+)[`_]:$")
SECONDS = 60


@dataclass
class Block:
    start: int  # the line after the fence, counted from 0
    lines: list
    file: str = ""
    section: int = 0

    @property
    def is_commands(self):
        return bool(self.lines) and self.lines[0].startswith("$ ")


@dataclass
class Command:
    line: int
    text: str
    expected: list = field(default_factory=list)


def blocks_of(lines):
    blocks, section, before, open_block = [], 0, "", None
    for number, line in enumerate(lines):
        if open_block is not None:
            if line == "```":
                blocks.append(open_block)
                before, open_block = "", None
            else:
                open_block.lines.append(line)
        elif FENCE.match(line):
            name = FILE.search(before)
            open_block = Block(number + 1, [], name.group(1) if name else "", section)
        elif line.strip():
            section += line.startswith("## ")
            before = line.strip().replace("\\_", "_")
    if open_block is not None:
        sys.exit(f"line {open_block.start}: the block has no end")
    return blocks


def commands_of(block):
    commands = []
    for number, line in enumerate(block.lines):
        if line.startswith("$ "):
            commands.append(Command(block.start + number, line[2:]))
        else:
            commands[-1].expected.append(line)
    return commands


def matches(expected, printed):
    pattern = r"[\s\S]*?".join(re.escape(part) for part in "\n".join(expected).split("..."))
    return re.fullmatch(pattern, "\n".join(printed)) is not None


def run(command, folder):
    done = subprocess.run(["bash", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False)
    return done.stdout.splitlines()


def run_block(block, folder, page):
    """The block as it is printed, and how many of its commands print something else than is there."""
    lines, wrong = [], 0
    for command in commands_of(block):
        printed = run(re.sub(r"\s+# .*$", "", command.text), folder)
        lines.append("$ " + command.text)
        if matches(command.expected, printed):
            lines += command.expected
            continue
        wrong += 1
        lines += printed
        print(f"{page}:{command.line + 1}: {command.text}\n  expected:")
        print("".join(f"    {line}\n" for line in command.expected) + "  printed:")
        print("".join(f"    {line}\n" for line in printed), end="")
    return lines, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put into the page what is printed")
    parser.add_argument("--least", type=int, default=1, help="so many commands have to be there")
    parser.add_argument("page", type=Path)
    args = parser.parse_args()
    lines = args.page.read_text(encoding="utf-8").splitlines()
    blocks = blocks_of(lines)
    files = {}
    replaced, ran, wrong = {}, 0, 0
    folder, section = None, None
    for block in blocks:
        if block.section != section:
            if folder:
                shutil.rmtree(folder)
            folder, section = tempfile.mkdtemp(), block.section
            for name, text in files.items():
                Path(folder, name).write_text(text, encoding="utf-8")
        if block.file:
            files[block.file] = "\n".join(block.lines) + "\n"
            Path(folder, block.file).write_text(files[block.file], encoding="utf-8")
        elif block.is_commands:
            replaced[block.start], off = run_block(block, folder, args.page)
            ran += len(commands_of(block))
            wrong += off
    if folder:
        shutil.rmtree(folder)
    if args.write:
        for block in reversed(blocks):
            if block.start in replaced:
                lines[block.start:block.start + len(block.lines)] = replaced[block.start]
        args.page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{args.page}: {ran} commands, {wrong} print something else")
    return 1 if wrong or ran < args.least else 0


if __name__ == "__main__":
    sys.exit(main())
