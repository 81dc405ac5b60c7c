#!/usr/bin/env python3
"""Measures the matrix products of a scenario on a GPU, as a table for `shardsim calibrate kernels`.

usage: measure_products.py SHARDSIM SCENARIO [OUT] [--set FIELD=VALUE] [--cublaslt FILE] [--cudart FILE]

The scenario is a plan; `shardsim export program` says which products it has. cuBLASLt, loaded at run time, computes each
with operands that are not in its caches, many times in a row. OUT: the table (standard output). Exit codes: 0; 1: a
call failed, which is told; 2: wrong usage; 77: no GPU or no cuBLASLt here, with the reason."""

import argparse
import csv
import ctypes
import json
import pathlib
import random
import subprocess
import sys
import tempfile

SKIPPED = 77
COLUMNS = ("operation", "dtype", "m", "n", "k", "batch", "out_dtype", "accumulate", "microseconds")
# cudaDataType_t of library_types.h, cublasComputeType_t of cublas_api.h, and the attributes of cublasLt.h.
TYPES = {"bf16": 14, "fp16": 2, "fp32": 0, "fp8": 28}
BITS = {"bf16": 16, "fp16": 16, "fp32": 32, "fp8": 8}
NAMES = {"bf16": "bf16", "fp16": "fp16", "fp8_e4m3": "fp8"}  # Ours, and those of the table.
COMPUTE_32F, TRANSPOSED = 68, 1
DESC_TRANSA, LAYOUT_BATCH, LAYOUT_STRIDE, PREFERENCE_WORKSPACE = 3, 5, 6, 1
HOST_TO_DEVICE = 1
WORKSPACE_BYTES = 32 << 20
POOL_BYTES = 512 << 20  # Several times as large as the caches of any GPU: operands come from memory.
PATTERN_BYTES = 1 << 20
WARM_UP, LEAST_SECONDS, MOST_CALLS = 3, 0.05, 2000


class Missing(Exception):
    """There is nothing here to measure with."""


class Failed(Exception):
    """A call that must succeed did not."""


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t"""
    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
                ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


def library(names, what):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise Missing(f"{what}: none of {', '.join(names)} can be loaded")


class Gpu:
    """Calls of the two libraries, each of which is checked."""

    def __init__(self, cublaslt, cudart):
        self.runtime = library([cudart] if cudart else ["libcudart.so.13", "libcudart.so.12", "libcudart.so"], "CUDA runtime")
        self.blas = library([cublaslt] if cublaslt else ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"], "cuBLASLt")
        count = ctypes.c_int(0)
        code = self.runtime.cudaGetDeviceCount(ctypes.byref(count))
        if code != 0 or count.value == 0:
            raise Missing(f"GPUs: cudaGetDeviceCount says {code}, {count.value} of them")
        self.handle = self.made("cublasLtCreate")
        self.events = [self.made("cudaEventCreate") for _ in range(2)]
        self.workspace = self.memory(WORKSPACE_BYTES)
        self.pool = None
        self.pool_bytes = 0

    def call(self, name, *arguments):
        owner = self.runtime if name.startswith("cuda") else self.blas
        code = getattr(owner, name)(*arguments)
        if code != 0:
            raise Failed(f"{name} says {code}")

    def made(self, name, *arguments):
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made

    def memory(self, size):
        return self.made("cudaMalloc", ctypes.c_size_t(size))

    def reserve(self, size):
        """Memory with a random pattern: operands of zeros draw less power, and run faster."""
        if size <= self.pool_bytes:
            return
        if self.pool is not None:
            self.call("cudaFree", self.pool)
        self.pool, self.pool_bytes = self.memory(size), size
        generator = random.Random(1)
        # Every second byte, the upper one of 16 bits, keeps magnitudes near 1.
        pattern = bytes(generator.randrange(256) if i % 2 == 0 else 0x3F for i in range(4096)) * (PATTERN_BYTES // 4096)
        for begin in range(0, size, PATTERN_BYTES):
            self.call("cudaMemcpy", self.at(begin), pattern, ctypes.c_size_t(min(PATTERN_BYTES, size - begin)),
                      HOST_TO_DEVICE)

    def at(self, offset):
        return ctypes.c_void_p(self.pool.value + offset)

    def attribute(self, name, what, attribute, value):
        self.call(name, what, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))

    def layout(self, dtype, rows, columns, batch):
        layout = self.made("cublasLtMatrixLayoutCreate", TYPES[dtype], ctypes.c_uint64(rows), ctypes.c_uint64(columns),
                           ctypes.c_int64(rows))
        self.attribute("cublasLtMatrixLayoutSetAttribute", layout, LAYOUT_BATCH, ctypes.c_int32(batch))
        self.attribute("cublasLtMatrixLayoutSetAttribute", layout, LAYOUT_STRIDE, ctypes.c_int64(rows * columns))
        return layout

    def elapsed_ms(self, run):
        self.call("cudaEventRecord", self.events[0], None)
        run()
        self.call("cudaEventRecord", self.events[1], None)
        self.call("cudaEventSynchronize", self.events[1])
        elapsed = ctypes.c_float(0.0)
        self.call("cudaEventElapsedTime", ctypes.byref(elapsed), *self.events)
        return elapsed.value


def aligned(size):
    return -(-size // 256) * 256


def measured_us(gpu, row):
    """Microseconds of (m, k) (k, n): as cuBLAS has matrices by columns, n x m = (k x n)^T (k x m)."""
    m, n, k, batch = (row[name] for name in ("m", "n", "k", "batch"))
    made = []

    def keep(destroy, what):
        made.append((destroy, what))
        return what

    try:
        desc = keep("cublasLtMatmulDescDestroy", gpu.made("cublasLtMatmulDescCreate", COMPUTE_32F, TYPES["fp32"]))
        gpu.attribute("cublasLtMatmulDescSetAttribute", desc, DESC_TRANSA, ctypes.c_int32(TRANSPOSED))
        layouts = [keep("cublasLtMatrixLayoutDestroy", gpu.layout(row["dtype"], k, n, batch)),
                   keep("cublasLtMatrixLayoutDestroy", gpu.layout(row["dtype"], k, m, batch)),
                   keep("cublasLtMatrixLayoutDestroy", gpu.layout(row["out_dtype"], n, m, batch))]
        preference = keep("cublasLtMatmulPreferenceDestroy", gpu.made("cublasLtMatmulPreferenceCreate"))
        gpu.attribute("cublasLtMatmulPreferenceSetAttribute", preference, PREFERENCE_WORKSPACE,
                      ctypes.c_uint64(WORKSPACE_BYTES))
        found, heuristic = ctypes.c_int(0), Heuristic()
        gpu.call("cublasLtMatmulAlgoGetHeuristic", gpu.handle, desc, layouts[0], layouts[1], layouts[2], layouts[2],
                 preference, 1, ctypes.byref(heuristic), ctypes.byref(found))
        if found.value == 0 or heuristic.state != 0:
            raise Failed("cublasLtMatmulAlgoGetHeuristic finds no algorithm")
        sizes = [aligned(rows * batch * BITS[dtype] // 8) for rows, dtype in
                 ((k * n, row["dtype"]), (k * m, row["dtype"]), (n * m, row["out_dtype"]))]
        gpu.reserve(max(POOL_BYTES, sum(sizes)))
        places = gpu.pool_bytes // sum(sizes)
        one, beta = ctypes.c_float(1.0), ctypes.c_float(1.0 if row["accumulate"] else 0.0)

        def launch(calls):
            for number in range(calls):
                a = number % places * sum(sizes)
                b, d = a + sizes[0], a + sizes[0] + sizes[1]
                gpu.call("cublasLtMatmul", gpu.handle, desc, ctypes.byref(one), gpu.at(a), layouts[0], gpu.at(b),
                         layouts[1], ctypes.byref(beta), gpu.at(d), layouts[2], gpu.at(d), layouts[2],
                         ctypes.byref(heuristic.algorithm), gpu.workspace, ctypes.c_size_t(WORKSPACE_BYTES), None)

        launch(WARM_UP)
        once_ms = gpu.elapsed_ms(lambda: launch(WARM_UP)) / WARM_UP
        calls = max(WARM_UP, min(MOST_CALLS, int(1e3 * LEAST_SECONDS / max(once_ms, 1e-4))))
        return 1e3 * gpu.elapsed_ms(lambda: launch(calls)) / calls
    finally:
        for destroy, what in reversed(made):
            gpu.call(destroy, what)


def row_of(operation):
    """The row of an operation of a program file, without its time; a text if it is not measured."""
    if operation.get("family") not in ("matrix_product", "weight_gradient"):
        return None
    m, n, k, batch = operation["shape"]
    if operation.get("block_scales") or operation["dtype"] not in NAMES:
        return f"{operation['dtype']}{' with scales of blocks' if operation.get('block_scales') else ''}: not measured here"
    dtype = NAMES[operation["dtype"]]
    # What is beside the operands are results: written, and read where they are added to what is there.
    moved = operation["bytes"] - batch * (m * k + k * n) * BITS[dtype] // 8
    each = moved // (m * n * batch) if min(m, n, k, batch) > 0 else 0
    # Gradients of a branch's input are added to those of another, too.
    out, accumulates = {2: ("bf16", False), 4: ("bf16", True), 8: ("fp32", True)}.get(each, (None, False))
    if out is None:
        return f"{m} x {n} x {k} x {batch} with {each} bytes of a result: not measured here"
    if out == "bf16" and dtype == "fp16":
        out = "fp16"
    return dict(operation="matmul", dtype=dtype, m=m, n=n, k=k, batch=batch, out_dtype=out, accumulate=accumulates)


def products_of(shardsim, scenario, overrides):
    """All different products of the plan, in their order, and texts about those that are not measured."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program.jsonl"
        flags = [word for override in overrides for word in ("--set", override)]
        done = subprocess.run([shardsim, "export", "program", scenario, "-o", program, "--set", "execution.tensors=meta",
                               *flags], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"shardsim export program: {done.stderr.strip()}")
        rows, notes = [], []
        for line in program.read_text(encoding="utf-8").splitlines():
            row = row_of(json.loads(line).get("operation", {}))
            where = notes if isinstance(row, str) else rows
            if row is not None and row not in where:
                where.append(row)
    return rows, notes


def write_table(rows, file):
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(dict(row, accumulate="yes" if row["accumulate"] else "", microseconds=f"{row['microseconds']:.4g}"))


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shardsim")
    parser.add_argument("scenario")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--cublaslt")
    parser.add_argument("--cudart")
    arguments = parser.parse_intermixed_args(words)
    try:
        gpu = Gpu(arguments.cublaslt, arguments.cudart)
        rows, notes = products_of(arguments.shardsim, arguments.scenario, arguments.set)
        for number, row in enumerate(rows):
            row["microseconds"] = measured_us(gpu, row)
            print(f"{number + 1} of {len(rows)}: {row['m']} x {row['n']} x {row['k']} in {row['dtype']}, "
                  f"{row['microseconds']:.4g} us", file=sys.stderr)
    except Missing as error:
        print(f"skipped: {error}", file=sys.stderr)
        return SKIPPED
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8", newline="") as file:
            write_table(rows, file)
    else:
        write_table(rows, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
