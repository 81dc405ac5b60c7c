#!/usr/bin/env python3
"""Sweeps as processes: killed and resumed, in shards, under mpirun; whatever happens on the way, the
merged table is the same bytes.

usage: sweep_test.py SHARDSIM [TEST...]
"""

import csv
import fcntl
import io
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MPIRUN = shutil.which("mpirun")
SEED = int(os.environ.get("SHARDSIM_TEST_SEED", "20240817"))
KILLS = 20

# A tiny model on few ranks, folded: a point takes a millisecond or two.
SCENARIO = {
    "schema_version": 1,
    "name": "a tiny sweep",
    "model": {"family": "mlp", "num_layers": 2, "hidden_size": 24, "ffn_hidden_size": 37, "vocab_size": 11},
    "system": {
        "name": "a small test machine", "nodes": 1, "gpus_per_node": 4,
        "intra_node": {"bandwidth_gb_per_s": 100, "latency_us": 2},
        "inter_node": {"bandwidth_gb_per_s": 10, "latency_us": 5},
        "device": {
            "name": "a small test device", "memory_gib": 80, "memory_bandwidth_gb_per_s": 1000,
            "memory_efficiency": 0.8, "peak_tflops": {"fp32": 20, "bf16": 100},
            "matmul_efficiency": 0.7, "kernel_launch_us": 2}},
    "parallelism": {"zero_stage": 1},
    "training": {"global_batch_size": 16, "micro_batch_size": 1, "precision": "bf16", "optimizer": "adamw"},
    "execution": {"fold": "auto"},
}


# Three or eight samples at a time on four ranks do not divide a batch of 16: these are invalid.
AXES_OF_1000_POINTS = {
    "model.hidden_size": [8 * n for n in range(1, 11)],
    "training.micro_batch_size": [1, 2, 3, 4, 8],
    "parallelism.zero_stage": [0, 1, 2, 3],
    "training.learning_rate": [0.1, 0.2, 0.3, 0.4, 0.5],
}


class SweepTest(unittest.TestCase):
    shardsim = ""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="shardsim-sweep-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def write_scenario(self, axes, **block):
        path = self.folder / "tiny.json"
        path.write_text(json.dumps({**SCENARIO, "sweep": {"axes": axes, **block}}, indent=1))
        return path

    def environment(self, **variables):
        keep = ("PATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS")
        return {**{name: os.environ[name] for name in keep if name in os.environ}, **variables}

    def run_to_end(self, *arguments, expect=0, env=None, prefix=()):
        process = subprocess.run([*prefix, self.shardsim, *map(str, arguments)], cwd=self.folder,
                                 env=self.environment(**(env or {})), capture_output=True, timeout=300)
        self.assertEqual(process.returncode, expect, (process.stdout[-2000:], process.stderr[-2000:]))
        return process.stdout.decode(), process.stderr.decode()

    def merged(self, out, *arguments):
        return self.run_to_end("merge", out, *arguments)[0]

    def lines_of(self, path):
        try:
            return path.read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    def start(self, *arguments):
        return subprocess.Popen([self.shardsim, *map(str, arguments)], cwd=self.folder, env=self.environment(),
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def wait_for_lines(self, process, path, lines):
        """Returns when the file has so many lines, or the process has ended."""
        while process.poll() is None and self.lines_of(path) < lines:
            time.sleep(0.001)


class KilledTest(SweepTest):
    def tear(self, part, numbers):
        """Cuts the last line, as a machine that goes down may do."""
        text = part.read_bytes()
        begin = text.rstrip(b"\n").rfind(b"\n") + 1
        if begin > 0:
            part.write_bytes(text[:numbers.randrange(begin, len(text))])

    def test_killed_20_times_it_equals_the_uninterrupted_one(self):
        print(f"seed {SEED} (SHARDSIM_TEST_SEED sets another)", flush=True)
        numbers = random.Random(SEED)
        points = 1000
        file = self.write_scenario(AXES_OF_1000_POINTS)
        self.run_to_end("sweep", file, "--out", "whole", "-q", "--jobs", "2")
        whole = self.merged("whole")
        self.assertEqual(whole.count("\n"), points)
        statuses = [json.loads(line)["status"] for line in whole.splitlines()]
        self.assertEqual((statuses.count("ok"), statuses.count("invalid")), (600, 400))

        part = self.folder / "killed" / "part-0-of-1.ndjson"
        killed = 0
        # A quarter is left, so that a sweep on a busy machine does not end before it is killed.
        for lines in sorted(numbers.sample(range(1, points * 3 // 4), KILLS)):
            process = self.start("sweep", file, "--out", "killed", "-q", "--jobs", str(numbers.choice([1, 2])))
            self.wait_for_lines(process, part, lines)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            killed += process.returncode == -signal.SIGKILL
            if numbers.random() < 0.3:
                self.tear(part, numbers)
        self.assertEqual(killed, KILLS)
        kept = self.lines_of(part) - 1
        self.assertGreater(kept, 0)
        _, err = self.run_to_end("sweep", file, "--out", "killed")
        self.assertIn(f"{points - kept} points computed, {kept} already done", err)
        self.assertEqual(self.merged("killed"), whole)
        # Nothing was computed twice: every kill kept what had ended.
        self.assertEqual(self.lines_of(part), points + 1)


class ShardTest(SweepTest):
    AXES = {"parallelism.zero_stage": [0, 1, 2, 3], "training.micro_batch_size": [1, 2, 3],
            "model.hidden_size": [24, 48]}

    def whole(self, **block):
        self.file = self.write_scenario(self.AXES, **block)
        self.run_to_end("sweep", self.file, "--out", "whole", "-q", "--jobs", "1")
        return self.merged("whole")

    def test_two_shards_equal_one_run(self):
        whole = self.whole()
        self.run_to_end("sweep", self.file, "--out", "two", "--shard", "1/2", "-q")
        out, err = self.run_to_end("merge", "two", expect=1)
        self.assertEqual(out, "")
        self.assertIn("12 of 24 points are missing: 0, 2, 4, 6, 8, 10 and others", err)
        self.assertIn(f"finish with: shardsim sweep {self.file} --out two", err)
        self.run_to_end("sweep", self.file, "--out", "two", "--shard", "0/2", "-q")
        self.assertEqual(self.merged("two"), whole)
        self.assertEqual(len(list((self.folder / "two").iterdir())), 2)

    def test_what_another_division_has_done_is_not_done_again(self):
        whole = self.whole()
        self.run_to_end("sweep", self.file, "--out", "mixed", "--shard", "2/3", "-q")
        _, err = self.run_to_end("sweep", self.file, "--out", "mixed", "--shard", "0/1")
        self.assertIn("16 points computed, 8 already done", err)
        self.assertEqual(self.merged("mixed"), whole)

    @unittest.skipUnless(MPIRUN, "no mpirun here")
    def test_under_mpirun_each_rank_takes_its_shard(self):
        whole = self.whole()
        self.run_to_end("sweep", self.file, "--out", "mpi", "--shard", "auto", "-q",
                        prefix=[MPIRUN, "-n", "2", "--allow-run-as-root", "--oversubscribe"])
        self.assertEqual(sorted(path.name for path in (self.folder / "mpi").iterdir()),
                         ["part-0-of-2.ndjson", "part-1-of-2.ndjson"])
        self.assertEqual(self.merged("mpi"), whole)

    def test_a_slurm_array_divides(self):
        whole = self.whole()
        for task in (3, 5, 7):
            self.run_to_end("sweep", self.file, "--out", "array", "--shard", "auto", "-q",
                            env={"SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_MIN": "3",
                                 "SLURM_ARRAY_TASK_MAX": "7", "SLURM_ARRAY_TASK_COUNT": "3",
                                 "SLURM_ARRAY_TASK_STEP": "2"})
        self.assertEqual(sorted(path.name for path in (self.folder / "array").iterdir()),
                         [f"part-{i}-of-3.ndjson" for i in range(3)])
        self.assertEqual(self.merged("array"), whole)

    @unittest.skipUnless(shutil.which("make"), "no make here")
    def test_the_makefile_runs_the_sweep(self):
        whole = self.whole()
        makefile, _ = self.run_to_end("sweep", self.file, "--out", "made", "--emit", "make", "--shards", "3")
        (self.folder / "sweep.mk").write_text(makefile.replace("shardsim ", self.shardsim + " "))
        made = subprocess.run(["make", "-f", "sweep.mk", "-j", "2"], cwd=self.folder, capture_output=True,
                              env=self.environment(), timeout=120)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(self.merged("made"), whole)
        self.assertEqual((self.folder / "made.csv").read_text(), self.merged("whole", "--csv"))

    def test_emitted_shell_scripts_are_shell(self):
        self.whole()
        for kind in ("slurm", "parallel"):
            script, _ = self.run_to_end("sweep", self.file, "--out", "a folder", "--emit", kind, "--shards", "3")
            checked = subprocess.run(["sh", "-n"], input=script.encode(), capture_output=True)
            self.assertEqual(checked.returncode, 0, checked.stderr)
            self.assertIn("--out 'a folder'", script)


class FileTest(SweepTest):
    AXES = {"parallelism.zero_stage": [0, 1], "training.micro_batch_size": [1, 3]}

    def test_python_reads_the_csv(self):
        file = self.write_scenario({"name": ["a, \"b\""], **self.AXES})
        self.run_to_end("sweep", file, "--out", "out", "-q")
        rows = list(csv.DictReader(io.StringIO(self.merged("out", "--csv"))))
        lines = [json.loads(line) for line in self.merged("out").splitlines()]
        self.assertEqual([row["point"] for row in rows], ["0", "1", "2", "3"])
        self.assertEqual([row["status"] for row in rows], ["ok", "invalid", "ok", "invalid"])
        for row, line in zip(rows, lines):
            self.assertEqual(list(row), list(line))
            for name, value in line.items():
                if isinstance(value, float):
                    self.assertEqual(float(row[name]), value, name)
                else:
                    self.assertEqual(row[name], "" if value is None else str(value), name)
        self.assertEqual(rows[0]["name"], "a, \"b\"")

    def test_the_keys_of_a_line_are_these(self):
        file = self.write_scenario(self.AXES)
        self.run_to_end("sweep", file, "--out", "out", "-q")
        schema = json.loads((ROOT / "reports/schema/result.schema.json").read_text())
        metrics = list(schema["properties"]["metrics"]["properties"])
        bands = [f"{metric}.band_{what}" for metric in ("step_time_s", "memory.device_bytes.max")
                 for what in ("low", "centre", "high", "group", "held_out_share")]
        for line in self.merged("out").splitlines():
            self.assertEqual(list(json.loads(line)),
                             ["point", "key", "status", "code", "message", "warnings", *self.AXES, *metrics, *bands])

    def test_skipped_points_are_kept_but_not_merged(self):
        file = self.write_scenario(self.AXES, skip=["invalid"])
        self.run_to_end("sweep", file, "--out", "out", "-q")
        self.assertEqual([json.loads(line)["point"] for line in self.merged("out").splitlines()], [0, 2])
        # Changing one's mind costs nothing.
        file = self.write_scenario(self.AXES)
        _, err = self.run_to_end("sweep", file, "--out", "out")
        self.assertIn("0 points computed, 4 already done", err)
        self.assertEqual(len(self.merged("out").splitlines()), 4)

    def test_a_torn_line_is_dropped_and_computed_again(self):
        file = self.write_scenario(self.AXES)
        self.run_to_end("sweep", file, "--out", "out", "-q", "--jobs", "1")
        whole = self.merged("out")
        part = self.folder / "out" / "part-0-of-1.ndjson"
        text = part.read_bytes()
        begin = text.rstrip(b"\n").rfind(b"\n") + 1
        for end in (begin + 1, (begin + len(text)) // 2, len(text) - 1, 5, 0):
            part.write_bytes(text[:end])
            # Without a header there is no part at all.
            self.run_to_end("merge", "out", expect=1 if end > begin else 2)
            self.run_to_end("sweep", file, "--out", "out", "-q", "--jobs", "1")
            self.assertEqual(self.merged("out"), whole)
            self.assertEqual(part.read_bytes(), text)

    def test_a_line_of_garbage_in_the_middle_loses_only_itself(self):
        file = self.write_scenario(self.AXES)
        self.run_to_end("sweep", file, "--out", "out", "-q", "--jobs", "1")
        whole = self.merged("out")
        part = self.folder / "out" / "part-0-of-1.ndjson"
        lines = part.read_bytes().splitlines(keepends=True)
        lines[2] = b"\0" * (len(lines[2]) - 1) + b"\n"
        part.write_bytes(b"".join(lines))
        _, err = self.run_to_end("sweep", file, "--out", "out")
        self.assertIn("1 points computed, 3 already done", err)
        self.assertIn("1 damaged lines", err)
        self.assertEqual(self.merged("out"), whole)

    def test_one_process_writes_a_part(self):
        file = self.write_scenario(self.AXES)
        self.run_to_end("sweep", file, "--out", "out", "-q")
        with open(self.folder / "out" / "part-0-of-1.ndjson", "ab") as part:
            fcntl.flock(part, fcntl.LOCK_EX)
            _, err = self.run_to_end("sweep", file, "--out", "out", "-q", expect=2)
            self.assertIn("error[E1311]: another process is writing out/part-0-of-1.ndjson", err)

    def test_interrupted_it_keeps_what_is_finished_and_says_how_to_go_on(self):
        file = self.write_scenario(AXES_OF_1000_POINTS)
        part = self.folder / "out" / "part-0-of-1.ndjson"
        process = self.start("sweep", file, "--out", "out", "--jobs", "1")
        self.wait_for_lines(process, part, 10)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        kept = self.lines_of(part) - 1
        self.assertGreaterEqual(kept, 9)
        self.assertIn(f"interrupted: {kept} points computed".encode(), err)
        self.assertIn(f"resume with: shardsim sweep {file} --out out".encode(), err)

    def test_no_time_is_no_points_and_no_error(self):
        file = self.write_scenario(self.AXES)
        _, err = self.run_to_end("sweep", file, "--out", "out", "--time-limit", "0s")
        self.assertIn("time is over: 0 points computed", err)
        self.assertEqual(self.lines_of(self.folder / "out" / "part-0-of-1.ndjson"), 1)


if __name__ == "__main__":
    SweepTest.shardsim = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
