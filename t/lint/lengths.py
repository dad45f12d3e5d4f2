# SPDX-License-Identifier: Apache-2.0
"""The lengths of functions, headers and files, and how many functions a class has."""

import scan
from tree import CXX_SUFFIXES, HEADER_SUFFIXES, Offence

FUNCTION_MAX = 80
FUNCTION_SHORT = 35  # lines; SHORT_PERCENT of all functions outside of t/ are shorter
SHORT_PERCENT = 90
FILE_MAX = 400
HEADER_MAX = 150
METHODS_MAX = 44
BROAD = {("shell/overlay/node.hpp", "Node")}  # one automaton: its rules share all of its state
OTHER_SOURCES = (".lua", ".py", ".sh", ".bash", ".bats", ".cmake", "CMakeLists.txt", "Makefile")


def _check_functions(path, found):
    for each in found:
        if each.lines > FUNCTION_MAX:
            what = f"{each.name}: a function of {each.lines} lines; at most {FUNCTION_MAX}"
            yield Offence(path, each.first, what)


def _check_classes(path, found):
    for each in found:
        if each.methods > METHODS_MAX and (path, each.name) not in BROAD:
            what = f"{each.name}: a class of {each.methods} functions; at most {METHODS_MAX}"
            yield Offence(path, each.first, what)


def _check_file(tree, path):
    header = path.endswith(HEADER_SUFFIXES)
    lines, most = len(tree.lines(path)), HEADER_MAX if header else FILE_MAX
    if lines > most:
        yield Offence(path, lines, f"a {'header' if header else 'file'} of {lines} lines; at most {most}")


def check(tree):
    offences, ours = [], []
    for path in tree.sources("shell/", "plugins/", "t/"):
        found, classes = scan.scan(tree.text(path))
        offences.extend(_check_functions(path, found))
        offences.extend(_check_classes(path, classes))
        if not path.startswith("t/"):
            ours.extend((each, path) for each in found)
    for path in tree.files:
        if path.endswith(CXX_SUFFIXES + OTHER_SOURCES) or tree.interpreter(path):
            offences.extend(_check_file(tree, path))

    short = sum(each.lines < FUNCTION_SHORT for each, _ in ours)
    percent = 100 * short / len(ours) if ours else 100
    print(f"lengths: {len(ours)} functions, {percent:.1f} % of them under {FUNCTION_SHORT} lines")
    if percent < SHORT_PERCENT:
        what = f"only {percent:.1f} % of the functions are under {FUNCTION_SHORT} lines; at least {SHORT_PERCENT} %"
        for each, path in sorted(ours, key=lambda one: -one[0].lines)[: len(ours) - short]:
            offences.append(Offence(path, each.first, f"{each.name}: {each.lines} lines ({what})"))
    return offences
