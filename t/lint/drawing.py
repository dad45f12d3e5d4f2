# SPDX-License-Identifier: Apache-2.0
"""doc/architecture.svg: the folders of the source and who uses whom, drawn from the include table.

A folder stands in the row above all that it uses; an arrow is a direct use that no other way implies, and points down.
The check compares the file with a new drawing; `t/lint/run --draw` writes it.
"""

import table
from tree import Offence

PATH = "doc/architecture.svg"
WIDTH, BOX_HEIGHT, ROW, MARGIN = 1000, 30, 92, 30
LETTER = 8.2  # width, in 14 px


def _levels(rules):
    """name: how many rows lie below it."""
    levels = {}

    def level(name):
        if name not in levels:
            levels[name] = 1 + max((level(used) for used in rules.uses[name]), default=-1)
        return levels[name]

    for name in rules.uses:
        level(name)
    return levels


def _arrows(rules):
    """(user, used): direct uses, without those that another use brings along."""
    for name, uses in rules.uses.items():
        implied = set().union(*(rules.all_uses(used) - {used} for used in uses)) if uses else set()
        for used in sorted(uses - implied):
            yield name, used


def _order(rows, arrows):
    """Sorts each row by where its neighbours stand, so that few arrows cross."""
    place = {name: (i + 0.5) / len(row) for row in rows for i, name in enumerate(row)}
    for number in range(24):
        for row in rows if number % 2 else rows[::-1]:
            def wish(name):
                near = [place[b] for a, b in arrows if a == name] + [place[a] for a, b in arrows if b == name]
                return (sum(near) / len(near) if near else place[name], name)

            row.sort(key=wish)
            place.update({name: (i + 0.5) / len(row) for i, name in enumerate(row)})


def draw(rules):
    levels = _levels(rules)
    linked = {name for pair in _arrows(rules) for name in pair}
    names = sorted(name for name in rules.uses if name in linked)
    arrows = [pair for pair in _arrows(rules) if pair[0] in names]
    rows = [[name for name in names if levels[name] == level] for level in range(max(levels.values()) + 1)]
    _order(rows, arrows)
    height = MARGIN * 2 + ROW * (len(rows) - 1) + BOX_HEIGHT
    x, y = {}, {}
    for level, row in enumerate(rows):
        for i, name in enumerate(row):
            x[name] = round(WIDTH * (i + 0.5) / len(row))
            y[name] = height - MARGIN - BOX_HEIGHT - ROW * level
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="14">',
        f"<!-- Made by t/lint/run from {table.PATH}: do not edit. -->",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#667"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for user, used in arrows:
        lines.append(f'<path d="M{x[user]} {y[user] + BOX_HEIGHT}C{x[user]} {y[user] + BOX_HEIGHT + 34} {x[used]} '
                     f'{y[used] - 34} {x[used]} {y[used]}" fill="none" stroke="#889" marker-end="url(#tip)"/>')
    for name in names:
        wide = round(len(name) * LETTER + 22)
        fill = "#fde9c9" if name.startswith("plugins") else "#e4eef9"
        lines.append(f'<rect x="{x[name] - wide // 2}" y="{y[name]}" width="{wide}" height="{BOX_HEIGHT}" rx="5" '
                     f'fill="{fill}" stroke="#556"/><text x="{x[name]}" y="{y[name] + 20}" text-anchor="middle">{name}</text>')
    return "\n".join(lines) + "\n</svg>\n"


def check(tree):
    if not tree.has(PATH):
        return []  # the page that shows it has a link to it, which is checked
    rules = table.Table(tree.text(table.PATH))
    if table.well_formed(rules) or tree.text(PATH) == draw(rules):
        return []
    return [Offence(PATH, 0, f"differs from {table.PATH}: run t/lint/run --draw")]
