# SPDX-License-Identifier: Apache-2.0
"""The cells of t/e2e/fault_matrix: what goes wrong where, in which way, on which shell, in which language; the job that
does it; and what has to come of it."""

import itertools
import re
from dataclasses import dataclass, field

SHELLS = 4
ARITY = 2  # the parent of shell S is (S - 1) / 2
RANKS = {"leader": (0,), "inner": (1,), "leaf": (3,), "all": (0, 1, 2, 3)}
ONE_SHELL = ("leader", "inner", "leaf")

TOPICS = ("taskmap.odd", "shell.init", "shell.post-init", "task.init", "task.exec", "task.fork", "shell.start", "task.exit",
          "shell.finish", "shell.tasks-complete", "shell.exit")
LOADING = {"c": "plugin.load", "lua": "initrc"}
BEFORE_BARRIER = ("initrc", "plugin.load", "taskmap.odd", "shell.init")  # no task of any shell may be started
BEFORE_TASK = BEFORE_BARRIER + ("shell.post-init", "task.init", "task.exec")  # none of the shell's own
SLOW_WAYS = ("crashes", "killed", "loops", "hangs")
END_CODE = 143  # of a job that SIGTERM ended
FOLDER = "{folder}"  # in an attribute of a jobspec: where the job runs
DIE_CODE = 5  # what fault_plugin.c gives to die

# What Lua does for a way. The shell is the parent of what os.execute() starts.
LUA = {
    "fails": 'return false, "no luck"',
    "dies": 'shell.die "no luck"',
    "throws": 'error "no luck"',
    "exits": "os.exit (3)",
    "killed": 'os.execute "kill -KILL $PPID; sleep 1000"',
    "stops": 'os.execute "kill -STOP $PPID"',
    "loops": "while true do end",
    "hangs": 'os.execute "exec sleep 1000"',
}


@dataclass(frozen=True)
class Cell:
    topic: str
    way: str
    shell: str
    language: str

    @property
    def name(self):
        return ":".join((self.topic, self.way, self.shell, self.language))

    @property
    def ranks(self):
        return RANKS[self.shell]


@dataclass
class Expected:
    codes: set
    # {what: pattern} of what the one line of the cause has to have.
    named: dict
    # Patterns of lines that may be there besides, as they do not contradict it.
    besides: list = field(default_factory=list)
    each_reports: bool = False  # several shells may each have such a line, of themselves
    signalled: bool = False  # SIGTERM is sent to the launcher, twice
    told: bool = False  # first a message has to come
    no_task: str = ""  # "any", "own": none may have been started


# ---- which cells there are ---------------------------------------------------


def shells_of(topic):
    return ("leader",) if topic == "shell.tasks-complete" else ONE_SHELL


def possible(topic, way, language):
    if way == "crashes" and language == "lua":
        return False  # Lua cannot, by itself
    # Who kills or stops a task's process ends or stops the task, not the shell.
    return topic != "task.exec" or way not in ("killed", "stops")


def product(topics, ways, shells, languages):
    return [Cell(topic, way, shell, language) for topic, way, language in itertools.product(topics, ways, languages)
            for shell in shells_of(topic) if shell in shells and possible(topic, way, language)]


def loading(ways, shells):
    cells = []
    for way, shell in itertools.product(ways, shells):
        cells.append(Cell("plugin.load", way, shell, "c"))
        if way not in ("fails", "crashes"):  # an initrc has no result
            cells.append(Cell("initrc", way, shell, "lua"))
    return cells


def in_turn(topics, way, languages):
    """One cell for each topic; shells and languages take turns."""
    cells = []
    for i, topic in enumerate(topic for topic in topics if possible(topic, way, "c")):
        shells = shells_of(topic)
        cells.append(Cell(topic, way, shells[i % len(shells)], languages[(i // len(shells)) % len(languages)]))
    return cells


def core():
    """What is always run: each topic, way and kind of shell once, in C and Lua by turns; of other ways a part in which each topic
    comes."""
    ways = ("fails", "dies", "throws", "exits", "loops")
    cells = []
    for i, (topic, way) in enumerate(itertools.product(TOPICS, ways)):
        shells = (*shells_of(topic), "all") if len(shells_of(topic)) > 1 else shells_of(topic)
        cells += [Cell(topic, way, shell, ("c", "lua")[(i + k) % 2]) for k, shell in enumerate(shells)]
    cells += loading(ways, (*ONE_SHELL, "all"))
    cells += in_turn(TOPICS, "cancels", ("c",)) + in_turn(TOPICS, "raises", ("c",))
    cells += in_turn(TOPICS, "crashes", ("c",)) + in_turn(TOPICS, "killed", ("c", "lua"))
    cells += [Cell("initrc", "killed", "inner", "lua"), Cell("plugin.load", "crashes", "leaf", "c"),
              Cell("shell.post-init", "hangs", "leaf", "c"), Cell("shell.start", "hangs", "leader", "lua")]
    return list(dict.fromkeys(cells + log_cells(("exits", "crashes")) + option_cells(("leaf",))))


def log_cells(ways):
    """A handler of shell.log that fails is a warning; these ways are none."""
    return product(("shell.log",), ways, ("leader", "leaf"), ("c",))


def option_cells(shells):
    return [Cell(what, OPTIONS[what].way, shell, "option") for what, shell in itertools.product(OPTIONS, shells)]


def everything():
    ways = ("fails", "dies", "throws", "exits") + SLOW_WAYS
    cells = core() + product(TOPICS, ways, ONE_SHELL, ("c", "lua")) + loading(ways, (*ONE_SHELL, "all"))
    cells += product(TOPICS, ("cancels", "raises"), ONE_SHELL, ("c",))
    cells += [Cell(topic, way, "all", language) for topic in TOPICS if topic != "shell.tasks-complete"
              for way in ways for language in ("c", "lua") if possible(topic, way, language)]
    cells += log_cells(("exits", "crashes", "dies", "loops", "killed")) + option_cells(ONE_SHELL) + standing_still()
    return list(dict.fromkeys(cells))


def standing_still():
    """A shell that stops is lost only after a time, so these take long. A leader is waited for, with a message."""
    topics = ("shell.init", "shell.post-init", "task.fork", "shell.finish")
    return product(topics, ("stops",), ONE_SHELL, ("c",))


# ---- what has to come of them ------------------------------------------------


def host_pattern(cell):
    return r"\bnode(" + "|".join(map(str, cell.ranks)) + r")\b"


def code_of(cell):
    if cell.way in ("loops", "hangs") or cell.way == "stops" and 0 in cell.ranks:
        return {END_CODE}
    if cell.topic == "task.exec":  # the task was not executed
        return {126, DIE_CODE if cell.language == "c" else 1} if cell.way == "dies" else {126, 1}
    if cell.way == "dies" and cell.language == "c":
        # At the very end it is too late for all to agree on a code; but it is none of success.
        return {1, DIE_CODE} if cell.topic == "shell.exit" else {DIE_CODE}
    if cell.way == "killed" and 0 in cell.ranks:
        return {137} if cell.shell == "leader" else {1, 137}  # of all, another may be lost before the leader is killed
    return {1}


def named_by(cell):
    host = {"host": host_pattern(cell)}
    if cell.way == "stops" and 0 in cell.ranks:
        return {"host": host["host"] + r"|\blocalhost\b", "shell": r"\bshell 0\b|\bleader\b"}
    if cell.way in ("killed", "stops"):
        return {**host, "what became of it": r"SIGKILL|\bkilled\b|\blost\b"}
    place = {"plugin": r"\bfault\b", "topic": re.escape(cell.topic)}
    if cell.topic == "plugin.load":
        place = {"plugin": r"\bfault\b", "topic": r"plugin\.load|flux_plugin_init"}
    if cell.topic == "initrc":
        place = {"file": r"\brc\.lua\b"}
    words = {"dies": "no luck", "throws": "no luck", "raises": "no luck", "crashes": "SIGSEGV|instead of returning", "exits": r"\bexit(ed)?\b"}
    if cell.language == "lua":
        words = {**words, "fails": "no luck"}
    word = {"the message": words[cell.way]} if cell.way in words else {}
    return {**place, **host, **word}


def expected(cell):
    if cell.language == "option":
        return OPTIONS[cell.topic].expected(cell)
    out = Expected(code_of(cell), named_by(cell))
    if cell.way in ("exits", "crashes", "killed", "stops", "loops", "hangs"):  # it cannot tell the others, which miss it
        out.besides.append(r"shell \d+ on node\d+ is lost")
        out.besides.append(r"nacre launch: shell 0 on localhost was killed by SIGKILL")
        out.besides.append(r"this shell has ended while plugin 'fault' ran")
        out.besides.append("^Terminated$")  # of a handler's own sh
        out.each_reports = True
    if cell.way in ("stops", "loops", "hangs"):  # so it is silent; the leader says that with the loss, its parent by itself
        out.besides.append(r"shell \d+ is suspected: nothing has come from it for")
    out.told = cell.way == "stops" and 0 in cell.ranks
    if out.told:  # it stands still within the handler
        out.besides.append(r"plugin 'fault' does not return from .* it is killed \(on node0\)")
    out.signalled = out.told or cell.way in ("loops", "hangs")
    if out.signalled:
        out.besides += ["ended by SIGTERM", "nacre launch: terminated twice: ending the job",
                         "the launcher has gone: without its launcher the job ends", "error: second SIGTERM: ending the job$"]
    if cell.topic in BEFORE_BARRIER:
        out.no_task = "any"
    elif cell.topic in BEFORE_TASK:
        out.no_task = "own"
    return out


# ---- their jobs --------------------------------------------------------------


@dataclass
class Job:
    task: str  # for sh; FLUX_TASK_RANK is that of its shell too, as each has one task
    initrc: str
    options: list = field(default_factory=list)
    files: dict = field(default_factory=dict)
    system: dict = field(default_factory=dict)  # attributes of the jobspec
    no_leaks: bool = False  # do not look for leaks, which takes a process


LONG = "exec sleep 1000"
AFTER_TASKS = ("task.exit", "shell.finish", "shell.tasks-complete", "shell.exit", "epilog", "task-epilog")


def lua_set(ranks):
    return "{" + ", ".join(f"[{rank}] = true" for rank in ranks) + "}"


def task_of(cell):
    """Each task leaves a file when it starts. They run for long, unless the fault comes after their end."""
    end = LONG
    if cell.topic == "task.exit":
        end = f'case $FLUX_TASK_RANK in {"|".join(map(str, cell.ranks))}) exit 0 ;; *) {LONG} ;; esac'
    elif cell.topic in AFTER_TASKS:
        end = "exit 0"
    return f"echo >started.$FLUX_TASK_RANK; {end}"


def plugin_rc(cell, way):
    plugin = "fault_throws" if way == "throws" else "fault"
    return f"""plugin.load {{ file = PLUGINS .. "/{plugin}/fault.so", conf = {{ topic = "{cell.topic}",
  way = here and "{way}" or "none", struck = "struck." .. shell.info.rank }} }}
"""


def lua_rc(cell):
    if cell.topic == "initrc":
        return f"if here then strike () {LUA[cell.way]} end\n"
    result = "do return { taskmap = args.taskmap } end" if cell.topic.startswith("taskmap.") else ""
    return f"""plugin.register {{ name = "fault", handlers = {{ {{ topic = "{cell.topic}", fn = function (topic, args)
  if here then strike () {LUA[cell.way]} end
  {result}
end }} }} }}
"""


def job_of(cell, plugins):
    """`plugins`: the folder of fault/fault.so and fault_throws/fault.so."""
    head = f"""PLUGINS = "{plugins}"
here = ({lua_set(cell.ranks)})[shell.info.rank]
function strike () io.open ("struck." .. shell.info.rank, "w"):close () end
"""
    if cell.language == "option":
        job = OPTIONS[cell.topic].job(cell)
        job.initrc = head + job.initrc
        return job
    rc = plugin_rc(cell, cell.way) if cell.language == "c" else lua_rc(cell)
    options = ["taskmap=odd"] if cell.topic == "taskmap.odd" else []
    if cell.way == "stops":
        options.append("lost-after=2s")
    return Job(task_of(cell), head + rc, options)


# ---- builtin options, and what a shell runs out of ------------------------------


@dataclass
class Option:
    """`rc`: Lua that the shells with the fault run. `words`: patterns of the message. The topic of `plugin`, if any, is where
    fault_plugin.c makes something of the system fail."""
    way: str
    words: tuple
    rc: str = ""
    plugin: tuple = ()
    options: tuple = ()
    files: dict = field(default_factory=dict)
    system: dict = field(default_factory=dict)
    code: int = 1
    no_task: str = ""
    besides: tuple = ()

    def expected(self, cell):
        named = {f"'{word}'": word for word in self.words}
        return Expected({self.code}, {**named, "host": host_pattern(cell)}, list(self.besides), no_task=self.no_task)

    def job(self, cell):
        rc = f"if here then strike () {self.rc} end\n" if self.rc else ""
        if self.plugin:
            topic, way = self.plugin
            rc += plugin_rc(Cell(topic, way, cell.shell, "c"), way)
        files = {name.replace("RANK", str(rank)): text for name, text in self.files.items()
                 for rank in range(SHELLS) if rank not in cell.ranks or "RANK" not in name}
        return Job(task_of(cell), rc, [each.replace("RANK", str(cell.ranks[0])) for each in self.options], files,
                   self.system, bool(self.plugin))


def hook(name, command, words, named=None, **more):
    return Option("fails", (rf"\b{named or name}\b", *words), f'shell.options["{name}"] = {command}', **more)


NO_FILE = "No such file or directory"
EPILOGS = (r"epilog '.*exit 3'?: exited with code 3",)
OPTIONS = {
    "prolog": hook("prolog", '"exit 3"', ("exited with code 3",), no_task="own"),
    "prolog-missing": hook("prolog", '{ "/nowhere/x" }', ("/nowhere/x", NO_FILE), no_task="own"),
    "prolog-killed": hook("prolog", '"kill -KILL $$"', ("killed by SIGKILL",), no_task="own"),
    "prolog-timeout": hook("prolog", '{ command = "sleep 1000", timeout = "0.1s" }', ("took longer than",), no_task="own"),
    "task-prolog": hook("task-prolog", '"exit 3"', ("exited with code 3",), no_task="own"),
    "epilog": hook("epilog", '"exit 3"', ("epilog failed",), besides=EPILOGS),
    "task-epilog": hook("task-epilog", '"exit 3"', ("epilog failed",), "epilog", besides=EPILOGS),
    "output-of-shell": Option("fails", (r"out\.\d/all", "directory is not there"),
                              options=("output.stdout.path=out.{{node.id}}/all",), files={"out.RANK/x": ""}, no_task="own"),
    "output-of-task": Option("fails", (r"out\.\d/task", "directory is not there"),
                             options=("output.stdout.path=out.{{task.rank}}/task",), files={"out.RANK/x": ""}, no_task="own"),
    "input-of-task": Option("fails", (r"in\.\d", NO_FILE),
                            options=("input.stdin.path=in.{{task.rank}}",), files={"in.RANK": "text"}, no_task="own"),
    "stage-in": Option("fails", ("stage-in", "no archive 'none'"), files={"ar/other.tar": ""}, no_task="any",
                       rc='shell.options["stage-in"] = { names = "none", dir = "ar" }'),
    "stage-in-bad": Option("fails", ("stage-in", "no tar archive"), files={"ar/main.tar": "hello\n"}, no_task="own",
                           rc='shell.options["stage-in"] = { dir = "ar" }'),
    "rlimit": Option("fails", ("rlimit", "nofile"), 'shell.options.rlimit = { nofile = "many" }', no_task="own"),
    "no-such-command": Option("fails", ("/no/such", NO_FILE), options=('wrap=[{"ranks": "RANK", "command": ["/no/such"]}]',),
                              code=127, no_task="own"),
    "no-processes": Option("fails", ("Resource temporarily unavailable",), plugin=("shell.post-init", "no-processes"),
                           no_task="own"),
    "no-descriptors": Option("fails", ("Too many open files",), plugin=("shell.post-init", "no-descriptors"), no_task="own"),
    "no-directory": Option("fails", ("cannot change to directory", NO_FILE), plugin=("shell.init", "no-directory"),
                           system={"cwd": FOLDER}, no_task="any"),
}
