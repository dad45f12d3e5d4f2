# SPDX-License-Identifier: Apache-2.0
"""The include table (t/lint/include-table), and the two other places that state it."""

import re

from tree import Offence

PATH = "t/lint/include-table"
ARCHITECTURE = "doc/architecture.md"
CMAKE = "shell/CMakeLists.txt"
# No folders of shell/: told in words there.
OUTSIDE = {"top", "main.cpp", "nacre.cpp", "shell_program", "plugins", "plugins/examples", "plugins/pmix"}


class Table:
    def __init__(self, text):
        self.uses = {}  # name: the names it may use directly
        self.only = {}  # a library's header: the one folder that may include it
        self.face = {}  # name: the one header of it that others may include
        self.line = {}  # name: its line in the table
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            left, _, right = line.partition(":")
            if left.startswith("only "):
                self.only.update({header: right.strip() for header in left.split()[1:]})
            elif left.startswith("face "):
                self.face[left.split()[1]] = right.strip()
            else:
                self.uses[left] = set(right.split())
                self.line[left] = number

    def all_uses(self, name):
        """What NAME may include: itself, what it uses, and what those use."""
        found, ahead = set(), [name]
        while ahead:
            name = ahead.pop()
            if name not in found:
                found.add(name)
                ahead.extend(self.uses.get(name, ()))
        return found


def well_formed(table):
    """Offences of the table itself: rows that are missing, and cycles."""
    offences = []
    for name, uses in table.uses.items():
        for used in sorted(uses - table.uses.keys()):
            offences.append(Offence(PATH, table.line[name], f"{name} uses {used}, which has no row"))
        for used in sorted(uses):
            if used != name and name in table.all_uses(used):
                offences.append(Offence(PATH, table.line[name], f"{name} and {used} use each other"))
    return offences


def _documented(tree):
    """Rows of the table in doc/architecture.md: (line, name, its last cell)."""
    rows, inside = [], False
    for number, line in enumerate(tree.lines(ARCHITECTURE), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.strip().startswith("|"):
            inside = False
        elif cells[0] == "folder" and cells[-1] == "may use":
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            rows.append((number, cells[0].strip("`").rstrip("/"), cells[-1]))
    return rows


def _shown(table, name):
    return " ".join(sorted(table.uses[name])) or "nothing"


def _check_documented(tree, table):
    if not tree.has(ARCHITECTURE):
        return [Offence(ARCHITECTURE, 0, f"missing: it must show the table of {PATH}")]
    offences, seen = [], set()
    for number, name, cell in _documented(tree):
        seen.add(name)
        if name not in table.uses:
            offences.append(Offence(ARCHITECTURE, number, f"{name} has no row in {PATH}"))
        elif {each.strip("` ") for each in cell.split(",")} - {"–"} != table.uses[name]:
            offences.append(Offence(ARCHITECTURE, number, f"{name}: {PATH} says it may use {_shown(table, name)}"))
    for name in sorted(table.uses.keys() - seen):
        if name not in OUTSIDE:
            offences.append(Offence(ARCHITECTURE, 0, f"the table has no row for {name}, which {PATH} has"))
    return offences


def _check_cmake(tree, table):
    if not tree.has(CMAKE):
        return []
    offences = []
    text = tree.text(CMAKE)
    for match in re.finditer(r"^nacre_folder\((\w+)([^)]*)\)", text, re.MULTILINE):
        number = text.count("\n", 0, match.start()) + 1
        name = match.group(1)
        uses = re.search(r"\bUSES((?:\s+[a-z]\w*)*)", match.group(2))
        said = set(uses.group(1).split()) if uses else set()
        if name in table.uses and said != table.uses[name]:
            what = f"nacre_folder({name}): {PATH} says it may use {_shown(table, name)}"
            offences.append(Offence(CMAKE, number, what))
    return offences


def check(tree):
    table = Table(tree.text(PATH))
    return well_formed(table) + _check_documented(tree, table) + _check_cmake(tree, table)
