# SPDX-License-Identifier: Apache-2.0
"""The jobspec and R of a job, from options as those of `flux run`."""

import argparse
import fnmatch
import json
import math
import os
import time
from typing import Any

from flux import idset


def environment(rules: list[str]) -> dict[str, str]:
    """NAME=VALUE sets, -GLOB removes, NAME takes what this process has."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("FLUX_")}
    for rule in rules:
        name, is_set, value = rule.partition("=")
        if rule.startswith("-"):
            found = {each: value for each, value in found.items() if not fnmatch.fnmatchcase(each, rule[1:])}
        elif is_set:
            found[name] = value
        elif name in os.environ:
            found[name] = os.environ[name]
    return found


def _put(options: dict[str, Any], name: str, value: Any) -> None:
    *folders, last = name.split(".")
    for folder in folders:
        options = options.setdefault(folder, {})
    options[last] = value


def _shell_options(args: argparse.Namespace) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for each in args.option:
        name, is_set, text = each.partition("=")
        try:
            _put(options, name, json.loads(text) if is_set else 1)
        except ValueError:
            _put(options, name, text)
    for name, path in (("output.stdout", args.output), ("output.stderr", args.error), ("input.stdin", args.input)):
        if path:
            _put(options, name, {"type": "file", "path": path})
    return options


def make(args: argparse.Namespace) -> dict[str, Any]:
    if args.jobspec:
        with open(args.jobspec, encoding="utf-8") as file:
            return json.load(file)
    tasks = args.tasks or args.nodes or 1
    per_node = math.ceil(tasks / args.nodes) if args.nodes else tasks
    slot = {"type": "slot", "count": per_node, "label": "task", "with": [{"type": "core", "count": 1}]}
    count = {"per_slot": 1} if not args.nodes or per_node * args.nodes == tasks else {"total": tasks}
    system: dict[str, Any] = {"duration": args.time, "cwd": args.cwd or os.getcwd(), "environment": environment(args.env),
                              "shell": {"options": _shell_options(args)}}
    return {"version": 1, "resources": [{"type": "node", "count": args.nodes, "with": [slot]} if args.nodes else slot],
            "tasks": [{"command": args.command, "slot": "task", "count": count}], "attributes": {"system": system}}


def _cores(resources: list[dict[str, Any]]) -> int:
    """In each of the topmost, or in all without nodes."""
    return sum(each["count"] * (_cores(each["with"]) if "with" in each else each["type"] == "core") for each in resources)


def resources_for(args: argparse.Namespace, jobspec: dict[str, Any], host: str) -> dict[str, Any]:
    """R: the first brokers, each with as many cores as it needs."""
    if args.R:
        with open(args.R, encoding="utf-8") as file:
            return json.load(file)
    top = jobspec["resources"][0]
    nodes = top["count"] if top["type"] == "node" else 1
    cores = _cores(top["with"]) if top["type"] == "node" else _cores([top])
    duration, now = jobspec["attributes"]["system"].get("duration", 0), time.time()
    entry = {"rank": idset.write_set(range(nodes)), "children": {"core": idset.write_set(range(cores))}}
    return {"version": 1, "execution": {"R_lite": [entry], "starttime": now, "expiration": now + duration if duration else 0.0,
                                        "nodelist": [",".join([host] * nodes)]}}
