"""Fits the host time per kernel and per communication of Megatron-LM's runs of 2021 and 2022
(sim/hardware/software.cpp), and prints the errors of these two numbers. Run by hand (minutes):

    python3 tests/validation/fit_software.py build/sim/command/shardsim [TABLE ...]

TABLE: the data of the fit, vtrain_single_node if none is named; every second row is held out. The
fit minimizes the mean absolute relative error of step times. No other constant of software is
fitted: kernels and bytes are counted in the frameworks' code."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PER_KERNEL = (10, 20, 30, 38, 42, 46, 50, 54)
PER_CALL = (10, 40, 80, 120)


def errors_by_line(program, tables, per_kernel, per_call):
    """{(table, line): relative error}, with these microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(HERE):
            if name.endswith(".csv"):
                shutil.copy(os.path.join(HERE, name), folder)
        for table in tables:
            with open(os.path.join(HERE, table + ".json"), encoding="utf-8") as file:
                mapping = json.load(file)
            mapping["scenario"]["system"].update(host_us_per_kernel=per_kernel, host_us_per_call=per_call)
            with open(os.path.join(folder, table + ".json"), "w", encoding="utf-8") as file:
                json.dump(mapping, file)
        done = subprocess.run([program, "validate", *tables, "--folder", folder, "--json"], capture_output=True,
                              text=True, check=True)
    return {(table["name"], row["line"]): row["step_time_s"]["error"]
            for table in json.loads(done.stdout)["tables"] for row in table["rows"] if "step_time_s" in row}


def mean_error(errors, parity):
    chosen = [abs(error) for (_, line), error in errors.items() if line % 2 == parity]
    return 100 * sum(chosen) / len(chosen)


def main():
    program = sys.argv[1]
    tables = sys.argv[2:] or ["vtrain_single_node"]
    results = []
    for per_kernel in PER_KERNEL:
        for per_call in PER_CALL:
            errors = errors_by_line(program, tables, per_kernel, per_call)
            results.append((mean_error(errors, 0), per_kernel, per_call, mean_error(errors, 1)))
            print("per kernel %3d us, per call %3d us: fitted %6.2f %%, held out %6.2f %%"
                  % (per_kernel, per_call, results[-1][0], results[-1][3]), flush=True)
    best = min(results)
    print("best: %d us per kernel, %d us per call: fitted %.2f %%, held out %.2f %%"
          % (best[1], best[2], best[0], best[3]))


if __name__ == "__main__":
    main()
