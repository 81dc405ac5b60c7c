#!/usr/bin/env python3
"""Scenarios on real processes over MPI, through the built command: values and bytes of every verify
scenario against the simulation, faults of ranks, ways of being started.

usage: mpi_test.py SHARDSIM FAULTY_SHARDSIM DEFINITIONS MODULE [TEST...]

MODULE is the path of libshardsim-mpi.so, or "" where it was not built: then all is skipped.
"""

import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from sample import in_sample  # noqa: E402  pylint: disable=wrong-import-position

SKIPPED = 77
# Reductions in every step, so that a call can be disturbed.
DDP = "scenarios/verify-gpt-ddp.json"
DEADLINE_S = 8


def processes_with(mark):
    """Processes of the run with this `mark`, without zombies."""
    found = []
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            environment = pathlib.Path(folder, "environ").read_bytes()
            state = pathlib.Path(folder, "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if mark.encode() in environment and state != "Z":
            found.append((folder, pathlib.Path(folder, "cmdline").read_bytes()))
    return found


def listening(mark):
    """Addresses, as the kernel writes them, at which processes of the run listen."""
    sockets = set()
    for folder, _ in processes_with(mark):
        for file in glob.glob(folder + "/fd/*"):
            try:
                sockets.add(os.readlink(file).removeprefix("socket:[").removesuffix("]"))
            except OSError:
                continue
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.append(fields[1].split(":")[0])
    return found


# MPI keeps what it allocates to the end; a build with sanitizers looks for our errors.
SANITIZERS = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"


class MpiCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.scratch = folder.name

    shardsim = ""
    faulty = ""
    definitions = ""
    module = ""

    def command(self, arguments, *, program=None, launcher=(), timeout=120, **variables):
        """Runs it to its end, and sees that nothing of it is left. Returns code, stdout, stderr."""
        mark = uuid.uuid4().hex
        environment = {**os.environ, "SHARDSIM_TEST_MARK": mark, "ASAN_OPTIONS": SANITIZERS, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "SHARDSIM_MPI_MODULE": self.module,
                       "TMPDIR": self.scratch, **variables}
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([*launcher, program or self.shardsim, *arguments, "--out", folder],
                                  cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                                  check=False)
            self.written = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
        self.assertEqual(processes_with(mark), [], "processes are left")
        self.assertEqual(os.listdir(self.scratch), [], "files are left")
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def result(self, arguments, **options):
        code, out, err = self.command([*arguments, "--json"], **options)
        self.assertTrue(out, err)
        return code, json.loads(out)


def num_ranks(path):
    done = subprocess.run([MpiCase.shardsim, "check", path], cwd=ROOT, stdout=subprocess.PIPE,
                          check=True)
    return int(done.stdout.split()[-2])


class Collectives(MpiCase):
    def on_ranks(self, number, **variables):
        done = subprocess.run(
            ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "tcp,self", "--mca",
             "mpi_yield_when_idle", "1", "-n", str(number), self.definitions],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=240, check=False,
            env={**os.environ, "ASAN_OPTIONS": SANITIZERS, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                 "SHARDSIM_MPI_MODULE": self.module,
                 "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **variables})
        text = done.stdout.decode()
        self.assertEqual(done.returncode, 0, text[-4000:])
        self.assertEqual(text.count("All tests passed"), number, text[-4000:])

    def test_definitions_hold_on_2_3_4_and_8_processes(self):
        for number in (2, 3, 4, 8):
            with self.subTest(number):
                self.on_ranks(number)

    def test_definitions_hold_where_everything_travels_in_pieces(self):
        self.on_ranks(4, SHARDSIM_PIECE_BYTES="24")


class EveryScenario(MpiCase):
    def check_scenario(self, path):
        code, result = self.result([path, "--backend=mpi"])
        name = pathlib.Path(path).stem
        failed = [check for check in result.get("checks", []) if not check["passed"]]
        self.assertEqual((code, failed), (0, []), f"{name}: {result.get('diagnosis')}")
        measured = result["measured"]
        checks = {check["name"] for check in result["checks"]}
        self.assertLessEqual({"oracle", "mpi.values", "mpi.replicas", "mpi.bytes", "mpi.memory",
                              "mpi.wire"}, checks, name)
        self.assertGreater(measured["values.compared"], 0)
        for figure, value in measured.items():
            if figure.startswith("difference.") and "loopback" not in figure:
                self.assertEqual(value, 0, f"{name}: {figure}")
        steps = result["scenario"]["execution"]["steps"]
        metrics = result["metrics"]
        # Counted by other code than the checks: the wire carries the bytes of the metrics only.
        expected = metrics["comm.bytes_sent.total"] + metrics["comm.bytes_sent.padding"] + \
            metrics["comm.bytes_sent.scalars"]
        self.assertAlmostEqual(measured["wire.bytes_sent.total"], expected, delta=1 / steps)
        # All of it and little more: headers, start-up of connections, other programs (also where one
        # process sends nothing). All members of an operation call, so there are at least so many
        # operations.
        operations = 1 + steps * metrics["comm.calls.total"] / measured["processes"]
        received = measured["loopback.bytes_received.total"]
        self.assertGreaterEqual(received, steps * expected, name)
        self.assertLessEqual(received, steps * expected * 1.005 + 65536 * operations, name)
        errors = [value for figure, value in measured.items() if "max_rel_error" in figure]
        return measured["processes"], measured["values.different_bits"], max(errors)

    # A sixth for each commit; all in the suite "slow".
    def test_every_verify_scenario(self):
        shipped = sorted(glob.glob(str(ROOT / "scenarios/verify-*.json")))
        self.assertGreater(len(shipped), 30)
        paths = [path for path in shipped if in_sample(pathlib.Path(path).stem, 6)]
        self.assertGreater(len(paths), 12)
        run, worst, different, sizes = 0, 0.0, 0, set()
        for path in paths:
            path = os.path.relpath(path, ROOT)
            if num_ranks(path) > 8:
                continue
            processes, bits, error = self.check_scenario(path)
            run, worst, different = run + 1, max(worst, error), different + bits
            sizes.add(processes)
        print(f"figures: mpi: {run} verify scenarios on {sorted(sizes)} processes; largest difference "
              f"{worst}, {different} values with other bits; bytes on the wire exactly as simulated")
        self.assertLessEqual({2, 4, 8}, sizes)


class NativeCollectives(MpiCase):
    def test_values_are_those_of_our_own_but_for_the_order_of_sums(self):
        for name in ("gpt-zero2", "llama-hsdp", "gpt-tp2-pp2-dp2-zero1", "gpt-pp2-fsdp4"):
            with self.subTest(name):
                code, result = self.result([f"scenarios/verify-{name}.json", "--backend=mpi",
                                            "--mpi-collectives=native"])
                self.assertEqual(code, 0, result["checks"])
                errors = [value for figure, value in result["measured"].items()
                          if "max_rel_error" in figure]
                self.assertLessEqual(max(errors), 1e-9)


class Faults(MpiCase):
    """The named ranks, the time of the report and the exit code."""

    def disturbed(self, fault, *arguments):
        begin = time.monotonic()
        code, result = self.result(
            [DDP, "--backend=mpi", f"--timeout={DEADLINE_S}", *arguments], program=self.faulty,
            SHARDSIM_FAULT=fault)
        # The deadline, and the time to start and end on a loaded machine.
        self.assertLess(time.monotonic() - begin, DEADLINE_S + 45)
        return code, result["diagnosis"]

    def test_rank_0_is_no_exception(self):
        code, diagnosis = self.disturbed("kill 0 2")
        self.assertEqual((code, diagnosis["code"]), (5, "RANK_DIED"), diagnosis)
        self.assertEqual(diagnosis["sides"][0]["ranks"], [0], diagnosis)

    def test_a_killed_rank_is_named(self):
        code, diagnosis = self.disturbed("kill 2 3")
        self.assertEqual((code, diagnosis["code"]), (5, "RANK_DIED"), diagnosis)
        self.assertEqual(diagnosis["sides"][0]["ranks"], [2], diagnosis)

    def test_a_rank_that_ends_is_named(self):
        code, diagnosis = self.disturbed("exit 1 2")
        self.assertEqual((code, diagnosis["code"]), (5, "RANK_DIED"), diagnosis)
        self.assertEqual(diagnosis["sides"][0]["ranks"], [1], diagnosis)

    def test_a_stopped_rank_is_named_within_the_deadline(self):
        code, diagnosis = self.disturbed("stop 1 3")
        self.assertEqual((code, diagnosis["code"]), (5, "RANK_SILENT"), diagnosis)
        self.assertEqual(diagnosis["sides"][0]["ranks"], [1], diagnosis)

    def test_a_rank_that_lives_and_does_not_call_is_named(self):
        code, diagnosis = self.disturbed("loop 3 2")
        self.assertEqual((code, diagnosis["code"]), (4, "TIMEOUT"), diagnosis)
        named = [side["ranks"] for side in diagnosis["sides"] if "waits" not in side["action"]]
        self.assertIn([3], named, diagnosis)
        self.assertIn("flight-record.txt", self.written)
        self.assertIn("all_reduce", self.written["flight-record.txt"])

    def test_a_call_of_another_size_is_found_by_messages(self):
        code, diagnosis = self.disturbed("short 2 2")
        self.assertEqual((code, diagnosis["code"]), (4, "COLL_COUNT"), diagnosis)
        # One rank notices the message of another; the wrong caller is one of the two.
        self.assertEqual([len(side["ranks"]) for side in diagnosis["sides"]], [1, 1], diagnosis)
        self.assertIn([2], [side["ranks"] for side in diagnosis["sides"]], diagnosis)

    def test_fingerprints_show_both_sides_of_it(self):
        code, diagnosis = self.disturbed("short 2 2", "--check=fingerprint")
        self.assertEqual((code, diagnosis["code"]), (4, "COLL_COUNT"), diagnosis)
        self.assertEqual(diagnosis["sides"][0]["ranks"], [2], diagnosis)
        self.assertEqual(len(diagnosis["sides"]), 2, diagnosis)
        self.assertEqual(len(diagnosis["sides"][1]["ranks"]), 7, diagnosis)

    def test_a_wrong_value_fails_the_check_of_values(self):
        code, result = self.result([DDP, "--backend=mpi"], program=self.faulty,
                                   SHARDSIM_FAULT="scale 1 2")
        failed = [check["name"] for check in result["checks"] if not check["passed"]]
        self.assertEqual((code, failed), (1, ["mpi.values"]), result["checks"])

    def test_an_exception_of_a_rank_is_told_once(self):
        code, out, err = self.command([DDP, "--backend=mpi"], program=self.faulty,
                                      SHARDSIM_FAULT="throw 1 1")
        self.assertEqual((code, out), (70, ""), err)
        self.assertEqual(err.count("planted"), 1, err)

    def test_fingerprints_of_right_calls_say_nothing(self):
        for name in ("gpt-tp2-pp2-dp2-zero1", "llama-pp2-interleaved"):
            code, result = self.result([f"scenarios/verify-{name}.json", "--backend=mpi",
                                        "--check=fingerprint"])
            self.assertEqual(code, 0, result.get("diagnosis"))


class Launching(MpiCase):
    TP2 = "scenarios/verify-llama-tp2.json"
    MPIRUN = ("mpirun", "--oversubscribe", "--bind-to", "none")

    def ranks(self):
        return str(num_ranks(self.TP2))

    def test_started_by_mpirun_rank_0_reports_once(self):
        code, out, err = self.command([self.TP2, "--backend=mpi"],
                                      launcher=(*self.MPIRUN, "-n", self.ranks()))
        self.assertEqual(code, 0, err)
        self.assertEqual(out.count("OK: trains the same model as one device"), 1, out)

    def test_faults_are_told_by_rank_0_under_a_foreign_mpirun(self):
        ranks = ("-n", str(num_ranks(DDP)))
        for fault, exit_code, word in (("short 2 2", 4, "COLL_COUNT"), ("kill 2 3", 5, "RANK_DIED"),
                                       ("stop 1 3", 5, "RANK_SILENT")):
            with self.subTest(fault):
                code, out, err = self.command(
                    [DDP, "--backend=mpi", f"--timeout={DEADLINE_S}"], program=self.faulty,
                    launcher=(*self.MPIRUN, *ranks), SHARDSIM_FAULT=fault)
                self.assertIn(word, out + err)
                if "kill" not in fault:  # mpirun has its own code for signals.
                    self.assertEqual(code, exit_code, err)

    def test_a_file_with_another_token_does_not_disturb_ranks_that_we_start(self):
        with tempfile.TemporaryDirectory() as folder:
            token = pathlib.Path(folder, "token")
            token.write_text("0123456789abcdef\n", encoding="ascii")
            token.chmod(0o600)
            code, _, err = self.command([self.TP2, "--backend=mpi"], SHARDSIM_TOKEN_FILE=str(token))
        self.assertEqual(code, 0, err)

    def start_endless_run(self, mark):
        process = subprocess.Popen(
            [self.faulty, DDP, "--backend=mpi"], cwd=ROOT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "SHARDSIM_TEST_MARK": mark, "SHARDSIM_FAULT": "loop 1 2",
                 "TMPDIR": self.scratch, "ASAN_OPTIONS": SANITIZERS,
                 "SHARDSIM_MPI_MODULE": self.module})
        while len(processes_with(mark)) < num_ranks(DDP) + 1:  # Ranks, mpirun and this one.
            self.assertIsNone(process.poll())
            time.sleep(0.1)
        return process

    def test_a_run_on_this_machine_is_reached_from_no_other(self):
        if b"__asan_init" in pathlib.Path(self.faulty).read_bytes():
            self.skipTest("sanitizers want no library before them")
        mark = uuid.uuid4().hex
        process = self.start_endless_run(mark)
        # mpirun listens for daemons and for ranks, shardsim for ranks, and each rank for the others:
        # at least over IPv4.
        deadline = time.monotonic() + 60
        while len(addresses := listening(mark)) < 3 + num_ranks(DDP):
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline, addresses)
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
        self.assertLessEqual(set(addresses), loopback)

    def test_an_interrupt_of_the_launching_process_ends_all(self):
        mark = uuid.uuid4().hex
        process = self.start_endless_run(mark)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(processes_with(mark), [])

    def test_ranks_end_with_a_launching_process_that_is_killed(self):
        mark = uuid.uuid4().hex
        process = subprocess.Popen(
            [self.faulty, DDP, "--backend=mpi"], cwd=ROOT, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "SHARDSIM_TEST_MARK": mark, "SHARDSIM_FAULT": "loop 1 2",
                 "TMPDIR": self.scratch, "ASAN_OPTIONS": SANITIZERS,
                 "SHARDSIM_MPI_MODULE": self.module})
        while len(processes_with(mark)) < num_ranks(DDP) + 1:
            self.assertIsNone(process.poll())
            time.sleep(0.1)
        process.kill()
        process.wait()
        until = time.monotonic() + 60
        while processes_with(mark) and time.monotonic() < until:
            time.sleep(0.1)
        self.assertEqual(processes_with(mark), [])

    def test_a_wrong_number_of_processes_is_refused(self):
        code, _, err = self.command([self.TP2, "--backend=mpi"],
                                    launcher=(*self.MPIRUN, "-n", "3"))
        self.assertEqual(code, 2, err)
        self.assertIn("has started 3", err)

    def test_a_missing_module_is_said_in_one_line(self):
        code, out, err = self.command([self.TP2, "--backend=mpi"],
                                      SHARDSIM_MPI_MODULE="/nowhere/module.so")
        self.assertEqual((code, out), (5, ""), err)
        self.assertIn("error[E1060]", err)
        self.assertIn("libopenmpi-dev", err)

    def test_a_plan_has_no_values_to_run_with(self):
        code, _, err = self.command(["scenarios/quickstart.json", "--backend=mpi"])
        self.assertEqual(code, 2, err)
        self.assertIn("execution.tensors=real", err)


def main():
    MpiCase.shardsim, MpiCase.faulty, MpiCase.definitions, MpiCase.module = sys.argv[1:5]
    if not MpiCase.module or not shutil.which("mpirun"):
        print("skipped: Open MPI is not installed (openmpi-bin, libopenmpi-dev)")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)


if __name__ == "__main__":
    main()
