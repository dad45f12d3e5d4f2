# SPDX-License-Identifier: Apache-2.0
"""Numbers as Flux writes them: sets (RFC 22), ids of jobs (RFC 19), durations (RFC 23)."""

import argparse
import re
from collections.abc import Iterable

DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def write_set(numbers: Iterable[int]) -> str:
    """As in 0-3,5."""
    ranges: list[list[int]] = []
    for each in sorted(numbers):
        if ranges and ranges[-1][1] == each - 1:
            ranges[-1][1] = each
        else:
            ranges.append([each, each])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def read_set(text: str) -> list[int]:
    numbers = []
    for part in filter(None, text.strip("[]").split(",")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def write_id(number: int) -> str:
    """As in fJziHPm; where it is shown, it begins with another f."""
    text = ""
    while number or not text:
        number, digit = divmod(number, len(DIGITS))
        text = DIGITS[digit] + text
    return f"f{text}"


def read_duration(text: str) -> float:
    match = re.fullmatch(r"([0-9.]+)(ms|[smhd]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text}: expected a duration, as 2s or 1.5h")
    return float(match[1]) * UNITS[match[2]]
