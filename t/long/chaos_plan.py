# SPDX-License-Identifier: Apache-2.0
"""The plan of one trial of t/long/chaos: a job, and what is done to it. It is made of a seed and a number alone."""

import random
from dataclasses import dataclass, field

LATEST = 700  # ms after the launch: when the last thing is done to the job
LETTERS = "abcdefghijklmnopqrstuvwxyz"
NEVER = None  # when a process that was stopped goes on


@dataclass
class Task:
    """As chaos_task.c has it."""
    lines: int
    longest: int
    seed: int
    pause: int  # us
    code: int
    reads: bool
    ignores: bool
    escapes: bool

    def plan(self):
        return " ".join(str(int(each)) for each in (self.lines, self.longest, self.seed, self.pause, self.code, self.reads,
                                                    self.ignores, self.escapes))

    def text(self, rank, input_size):
        """The lines that it writes."""
        out = [f"{rank}.in {input_size}"] if self.reads else []
        for i in range(self.lines):
            length = (i * 7919) % self.longest if self.longest else 0
            out.append(f"{rank}.{i} {LETTERS[i % 26] * length}")
        return out


@dataclass
class Blow:
    """A signal to one process of the job."""
    at: int  # ms after the launch
    signame: str
    target: str  # launcher, shell, task, agent
    number: int  # which of them, modulo how many there are
    lasts: int | None = 0  # ms, of STOP, until CONT

    def __str__(self):
        until = "" if self.signame != "STOP" else ", for good" if self.lasts is NEVER else f", CONT {self.lasts} ms later"
        return f"{self.signame} to {self.target} {self.number} after {self.at} ms{until}"


@dataclass
class Limit:
    """`ulimit -LETTER VALUE` of the shell that is the N-th to start; 0 is the leader. But for descriptors it is a soft limit, so
    that tasks can do without."""
    shell: int
    letter: str
    value: int

    @property
    def flags(self):
        return "-n" if self.letter == "n" else f"-S -{self.letter}"

    def __str__(self):
        return f"ulimit {self.flags} {self.value} of the shell that starts as number {self.shell}"


@dataclass
class Plan:
    shells: int = 1
    arity: int = 2
    per_shell: int = 1
    tasks: list = field(default_factory=list)
    options: list = field(default_factory=list)
    agent: bool = False
    input_size: int | None = None  # bytes of standard input; None: /dev/null
    blows: list = field(default_factory=list)
    limit: Limit | None = None
    closed: tuple = ()  # descriptors of nacre launch
    hangup: int | None = None  # ms after which its terminal is closed; None: it has none

    def __str__(self):
        parts = [f"{self.shells} shells{' by an agent' if self.agent else ''}, arity {self.arity}, {len(self.tasks)} tasks"]
        parts += map(str, self.blows)
        parts += [str(self.limit)] if self.limit else []
        parts += [f"descriptors {', '.join(map(str, self.closed))} closed"] if self.closed else []
        parts += [f"terminal closed after {self.hangup} ms"] if self.hangup is not None else []
        return "; ".join(parts)

    def shell_of(self, rank):
        return rank // self.per_shell

    def ends_early(self):
        """The first task that fails ends the job."""
        return "exit-on-error" in self.options and any(task.code for task in self.tasks)

    def codes(self):
        """The job's exit code is one of these, if nothing comes between."""
        failed = {task.code for task in self.tasks} - {0}
        return failed if self.ends_early() else {max(failed, default=0)}


def make_task(rng, fails):
    size = int(2 ** rng.uniform(0, 17))
    longest = rng.choice([0, 10, 100, 5000])
    lines = max(1, size // (longest // 2 + 4))
    pieces = max(1, lines * (longest // 2 + 4) // 4500)
    pause = int(rng.uniform(0, 400000) / pieces) if rng.random() < 0.8 else 0
    code = rng.choice([1, 2, 3, 77]) if fails and rng.random() < 0.3 else 0
    return Task(lines, longest, rng.randrange(1 << 30), pause, code, rng.random() < 0.3, rng.random() < 0.1, rng.random() < 0.1)


def make_blow(rng, plan):
    targets = ["shell"] * 5 + ["task"] * 3 + ["launcher"] * 2 + ["agent"] * (3 if plan.agent else 0)
    target = rng.choice(targets)
    signames = {"shell": ["KILL", "KILL", "KILL", "TERM", "STOP", "INT"], "task": ["KILL", "TERM", "STOP"],
                "launcher": ["KILL", "TERM", "INT", "HUP", "QUIT", "STOP"], "agent": ["KILL", "TERM", "STOP"]}
    blow = Blow(int(rng.uniform(0, LATEST) * rng.random() ** 0.5), rng.choice(signames[target]), target, rng.randrange(1000))
    if blow.signame == "STOP":
        # A leader that stands still for good is waited for, with a line; so is a launcher, and a task.
        good = target == "shell" and plan.shells > 1 and rng.random() < 0.1
        blow.lasts = NEVER if good else rng.randrange(10, 600)
        blow.number = 1 + blow.number % (plan.shells - 1) if good else blow.number
    return blow


def make_limit(rng, plan, sanitizers):
    letter = rng.choice(["n", "n", "f"] + ([] if sanitizers else ["v"]))
    value = {"n": rng.randrange(3, 80), "f": rng.randrange(0, 64), "v": int(2 ** rng.uniform(13, 19))}[letter]
    return Limit(rng.randrange(plan.shells), letter, value)


def make_plan(seed, number, sanitizers, hosts):
    """`hosts`: how many there are; 0: all is on this one."""
    rng = random.Random(f"{seed}:{number}")
    plan = Plan(shells=rng.randint(1, hosts or 6), arity=rng.randint(2, 3), per_shell=rng.randint(1, 2),
                agent=hosts > 0 or rng.random() < 0.25)
    fails = rng.random() < 0.3
    plan.tasks = [make_task(rng, fails) for _ in range(plan.shells * plan.per_shell)]
    plan.input_size = rng.choice([None, 0, rng.randrange(200000)])
    plan.options = ["kill-timeout=1s"] + rng.choice([[], [], ["exit-on-error"], ["output.overflow=spill"], ["pmi=off"]])
    kind = rng.choice(["nothing"] + ["blow"] * 12 + ["limit"] * 4 + ["closed"] * 2 + ["terminal"] * 2)
    if kind == "blow":
        plan.blows = sorted((make_blow(rng, plan) for _ in range(rng.choice([1, 1, 1, 2]))), key=lambda blow: blow.at)
    elif kind == "limit":
        plan.limit = make_limit(rng, plan, sanitizers)
    elif kind == "closed":
        plan.closed = tuple(fd for fd in range(3) if rng.random() < 0.5) or (rng.randrange(3),)
    elif kind == "terminal":
        plan.hangup = rng.randrange(LATEST)
    for_good = [blow for blow in plan.blows if blow.lasts is NEVER]
    if for_good:  # alone: whose leader is killed too is ended by nobody, as long as it stands still
        plan.blows = for_good[:1]
        plan.options.append("lost-after=2s")
    return plan
