# SPDX-License-Identifier: Apache-2.0
"""What the benches have in common."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def sibling(name):
    """Another bench of this folder, as a module."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(HERE, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def progress(text=""):
    """The line about how far it is, on a terminal; without a text it is gone."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr)


def draw(script):
    """By gnuplot; the tables have been printed by then."""
    try:
        subprocess.run(["gnuplot"], input=script, text=True, check=True)
    except FileNotFoundError:
        sys.exit("there is no plot: gnuplot is not installed; etc/deps.sh bench installs it")
