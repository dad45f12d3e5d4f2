# SPDX-License-Identifier: Apache-2.0
"""What other tools check: clang-format, shellcheck, luac, Python's own parser, scdoc."""

import ast
import re
import shutil

from tree import CXX_SUFFIXES, Offence, version_of

CLANG_FORMAT = "14"  # the version whose form counts: others differ in small things


def _clang_format():
    """(program, version) of clang-format, of the wanted version where several are there."""
    program = shutil.which(f"clang-format-{CLANG_FORMAT}") or shutil.which("clang-format")
    version = version_of(program)
    return program, version


def check_format(tree):
    program, version = _clang_format()
    if not re.search(rf"version {CLANG_FORMAT}\.", version):
        print(f"format: NOT CHECKED: {version} is here, and clang-format {CLANG_FORMAT} is what counts")
        return []
    style = version + tree.text(".clang-format")

    def check_some(paths):
        code, said = tree.run([program, "--dry-run", "-Werror", *paths])
        lines = {}  # the first one of each file
        for path, line in re.findall(r"^(.+?):(\d+):\d+: error:", said, re.MULTILINE):
            lines.setdefault(path, int(line))
        if code and not lines:
            return [Offence(".clang-format", 0, f"clang-format: {said.strip()}")]
        return [Offence(path, line, "not as clang-format would have it; make format") for path, line in lines.items()]

    paths = tree.sources("shell/", "plugins/", "include/", "t/", suffixes=CXX_SUFFIXES)
    return tree.cached("format", paths, lambda path: style + tree.text(path), check_some, at_once=40)


def _is_shell(tree, path):
    return path.endswith((".sh", ".bash", ".bats")) or tree.interpreter(path) in ("bash", "sh", "bats")


# A bats test hands programs to tasks in single quotes and runs in a subshell, and shellcheck does not follow its `load`
# and `run`.
BATS_EXCEPT = "--exclude=SC2016,SC2030,SC2031,SC2034,SC2154,SC2317"


def check_shell(tree):
    command = ["shellcheck", "--format=gcc", "--external-sources", "--source-path=SCRIPTDIR"]

    def check_some(paths, *except_for):
        _, said = tree.run([*command, *except_for, *paths])
        found = re.findall(r"^([^:]+):(\d+):\d+: (.*)$", said, re.MULTILINE)
        return [Offence(where, int(line), f"shellcheck: {what}") for where, line, what in found]

    def check_bats(paths):
        return check_some(paths, BATS_EXCEPT)

    def key(path):
        return version + BATS_EXCEPT + sourced + tree.text(path)

    paths = [path for path in tree.files if _is_shell(tree, path)]
    sourced = "".join(tree.text(path) for path in paths if path.endswith((".sh", ".bash")))
    version = " ".join(tree.run(["shellcheck", "--version"])[1].split())
    bats = [path for path in paths if path.endswith((".bats", ".bash"))]
    others = [path for path in paths if path not in bats]
    return tree.cached("shell", bats, key, check_bats, at_once=8) + tree.cached("shell", others, key, check_some, at_once=8)


def check_lua(tree):
    offences, good = [], []
    for path in tree.files:
        if not path.endswith(".lua"):
            continue
        code, said = tree.run(["luac5.4", "-p", path])
        if not code:
            good.append(path)
            continue
        line = re.search(r":(\d+): (.*)", said)
        place, what = (int(line.group(1)), line.group(2)) if line else (0, said.strip())
        offences.append(Offence(path, place, f"luac: {what}"))
    return offences + _luacheck(tree, good)


def _luacheck(tree, paths):
    """Unused and unknown names, shadowing, long lines: .luacheckrc says what counts."""
    if not paths:
        return []
    code, said = tree.run(["luacheck", "--no-color", "--formatter", "plain", *paths])
    if code > 2:
        return [Offence(".luacheckrc", 0, f"luacheck: {said.strip()}")]
    found = re.findall(r"^(.+?):(\d+):\d+: (.*)$", said, re.MULTILINE)
    return [Offence(path, int(line), f"luacheck: {what}") for path, line, what in found]


def check_python(tree):
    offences = []
    for path in tree.files:
        if path.endswith(".py") or tree.interpreter(path).startswith("python"):
            try:
                ast.parse(tree.text(path), path)
            except SyntaxError as error:
                offences.append(Offence(path, error.lineno or 0, f"python: {error.msg}"))
    return offences


def check_man(tree):
    offences = []
    for path in tree.files:
        if not path.endswith(".scd"):
            continue
        code, said = tree.run(["scdoc"], text=tree.text(path))
        if code:
            place = re.search(r"at (\d+):\d+: (.*)", said)
            line, what = (int(place.group(1)), place.group(2)) if place else (0, said.strip().splitlines()[-1])
            offences.append(Offence(path, line, f"scdoc: {what}"))
        page, section = path.rsplit("/", 1)[-1].rsplit(".", 2)[:2]
        title = f"{page}({section})"
        if not any(line.startswith(title) for line in tree.lines(path)):
            offences.append(Offence(path, 0, f"no title line {title}, as the file's name says"))
    return offences


def check(tree):
    return [
        offence
        for each in (check_format, check_shell, check_lua, check_python, check_man)
        for offence in each(tree)
    ]
