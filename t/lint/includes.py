# SPDX-License-Identifier: Apache-2.0
"""Each #include of shell/ and plugins/ against the include table."""

import re

import table
from tree import Offence

INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')
PUBLIC = "flux/"  # the C API's headers, installed for plugins; they belong to the folder `plugin`


def includes(text):
    """(line, quote, name) of each #include, quote being `"` or `<`."""
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def _owner(path):
    """The row that a file of the project belongs to."""
    folder, *rest = path.split("/")
    if folder == "plugins":
        return f"plugins/{rest[0]}" if rest[0] in ("examples", "pmix") else "plugins"
    if len(rest) > 1:
        return rest[0]
    return rest[0] if rest[0] in ("main.cpp", "nacre.cpp") else "top"


def _target(tree, path, quote, name):
    """The row that the included file belongs to; None for a library's header, one beside the file, a generated one."""
    if name.startswith(PUBLIC):
        return "plugin"
    folder = path.rsplit("/", 1)[0]
    if quote == "<" or ("/" not in name and tree.has(f"{folder}/{name}") and folder != "shell"):
        return None
    if tree.has(f"shell/{name}.in"):
        return None
    return _owner(name if name.startswith("plugins/") else f"shell/{name}")


def _offence(tree, rules, path, quote, name):
    owner = _owner(path)
    only = rules.only.get(name)
    if only and owner != only:
        return f"<{name}> may be included in {only}/ only"
    if owner.startswith("plugins/") and name.startswith(PUBLIC):
        return None
    if ".." in name.split("/"):
        return f'"{name}": write the path from shell/, without ".."'
    target = _target(tree, path, quote, name)
    face = rules.face.get(target)
    if face and owner != target and name != face:
        return f'"{name}": of {target} only {face} may be included elsewhere'
    if target is None or target in rules.all_uses(owner):
        return None
    if target not in rules.uses:
        return f'"{name}": {target} has no row in {table.PATH}'
    return f'"{name}": {owner} may not use {target}'


def check(tree):
    rules = table.Table(tree.text(table.PATH))
    offences = []
    for path in tree.sources("shell/", "plugins/"):
        owner = _owner(path)
        if owner not in rules.uses:
            offences.append(Offence(path, 0, f"{owner} has no row in {table.PATH}"))
            continue
        for number, quote, name in includes(tree.text(path)):
            what = _offence(tree, rules, path, quote, name)
            if what:
                offences.append(Offence(path, number, what))
    return offences
