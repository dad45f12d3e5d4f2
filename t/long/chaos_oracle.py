# SPDX-License-Identifier: Apache-2.0
"""Whether what came of a trial of t/long/chaos can be, by its plan and what was done to the job indeed."""

import re
from dataclasses import dataclass, field

# At notice level; or what sh prints as agent when its child was killed, and srun when anything happens.
QUIET_LINE = re.compile(r"^nacre-shell\[\d+\]: (?!(fatal|error|warn): )|^(Killed|Terminated|Hangup|Quit|)$|^srun: ")
SRUN_NAMES = re.compile(r"^srun: error: node\d+: task.* \d.*: Killed|^nacre launch: srun was killed")
FAILED_LINE = re.compile(r"^nacre-shell\[0\]: error: task (.*): exit code (\d+)$")
REPORT_LINE = re.compile(r"^nacre: ")
REPORT_CAUSE = re.compile(r"^nacre: .*: rank (\d+) on \S+ \(pid \d+\) exited with code (\d+) ")
FAILED_RANKS = re.compile(r"(?:^|, )(\d+)(?:-(\d+))?(?= on |, |$)")
SIGNAL_CODES = {"INT": 130, "TERM": 143, "HUP": 129, "QUIT": 131, "KILL": 137}
NO_READER = 98  # chaos_task's, when it cannot write
SIGPIPE_CODE = 141
ABORT_CODE = 134
INPUT_LINE = re.compile(r"\d+\.(i|in|in \d*)$")  # whole or torn


@dataclass
class Hit:
    """A blow that reached a process while the job ran."""
    blow: object
    pid: int
    shell: int | None = None  # the rank of the shell that it is, or that it has started; None: not known
    task: int | None = None
    ignored: bool = False  # the task had SIGTERM ignored
    unguarded: bool = False  # a shell of the job had no guard yet

    def harmless(self):
        return self.ignored or (self.blow.signame == "STOP" and self.blow.lasts is not None)


@dataclass
class Outcome:
    code: int
    stdout: str | None  # None: it cannot be known
    stderr: str | None
    done: set  # ranks of tasks that came to their end
    started: set
    hits: list = field(default_factory=list)


class Oracle:
    def __init__(self, plan, outcome, by_srun=False):
        self.plan, self.out, self.by_srun = plan, outcome, by_srun
        self.lethal = [hit for hit in outcome.hits if not hit.harmless()]
        self.faults = []  # (kind, text)

    def judge(self):
        self._code()
        if self.out.stderr is not None:
            self._message()
        if self.out.stdout is not None:
            self._output()
        return self.faults

    def _fault(self, kind, text):
        self.faults.append((kind, text))

    def _silent_stdout(self):
        return 1 in self.plan.closed

    def _untouched(self):
        """Nothing was done that could change how the job ends."""
        return not self.lethal and self.plan.limit is None and not self._silent_stdout() and self.plan.hangup is None

    def _out_of_memory(self):
        """A shell that gets no memory aborts."""
        return self.plan.limit is not None and self.plan.limit.letter == "v"

    # ---- the exit code -------------------------------------------------------

    def _codes_of(self, hit):
        """What this hit may make of the exit code, beside the codes of tasks that ended by themselves."""
        signame, target = hit.blow.signame, hit.blow.target
        if target == "launcher":
            return {SIGNAL_CODES[signame]}
        if target == "agent":
            # The end of the leader's agent is the leader's to nacre launch; srun kills what it has started, whichever signal it gets.
            return {1, SIGNAL_CODES[signame]} | ({SIGNAL_CODES["KILL"]} if self.by_srun else set())
        if target == "task":
            return {SIGNAL_CODES[signame]}
        if signame in ("KILL", "STOP"):
            leads = hit.shell in (0, None) or self.by_srun  # srun ends with the largest code
            return {1, 137} if leads else {1}
        return {SIGNAL_CODES[signame]}

    def _allowed(self):
        own = {task.code for task in self.plan.tasks}
        if self._untouched():
            return self.plan.codes()
        allowed = set(own)
        for hit in self.lethal:
            allowed |= self._codes_of(hit)
        if sum(hit.blow.signame == "INT" for hit in self.lethal) > 1:
            allowed.add(SIGNAL_CODES["KILL"])
        if self.plan.limit is not None:
            # A shell that does not come to join has srun kill the others after 4 s.
            allowed |= {1, 126, 127} | ({SIGNAL_CODES["KILL"]} if self.by_srun else set()) | ({ABORT_CODE} if self._out_of_memory() else set())
        if self._silent_stdout():
            allowed |= {1, NO_READER, SIGPIPE_CODE}
        if self.plan.hangup is not None:
            allowed.add(SIGNAL_CODES["HUP"])
        return allowed

    def _code(self):
        allowed = self._allowed()
        if self.out.code not in allowed:
            self._fault("code", f"exit code {self.out.code}, expected {' or '.join(map(str, sorted(allowed)))}")
        failed = sorted(rank for rank, task in enumerate(self.plan.tasks) if rank not in self.out.done or task.code != 0)
        if self.out.code == 0 and failed:
            self._fault("success", f"exit code 0, though these tasks have failed or not come to their end: {failed}")
        if self.out.code == 0 and self._silent_stdout() and any(task.lines for task in self.plan.tasks):
            self._fault("success", "exit code 0, though there was no standard output to write to")

    # ---- the message ---------------------------------------------------------

    def _message(self):
        loud = [line for line in self.out.stderr.splitlines() if not (QUIET_LINE.match(line) or FAILED_LINE.match(line) or REPORT_LINE.match(line))]
        for words in ("AddressSanitizer", "LeakSanitizer", "runtime error:", "terminate called", "Assertion"):
            if words in self.out.stderr and not (words == "terminate called" and self._out_of_memory()):
                self._fault("sanitizer", f"standard error has '{words}'")
        if self._untouched() and not self.plan.ends_early() and loud:
            self._fault("noise", f"nothing was done that needs a message, and there is: {loud[0]}")
        if self._untouched() and not self.plan.ends_early():
            self._named()
        own = any(self.plan.tasks[rank].code for rank in self.out.done)
        if self.out.code == 0 or own or self._untouched() or self.plan.hangup is not None:
            return
        if any(hit.blow.target == "task" or hit.blow.signame not in ("KILL", "STOP") for hit in self.lethal):
            return  # a task that was killed is its own failure; and who signals a job knows
        if any(hit.blow.target == "launcher" for hit in self.lethal):
            return  # nobody is left to print one
        if self.plan.limit is not None and self.plan.limit.letter == "f" and self.plan.limit.value == 0:
            return  # standard error is a file
        if not loud and "Killed" in self.out.stderr.splitlines():
            return  # that is from the agent's sh, whose exit code is all that the launcher gets
        if any(SRUN_NAMES.match(line) for line in self.out.stderr.splitlines()):
            return  # srun names host and shell, which it calls a task
        if not loud:
            self._fault("silent", f"exit code {self.out.code}, and no message")
        elif self.lethal and not any(self._names(hit, line) for hit in self.lethal for line in loud):
            self._fault("unnamed", "no line names what was hit: "
                        + ", ".join(f"shell {'?' if hit.shell is None else hit.shell}" for hit in self.lethal))

    def _named(self):
        """Each task that failed is named once, with its code."""
        expected = {rank: task.code for rank, task in enumerate(self.plan.tasks) if task.code != 0}
        named = {}
        for line in filter(None, map(FAILED_LINE.match, self.out.stderr.splitlines())):
            for first, last in FAILED_RANKS.findall(line[1]):
                for rank in range(int(first), int(last or first) + 1):
                    if rank in named:
                        self._fault("named twice", f"task {rank}")
                    named[rank] = int(line[2])
        if named != expected:
            self._fault("not named", f"tasks and codes that are named: {named}, expected {expected}")
        self._reported(expected)

    def _reported(self, expected):
        """The report of a job that has failed: its cause is one of the tasks that failed, with its code."""
        causes = list(filter(None, map(REPORT_CAUSE.match, self.out.stderr.splitlines())))
        if not expected and any(map(REPORT_LINE.match, self.out.stderr.splitlines())):
            self._fault("report", "a job that did not fail has a report")
        elif expected and [expected.get(int(cause[1])) for cause in causes] != [int(cause[2]) for cause in causes[:1]]:
            self._fault("report", f"the cause is {[cause[0] for cause in causes]}, of {expected}")

    @staticmethod
    def _names(hit, line):
        rank = r"\d+" if hit.shell is None else str(hit.shell)
        return re.search(rf"\bshell {rank}\b|\b(node|other){rank}\b|\blocalhost\b", line) is not None

    # ---- the output ----------------------------------------------------------

    def _output(self):
        size = self.plan.input_size or 0
        if 0 in self.plan.closed:
            size = 0
        expected = [task.text(rank, size) for rank, task in enumerate(self.plan.tasks)]
        if not self._untouched():
            # Input may have been cut off, so how much there was is not known.
            expected = [[line for line in lines if not INPUT_LINE.match(line)] for lines in expected]
        at, fragments = [0] * len(expected), []
        for line in self.out.stdout.split("\n"):
            self._line(line, expected, at, fragments)
        short_ends = self._may_be_short()
        torn = self._torn(fragments, at, short_ends)
        whole = [rank for rank in range(len(expected)) if rank not in short_ends]
        short = {rank: (at[rank], len(expected[rank])) for rank in whole if at[rank] < len(expected[rank])}
        if short:
            self._fault("lost output", "lines are missing: "
                        + ", ".join(f"task {rank} has {got} of {all_of}" for rank, (got, all_of) in short.items()))
        if torn - short_ends:
            self._fault("torn output", f"lines are torn, of tasks {sorted(torn - short_ends)}")

    def _may_be_short(self):
        """Tasks whose output need not have come to its end."""
        everyone = set(range(len(self.plan.tasks)))
        unfinished = everyone - self.out.done
        if self._untouched():
            return unfinished if self.plan.ends_early() else set()
        if self.out.code == 0:
            return set()
        # Of tasks that were killed all others have written what they have, as long as all shells were well.
        only_tasks = bool(self.lethal) and all(hit.task is not None for hit in self.lethal)
        return unfinished if only_tasks else everyone

    def _torn(self, fragments, at, short_ends):
        """The tasks that these are the last words of. One may be the beginning of the next line of several tasks, but no two are of one
        task, and no line of it came after."""
        owners = {}

        def finds_owner(number, tried):
            able = [rank for rank, lines in fragments[number].items() if at[rank] == lines and rank not in tried]
            for rank in sorted(able, key=lambda rank: rank not in short_ends):
                tried.add(rank)
                if rank not in owners or finds_owner(owners[rank], tried):
                    owners[rank] = number
                    return True
            return False

        for number, fragment in enumerate(fragments):
            if not finds_owner(number, set()):
                self._fault("torn output", f"a line was torn, and others came after it, of one of tasks {sorted(fragment)}")
        return set(owners)

    def _line(self, line, expected, at, fragments):
        if not line or (INPUT_LINE.match(line) and not self._untouched()):
            return
        match = re.match(r"(\d+)\.(\d+|in) ", line)
        rank = int(match[1]) if match else None
        if rank is not None and rank < len(expected) and at[rank] < len(expected[rank]) and expected[rank][at[rank]] == line:
            at[rank] += 1
            return
        # By task whose next line begins so: how many whole ones it had before.
        begun = {rank: at[rank] for rank, lines in enumerate(expected) if at[rank] < len(lines) and lines[at[rank]].startswith(line)}
        if begun:
            fragments.append(begun)
        else:
            self._fault("wrong output", f"a line that should not be here: {line[:60]!r}")
