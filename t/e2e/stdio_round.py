# SPDX-License-Identifier: Apache-2.0
"""One round of t/e2e/stdio_property, made of a seed: what each task does, what it writes, and where that is to come
out."""
import random
from pathlib import Path

STREAMS = {1: "stdout", 2: "stderr"}
KILLED = 137
# Symbols are for places where bytes of several sources may be mixed within a line: each source has two byte values that
# no other has.
SYMBOL_VALUES = [value for value in range(256) if value != 10]
MOST_SYMBOL_TASKS = 60
LINES_ONLY = bytes(value if value != 10 else 11 for value in range(256))


class Place:
    """Where output comes out: the sources whose bytes come there, and in which form."""

    def __init__(self, where, form, label, timestamps):
        self.where = where  # a path, or "stdout" or "stderr" of the shell
        self.form = form  # text, json, eventlog
        self.label = label  # none, or what is around the rank: (before, after)
        self.timestamps = timestamps
        self.sources = []
        self.torn = False  # lines of several sources may be mixed

    def told_apart(self):
        """Whether the form says of each line whose it is."""
        if self.form != "text" or len(self.sources) <= 1:
            return True
        return self.label is not None and len({fd for _, fd in self.sources}) == 1


class Stream:
    """The options of stdout or of stderr."""

    def __init__(self, rng, record):
        kinds = [["term"], ["term"], ["file"], ["file"], ["term", "file"]]
        kinds += [["kvs"], ["file", "kvs"], ["term", "kvs"], ["term", "file", "kvs"]] if record else []
        self.types = rng.choice(kinds)
        self.own_file = rng.random() < 0.5
        self.json = rng.random() < 0.2
        self.label = None if self.json else rng.choice([None, None, ("", ": "), ("[", "] ")])
        self.timestamps = "none" if self.json else rng.choice(["none", "none", "none", "iso", "unix"])
        self.buffer = rng.choice(["line", "line", "none", "block", None])

    def plain(self):
        return not self.json and self.label is None and self.timestamps == "none"

    def path(self, fd):
        return f"{STREAMS[fd]}.{{{{task.rank}}}}" if self.own_file else f"{STREAMS[fd]}.all"

    def options(self, fd):
        settings = {"type": ",".join(self.types)}
        if "file" in self.types:
            settings["path"] = self.path(fd)
        if self.json:
            settings["format"] = "json"
        if self.label:
            settings["label"] = "1" if self.label[1] == ": " else "[{{taskid}}] "
        if self.timestamps != "none":
            settings["timestamps"] = self.timestamps
        if self.buffer:
            settings["buffer.type"] = self.buffer
        return [f"output.{STREAMS[fd]}.{key}={value}" for key, value in settings.items()]

    def place(self, where):
        return Place(where, "json" if self.json else "text", self.label, self.timestamps)


class Round:
    def __init__(self, seed, folder):
        self.rng = random.Random(seed)
        self.folder = Path(folder)
        rng = self.rng
        self.tasks = rng.choice([1, 2, rng.randint(1, 8), rng.randint(1, 8), rng.randint(1, 64)])
        self.record = rng.random() < 0.5
        out = Stream(rng, self.record)
        # What is not said of stderr is as for stdout.
        self.same = rng.random() < 0.3
        self.streams = {1: out, 2: out if self.same else Stream(rng, self.record)}
        self.printed = set(range(self.tasks))
        if rng.random() < 0.15:
            self.printed = {rank for rank in self.printed if rng.random() < 0.6} | {0}
        self.places = {}
        self._find_places()
        self.data, self.plans, self.codes, self.reads, self.forks = {}, {}, {}, {}, set()
        self._make_input()
        self._make_streams()
        for rank in range(self.tasks):
            self._make_plan(rank)
        self._make_options()
        self.slow_reader = rng.random() < 0.5
        self.to_pipe = rng.random() < 0.7

    # ---- where it comes out

    def _find_places(self):
        for rank in sorted(self.printed):
            for fd, stream in self.streams.items():
                named = 1 if self.same else fd
                if "term" in stream.types:
                    self._goes_to(stream.place(STREAMS[fd]), rank, fd)
                if "kvs" in stream.types:
                    self._goes_to(Place("record/guest.output", "eventlog", None, "none"), rank, fd)
                if "file" in stream.types:
                    path = stream.path(named).replace("{{task.rank}}", str(rank))
                    self._goes_to(stream.place(path), rank, fd)
        for place in self.places.values():
            streams = [self.streams[fd] for _, fd in place.sources]
            direct = streams[0].types == ["file"] and streams[0].plain() and (streams[0].own_file or self.tasks == 1)
            torn = any(stream.buffer == "none" for stream in streams) or direct
            place.torn = torn and not place.told_apart()
        if any(place.torn for place in self.places.values()) and self.tasks > MOST_SYMBOL_TASKS:
            self.tasks = MOST_SYMBOL_TASKS
            self.printed &= set(range(self.tasks))
            self.places = {}
            self._find_places()

    def _goes_to(self, place, rank, fd):
        self.places.setdefault(place.where, place).sources.append((rank, fd))

    # ---- what is written

    def _make_streams(self):
        rng = self.rng
        self.symbols = symbols = any(place.torn for place in self.places.values())
        tagged = any(not place.told_apart() for place in self.places.values())
        most = int(2 ** rng.uniform(8, 20 if symbols else 23)) // self.tasks
        for rank in range(self.tasks):
            for fd in STREAMS:
                size = rng.choice([0, most, rng.randint(0, most), rng.randint(0, most), min(most, rng.randint(0, 300))])
                if symbols:
                    self.data[rank, fd] = self._symbols(rank, fd, size)
                elif tagged:
                    self.data[rank, fd] = self._tagged(rank, fd, size)
                else:
                    self.data[rank, fd] = self._free(size)

    @staticmethod
    def symbols_of(rank, fd):
        at = 4 * (rank % MOST_SYMBOL_TASKS) + 2 * (fd - 1)
        return bytes(SYMBOL_VALUES[at:at + 2])

    def _symbols(self, rank, fd, size):
        values = self.symbols_of(rank, fd)
        often = self.rng.choice([2, 16, 128])
        table = bytes(10 if value < 256 // often else values[value % 2] for value in range(256))
        return self.rng.randbytes(size).translate(table)

    def _tagged(self, rank, fd, size):
        rng, lines, total = self.rng, [], 0
        longest = rng.choice([4, 7, 12, 19.9])  # with its tag no line is over 1 MiB
        while total < size:
            body = rng.randbytes(min(int(2 ** rng.uniform(0, longest)) - 1, size)).translate(LINES_ONLY)
            if rng.random() < 0.2:
                body = b"x" * len(body)
            lines.append(b"<%d.%d.%d>%s\n" % (rank, fd, len(lines), body))
            total += len(lines[-1])
        data = b"".join(lines)
        return data[:-1] if data and rng.random() < 0.5 else data

    def _free(self, size):
        rng = self.rng
        data = rng.randbytes(size)
        kind = rng.choice(["binary", "text", "no newline", "mostly NUL", "mostly newlines", "UTF-8"])
        if kind == "text":
            data = data.translate(bytes(10 if value < 6 else 32 + value % 95 for value in range(256)))
        elif kind == "no newline":
            data = data.translate(LINES_ONLY)
        elif kind == "mostly NUL":
            data = data.translate(bytes(0 if value < 250 else value for value in range(256)))
        elif kind == "mostly newlines":
            data = data.translate(bytes(10 if value < 250 else value for value in range(256)))
        elif kind == "UTF-8":
            data = data[:size // 4].decode("latin-1").encode()
        return data

    # ---- what each task does

    def _make_input(self):
        rng = self.rng
        self.input_from = rng.choice(["none", "pipe", "pipe", "file", "path"])
        size = 0 if self.input_from == "none" else int(2 ** rng.uniform(0, rng.choice([10, 18, 23]))) - 1
        if self.input_from == "pipe" and rng.random() < 0.4:
            size = rng.randint(5 << 20, 16 << 20)  # so much that a late reader falls behind the others
        self.input = rng.randbytes(size)
        self.readers = set(range(self.tasks))
        self.reader_ranks = None
        if rng.random() < 0.4:
            self.readers = {rank for rank in self.readers if rng.random() < 0.5} | {rng.randrange(self.tasks)}
            self.reader_ranks = ",".join(map(str, sorted(self.readers)))

    def _make_plan(self, rank):
        rng, plan = self.rng, []
        left = {fd: len(self.data[rank, fd]) for fd in STREAMS}
        reading = rng.choice(["all", "all", "late", "some", "none", "close"])
        pauses = rng.choice([0, 0, 0.3])
        if rng.random() < 0.1:
            plan.append(f"k {int(2 ** rng.uniform(0, 17))}")
        longest = rng.choice([8, 14, 20])
        while any(left.values()) and len(plan) < 2000:
            fd = rng.choice([fd for fd in STREAMS if left[fd]])
            size = min(left[fd], int(2 ** rng.uniform(0, longest + 0.01)))
            left[fd] -= size
            plan.append(f"w {fd} {size}")
            if rng.random() < pauses and len(plan) < 100:
                plan.append(f"p {int(2 ** rng.uniform(0, 13))}")
            if reading in ("all", "some") and rng.random() < 0.2:
                plan.append(f"r {int(2 ** rng.uniform(0, 17))}")
        plan += [f"w {fd} {size}" for fd, size in left.items() if size]
        if rng.random() < 0.15:
            plan.insert(rng.randrange(len(plan) + 1), f"S {int(2 ** rng.uniform(0, 16))}")
        if reading == "close":
            plan.insert(rng.randrange(len(plan) + 1), "c")
        # The input is read to its end before the fork: what is left behind is ended with the job.
        code = rng.choice([0, 0, 0, 0, rng.randint(1, 120)])
        forks = rng.random() < 0.15
        if forks:
            self.forks.add(rank)
            plan.insert(rng.randrange(len(plan) + 1), f"F {code}")
        if reading in ("all", "late"):
            at = next((i for i, step in enumerate(plan) if step[0] == "F"), len(plan))
            plan[at:at] = ["R"] if reading == "all" else [f"p {rng.randint(0, 500000)}", "R"]
        killed = any(step[0] == "k" for step in plan)
        if rng.random() < 0.1 and not forks and not killed:
            plan.insert(rng.randrange(len(plan) + 1), "K")
            killed = True
        plan.append("z" if killed else f"x {code}")
        self.plans[rank] = plan
        self._expect(rank, code, forks, killed, reading)

    def _expect(self, rank, code, forks, killed, reading):
        # One that is killed from outside may fork before.
        self.codes[rank] = {KILLED, code} if forks and killed else {KILLED} if killed else {code}
        self.reads[rank] = reading in ("all", "late") and not killed

    def _make_options(self):
        rng = self.rng
        options = self.streams[1].options(1) + ([] if self.same else self._options_of_stderr())
        options += ["cpu-affinity=off", "exit-timeout=none", "exit-report=off", f"output.overflow={rng.choice(['block', 'spill'])}"]
        if rng.random() < 0.3:
            options.append(f"output.spill-limit={int(2 ** rng.uniform(0, 22))}")
        if len(self.printed) < self.tasks:
            options.append("output.ranks=" + ",".join(map(str, sorted(self.printed))))
        if self.input_from == "path":
            options.append("input.stdin.path=input")
        options.append(f"input.ranks={self.reader_ranks or 'all'}")
        self.options = options

    # Only what is said: the rest would be as for stdout.
    def _options_of_stderr(self):
        out, err = self.streams[1], self.streams[2]
        options = err.options(2)
        if out.json and not err.json:
            options.append("output.stderr.format=text")
        if out.label and not err.label:
            options.append("output.stderr.label=false")
        if out.timestamps != "none" and err.timestamps == "none":
            options.append("output.stderr.timestamps=none")
        if out.buffer and not err.buffer:
            options.append("output.stderr.buffer.type=line")
        return options

    def write(self):
        for (rank, fd), data in self.data.items():
            (self.folder / f"{rank}.{fd}").write_bytes(data)
        for rank, plan in self.plans.items():
            (self.folder / f"{rank}.plan").write_text("\n".join(plan) + "\n", encoding="ascii")
        (self.folder / "input").write_bytes(self.input)
