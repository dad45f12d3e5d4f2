# SPDX-License-Identifier: Apache-2.0
"""The lengths of functions."""

import scan
from tree import Offence

FUNCTION_MAX = 80
FUNCTION_SHORT = 35  # lines; SHORT_PERCENT of all functions outside of t/ are shorter
SHORT_PERCENT = 90


def _check_functions(path, found):
    for each in found:
        if each.lines > FUNCTION_MAX:
            what = f"{each.name}: a function of {each.lines} lines; at most {FUNCTION_MAX}"
            yield Offence(path, each.first, what)


def check(tree):
    offences, ours = [], []
    for path in tree.sources("shell/", "plugins/", "t/"):
        found = scan.scan(tree.text(path))
        offences.extend(_check_functions(path, found))
        if not path.startswith("t/"):
            ours.extend((each, path) for each in found)
    short = sum(each.lines < FUNCTION_SHORT for each, _ in ours)
    percent = 100 * short / len(ours) if ours else 100
    print(f"lengths: {len(ours)} functions, {percent:.1f} % of them under {FUNCTION_SHORT} lines")
    if percent < SHORT_PERCENT:
        what = f"only {percent:.1f} % of the functions are under {FUNCTION_SHORT} lines; at least {SHORT_PERCENT} %"
        for each, path in sorted(ours, key=lambda one: -one[0].lines)[: len(ours) - short]:
            offences.append(Offence(path, each.first, f"{each.name}: {each.lines} lines ({what})"))
    return offences
