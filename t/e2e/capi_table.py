#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# capi_table.py PAGE HEADERS PROGRAM: compares the tables of functions in nacre-shell-plugins(7) with what the headers in the
# folder HEADERS declare and with what PROGRAM exports. Prints each function that one of them lacks, and exits with 1.
import fnmatch
import re
import subprocess
import sys
from pathlib import Path

page, headers, program = sys.argv[1:]
PREFIXES = ("flux_", "idset_", "hostlist_", "taskmap_")
MACROS = {"hostlist_is_empty"}


def words_of_tables(text):
    text = text[text.index("\n# FUNCTIONS") : text.index("\n# CALLS BETWEEN SHELLS")]
    names = set()
    for line in text.splitlines():
        if not line.startswith("|  "):
            continue
        line = line.replace("\\*", "*")
        listed = re.findall(r"\b(?:flux|idset|hostlist|taskmap)_\*?[a-z0-9_]*\*?", line)
        names.update(listed)
        # "flux_plugin_arg_unpack (and vpack, vunpack)": the last word of the name before it, replaced.
        for also in re.findall(r"\(and ([a-z, ]+)\)", line):
            names.update(re.sub(r"[a-z]+$", word, listed[-1]) for word in also.split(", "))
    return names


def declared():
    names = set()
    for header in Path(headers).glob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        text = re.sub(r"^#.*?(?<!\\)$", "", text, flags=re.M | re.S)
        names.update(re.findall(r"\b((?:flux|idset|hostlist|taskmap)_[a-z0-9_]+)\s*\(", text))
    return names - {"flux_plugin_init"}


def exported():
    out = subprocess.run(["nm", "-D", "--defined-only", program], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1] for line in out.splitlines() if line.split()[-2] in "TW"}
    return {name for name in names if name.startswith(PREFIXES)}


table, declares, exports = words_of_tables(Path(page).read_text()), declared(), exported()
told = {name for name in declares if any(fnmatch.fnmatchcase(name, each) for each in table)}
wrong = [f"{name}: in {page}, but not declared" for name in sorted(table) if not fnmatch.filter(declares | MACROS, name)]
wrong += [f"{name}: declared, but not in {page}" for name in sorted(declares - told)]
wrong += [f"{name}: declared, but not exported" for name in sorted(declares - exports)]
wrong += [f"{name}: exported, but not declared" for name in sorted(exports - declares)]
print("\n".join(wrong) or f"{len(declares)} functions")
sys.exit(1 if wrong else 0)
