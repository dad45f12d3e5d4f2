# SPDX-License-Identifier: Apache-2.0
"""Licence lines, names of files, paths of one machine, how programs print, the pages for people, comments and what they refer to, commits."""

import re
import subprocess

from tree import CXX_SUFFIXES, Offence

SPDX = "SPDX-License-Identifier: Apache-2.0"
LICENSED = CXX_SUFFIXES + (".lua", ".py", ".sh", ".bash", ".bats", ".cmake", "CMakeLists.txt", "Makefile")
EMPTY_WORDS = {"util", "utils", "manager", "common", "helper", "helpers"}
# Where somebody's own checkout or build lies.
MACHINE_PATH = re.compile(r"(?<![\w./~{}$-])/(?:work|tmp/b-[a-z])(?=[/\w-])[^\s\"'`)]*")
PRINTING = re.compile(r"\bfmt::print\b|\bstd::(?:cout|cerr|clog)\b|\b(?:std::)?(?:f?printf|f?puts)(?=\()")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")

PACKAGE_TABLE = "doc/building.md"
README_LINES = 120  # at most
# What a comment, or a page in `code`, refers to: a source, or a page of the manual.
SOURCE = re.compile(r"(?<![\w./*<{$-])(?:[a-z_0-9]+/)*[a-z_0-9]+\.(?:hpp|cpp|bats)(?![\w*/{-])")
SOURCE_FOLDERS = ("", "shell/", "t/", "t/unit/")  # that a path may be below, and the folder of who refers to it
PAGE = re.compile(r"(?<![\w-])nacre[-a-z]*\(\d\)")
SUBJECT = re.compile(r"[\w./, +*-]+: \S.*")
SUBJECT_LENGTH = 120  # at most
SUBJECTS = 20  # the newest
# What bash forgives: the first of these fails, and the test goes on.
FORGIVEN = re.compile(r" +(?:\[{1,2}|grep|cmp|diff|test) (?!.*\|\|).* && (?:\[{1,2}|grep|cmp|diff|test) [^;]*$")
COLUMNS = re.compile(r"^ColumnLimit: (\d+)$", re.MULTILINE)


def check_licence(tree):
    for path in tree.files:
        if path.endswith(LICENSED) or tree.interpreter(path):
            if not any(SPDX in line for line in tree.lines(path)[:3]):
                yield Offence(path, 1, f"no line {SPDX} among the first three")


def check_names(tree):
    for path in tree.files:
        if path.startswith(("shell/", "plugins/", "lua/")):
            empty = EMPTY_WORDS & set(re.split(r"[^a-z]+", path.lower()))
            if empty:
                yield Offence(path, 0, f"a name that says nothing: {', '.join(sorted(empty))}")


def check_paths(tree):
    for path in tree.files:
        if b"\0" in (tree.root / path).read_bytes()[:4096]:
            continue  # not text
        for number, line in enumerate(tree.lines(path), 1):
            match = MACHINE_PATH.search(line)
            if match:
                yield Offence(path, number, f"a path of one machine: {match.group(0)}")


def check_printing(tree):
    """fmt::print and streams throw where nobody reads, and callbacks must not; print_out and print_err do not."""
    for path in tree.files:
        ours = path.startswith(("shell/", "plugins/")) and path.endswith((".cpp", ".hpp"))
        if not ours or path.startswith(("shell/base/print.", "plugins/examples/")):
            continue
        for number, line in enumerate(tree.lines(path), 1):
            match = PRINTING.search(line.split("//")[0])
            if match:
                yield Offence(path, number, f"{match.group(0)}: print_out and print_err of base/print.hpp do not throw")


def check_links(tree):
    for path in tree.files:
        if not path.endswith(".md"):
            continue
        folder = (tree.root / path).parent
        for number, line in enumerate(tree.lines(path), 1):
            for target in LINK.findall(line):
                if "://" not in target and not (folder / target).exists():
                    yield Offence(path, number, f"a link to {target}, which is not there")


def check_references(tree):
    """What comments and pages refer to is there."""
    sources = set(tree.files)
    names = {path.rsplit("/", 1)[-1] for path in tree.files}
    pages = {re.sub(r"\.(\d)\.scd$", r"(\1)", name) for name in names if name.endswith(".scd")}
    for path in tree.files:
        if path.endswith(CXX_SUFFIXES):
            prose = (line[line.find("//"):] if "//" in line and "://" not in line else "" for line in tree.lines(path))
        elif path.endswith((".md", ".scd")):
            prose = (" ".join(re.findall(r"`[^`]+`|nacre[-a-z]*\(\d\)", line)) for line in tree.lines(path))
        else:
            continue
        here = path.rsplit("/", 1)[0] + "/"
        for number, line in enumerate(prose, 1):
            for name in SOURCE.findall(line):
                if not any(folder + name in sources for folder in (*SOURCE_FOLDERS, here)) and ("/" in name or name not in names):
                    yield Offence(path, number, f"{name} is not there")
            for name in set(PAGE.findall(line)) - pages:
                yield Offence(path, number, f"there is no page {name}")


def check_packages(tree):
    """Each package of etc/packages is in the table of doc/building.md, and no other."""
    rows = [line.split() for line in tree.lines("etc/packages") if line.strip() and not line.startswith("#")]
    wanted = {row[1] for row in rows}
    named, inside = {}, False
    for number, line in enumerate(tree.lines(PACKAGE_TABLE), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        inside = line.startswith("|") and (inside or cells[0] == "package")
        if inside:
            named.update({name: number for name in re.findall(r"`([^`]+)`", cells[0])})
    for name in sorted(wanted - named.keys()):
        yield Offence(PACKAGE_TABLE, 0, f"the table of packages lacks {name}, which etc/packages has")
    for name in sorted(named.keys() - wanted):
        yield Offence(PACKAGE_TABLE, named[name], f"etc/packages has no {name}")


def check_readme(tree):
    lines = len(tree.lines("README.md"))
    if lines > README_LINES:
        yield Offence("README.md", lines, f"{lines} lines, at most {README_LINES}: figures go to doc/speed.md, the rest to other pages")


def check_comments(tree):
    """clang-format leaves comments as they are: so that their width is that of the code."""
    columns = int(COLUMNS.search(tree.text(".clang-format")).group(1))
    for path in tree.files:
        if not path.endswith(CXX_SUFFIXES):
            continue
        for number, line in enumerate(tree.lines(path), 1):
            if len(line) > columns and line.lstrip().startswith("//") and "://" not in line:
                yield Offence(path, number, f"a comment of {len(line)} columns; at most {columns}")


def check_assertions(tree):
    for path in tree.files:
        if not path.endswith(".bats"):
            continue
        lines = tree.lines(path)
        for number, (line, after) in enumerate(zip(lines, [*lines[1:], ""]), 1):
            if FORGIVEN.match(line) and not line.endswith("\\") and after.strip() != "}":
                yield Offence(path, number, "of tests with && only the last one counts: a line for each, or || return 1")


def check_subjects(tree):
    """Of the newest commits, where the tree is a checkout."""
    log = subprocess.run(["git", "-C", tree.root, "log", "--no-merges", f"-{SUBJECTS}", "--format=%h %s"],
                         capture_output=True, text=True)
    for each in log.stdout.splitlines() if (tree.root / ".git").exists() else ():
        commit, _, subject = each.partition(" ")
        if not SUBJECT.fullmatch(subject) or len(subject) > SUBJECT_LENGTH:
            yield Offence("doc/contributing.md", 0,
                          f"commit {commit}: expected `folder: what` in at most {SUBJECT_LENGTH} characters, got `{subject}`")


def check(tree):
    checks = (check_readme, check_licence, check_names, check_paths, check_printing, check_links, check_references, check_packages,
              check_comments, check_assertions, check_subjects)
    return [offence for each in checks for offence in each(tree)]
