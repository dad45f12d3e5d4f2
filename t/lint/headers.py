# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone: it includes all that it names.

Those of the C API, which a plugin's author includes alone; all others, which take minutes, where `every` is set, as in
make check-long. Its build by Clang, which precompiles nothing, finds most of these too.
"""

import re
import subprocess

from includes import PUBLIC, includes
from tree import HEADER_SUFFIXES, Offence, version_of

LIBRARIES = ["libuv", "lua5.4", "yaml-cpp", "jansson", "hwloc", "fmt", "pmix", "libssl"]
# What <flux/shell.h> asks a plugin to define before it is included.
DEFINES = ['-DFLUX_SHELL_PLUGIN_NAME="lint"']
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def _is_public(path):
    """One of the C API: not one of shell/flux/, which only the shell itself includes."""
    return path.endswith(".h") and f"/{PUBLIC}" in path


def _library_flags():
    done = subprocess.run(["pkg-config", "--cflags", *LIBRARIES], check=True, capture_output=True, text=True)
    return [flag.replace("-I", "-isystem", 1) for flag in done.stdout.split()]


def _include_folders(tree):
    """As in the build: the root, shell/, t/kit/, and the folder that holds the C API's flux/*.h."""
    folders = {".", "shell", "t/kit"}
    for path in tree.sources("shell/", "plugins/", "include/", suffixes=HEADER_SUFFIXES):
        head, found, _ = path.rpartition("/" + PUBLIC)
        if found:
            folders.add(head)
    return sorted(folders)


def _closure(tree, path, folders, seen):
    """The project's own headers that this one includes, with itself."""
    if path in seen:
        return seen
    seen.add(path)
    for _, _, name in includes(tree.text(path)):
        for folder in [path.rsplit("/", 1)[0], *folders]:
            if tree.has(f"{folder}/{name}"):
                _closure(tree, f"{folder}/{name}", folders, seen)
                break
    return seen


def _compile(tree, path, command, language):
    """The compiler's first error: at its line if it is in the header, else at line 0, telling where."""
    code, said = tree.run([*command, "-x", language, "-fsyntax-only", "-"], text=f'#include "{path}"\n')
    if code == 0:
        return []
    kind = "C" if language == "c" else "C++"
    error = re.search(r"^([^\s:]+):(\d+):\d+: (?:fatal )?error: (.*)$", said, re.MULTILINE)
    where, line, what = error.groups() if error else ("", 0, said.strip().splitlines()[-1])
    if where == path:
        return [Offence(path, int(line), f"does not compile alone as {kind}: {what}")]
    return [Offence(path, 0, f"does not compile alone as {kind}: {where}:{line}: {what}")]


def check(tree, every=False):
    headers = tree.sources("shell/", "plugins/", "include/", "t/", suffixes=HEADER_SUFFIXES)
    headers = [path for path in headers if every or _is_public(path)]
    folders = _include_folders(tree)
    flags = [*WARNINGS, *DEFINES, *(f"-I{folder}" for folder in folders), *_library_flags()]
    languages = {"c++": ["g++", "-std=c++20", *flags], "c": ["gcc", "-std=c11", *flags]}
    compilers = version_of("g++") + " ".join(flags)

    def key(path):
        texts = [tree.text(each) for each in sorted(_closure(tree, path, folders, set()))]
        return "\0".join([compilers, *texts])

    def compile_alone(paths):
        (path,) = paths
        offences = _compile(tree, path, languages["c++"], "c++")
        if _is_public(path):  # read by both
            offences += _compile(tree, path, languages["c"], "c")
        return offences

    return tree.cached("header", headers, key, compile_alone)
