# SPDX-License-Identifier: Apache-2.0
"""Jobs of t/long/chaos over virtual hosts, by ssh or srun. Their processes are seen from the machine, with ids of its own."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import job_run  # noqa: E402  pylint: disable=wrong-import-position
import virtual_hosts  # noqa: E402  pylint: disable=wrong-import-position

HOSTS = 4


class HostedRun(job_run.JobRun):
    """nacre launch runs on node0. Nothing else may run on the hosts: what is in their /tmp is the job's."""

    def __init__(self, build, hosts):
        super().__init__(build, "job-", hosts.folder)
        self.hosts = hosts
        del self.environment["TMPDIR"]
        self.environment.update({name: hosts.environment[name] for name in ("VCLUSTER_NAME", "VCLUSTER_STATE")})
        status = subprocess.run([virtual_hosts.VCLUSTER, "status"], env=hosts.environment, capture_output=True, text=True, check=True)
        self.inits = [int(pid) for pid in re.findall(r"^node.* init=(\d+)", status.stdout, re.MULTILINE)]

    def start(self, command, **options):
        super().start([virtual_hosts.VCLUSTER, "exec", "node0", *command], **options)

    def launcher(self):
        """None if it is not there."""
        return next((pid for pid in sorted(self.processes()) if job_run.program(pid) == "nacre"), None)

    def files_left(self, seconds):
        job_run.wait_for(lambda: not self._files(), seconds)
        return self._files()

    def files_swept(self):
        """What a next job on all hosts leaves of it."""
        self.write_job(HOSTS, ["sleep", "0.5"])
        subprocess.run([virtual_hosts.VCLUSTER, "exec", "node0", *self.launch_command("--srun", f"--nodes={HOSTS}")],
                       cwd=self.folder, env=self.environment, check=True, capture_output=True)
        return self._files()

    def _files(self):
        return sorted(f"node{i}:{name}" for i, pid in enumerate(self.inits) for name in os.listdir(f"/proc/{pid}/root/tmp")
                      if name.startswith("nacre"))

    def __exit__(self, *details):
        self.kill_all()
        for pid in self.inits:
            subprocess.run(["sh", "-c", f"rm -rf /proc/{pid}/root/tmp/nacre*"], check=False)
        super().__exit__(*details)
