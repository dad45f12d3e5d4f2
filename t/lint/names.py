# SPDX-License-Identifier: Apache-2.0
"""One name, one type: no two types that headers declare outside of classes have one name, in whatever namespaces.

Nested types may: they are read with the name of their class before them. The C API's headers have Flux's names.
"""

import re

from includes import PUBLIC
from tree import Offence

TYPE = re.compile(r"^(?:template <.*> )?(?:class|struct|union|enum(?: class)?) (?:\[\[\w+\]\] )?(\w+)(?: final)?(?: : [^;{]*)?\s*\{")


def check(tree):
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
