"""A `shardsim serve` of its own, and a client that may break every rule.

    with Served(shardsim, "--jobs", "2") as served:
        status, body = served.ask("POST", "run", scenario)
"""
import contextlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from sanitizer_note import without_note  # noqa: E402  pylint: disable=wrong-import-position

PATIENCE_S = 60

PLAN = {
    "schema_version": 1,
    "name": "a plan",
    "model": {"preset": "llama3-8b"},
    "system": {"preset": "dgx-h100", "ranks": 32},
    "parallelism": {"tp": 4, "zero_stage": 1, "sequence_parallel": True},
    "training": {"global_batch_size": 64, "micro_batch_size": 1},
    "execution": {"fold": "auto"},
}


def text_of(**changes):
    """The plan with other sections, as JSON."""
    return json.dumps({**PLAN, **changes})


# A minute of work, where nothing stops it: each of many ranks runs many microbatches.
LONG = text_of(
    parallelism={"tp": 8, "zero_stage": 1},
    system={"preset": "dgx-h100", "ranks": 256},
    training={"global_batch_size": 131072, "micro_batch_size": 1},
    execution={"fold": "off", "engine": "run"})

# Long enough to wait for others, by a little: all its ranks run.
SOME_TIME = text_of(
    system={"preset": "dgx-h100", "ranks": 8},
    training={"global_batch_size": 100, "micro_batch_size": 1},
    execution={"fold": "off", "engine": "run"})


class Served:
    def __init__(self, shardsim, *arguments, env=None):
        words = [os.path.abspath(shardsim), "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=env)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(self.process.communicate()[1])
        _, _, self.host, self.base = self.url.split("/", 3)
        self.base = "/" + self.base
        name, _, port = self.host.rpartition(":")
        self.address = (name, int(port))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """(exit code, what it printed after the URL)"""
        if self.process.poll() is None:
            self.process.terminate()
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out + without_note(err)

    def ask(self, method, name, body=None, **headers):
        """(status, body) of a good request, with more or other headers: Host becomes Host=..."""
        fields = {"Content-Type": "application/json"} if body is not None else {}
        fields.update({key.replace("_", "-"): value for key, value in headers.items()})
        with contextlib.closing(http.client.HTTPConnection(*self.address, timeout=PATIENCE_S)) as connection:
            connection.request(method, self.base + name, body, fields)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def ask_raw(self, data):
        """All that is answered to these bytes, until the server closes."""
        with socket.create_connection(self.address, timeout=PATIENCE_S) as connection:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(data)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while part := connection.recv(65536):
                    answer += part
            return answer

    def head(self, method="GET", name="", **headers):
        """The head of a request, with other fields; None leaves one out."""
        fields = {"Host": self.host, **{key.replace("_", "-"): value for key, value in headers.items()}}
        lines = [f"{method} {self.base}{name} HTTP/1.1"]
        lines += [f"{key}: {value}" for key, value in fields.items() if value is not None]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def cpu_s(self):
        """Seconds that its threads have computed."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii")
        fields = stat.rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wait_until_busy(self, seconds):
        """Until its threads have computed for so many seconds."""
        begin, end = self.cpu_s(), time.monotonic() + PATIENCE_S
        while self.cpu_s() < begin + seconds:
            if time.monotonic() > end:
                raise TimeoutError("it does not compute")
            time.sleep(0.02)

    def load_for(self, seconds):
        """How many cores its threads compute on, in these seconds."""
        begin, before = time.monotonic(), self.cpu_s()
        time.sleep(seconds)
        return (self.cpu_s() - before) / (time.monotonic() - begin)

    def is_idle_within(self, seconds):
        """Whether its threads stop computing in so many seconds."""
        end = time.monotonic() + seconds
        while True:
            before = self.cpu_s()
            time.sleep(0.15)
            if self.cpu_s() - before <= 0.01:
                return True
            if time.monotonic() > end:
                return False

    def memory_mib(self):
        """The most that it has held."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
