#!/usr/bin/env python3
"""Writes kineto-rank0.json and kineto-rank1.json beside this file: traces in the form of PyTorch's profiler, with
few events. The form is that of libkineto's output_json.cpp (pytorch/kineto, BSD-3-Clause) and of PyTorch's
record_param_comms; the times are made up, and the comments say what each stands for."""

import json
import pathlib

BASE_US = 5203341117320.125  # Since the machine was started, with fractions of nanoseconds cut off.


def kernel(name, stream, begin, duration, correlation, category="kernel", **arguments):
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": stream, "ts": BASE_US + begin,
            "dur": duration,
            "args": {"External id": correlation, "device": 0, "context": 1, "stream": stream,
                     "correlation": correlation, **arguments}}


def nccl(kind, begin, duration, correlation, collective, sent, received, dtype="BFloat16"):
    return kernel(f"ncclDevKernel_{kind}", 20, begin, duration, correlation,
                  **{"Collective name": collective, "In msg nelems": sent, "Out msg nelems": received,
                     "Group size": 2, "dtype": dtype, "In split size": "[]", "Out split size": "[]",
                     "Process Group Name": "0", "Process Group Description": "default_pg",
                     "Process Group Ranks": "[0, 1]"})


def trace(rank):
    events = [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 4711, "tid": 4711,
         "ts": BASE_US - 150.0, "dur": 600.0, "args": {"External id": 1}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 4711, "tid": 4711, "ts": BASE_US - 20.0,
         "dur": 12.0, "args": {"External id": 12}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4711, "tid": 4711,
         "ts": BASE_US - 15.0, "dur": 4.0, "args": {"External id": 12, "cbid": 211, "correlation": 12}},
        kernel("Memcpy HtoD (Pinned -> Device)", 7, 0.0, 4.5, 10, "gpu_memcpy", bytes=65536),
        # Weights, while the device copies.
        nccl("AllGather_RING_LL", 1.0, 30.0, 11, "_allgather_base", 524288, 1048576),
        # It waits for them, and then 9 us for its host.
        kernel("nvjet_tst_256x128_64x4", 7, 40.0, 120.25, 12),
        kernel("void at::native::vectorized_elementwise_kernel<4>", 7, 161.75, 20.0, 13),
        # Gradients, beside the next computing.
        nccl("ReduceScatter_Sum_bf16_RING_LL", 182.0, 60.0, 14, "_reduce_scatter_base", 1048576, 524288),
        kernel("nvjet_tst_128x128_64x4", 7, 183.0, 100.0, 15),
        # After a gap of 7 us, in which nothing ends.
        kernel("void at::native::multi_tensor_apply_kernel", 7, 290.0, 10.0, 16),
        # The norm, for which the last kernel waits; its host is 10 us late.
        nccl("AllReduce_Sum_f32_RING_LL", 310.0, 15.0, 17, "allreduce", 1, 1, "Float"),
        # Some versions write kernels without their call.
        kernel("ncclDevKernel_Broadcast_RING_LL", 21, 312.0, 2.0, 18),
        kernel("void at::native::multi_tensor_apply_kernel", 7, 325.0, 5.0, 19),
        {"ph": "f", "id": 12, "pid": 0, "tid": 7, "ts": BASE_US + 40.0, "cat": "ac2g", "name": "ac2g", "bp": "e"},
    ]
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2, "pg_count": 1,
                                "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2,
                                               "ranks": [0, 1]}]},
            "displayTimeUnit": "ms", "baseTimeNanoseconds": 1727712000000000000, "traceEvents": events,
            "traceName": f"rank{rank}.pt.trace.json"}


for each in (0, 1):
    path = pathlib.Path(__file__).with_name(f"kineto-rank{each}.json")
    lines = json.dumps(trace(each)).replace('{"ph"', '\n  {"ph"')
    path.write_text(lines + "\n", encoding="utf-8")
