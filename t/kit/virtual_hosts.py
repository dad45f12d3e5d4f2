# SPDX-License-Identifier: Apache-2.0
"""Virtual hosts (t/cluster/vcluster) for scripts in Python, and jobs over them."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VCLUSTER = os.path.join(SOURCE, "t", "cluster", "vcluster")


def write_job(folder, nodes, command, tasks=1):
    """A job of so many tasks a node: jobspec.json and R.json."""
    ranks = f"0-{nodes - 1}" if nodes > 1 else "0"
    cores = f"0-{tasks - 1}" if tasks > 1 else "0"
    resources = {"version": 1, "execution": {"R_lite": [{"rank": ranks, "children": {"core": cores}}],
                                             "nodelist": [f"node[{ranks}]"], "starttime": 0, "expiration": 0}}
    jobspec = {"version": 1, "resources": [{"type": "slot", "count": nodes * tasks, "label": "task",
                                            "with": [{"type": "core", "count": 1}]}],
               "tasks": [{"command": command, "slot": "task", "count": {"per_slot": 1}}],
               "attributes": {"system": {"duration": 0, "environment": {"PATH": "/usr/bin:/bin"}}}}
    for name, text in (("R.json", resources), ("jobspec.json", jobspec)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(text, file)


class VirtualHosts:
    """node0 ... node(count-1), for as long as the `with` lasts. `folder`: all of them have it. `options`: of vcluster up."""

    def __init__(self, name, count, shared, *options):
        if os.geteuid() != 0:
            sys.exit(f"{name}: virtual hosts need root")
        state = tempfile.mkdtemp(prefix=f"{name}.", dir=shared)
        self.count = count
        self.options = options
        self.environment = {**os.environ, "VCLUSTER_NAME": name, "VCLUSTER_STATE": state, "VCLUSTER_TIMEOUT": "300"}
        self.shared = [shared, SOURCE]
        self.state = state
        self.folder = os.path.join(state, name, "work")

    def __enter__(self):
        self.call("down")
        shares = [word for folder in self.shared for word in ("--share", folder)]
        try:
            self.call("up", str(self.count), *self.options, *shares, "--while", str(os.getpid()))
        except subprocess.CalledProcessError:
            self.__exit__()
            raise
        os.mkdir(self.folder)
        return self

    def __exit__(self, *_):
        self.call("down")
        shutil.rmtree(self.state, ignore_errors=True)

    def call(self, *words):
        subprocess.run([VCLUSTER, *words], env=self.environment, stdin=subprocess.DEVNULL, check=True)

    def run(self, host, words, timeout):
        """The finished process, None if it had to be ended."""
        command = [VCLUSTER, "exec", host, "timeout", "--kill-after=5", str(timeout), *words]
        done = subprocess.run(command, env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        return None if done.returncode in (124, 137) else done

    def processes(self, host, pattern):
        command = [VCLUSTER, "exec", host, "pgrep", "-af", "--", pattern]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False).stdout
