#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a file of Chrome trace events against the rules of the public document "Trace Event Format" (the JSON object
format): the phases and the fields that each needs, times that are not negative and sorted within each thread, slices
that nest, asynchronous events and arrows that pair up, and names of processes and threads that have events."""
import collections
import json
import sys

FIELDS = {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args", "id", "s", "bp"}  # of those that the format has


class Check:
    def __init__(self, trace):
        self.trace = trace
        self.errors = []

    def expect(self, is_so, event, what):
        if not is_so:
            self.errors.append(f"{what}: {json.dumps(event)[:300]}")

    def number(self, event, key):
        value = event.get(key)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        self.expect(is_number, event, f"'{key}' is no number")
        return value if is_number else 0

    def fields(self, event):
        self.expect(event.keys() <= FIELDS, event, "a field that is not expected")
        self.expect(isinstance(event.get("name"), str) and event["name"], event, "no name")
        self.expect(isinstance(event.get("cat", ""), str), event, "'cat' is no text")
        self.expect(isinstance(event.get("id", ""), (str, int)), event, "'id' is neither text nor a number")
        self.expect(isinstance(event.get("args", {}), dict), event, "'args' is no object")
        for key in ("pid", "tid"):
            self.expect(type(event.get(key)) is int, event, f"'{key}' is no whole number")
        return event.get("pid"), event.get("tid")

    def run(self):
        events = self.trace.get("traceEvents")
        if not isinstance(events, list):
            self.errors.append("no array 'traceEvents'")
            return self.errors
        self.expect(self.trace.get("displayTimeUnit") in ("ms", "ns"), {}, "displayTimeUnit is neither ms nor ns")
        last = collections.defaultdict(float)  # of each thread: ts
        slices = collections.defaultdict(list)
        spans = collections.defaultdict(list)
        arrows = collections.defaultdict(list)
        named, used = set(), set()
        for event in events:
            phase = event.get("ph")
            self.expect(phase in list("XMibeCsf"), event, "a phase that is not expected")
            thread = self.fields(event)
            if phase == "M":
                self.metadata(event, thread, named)
                continue
            used.add(thread)
            ts = self.number(event, "ts")
            self.expect(ts >= 0, event, "a negative time")
            self.expect(ts >= last[thread], event, "a time before that of the event before it in the thread")
            last[thread] = ts
            if phase == "X":
                duration = self.number(event, "dur")
                self.expect(duration >= 0, event, "a negative duration")
                slices[thread].append((ts, ts + duration, event))
            elif phase == "i":
                self.expect(event.get("s", "t") in list("gpt"), event, "the scope of an instant is not g, p or t")
            elif phase in ("b", "e"):
                self.expect("id" in event and "cat" in event, event, "an asynchronous event without id and cat")
                spans[(event.get("cat"), event.get("id"))].append(event)
            elif phase in ("s", "f"):
                self.expect("id" in event and "cat" in event, event, "an arrow without id and cat")
                self.expect(event.get("bp", "e") == "e", event, "the binding point of an arrow is not e")
                arrows[(event.get("cat"), event.get("id"), event.get("name"))].append(event)
            elif phase == "C":
                values = event.get("args", {}).values()
                self.expect(values and all(isinstance(each, (int, float)) for each in values), event,
                            "a counter without numbers")
        self.nest(slices)
        self.pairs(spans, "b", "e")
        self.pairs(arrows, "s", "f")
        self.arrow_ends(arrows, slices)
        for thread in used - named:
            self.errors.append(f"the thread {thread} has no name")
        return self.errors

    def metadata(self, event, thread, named):
        what = {"process_name": "name", "thread_name": "name", "process_labels": "labels",
                "process_sort_index": "sort_index", "thread_sort_index": "sort_index"}
        key = what.get(event.get("name"))
        self.expect(key is not None and key in event.get("args", {}), event, "metadata that is not known")
        if event.get("name") == "thread_name":
            self.expect(thread not in named, event, "a second name")
            named.add(thread)

    def nest(self, slices):
        # Without any tolerance: there are viewers that leave out a slice which overlaps with another by a rounding.
        for each in slices.values():
            open_slices = []
            for begin, end, event in each:
                while open_slices and open_slices[-1] <= begin:
                    open_slices.pop()
                if open_slices:
                    self.expect(end <= open_slices[-1], event, "a slice that ends after the one around it")
                open_slices.append(end)

    def pairs(self, groups, begin, end):
        for events in groups.values():
            phases = [each["ph"] for each in events]
            self.expect(phases == [begin, end], events[0], f"expected one {begin} and then one {end}, got {phases}")
            self.expect(events[0]["ts"] <= events[-1]["ts"], events[0], "the end is before the beginning")

    def arrow_ends(self, arrows, slices):
        for events in arrows.values():
            for each in events:
                around = any(begin <= each["ts"] <= end for begin, end, _ in slices[(each["pid"], each["tid"])])
                self.expect(around, each, "an end of an arrow that is in no slice")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        errors = Check(json.load(file)).run()
    for each in errors[:20]:
        print(each)
    sys.exit(1 if errors else 0)


main()
