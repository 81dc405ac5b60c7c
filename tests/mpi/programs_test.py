#!/usr/bin/env python3
"""Programs under check on real processes: the corpus of bugs on 2 and 4 processes of an MPI job says
the same as in memory.

usage: programs_test.py CORPUS_ON_MPI AVERAGING_CHECK MODULE [TEST...]

MODULE is the path of libshardsim-mpi.so, or "" where it was not built: then all is skipped.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "mpi")]
from mpi_test import SANITIZERS, SKIPPED, processes_with  # noqa: E402  pylint: disable=wrong-import-position
from sample import in_sample  # noqa: E402  pylint: disable=wrong-import-position

SIZES = (2, 4)
# A hang ends the test long before its own limit.
LIMIT_S = 240

# Programs without a meaning on processes.
BUFFERS = "buffers of a process are not watched"
SCHEDULES = "a process job has the schedule that comes"
WITHOUT_MEANING = {
    "C22.1": BUFFERS, "C22.2": BUFFERS, "C22.3": BUFFERS, "C22.4": BUFFERS, "C23.1": BUFFERS,
    "C25.1": BUFFERS, "C26.1": BUFFERS, "C26.2": BUFFERS, "C35.1": BUFFERS, "C36.1": BUFFERS,
    "C20.1": SCHEDULES, "C21.1": SCHEDULES, "C37.1": SCHEDULES, "S18.1": SCHEDULES,
}
# Programs that get another verdict there: (key, processes) and the reason.
DIFFERENT = {}


class ProgramsCase(unittest.TestCase):
    corpus = ""
    averaging = ""
    module = ""

    def on_processes(self, number, program, *arguments, **variables):
        """Runs it to its end, and sees that nothing of it is left. Returns code, stdout, stderr."""
        mark = uuid.uuid4().hex
        with tempfile.TemporaryDirectory() as scratch:
            done = subprocess.run(
                ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
                 "-n", str(number), program, *arguments],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                timeout=LIMIT_S, check=False,
                env={**os.environ, "SHARDSIM_TEST_MARK": mark, "ASAN_OPTIONS": SANITIZERS,
                     "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                     "SHARDSIM_MPI_MODULE": self.module, "TMPDIR": scratch, **variables})
            self.assertEqual(processes_with(mark), [], "processes are left")
            self.assertEqual(os.listdir(scratch), [], "files are left")
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def verdicts(self, text):
        """Code and ranks, by key."""
        lines = [line.split("\t") for line in text.splitlines() if line.count("\t") == 3]
        return {key: (code, ranks) for key, code, ranks, _ in lines}

    def rows(self):
        done = subprocess.run([self.corpus, "list"], stdout=subprocess.PIPE, check=True)
        return {key: (code, bug) for key, code, bug in
                (line.split("\t") for line in done.stdout.decode().splitlines())}

    def simulated(self, number, keys):
        done = subprocess.run([self.corpus, "simulate", str(number), *keys], stdout=subprocess.PIPE,
                              check=True)
        return self.verdicts(done.stdout.decode())

    def real(self, number, keys):
        _, out, err = self.on_processes(number, self.corpus, "run", *keys)
        found = self.verdicts(out)
        self.assertEqual(set(found), set(keys), out + err)
        return found

    def compare(self, number, keys, real):
        """Prints the rows of the table, and holds them against each other."""
        rows = self.rows()
        simulated = self.simulated(number, keys)
        for key in keys:
            reason = DIFFERENT.get((key[1:], number), "")
            print(f"row: {key[1:]:<6} {number} {simulated[key][0]:<16} {simulated[key][1]:<8}"
                  f"{real[key][0]:<16} {real[key][1]:<8} {rows[key[1:]][1]}{reason and ': ' + reason}")
        for key in keys:
            with self.subTest(key, processes=number):
                if (key[1:], number) in DIFFERENT:
                    self.assertNotEqual(real[key], simulated[key])
                else:
                    self.assertEqual(real[key], simulated[key])


class Right(ProgramsCase):
    """Programs without their bugs, and unusual ones: one job runs all."""

    def test_programs_of_the_corpus_are_right_on_processes(self):
        keys = list(self.rows())
        self.assertGreater(len(keys), 80)
        for number, verb in ((2, "run"), (4, "run"), (3, "fingerprint")):
            with self.subTest(processes=number):
                begin = time.monotonic()
                code, out, err = self.on_processes(number, self.corpus, verb, *keys)
                self.assertEqual(code, 0, out + err)
                self.assertEqual(self.verdicts(out), {key: ("none", "-") for key in keys}, err)
                print(f"figures: {len(keys)} right programs on {number} processes: "
                      f"{time.monotonic() - begin:.1f} s")


class Numbers(ProgramsCase):
    """Programs that show wrong numbers end well: one job runs all."""

    def test_wrong_numbers_are_named_as_in_memory(self):
        keys = ["+" + key for key in self.rows() if key[0] == "S" and key not in WITHOUT_MEANING]
        self.assertGreater(len(keys), 20)
        for number in SIZES:
            begin = time.monotonic()
            code, out, err = self.on_processes(number, self.corpus, "run", *keys)
            self.assertEqual(code, 1, out + err)
            real = self.verdicts(out)
            self.assertEqual(set(real), set(keys), out + err)
            print(f"figures: {len(keys)} programs with wrong numbers on {number} processes: "
                  f"{time.monotonic() - begin:.1f} s")
            self.compare(number, keys, real)


class Calls(ProgramsCase):
    """Calls that do not match end their job: each has its own."""

    PARTS = 3

    def keys(self):
        return ["+" + key for key in self.rows() if key[0] == "C" and key not in WITHOUT_MEANING]

    def test_wrong_calls_are_named_as_in_memory(self):
        keys = self.keys()
        self.assertGreaterEqual(len(keys), 35)
        for number in SIZES:
            chosen = [key for key in keys if in_sample(f"{key} {number}", self.PARTS)]
            begin = time.monotonic()
            real = {}
            for key in chosen:
                real.update(self.real(number, [key]))
            print(f"figures: {len(chosen)} programs with wrong calls on {number} processes: "
                  f"{time.monotonic() - begin:.1f} s")
            self.compare(number, chosen, real)

    def test_rows_without_a_meaning_are_those_of_buffers_and_schedules(self):
        rows = self.rows()
        self.assertLessEqual(set(WITHOUT_MEANING), set(rows))
        for key, reason in WITHOUT_MEANING.items():
            print(f"row: {key:<6} - {rows[key][0]:<16} {rows[key][1]}: {reason}")


class Main(ProgramsCase):
    """A program's main function."""

    def test_the_guides_program_is_right(self):
        code, out, err = self.on_processes(3, self.averaging)
        self.assertEqual((code, out), (0, "average: right on 3 processes, in 1 run\n  compared with: "
                                          "the program itself on 1 rank - a mistake that it shares "
                                          "is not seen\n"), err)

    def test_sizes_and_messages_of_the_communicator_of_all_are_there(self):
        code, out, err = self.on_processes(2, self.averaging, "sized")
        self.assertEqual((code, out.count("right on 2 processes")), (0, 1), out + err)

    def test_rank_0_reports_and_the_exit_code_says_it(self):
        for arguments in (("absent",), ("absent", "--check=fingerprint", "--timeout=20")):
            with self.subTest(arguments):
                code, out, err = self.on_processes(3, self.averaging, *arguments)
                self.assertEqual(code, 4, out + err)
                self.assertEqual(out.count("COLL_MISSING"), 1, out + err)
                self.assertIn("averaging_check.cpp", out)

    def test_a_late_mistake_is_found_in_a_long_log(self):
        code, out, err = self.on_processes(3, self.averaging, "late")
        self.assertEqual((code, out.count("COLL_MISSING")), (4, 1), out + err)
        self.assertIn("#3000", out)

    def test_a_process_that_dies_or_never_calls_is_named(self):
        for planted, word in (("killed", "RANK_DIED"), ("endless", "TIMEOUT")):
            with self.subTest(planted):
                code, out, err = self.on_processes(3, self.averaging, planted, "--timeout=8")
                self.assertNotEqual(code, 0, out + err)  # mpirun has its own code for signals.
                self.assertEqual(out.count(word), 1, out + err)
                self.assertIn("rank 1", out)

    def test_what_needs_a_simulation_is_refused_by_name(self):
        place = "averaging_check.cpp:"
        for arguments, words in ((("watched",), ("CheckOptions::watch_buffers", place)),
                                 (("eight",), ("CheckOptions::ranks", "is for 8 processes", place)),
                                 (("--explore=pct",), ("--explore=pct",))):
            with self.subTest(arguments):
                code, out, err = self.on_processes(2, self.averaging, *arguments)
                self.assertEqual((code, out), (2, ""), err)
                for word in ("error[E1216]", "  fix: ", *words):
                    self.assertEqual(err.count(word), 1, err)

    def test_without_mpirun_it_says_how_to_start(self):
        done = subprocess.run([self.averaging], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"mpirun -n", done.stderr)


def main():
    ProgramsCase.corpus, ProgramsCase.averaging, ProgramsCase.module = sys.argv[1:4]
    if not ProgramsCase.module or not shutil.which("mpirun"):
        print("skipped: Open MPI is not installed (openmpi-bin, libopenmpi-dev)")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)


if __name__ == "__main__":
    main()
