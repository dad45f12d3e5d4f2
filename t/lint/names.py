# SPDX-License-Identifier: Apache-2.0
"""One name, one type: no two types that headers declare outside of classes have one name, in whatever namespaces.

Nested types may: they are read with the name of their class before them. The C API's headers have Flux's names.

What two sources of a library keep to themselves has two names: where both are compiled in one go they would be one.
"""

import re

import scan
from includes import PUBLIC
from tree import Offence

TYPE = re.compile(r"^(?:template <.*> )?(?:class|struct|union|enum(?: class)?) (?:\[\[\w+\]\] )?(\w+)(?: final)?(?: : [^;{]*)?\s*\{")


def library(path):
    """The sources that may be compiled in one go."""
    parts = path.split("/")
    return "plugins" if parts[0] == "plugins" and parts[1] != "pmix" else "/".join(parts[:2])


def check_kept(tree):
    first = {}
    for path in tree.sources("shell/", "plugins/", suffixes=(".cpp",)):
        if path.startswith("plugins/examples/"):
            continue
        for namespace, name, line in scan.kept(tree.text(path)):
            where = first.setdefault((library(path), namespace, name), path)
            if where != path:
                yield Offence(path, line, f"{name} is also kept by {where}, in the same namespace: they collide when both are compiled in one go")


def check(tree):
    return check_types(tree) + list(check_kept(tree))


def check_types(tree):
    first = {}
    offences = []
    for path in tree.sources("shell/", "plugins/", "t/kit/", suffixes=(".hpp",)):
        if PUBLIC in path or path.startswith("plugins/examples/"):
            continue
        for number, line in enumerate(tree.lines(path), 1):
            match = TYPE.match(line)
            if match is None:
                continue
            if match.group(1) in first:
                where = first[match.group(1)]
                offences.append(Offence(path, number, f"{match.group(1)} is also a type of {where}: one name, one type"))
            else:
                first[match.group(1)] = f"{path}:{number}"
    return offences
