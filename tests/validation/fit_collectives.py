#!/usr/bin/env python3
"""Fits the constants by which collectives inside one NVLink domain are priced (NcclTable::inside
and ramp_between of sim/hardware/nccl/constants.cpp), and prints them with their errors:

    python3 tests/validation/fit_collectives.py

The formula is that of sim/hardware/nccl/execution.cpp:

    launch + step x steps + bytes / (efficiency x bandwidth) + own x own bytes
           + ramp x bytes / (bytes + half)

For each GPU generation and way of moving data (rings, NVLink SHARP, exchanges) six constants; none
per size, operation or number of ranks. Every fifth row is held out of the fit. Other sources and
other machines are never fitted. The fit minimizes the mean absolute relative error of times."""

import collections
import csv
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
MB = 1e6
MIB = 1 << 20
HELD_OUT = 5  # Every fifth row.
# Bandwidths in GB/s by NCCL's tuner: of a ring with Simple, of NVLS on 8 GPUs, of all NVLinks.
BANDWIDTH = {
    "A100-80GB-SXM": {"ring": 240.0, "exchange": 240.0},
    "H100-80GB-SXM": {"ring": 360.0, "nvls": 272.0, "exchange": 370.8},
    "B200-SXM": {"ring": 720.0, "nvls": 411.429, "exchange": 721.8},
}
# The tuner takes NVLS for all_reduce on 8 GPUs from these sizes on.
NVLS_FROM = {"H100-80GB-SXM": 2 * MIB, "B200-SXM": 4 * MIB}
NVLS_LATENCY_US = 25.0  # The tuner's: rows from 2 MiB on do not tell it from the ramp.
# The tuner's latency in us and bandwidth in GB/s of NVLSTree, and the sizes from which it takes that.
BETWEEN = {"h100_16gpu_xe9680": (66.8, 246.187, 4 * MIB), "h100_32gpu_xe9680": (108.6, 187.871, 32 * MIB),
           "h100_16gpu_p5": (66.8, 246.187, 4 * MIB)}
FITTED_BETWEEN = ("h100_16gpu_xe9680", "h100_32gpu_xe9680")  # InfiniBand; p5 has EFA.
HALVES = (0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40)  # In MB.
BANDS = ((0, MIB), (MIB, 32 * MIB), (32 * MIB, 1 << 62))
SAME_GPU = {"H100": "H100-80GB-SXM", "B200": "B200-SXM", "GB200": "B200-SXM", "a100": "A100-80GB-SXM",
            "A100-80GB": "A100-80GB-SXM", "H100-80GB": "H100-80GB-SXM"}

Row = collections.namedtuple("Row", "gpu operation ranks size time source")


def rows_of(file, row_of):
    with open(HERE / file, newline="", encoding="utf-8") as stream:
        return [row for row in map(row_of, csv.DictReader(stream)) if row is not None]


def fitted_rows():
    return rows_of("nccl_one_node_aiconfigurator.csv", lambda r: Row(
        r["gpu"], r["collective"], int(r["ranks"]), int(r["message_bytes"]), float(r["time_us"]), "fitted"))


def other_rows():
    """Sources and machines that are never fitted."""
    rows = rows_of("nccl_allreduce_sweeps.csv", lambda r: None if r["nodes"] != "1" else Row(
        SAME_GPU[r["gpu"]], "all_reduce", int(r["ranks"]), int(r["message_bytes"]), float(r["time_us"]),
        r["cluster"]))
    rows += rows_of("vtrain_allreduce_single_node.csv", lambda r: Row(
        SAME_GPU[r["gpu"]], "all_reduce", int(r["ranks"]), int(r["message_bytes"]), float(r["time_us"]), "vtrain"))
    # An executable's launch is in these times: 20 to 100 us.
    rows += rows_of("collectives_xla_one_domain.csv", lambda r: None if r["gpu"] not in SAME_GPU or
                    int(r["message_bytes"]) < 32 * MIB else Row(
        SAME_GPU[r["gpu"]], r["collective"], int(r["ranks"]), int(r["message_bytes"]), float(r["time_us"]),
        "XLA " + r["gpu"]))
    return rows


def way_of(row):
    if row.operation == "all_to_all":
        return "exchange"
    nvls = row.operation == "all_reduce" and row.ranks >= 8 and row.size >= NVLS_FROM.get(row.gpu, 1 << 62)
    return "nvls" if nvls else "ring"


def terms_of(row, half):
    """What the six constants are multiplied by, but for `half`."""
    bandwidth = BANDWIDTH[row.gpu][way_of(row)] * 1e3  # Bytes per us.
    ramp = row.size / (row.size + half * MB)
    if way_of(row) == "nvls":
        return [1.0, 0.0, row.size / bandwidth, 0.0, ramp]
    passes = 2 if row.operation == "all_reduce" else 1
    steps = passes * (row.ranks - 1)
    share = row.size / row.ranks
    return [1.0, steps, steps * share / bandwidth, share / MB, ramp]


def solved(matrix, values):
    """Gauss elimination."""
    n = len(values)
    rows = [matrix[i][:] + [values[i]] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r, i=i: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(n):
            if r != i and rows[r][i]:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[i])]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def errors_of(terms, times, constants):
    return [sum(map(lambda x, y: x * y, row, constants)) / time - 1 for row, time in zip(terms, times)]


def least_absolute(terms, times, fixed):
    """Constants of least mean |predicted / measured - 1|, none below 0, by reweighted squares."""
    free = [j for j in range(5) if j not in fixed and any(row[j] for row in terms)]
    weights = [1.0] * len(terms)
    for turn in range(40):
        matrix = [[0.0] * len(free) for _ in free]
        values = [0.0] * len(free)
        for row, time, weight in zip(terms, times, weights):
            rest = 1.0 - sum(value * row[j] for j, value in fixed.items()) / time
            for a, i in enumerate(free):
                values[a] += weight * rest * row[i] / time
                for b, j in enumerate(free):
                    matrix[a][b] += weight * row[i] * row[j] / time / time
        constants = [fixed.get(j, 0.0) for j in range(5)]
        for j, value in zip(free, solved(matrix, values)):
            constants[j] = value
        if turn > 3 and min(constants) < 0:
            free = [j for j in free if constants[j] >= 0]
            continue
        weights = [1 / max(abs(error), 0.02) for error in errors_of(terms, times, constants)]
    return constants


def fitted(rows):
    """(constants, half) of one GPU and way."""
    fixed = {0: NVLS_LATENCY_US} if way_of(rows[0]) == "nvls" else {}
    times = [row.time for row in rows]
    best = None
    for half in HALVES:
        terms = [terms_of(row, half) for row in rows]
        constants = least_absolute(terms, times, fixed)
        error = sum(map(abs, errors_of(terms, times, constants)))
        if best is None or error < best[0]:
            best = error, constants, half
    return best[1:]


def words(errors):
    if not errors:
        return "-"
    return f"{100 * sum(map(abs, errors)) / len(errors):.1f} % ({100 * sum(errors) / len(errors):+.1f}), n={len(errors)}"


def print_errors(title, rows, models, key):
    print(f"\n{title}: below 1 MiB | 1 to 32 MiB | from 32 MiB on")
    cells = collections.defaultdict(lambda: [[], [], []])
    for row in rows:
        constants, half = models[row.gpu, way_of(row)]
        error = errors_of([terms_of(row, half)], [row.time], constants)[0]
        band = next(i for i, (low, high) in enumerate(BANDS) if low <= row.size < high)
        cells[key(row)][band].append(error)
    for name, bands in sorted(cells.items()):
        print(" ", *name, ":", " | ".join(map(words, bands)))


def between_rows():
    """(cluster, size, time by the tuner, measured time)"""
    found = []
    for r in rows_of("nccl_allreduce_sweeps.csv", lambda r: r if r["cluster"] in BETWEEN else None):
        latency, bandwidth, least = BETWEEN[r["cluster"]]
        size, ranks = int(r["message_bytes"]), int(r["ranks"])
        if size >= least:
            time = float(r["time_us"] or size * 2 * (ranks - 1) / ranks / float(r["busbw_gb_per_s"]) / 1e3)
            found.append((r["cluster"], size, latency + size / bandwidth / 1e3, time))
    return found


def print_between():
    rows = between_rows()
    error = lambda row, ramp, half: (row[2] + ramp * row[1] / (row[1] + half * MB)) / row[3] - 1
    fitted_ones = [row for row in rows if row[0] in FITTED_BETWEEN]
    _, ramp, half = min((sum(abs(error(row, ramp, half)) for row in fitted_ones), ramp, half)
                        for ramp in range(0, 400, 5) for half in range(2, 200, 2))
    print(f"\nbetween nodes: ramp {ramp} us, half of it at {half} MB; by the tuner alone, with the ramp")
    for cluster in BETWEEN:
        own = [row for row in rows if row[0] == cluster]
        print(" ", cluster, ":", words([row[2] / row[3] - 1 for row in own]), "|",
              words([error(row, ramp, half) for row in own]))


def main():
    rows = [row for row in fitted_rows() if row.gpu in BANDWIDTH]
    held_out = rows[::HELD_OUT]
    seen = [row for i, row in enumerate(rows) if i % HELD_OUT]
    models = {}
    print("launch us, step us, efficiency, own us per MB, ramp us, half of the ramp MB")
    for gpu, ways in BANDWIDTH.items():
        for way in ways:
            (launch, step, slow, own, ramp), half = fitted(
                [row for row in seen if row.gpu == gpu and way_of(row) == way])
            # As they are written down.
            kept = [round(launch, 2), round(step, 3), 1 / round(1 / slow, 3), round(own, 3), round(ramp, 1)]
            models[gpu, way] = kept, half
            print(f"{gpu} {way}: {kept[0]}, {kept[1]}, {1 / kept[2]:.3f}, {kept[3]}, {kept[4]}, {half}")
    key = lambda row: (row.gpu, row.operation, row.ranks)
    print_errors("fitted", seen, models, lambda row: (row.gpu, row.operation))
    print_errors("held out", held_out, models, lambda row: (row.gpu, row.operation))
    print_errors("all", rows, models, key)
    print_errors("other sources", other_rows(), models, lambda row: (row.source, row.operation, row.ranks))
    print_between()


if __name__ == "__main__":
    main()
