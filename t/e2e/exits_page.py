#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the shell sessions of nacre-exits(7), and compares what they print with the page.

A line of a literal block that begins with "$ " is a command, what follows up to the next one is what it has to print, on both streams,
where the last line stays the last one; others may come in any order. The first `cat NAME.sh` makes the file, and a job NAME.json of it.
The function `job` is not that of the page: the four hosts are four shells of this one.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HOSTS = 4
TASKS = {"steps": 4, "warned": 4}  # of others 8
SECTIONS = ("EXAMPLES", "NOTICES")  # in this order: the latter has a job of the former
JOB = """job() {
  "$NACRE_BUILD_DIR/nacre" launch --shell="$NACRE_SHELL" --local=4 -R "${1%.json}.R" -o cpu-affinity=off -o exit-report=line -j "$@"
}
"""


def sessions(page, section):
    """[(command, [line, ...]), ...] of a section."""
    text = re.search(rf"^# {section}\n(.*?)(?=^# )", page, re.M | re.S).group(1)
    out = []
    for block in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S):
        lines = block.splitlines()
        if not lines[0].startswith("$ "):
            continue  # not a session
        for line in lines:
            if line.startswith("$ "):
                out.append((line[2:], []))
            else:
                out[-1][1].append(line)
    return out


def write_job(name, script):
    tasks = TASKS.get(name, 8)
    with open(f"{name}.sh", "w", encoding="utf-8") as file:
        file.write("\n".join(script) + "\n")
    slot = {"type": "slot", "count": tasks, "label": "task", "with": [{"type": "core", "count": 1}]}
    jobspec = {"version": 1, "resources": [slot],
               "tasks": [{"command": ["sh", f"{name}.sh"], "slot": "task", "count": {"per_slot": 1}}],
               "attributes": {"system": {"duration": 0, "environment": {"PATH": "/usr/bin:/bin"}}}}
    lite = [{"rank": f"0-{HOSTS - 1}", "children": {"core": f"0-{tasks // HOSTS - 1}" if tasks > HOSTS else "0"}}]
    hosts = {"version": 1, "execution": {"R_lite": lite, "nodelist": [f"node[0-{HOSTS - 1}]"], "starttime": 0,
                                         "expiration": 0}}
    for path, document in ((f"{name}.json", jobspec), (f"{name}.R", hosts)):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)


def run(command):
    environment = dict(os.environ)
    if "-o signal" in command:
        environment["SLURM_JOB_END_TIME"] = str(int(time.time()) + 62)
    ran = subprocess.run(["bash", "-c", JOB + command], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    return ran.stdout.splitlines()


def differs(command, expected):
    made = re.fullmatch(r"cat (\w+)[.]sh", command)
    if made and not os.path.exists(f"{made[1]}.sh"):
        write_job(made[1], expected)
    if command.startswith("job() {"):
        return False
    printed = run(command)
    if printed[-1:] == expected[-1:] and sorted(printed) == sorted(expected):
        return False
    print(f"$ {command}", "the page has:", *expected, "it has printed:", *printed, sep="\n", flush=True)
    return True


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        page = file.read()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        all_of_them = [each for section in SECTIONS for each in sessions(page, section)]
        wrong = [command for command, expected in all_of_them if differs(command, expected)]
    print(f"{len(all_of_them)} commands, {len(wrong)} print something else")
    sys.exit(1 if wrong or len(all_of_them) < 25 else 0)


if __name__ == "__main__":
    main()
