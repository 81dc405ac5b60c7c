#!/usr/bin/env python3
"""`shardsim collective` on real processes: every element right, and bytes those of the simulation and
of the MPI library's own count.

usage: collective_process_test.py SHARDSIM
"""

import json
import os
import shutil
import subprocess
import sys
import unittest

OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all",
              "sendrecv", "gather", "scatter")


class CollectiveProcessTest(unittest.TestCase):
    shardsim = ""

    def run_collective(self, *words):
        done = subprocess.run([self.shardsim, "collective", *words, "-q"], capture_output=True, text=True,
                              timeout=240, check=False)
        return done.returncode, done.stdout, done.stderr

    def measure(self, *words):
        code, out, err = self.run_collective(*words, "--backend=mpi", "--json")
        self.assertEqual(code, 0, err + out)
        return json.loads(out)

    def test_every_operation_is_right_and_moves_what_is_simulated(self):
        for operation in OPERATIONS:
            for ranks in ("2", "4"):
                with self.subTest(operation=operation, ranks=ranks):
                    run = self.measure(operation, "--ranks", ranks, "-b", "8", "-e", "128K", "-f", "128",
                                       "-n", "2", "-w", "1", "-c", "2", "-r", "1")
                    self.assertEqual(run["wrong_elements"], 0)
                    self.assertEqual(run["ranks"], int(ranks))
                    self.assertEqual(run["wire_bytes"], run["sent_bytes"])
                    self.assertGreater(run["sent_bytes"], 0)
                    for row in run["rows"]:
                        self.assertEqual(row["sent_bytes"], row["simulated_sent_bytes"])
                        self.assertGreater(row["simulated_time_us"], 0)
                        times = [place["time_us"] for place in (row["out_of_place"], row["in_place"]) if place]
                        self.assertTrue(times and all(time > 0 for time in times))

    def test_the_table_says_what_its_times_are_worth(self):
        ranks = str(2 * os.cpu_count() + 2)
        code, out, err = self.run_collective("all_reduce", "-b", "8", "-e", "8", "-n", "1", "-w", "0",
                                             "--ranks", ranks, "--system", "scenarios/verify-mlp-ddp.json",
                                             "--nodes", "2", "--backend=mpi")
        if code == 2:  # More than that system has.
            code, out, err = self.run_collective("all_reduce", "-b", "8", "-e", "8", "-n", "1", "-w", "0",
                                                 "--ranks", ranks, "--nodes", ranks, "--backend=mpi")
        self.assertEqual(code, 0, err)
        self.assertIn("TIMES MEAN NOTHING HERE", out)
        self.assertIn("The simulated time is another machine's", out)
        self.assertIn("difference 0 OK", out)

    def test_half_precision_and_the_librarys_own_collectives_are_right(self):
        run = self.measure("all_reduce", "-d", "bfloat16", "--ranks", "3", "-b", "64K", "-e", "64K", "-n", "1")
        self.assertEqual(run["wrong_elements"], 0)
        run = self.measure("reduce_scatter", "--ranks", "3", "-b", "64K", "-e", "64K", "-n", "1",
                           "--mpi-collectives=native")
        self.assertEqual((run["wrong_elements"], run["wire_bytes"]), (0, None))

    def test_without_gpus_nccl_is_an_error_of_one_line(self):
        code, out, err = self.run_collective("all_reduce", "--backend=nccl", "--nccl-lib=/nowhere/libnccl.so")
        self.assertEqual((code, out), (5, ""))
        self.assertEqual(len(err.strip().splitlines()), 2, err)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    CollectiveProcessTest.shardsim = sys.argv.pop(1)
    if shutil.which("mpirun") is None:
        print("skipped: no mpirun")
        sys.exit(77)
    unittest.main()
