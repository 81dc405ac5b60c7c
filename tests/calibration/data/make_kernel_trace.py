#!/usr/bin/env python3
"""Writes kernel-trace.json beside this file: a step of five blocks of a Llama of 8 billion parameters, in the form of
PyTorch's profiler with record_shapes=True.

The form is that of libkineto's output_json.cpp (pytorch/kineto, BSD-3-Clause) and of PyTorch's operators. Times are
made up: products run at 520 TFLOP/s after 6 us, attention at 300 forward and 240 backward, the rest at 2000 GB/s."""

import json
import pathlib

TOKENS, HIDDEN, QKV, FFN, VOCAB = 4096, 4096, 6144, 14336, 128256
HEADS, HEAD = 32, 128
BLOCKS = 5
FORWARD, BACKWARD = 4711, 4802  # Threads.


class Trace:
    def __init__(self):
        self.events = []
        self.host, self.device, self.number = 1000.0, 1100.0, 0

    def event(self, cat, name, tid, begin, duration, **args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": 0 if cat == "kernel" else 4711, "tid": tid,
                            "ts": round(begin, 3), "dur": round(duration, 3), "args": args})

    def call(self, names, thread, kernels, dims=(), types=(), values=()):
        """Operators, the outermost first, of which the last launches the kernels: (name, microseconds)."""
        begin = self.host
        for depth, name in enumerate(names):
            inputs = {}
            if depth == len(names) - 1 and dims:
                inputs = {"Input Dims": dims, "Input type": types, "Concrete Inputs": values}
            self.event("cpu_op", name, thread, begin + depth, 30.0 - 2 * depth, **{"External id": self.number + depth},
                       **inputs)
        for place, (name, duration) in enumerate(kernels):
            correlation = 70000 + len(self.events)
            self.event("cuda_runtime", "cudaLaunchKernel", thread, begin + len(names) + 5 * place, 4.0,
                       **{"External id": self.number + len(names) - 1, "correlation": correlation})
            # As libkineto of before 2024 writes it, the external id is the correlation.
            self.event("kernel", name, 7, self.device, duration, **{"External id": correlation, "stream": 7,
                                                                    "correlation": correlation})
            self.device += duration
        self.number += len(names)
        self.host += 40.0

    def product(self, thread, m, n, k, outer="aten::linear", splits=False):
        time = 6.0 + 2.0 * m * n * k / 520e6
        kernels = [("nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNT", time)]
        if splits:  # Its parts are added up by a kernel of its own.
            kernels = [("sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x128x64_cublas", 0.9 * time),
                       ("void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>", 0.1 * time)]
        self.call([outer, "aten::mm"], thread, kernels, [[m, k], [k, n]], ["c10::BFloat16"] * 2, ["", ""])

    def attention(self, thread, backward):
        flops = 2.0 * HEADS * TOKENS * TOKENS * HEAD / 2
        shape = [1, TOKENS, HEADS, HEAD]
        tensor = "c10::BFloat16"
        if not backward:
            self.call(["aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention",
                       "aten::_flash_attention_forward"], thread,
                      [("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", 2 * flops / 300e6)],
                      [shape] * 3 + [[]] * 6, [tensor] * 3 + ["", "", "Scalar", "Scalar", "Scalar", "Scalar"],
                      ["", "", "", "", "", str(TOKENS), str(TOKENS), "0.", "True"])
            return
        loop = 5 * flops / 240e6
        self.call(["autograd::engine::evaluate_function: ScaledDotProductFlashAttentionBackward0",
                   "aten::_flash_attention_backward"], thread,
                  [("void pytorch_flash::flash_bwd_dot_do_o_kernel<true>", 0.05 * loop),
                   ("void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<true>", 0.9 * loop),
                   ("void pytorch_flash::flash_bwd_convert_dq_kernel", 0.05 * loop)],
                  [shape] * 5 + [[1, HEADS, TOKENS]] + [[]] * 6,
                  [tensor] * 5 + ["float", "", "", "Scalar", "Scalar", "Scalar", "Scalar"],
                  ["", "", "", "", "", "", "", "", str(TOKENS), str(TOKENS), "0.", "True"])

    def bytes(self, thread, operator, name, moved):
        self.call([operator], thread, [(name, moved / 2000e3)], [[1, TOKENS, HIDDEN]], ["c10::BFloat16"], [""])

    def linear(self, backward, columns, rows):
        if not backward:
            return self.product(FORWARD, TOKENS, columns, rows)
        node = "autograd::engine::evaluate_function: MmBackward0"
        self.product(BACKWARD, TOKENS, rows, columns, node)
        self.product(BACKWARD, rows, columns, TOKENS, node, splits=True)

    def block(self, backward):
        thread = BACKWARD if backward else FORWARD
        norm = ("aten::_fused_rms_norm", "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>")
        add = ("aten::add", "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>")
        self.bytes(thread, *norm, 2 * TOKENS * HIDDEN * 2)
        self.linear(backward, QKV, HIDDEN)
        self.attention(thread, backward)
        self.linear(backward, HIDDEN, HIDDEN)
        self.bytes(thread, *add, 3 * TOKENS * HIDDEN * 2)
        self.linear(backward, 2 * FFN, HIDDEN)
        self.bytes(thread, "aten::silu", "triton_poi_fused_mul_silu_0", 3 * TOKENS * FFN * 2)
        self.linear(backward, HIDDEN, FFN)


def main():
    trace = Trace()
    for backward in (False, True):
        for _ in range(BLOCKS):
            trace.block(backward)
        trace.linear(backward, VOCAB, HIDDEN)
    # Products of an extension: no operator says their sizes.
    trace.call(["_LayerNormLinear"], FORWARD, [("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_TNT", 250.0)])
    trace.call(["Optimizer.step#AdamW.step", "aten::_fused_adamw_"], FORWARD,
               [("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>", 900.0)])
    trace.call(["record_param_comms"], FORWARD, [("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", 3000.0)])
    trace.call(["my::op"], FORWARD, [("my_fused_router_kernel", 120.0)])
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
                "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8}, "displayTimeUnit": "ms",
                "traceEvents": trace.events, "traceName": "step.pt.trace.json"}
    text = json.dumps(document, separators=(",", ":")).replace('{"ph"', '\n{"ph"')
    pathlib.Path(__file__).with_name("kernel-trace.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
