#!/usr/bin/env python3
"""The command runs a sixth of the verify scenarios that ship, and a plan, without a failure. With sanitizers,
commits in a row so cover all strategies and schedules, on real numbers; SHARDSIM_LONG=1 runs all.

usage: every_scenario_test.py SHARDSIM PLAN (in the folder of the scenarios)
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from sample import in_sample  # noqa: E402  (found by the line above)

PARTS = 6


def problem_of(command, scenario):
    """None, or the failure. Output files go to a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([command, str(scenario), "-q"], cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
    if done.returncode == 0:
        return None
    return f"{scenario.name} ends with exit code {done.returncode}\n{done.stdout}"


def main():
    command, plan = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    scenarios = [plan, *(path for path in sorted(plan.parent.glob("verify-*.json"))
                         if in_sample(path.name, PARTS))]
    # The tests beside this one have the other cores.
    with concurrent.futures.ThreadPoolExecutor(max(1, os.cpu_count() // 2)) as pool:
        problems = [problem for problem in
                    pool.map(lambda scenario: problem_of(command, scenario), scenarios) if problem]
    print("\n".join([*problems, f"{len(scenarios)} scenarios, {len(problems)} with problems"]))
    return 1 if problems or len(scenarios) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
