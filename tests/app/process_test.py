#!/usr/bin/env python3
"""The built command as a process: its streams, its terminal, its signals.

usage: process_test.py SHARDSIM
"""

import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from sanitizer_note import without_note  # noqa: E402  pylint: disable=wrong-import-position
PLAN = "scenarios/quickstart.json"


class ProcessTest(unittest.TestCase):
    shardsim = ""

    def start(self, *arguments, **options):
        environment = {"PATH": os.environ["PATH"], **options.pop("env", {})}
        return subprocess.Popen([self.shardsim, *arguments], cwd=ROOT, env=environment, **options)

    def run_to_end(self, *arguments, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                   "stderr": subprocess.PIPE, **options}
        with self.start(*arguments, **options) as process:
            out, err = process.communicate(timeout=120)
        return process.returncode, out, without_note(err)

    def read_progress(self, process):
        """Returns as soon as the process says that it is alive; fails if it ends without."""
        said = b""
        while b"simulating, " not in said:
            byte = os.read(process.stderr.fileno(), 1)
            self.assertTrue(byte, said)
            said += byte

    def on_terminal(self, **env):
        """Standard output as a terminal would get it."""
        try:
            reader, terminal = os.openpty()
        except OSError as error:  # A bare chroot has no /dev/pts.
            self.skipTest(f"no terminal to be had: {error}")
        with self.start(PLAN, stdin=subprocess.DEVNULL, stdout=terminal,
                        stderr=subprocess.DEVNULL, env=env) as process:
            os.close(terminal)
            text = b""
            while True:
                try:
                    part = os.read(reader, 65536)
                except OSError:  # Linux says so when the other end is closed.
                    break
                if not part:
                    break
                text += part
        os.close(reader)
        self.assertEqual(process.returncode, 0)
        return text.replace(b"\r\n", b"\n")

    def test_colours_are_for_terminals_that_want_them(self):
        code, plain, err = self.run_to_end(PLAN)
        self.assertEqual((code, err), (0, b""))
        self.assertNotIn(b"\x1b", plain)
        self.assertIn(b"\x1b[", self.on_terminal(TERM="xterm"))
        self.assertEqual(self.on_terminal(TERM="dumb"), plain)
        self.assertEqual(self.on_terminal(TERM="xterm", NO_COLOR="1"), plain)
        self.assertIn(b"\x1b[", self.on_terminal(TERM="xterm", NO_COLOR=""))

    def test_output_does_not_depend_on_the_surroundings(self):
        expected = self.run_to_end(PLAN, "--json")
        for env in ({"LC_ALL": "de_DE.UTF-8"}, {"COLUMNS": "40"}, {"TZ": "Asia/Tokyo"}):
            self.assertEqual(self.run_to_end(PLAN, "--json", env=env), expected)
        with self.start(PLAN, "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        preexec_fn=lambda: os.close(0)) as process:
            out, err = process.communicate(timeout=120)
        err = without_note(err)
        self.assertEqual((process.returncode, out, err), expected)

    def test_without_presets_every_verb_tells_where_it_looked(self):
        with tempfile.TemporaryDirectory() as folder:  # Beside the checkout's scenarios lie presets.
            plan = shutil.copy(PLAN, folder)
            for words in (("presets",), ("plan", "gpt2", "--gpus", "8", "--gpu", "h100"),
                          ("plan", plan, "--gpus", "8", "--gpu", "h100")):
                code, out, err = self.run_to_end(*words, env={"SHARDSIM_PRESETS": "/nowhere"})
                self.assertEqual((code, out), (2, b""), words)
                self.assertRegex(err, b'no presets were found in (".*", )?"/nowhere"; SHARDSIM_PRESETS can name')

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "wb") as full:
            code, _, err = self.run_to_end(PLAN, "--json", stdout=full)
        self.assertEqual(code, 2)
        self.assertIn(b"cannot write to standard output", err)

    def test_an_interrupt_ends_with_130_and_says_what_is_lost(self):
        # Nobody empties this pipe of one page. Its first byte shows that the command runs, and the
        # command cannot end before it is interrupted.
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        with self.start("schema", stdin=subprocess.DEVNULL, stdout=writer,
                        stderr=subprocess.PIPE) as process:
            os.close(writer)
            self.assertTrue(os.read(reader, 1))
            process.send_signal(signal.SIGINT)
            err = process.stderr.read()
        os.close(reader)
        self.assertEqual(process.returncode, 130)
        self.assertIn(b"interrupted; the results of this run are lost", err)

    def test_an_interrupted_simulation_ends_with_130_and_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.start("scenarios/gpt3-175b-1024xa100.json", "--set", "execution.steps=100",
                            "--set", "output.trace=step.json", "--out", folder,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE) as process:
                self.read_progress(process)  # It is under way, and far from its end.
                process.send_signal(signal.SIGINT)
                err = process.stderr.read()
            self.assertEqual(process.returncode, 130)
            self.assertIn(b"interrupted; the results of this run are lost", err)
            self.assertEqual(os.listdir(folder), [])

    def test_an_interrupted_plan_prints_and_writes_what_it_knows(self):
        try:
            reader, terminal = os.openpty()
        except OSError as error:  # A bare chroot has no /dev/pts.
            self.skipTest(f"no terminal to be had: {error}")
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "plan.html"
            with self.start("plan", "llama3-70b", "--gpus", "256", "--gpu", "h100", "--time-limit", "0", "--json",
                            "--report", str(page), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=terminal) as process:
                os.close(terminal)
                said = b""
                while b", best " not in said:  # It has found a layout, and is far from its end.
                    part = os.read(reader, 1024)
                    self.assertTrue(part, said)
                    said += part
                process.send_signal(signal.SIGINT)
                out, _ = process.communicate(timeout=120)
            os.close(reader)
            self.assertEqual(process.returncode, 130)
            found = json.loads(out)
            self.assertEqual((found["interrupted"], found["complete"]), (True, False))
            self.assertTrue(found["ranked"])
            self.assertGreater(found["counts"]["left_open"], 0)
            self.assertIn("The search was interrupted: best ", page.read_text(encoding="utf-8"))

    def test_a_plan_shows_no_progress_but_on_a_terminal(self):
        code, _, err = self.run_to_end("plan", "llama3-70b", "--gpus", "256", "--gpu", "h100", "--time-limit", "2")
        self.assertIn(code, (0, 3))  # 3: nothing was found in these two seconds.
        self.assertEqual(err, b"")

    def test_a_run_with_real_tensors_tells_that_it_is_alive(self):
        # Few operations, much arithmetic. The line comes after a second; the steps are for many.
        with self.start("scenarios/verify-gpt-zero3.json", "--set", "execution.steps=1000",
                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                        stderr=subprocess.PIPE) as process:
            self.read_progress(process)
            process.send_signal(signal.SIGINT)
            process.stderr.read()
        self.assertEqual(process.returncode, 130)

    def test_a_quiet_run_does_not_tell_that_it_is_alive(self):
        # Between two and three seconds on one core of 2024.
        code, _, err = self.run_to_end("scenarios/verify-gpt-zero3.json", "-q",
                                       "--set", "execution.steps=100")
        self.assertEqual((code, err), (0, b""))

    def test_other_long_verbs_tell_that_they_are_alive_unless_they_are_to_be_quiet(self):
        # Each is for more than a second on one core of 2024, and says so by then.
        for words in (("diff", "scenarios/verify-gpt-zero3.json", "--set", "execution.steps=100"),
                      ("validate", "--sample"),
                      ("sensitivity", "scenarios/verify-gpt-zero3.json", "--jobs", "1",
                       "--set", "execution.steps=10")):
            with self.start(*words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE) as process:
                self.assertTrue(process.stderr.read(1), words)
                process.kill()
                process.stderr.read()
            code, out, err = self.run_to_end(*words, "-q")
            self.assertEqual((code, err), (0, b""), words)
            self.assertTrue(out, words)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    ProcessTest.shardsim = sys.argv.pop(1)
    unittest.main()
