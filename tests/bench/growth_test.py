"""Twice as many ranks cost a watched check at most 2.3 times as much, and a leaver among 16,384 takes at most 400 MiB.
Counts instructions, by valgrind: seconds grow more where a world leaves the caches, and with what else the machine does.

usage: growth_test.py WATCHED_BENCH
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

MOST_PER_DOUBLING = 2.3
FEW = 1024
MOST_KIB = 400 * 1024


def instructions(name):
    with tempfile.NamedTemporaryFile() as profile:
        done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile.name}", BENCH,
                               f"--benchmark_filter={name}$", "--benchmark_min_time=0.0001"],
                              capture_output=True, text=True, check=True)
    assert name in done.stdout and "ERROR" not in done.stdout, done.stdout
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


class Growth(unittest.TestCase):
    def is_linear(self, program):
        few, many = (instructions(f"checked/{program}/{ranks}") for ranks in (FEW, 2 * FEW))
        print(f"{program}: {few:,} instructions of {FEW:,} ranks, {many / few:.2f} times as many of {2 * FEW:,}")
        self.assertGreater(many, 1.5 * few, "the ranks decide the cost")
        self.assertLess(many, MOST_PER_DOUBLING * few)

    def test_collectives(self):
        self.is_linear("ten_calls")

    def test_an_early_leaver(self):
        self.is_linear("early_leaver")

    def test_memory_of_an_early_leaver(self):
        command = [BENCH, "--benchmark_filter=checked/early_leaver/16384$", "--benchmark_min_time=0.0001"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        print(f"a leaver among 16,384: {usage.ru_maxrss / 1024:.0f} MiB")
        self.assertLess(usage.ru_maxrss, MOST_KIB)


if __name__ == "__main__":
    BENCH = sys.argv.pop(1)
    unittest.main()
