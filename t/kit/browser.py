# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that is told what to do by the DevTools protocol, over the pipe that --remote-debugging-pipe has for it: JSON
messages with a zero byte behind each, to the browser's descriptor 3 and from its descriptor 4."""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


class BrowserError(Exception):
    pass


class Browser:
    """One page of one browser, which ends with the `with` block. `preferences` are what its profile begins with."""

    def __init__(self, width, height, preferences=None, seconds=120):
        self.program = next((each for each in map(shutil.which, PROGRAMS) if each), None)
        if self.program is None:
            raise BrowserError(f"no browser: expected one of {', '.join(PROGRAMS)}; `etc/deps.sh long` installs it")
        self.size = f"--window-size={width},{height}"
        self.preferences = preferences or {}
        self.deadline = time.monotonic() + seconds
        self.last, self.buffer, self.session = 0, b"", None

    def __enter__(self):
        self.home = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        os.mkdir(f"{self.home.name}/Default")
        with open(f"{self.home.name}/Default/Preferences", "w", encoding="utf-8") as file:
            json.dump(self.preferences, file)
        commands, self.to = os.pipe()
        self.answers, answers = os.pipe()

        def descriptors():
            high = os.dup(commands), os.dup(answers)  # above 4: the pipes have the lower ones
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        options = ["--headless", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   f"--user-data-dir={self.home.name}", self.size, "about:blank"]
        if os.geteuid() == 0:
            options.insert(0, "--no-sandbox")  # it refuses to run as root with one
        self.log = open(f"{self.home.name}/log", "w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen([self.program, *options], preexec_fn=descriptors, close_fds=False, start_new_session=True,
                                        env=dict(os.environ, HOME=self.home.name), stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log)
        os.close(commands)
        os.close(answers)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.log.seek(0)
            print("".join(self.log.readlines()[-20:]), file=sys.stderr, end="")
        os.close(self.to)  # it ends when its pipe does
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.answers)
        self.log.close()
        self.home.cleanup()

    def receive(self):
        while b"\0" not in self.buffer:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                raise BrowserError(f"{self.program} has not answered in time")
            part = os.read(self.answers, 1 << 20)
            if not part:
                raise BrowserError(f"{self.program} has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self.receive()
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error'].get('message')}")
                return answer["result"]

    def evaluate(self, expression, **options):
        """The value of a JavaScript expression in the page; of a promise what it is fulfilled with."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, **{"returnByValue": True, **options})
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return result["result"] if options else result["result"].get("value")

    def wait_for(self, expression, what):
        """Until the expression is true; until then it may throw. Returns its value."""
        error = ""
        while time.monotonic() < self.deadline:
            try:
                if value := self.evaluate(expression):
                    return value
            except BrowserError as problem:
                error = f": {problem}"
            time.sleep(0.05)
        raise BrowserError(f"{self.program}: {what} in time{error}")

    def picture(self, path, clip):
        """Of (x, y, width, height), as PNG."""
        area = dict(zip(("x", "y", "width", "height"), clip), scale=1)
        shot = self.call("Page.captureScreenshot", format="png", clip=area)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
