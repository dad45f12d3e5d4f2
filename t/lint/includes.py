# SPDX-License-Identifier: Apache-2.0
"""Each #include of shell/ and plugins/ against the include table; each of those and of t/ against base/usual.hpp, whose headers
are not included elsewhere, nor are those of base and value where another include brings them; and <algorithm> where base/usual.hpp
is not, as some libraries include it by the way."""

import posixpath
import re

import table
from tree import Offence

INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')
USUAL = "shell/base/usual.hpp"
OUTSIDE = ("plugins/examples/", "plugins/pmix/")  # which use nothing of shell/ but the C API
QUOTED = ("shell/", "", "t/kit/", "t/sim/")  # where a quoted header may be, unless it is beside the file
ANYWHERE = ("shell/base/", "shell/value/", "t/kit/catch.hpp")  # what nearly every file needs
PUBLIC = "flux/"  # the C API's headers, installed for plugins; they belong to the folder `plugin`


# Those of <algorithm>; std::remove(PATH) and std::move(X) are others.
ALGORITHM = re.compile(
    r"\bstd::(?:all_of|any_of|none_of|for_each|find|find_if|find_if_not|find_first_of|adjacent_find|count|count_if|mismatch|equal|search"
    r"|copy|copy_n|copy_if|copy_backward|transform|replace|fill|fill_n|generate|remove_if|unique|reverse|rotate|shuffle|partition"
    r"|is_sorted|sort|stable_sort|nth_element|lower_bound|upper_bound|equal_range|binary_search|merge|includes|set_difference"
    r"|set_intersection|set_union|max|min|minmax|clamp|max_element|min_element|lexicographical_compare)\(")
RAW = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)


def includes(text):
    """(line, quote, name) of each #include, quote being `"` or `<`. Those in raw strings are others' sources."""
    text = RAW.sub(lambda raw: "\n" * raw[0].count("\n"), text)
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
    if rest[0].startswith("shell_program."):
        return "shell_program"
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


def _found(tree, path, name):
    """The file of the project that path means by "name"; None: there is none."""
    places = [posixpath.normpath(posixpath.join(place, name)) for place in (posixpath.dirname(path), *QUOTED)]
    return next((place for place in places if tree.has(place)), None)


def _reach(tree, path, known):
    """What this file includes of the project, and what that includes; known: of the files that have been asked for."""
    if path not in known:
        known[path] = reach = set()
        for _, quote, name in includes(tree.text(path)):
            header = _found(tree, path, name) if quote == '"' else None
            if header:
                reach |= {header} | _reach(tree, header, known)
    return known[path]


def _lacks_algorithm(tree, known):
    """The first use of <algorithm> in a file that has it neither itself nor from what it includes of the project."""
    for path in tree.sources(*OUTSIDE, "t/"):
        found = ALGORITHM.search(tree.text(path))
        if found and not any("<algorithm>" in tree.text(each) for each in (path, *_reach(tree, path, known))):
            yield Offence(path, tree.text(path)[:found.start()].count("\n") + 1, f"{found[0][:-1]}: include <algorithm>")


def _repeats_usual(tree, known):
    """What base/usual.hpp has already."""
    usual = {name for _, _, name in includes(tree.text(USUAL))} if tree.has(USUAL) else set()
    for path in tree.sources("shell/", "plugins/", "t/", suffixes=(".cpp", ".hpp")):
        if path == USUAL or path.startswith(OUTSIDE) or (path.startswith("t/") and USUAL not in _reach(tree, path, known)):
            continue
        for number, quote, name in includes(tree.text(path)):
            if quote == "<" and name in usual:
                yield Offence(path, number, f"<{name}> comes with base/usual.hpp, which base/result.hpp includes")


def _comes_already(tree, known):
    """A header that any file may use, where another include of the file has it in it."""
    for path in tree.sources("shell/", "plugins/", "t/", suffixes=(".cpp", ".hpp")):
        named = [(number, _found(tree, path, name)) for number, quote, name in includes(tree.text(path)) if quote == '"']
        own = path.rsplit(".", 1)[0] + ".hpp"
        for number, header in named:
            if header is None or header in (USUAL, own) or not header.startswith(ANYWHERE):
                continue
            by = next((other for _, other in named if other and other != header and header in _reach(tree, other, known)), None)
            if by:
                yield Offence(path, number, f'"{posixpath.basename(header)}" comes with {by}')


def check(tree):
    rules = table.Table(tree.text(table.PATH))
    known = {}
    offences = [*_lacks_algorithm(tree, known), *_repeats_usual(tree, known), *_comes_already(tree, known)]
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
