"""Fits the constants of sim/hardware/kernels/gpus to the measured tables beside this script, and
prints their errors. Run by hand, after a table or a formula has changed (a minute):

    python3 tests/validation/fit_kernels.py

The formulas are those of sim/hardware/kernels/*.cpp, in the same order of operations; the test
tests/hardware/kernel_residuals_test.cpp computes the residuals again from the C++ side. Every fifth row of a
table and device is held out of the fit. The fit minimizes the mean absolute relative error of
times, with few constants per device and none per row or model."""

import csv
import math
import os

HERE = os.path.dirname(os.path.abspath(__file__))

TILES = ((256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64))
SPLITS = (1, 2, 4, 8)
LEAST_SPLIT_K = 512
ATTENTION_BLOCK = 128
HELD_OUT = 5  # Every fifth row.

# Peaks and memory are those of the data sheets; the share of the bandwidth is that of the system presets.
DEVICES = {
    "a100-pcie": dict(sms=108, peak=312e12, bandwidth=1935e9, memory=0.752),
    "a100-sxm": dict(sms=108, peak=312e12, bandwidth=2039e9, memory=0.752),
    "h100-sxm": dict(sms=132, peak=989e12, bandwidth=3350e9, memory=0.752),
    "b200-sxm": dict(sms=148, peak=2250e12, bandwidth=8000e9, memory=0.666),
    "gb200": dict(sms=152, peak=2500e12, bandwidth=8000e9, memory=0.666),
}
GPU_NAMES = {"A100-PCIe-80GB": "a100-pcie", "A100-80GB-SXM": "a100-sxm", "H100-80GB-SXM": "h100-sxm",
             "B200-SXM": "b200-sxm", "B200": "b200-sxm", "H100": "h100-sxm"}
PRODUCTS = ("matmul_rate", "tile_halving", "tile_overhead", "epilogue_exposed")
# Of one direction of a library's attention.
ATTENTION = ("rate", "tail", "head_halving", "keys_halving")


def table(name):
    with open(os.path.join(HERE, name), newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def ceil_div(a, b):
    return -(-a // b)


class Product:
    """One measured matrix product: `time` in seconds, and what each way of cutting it into tiles needs."""

    def __init__(self, device, m, n, k, batch, output_bytes, time):
        self.size = (m, n, k, batch)
        self.time = time
        self.outputs = m * n * batch
        self.output_bytes = output_bytes
        self.bytes = 2 * batch * (m * k + k * n) + self.outputs * output_bytes
        self.ways = []
        sms = DEVICES[device]["sms"]
        for tile_m, tile_n in TILES:
            tiles = ceil_div(m, tile_m) * ceil_div(n, tile_n) * batch
            for split in SPLITS:
                if split > 1 and (tiles >= sms or split * LEAST_SPLIT_K > k):
                    break
                waves = ceil_div(tiles * split, sms)
                area = tile_m * tile_n
                self.ways.append((waves, 2.0 * area * ceil_div(k, split), (tile_m + tile_n) / area, area, split))

    def predicted(self, device, c):
        d = DEVICES[device]
        bandwidth = d["bandwidth"] * d["memory"]
        rate = d["peak"] * c["matmul_rate"] / d["sms"]
        share = bandwidth / d["sms"]
        best = math.inf
        for waves, flops, slope, area, split in self.ways:
            stored = self.output_bytes if split == 1 else 4
            tile = flops / rate * (1.0 + c["tile_halving"] * slope)
            tile += c["tile_overhead"] + c["epilogue_exposed"] * (area * stored / share)
            time = waves * tile
            if split > 1:
                time += self.outputs * (4 * split + self.output_bytes) / bandwidth + c["tile_overhead"]
            best = min(best, time)
        return max(best, self.bytes / bandwidth)


def products(device):
    rows = []
    for row in table("gemm_achieved_by_shape.csv"):
        if GPU_NAMES.get(row["gpu"]) != device or row["confirmed"] != "yes":
            continue
        m, n, k, batch = (int(row[name]) for name in ("m", "n", "k", "groups"))
        output_bytes = (4 if row["out_dtype"] == "fp32" else 2) * (2 if row["accumulate"] else 1)
        time = 2.0 * m * n * k * batch / (float(row["peak_tflops_used"]) * 1e12 * float(row["achieved_fraction"]))
        rows.append(Product(device, m, n, k, batch, output_bytes, time))
    return rows


def timed_products(name, device):
    """Rows that tell microseconds, of products in bf16 without accumulation."""
    return [Product(device, int(row["m"]), int(row["n"]), int(row["k"]), int(row.get("batch") or 1), 2,
                    float(row["time_us"]) * 1e-6)
            for row in table(name) if GPU_NAMES.get(row["gpu"]) == device and row["confirmed"] == "yes"]


class Attention:
    """One measured pass of fused attention over whole samples; `phases` of "fwd", "bwd"."""

    def __init__(self, row):
        self.gpu = row["gpu"]
        self.phases = row["phase"].split("+")
        self.seq = int(row["seq_len"])
        self.heads = int(row["batch"]) * int(row["heads"])
        self.size = int(row["qk_head_dim"])
        self.causal = row["kernel"] == "causal kernel"
        half = 0.5 if row["flop_convention"] == "halved for causal" else 1.0
        products_of_phases = {"fwd": 2, "bwd": 5, "fwd+bwd": 7}[row["phase"]]
        flops = half * products_of_phases * 2.0 * self.heads * self.seq * self.seq * self.size
        self.time = flops / (float(row["tflops"]) * 1e12)

    def predicted(self, device, c):
        return sum(self.phase(device, c, phase) for phase in self.phases)

    def phase(self, device, c, phase):
        d = DEVICES[device]
        count = 2 if phase == "fwd" else 5
        row_flops = 2.0 * count * self.heads * self.size
        flops = row_flops * self.seq * self.seq * (0.5 if self.causal else 1.0)
        if self.causal:  # Blocks that the mask cuts are computed whole.
            flops += row_flops * self.seq * (ATTENTION_BLOCK / 2)
        rate = d["peak"] * c[phase, "rate"] / d["sms"]
        rate *= self.size / (self.size + c[phase, "head_halving"])
        rate *= self.seq / (self.seq + c[phase, "keys_halving"])
        longest = 2.0 * count * self.size * min(ATTENTION_BLOCK, self.seq) * self.seq
        return max(longest, flops / d["sms"] + c[phase, "tail"] * longest) / rate


def attentions(device, implementation, confirmed, name="attention_kernel_throughput.csv", phases=("fwd", "bwd", "fwd+bwd")):
    """Rows but those in fp8. `confirmed` is "yes" or "no"; None: both."""
    rows = []
    for row in table(name):
        if GPU_NAMES.get(row["gpu"]) != device or row["confirmed"] not in (confirmed or ("yes", "no")):
            continue
        if not row["implementation"].startswith(implementation) or "looks too low" in row["note"]:
            continue
        if row["phase"] in phases and not row["dtype"].startswith("fp8"):
            rows.append(Attention(row))
    return rows


MORE = "attention_kernel_throughput_more.csv"


def charted(device, implementation, phase):
    """Rows of the charts of FlashAttention-3, whose GPU is named whole."""
    return [row for row in attentions(device, implementation, None, MORE, (phase,)) if row.gpu != "H100"]


def mean_error(rows, device, c):
    return sum(abs(row.predicted(device, c) / row.time - 1.0) for row in rows) / len(rows)


def error_of(sources, device, c):
    """Every source counts as much, however many rows it has."""
    return sum(mean_error(rows, device, c) for rows in sources) / len(sources)


class Tied(str):
    """A constant of attention that both directions share."""

    def names(self):
        return [("fwd", str(self)), ("bwd", str(self))]


def fitted(rows, device, start, free, others=()):
    """Pattern search: each free constant up or down by a factor, smaller and smaller. `others`: rows of
    further sources. No product beats the peak."""
    sources = (rows, *others)
    best, found = error_of(sources, device, start), dict(start)
    steps = {name: 0.4 for name in free}
    while max(steps.values()) > 2e-3:
        for name in free:
            for factor in (1.0 + steps[name], 1.0 / (1.0 + steps[name])):
                most = 1.0 if name == "matmul_rate" else math.inf
                names = name.names() if isinstance(name, Tied) else [name]
                tried = {**found, **{each: min(most, found[each] * factor) for each in names}}
                error = error_of(sources, device, tried)
                if error < best:
                    best, found = error, tried
                    break
            else:
                steps[name] *= 0.5
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def split(rows):
    return ([row for i, row in enumerate(rows) if i % HELD_OUT != HELD_OUT - 1],
            [row for i, row in enumerate(rows) if i % HELD_OUT == HELD_OUT - 1])


def report(what, rows, device, c):
    kept, held = split(rows)
    print(f"{what:58s} {device:10s} fitted {len(kept):4d} rows {mean_error(kept, device, c):6.2%}   "
          f"held out {len(held):4d} rows {mean_error(held, device, c):6.2%}")


def best_row(accelerator):
    row, = [r for r in table("max_achievable_matmul_tflops.csv")
            if r["accelerator"] == accelerator and r["dtype"] == "bf16" and r["n"]]
    m, n, k = int(row["m"]), int(row["n"]), int(row["k"])
    return m, n, k, 2.0 * m * n * k / (float(row["achieved_tflops"]) * 1e12)


def rate_from_best(device, accelerator, found, c):
    """The rate at which the best row of a search over shapes is `found` times as fast as predicted.
    The factor is that of the A100 PCIe, which has many measured shapes."""
    m, n, k, time = best_row(accelerator)
    row = Product(device, m, n, k, 1, 2, time)
    low, high = 0.3, 1.2
    for _ in range(40):
        middle = 0.5 * (low + high)
        if row.predicted(device, dict(c, matmul_rate=middle)) > time * found:
            low = middle
        else:
            high = middle
    return float(f"{low:.4g}")


def unaligned_share():
    rows = [r for r in table("max_achievable_matmul_tflops.csv") if "d_ff=" in r["m"]]
    odd = [float(r["achieved_tflops"]) for r in rows if r["m"].endswith("10922")]
    even = [float(r["achieved_tflops"]) for r in rows if not r["m"].endswith("10922")]
    return odd[0] / (sum(even) / len(even))


def both(names):
    return [(phase, name) for name in names for phase in ("fwd", "bwd")]


def best_fit(rows, start, phase):
    """The best of fits from a few places: rate and halvings nearly take each other's place. The tail stays: all rows of
    these charts have as many blocks of queries, which cannot tell it."""
    fits = []
    for head in (20.0, 60.0):
        for keys in (100.0, 300.0):
            there = {(phase, "head_halving"): head, (phase, "keys_halving"): keys}
            free = [(phase, name) for name in ATTENTION if name != "tail"]
            fits.append(fitted(rows, "h100-sxm", {**start, **there}, free))
    return min(fits, key=lambda c: mean_error(rows, "h100-sxm", c))


def hopper_attention(start):
    """Each library's own, forward from the labels of a chart, backward from a transcription. `start` has the tails."""
    libraries = {}
    for library, implementation in (("flash2", "FlashAttention-2"), ("flash3", "FlashAttention-3"), ("cudnn", "cuDNN 9")):
        found = dict(start)
        for phase in ("fwd", "bwd"):
            rows = charted("h100-sxm", implementation, phase)
            found = best_fit(split(rows)[0], found, phase)
            report(f"{MORE}, {implementation}, {phase}", rows, "h100-sxm", found)
        libraries[library] = found
    unseen = [row for row in attentions("h100-sxm", "FlashAttention-3", "yes", MORE) if row.gpu == "H100"]
    print(f"  not fitted: FlashAttention-3 of tritonbench, {len(unseen)} rows "
          f"{mean_error(unseen, 'h100-sxm', libraries['flash3']):6.2%}")
    unseen = attentions("h100-sxm", "FlashAttention-2", "no")
    print(f"  not fitted: FlashAttention-2's own chart, {len(unseen)} rows "
          f"{mean_error(unseen, 'h100-sxm', libraries['flash2']):6.2%}")
    return libraries


class DeltaRule:
    """One measured forward of a gated delta rule. Bytes are those of strategies/model/delta_rule.cpp: input, output,
    and W, U, N and the states of chunks, written and read."""

    CHUNK = 64
    LAUNCHES = 8 * 3e-6  # As sim/hardware/software.cpp counts kernels, and system presets their launch.

    def __init__(self, row):
        batch, seq, keys, key, values, value = (int(row[name]) for name in (
            "batch", "seq_len", "k_heads", "k_head_dim", "v_heads", "v_head_dim"))
        tokens = batch * seq
        columns = 2 * tokens * (2 * keys * key + 2 * values * value + 2 * values)
        kept = tokens * values * (4 + 2 * self.CHUNK)
        between = 2 * values * (tokens * (key + 2 * value) + batch * ceil_div(seq, self.CHUNK) * key * value)
        self.bytes = columns + 8 * values + kept + 2 * between
        self.time = float(row["time_us"]) * 1e-6

    def predicted(self, device, c):
        return self.LAUNCHES + self.bytes / (DEVICES[device]["bandwidth"] * c["delta_rule_share"])


def delta_rules():
    for gpu, device in (("H100-80GB-SXM", "h100-sxm"), ("B200-SXM", "b200-sxm"), ("GB200", "gb200")):
        rows = [DeltaRule(row) for row in table("delta_rule_aiconfigurator.csv") if row["gpu"] == gpu]
        c = fitted(split(rows)[0], device, {"delta_rule_share": 0.4}, ("delta_rule_share",))
        report("delta_rule_aiconfigurator.csv", rows, device, c)
        print(f"  {c}")


def main():
    start = dict(matmul_rate=0.8, tile_halving=4.0, tile_overhead=2.5e-6, epilogue_exposed=0.4)
    for phase, rate in (("fwd", 0.7), ("bwd", 0.6)):
        start.update({(phase, "rate"): rate, (phase, "tail"): 0.5, (phase, "head_halving"): 25.0,
                      (phase, "keys_halving"): 100.0})
    constants = {}

    pcie = products("a100-pcie")
    constants["a100-pcie"] = fitted(split(pcie)[0], "a100-pcie", start, PRODUCTS)
    report("gemm_achieved_by_shape.csv", pcie, "a100-pcie", constants["a100-pcie"])

    # Three sources that differ by 1.5 (docs/decisions/0086-products-of-three-sources.md).
    b200 = {"gemm_achieved_by_shape.csv": products("b200-sxm")}
    for name in ("gemm_aiconfigurator.csv", "gemm_xla_grid.csv"):
        b200[name] = timed_products(name, "b200-sxm")
    first, *others = (split(rows)[0] for rows in b200.values())
    constants["b200-sxm"] = fitted(first, "b200-sxm", start, PRODUCTS, others)
    for name, rows in b200.items():
        report(name, rows, "b200-sxm", constants["b200-sxm"])

    h100 = timed_products("gemm_aiconfigurator.csv", "h100-sxm")
    constants["h100-sxm"] = fitted(split(h100)[0], "h100-sxm", start, PRODUCTS)
    report("gemm_aiconfigurator.csv", h100, "h100-sxm", constants["h100-sxm"])
    unseen = [row for row in timed_products("gemm_xla_grid.csv", "h100-sxm") if row.time > 50e-6]
    print(f"  not fitted: gemm_xla_grid.csv, {len(unseen)} rows from 50 us on "
          f"{mean_error(unseen, 'h100-sxm', constants['h100-sxm']):6.2%}")

    m, n, k, time = best_row("NVIDIA A100 PCIe")
    found = Product("a100-pcie", m, n, k, 1, 2, time).predicted("a100-pcie", constants["a100-pcie"]) / time
    print(f"the best of a search over shapes is {found:.4f} times as fast as predicted (A100 PCIe)")
    constants["a100-sxm"] = dict(constants["a100-pcie"])
    constants["a100-sxm"]["matmul_rate"] = rate_from_best("a100-sxm", "NVIDIA A100 SXM", found, constants["a100-sxm"])
    # Rows of the H100 are bursts, those of the A100 are not.
    for row in table("sustained_matmul_tflops.csv"):
        device = GPU_NAMES[row["gpu"]]
        m, n, k = (int(row[name]) for name in ("m", "n", "k"))
        burst = Product(device, m, n, k, 1, 2, 1.0).predicted(device, constants[device])
        print(f"sustained_share {device} {float(row['sustained_tflops']) * 1e12 * burst / (2.0 * m * n * k):.4g}")

    # Only the transcribed rows vary head size and length on one implementation.
    transcribed = attentions("a100-sxm", "FlashAttention-2", "no")
    rates = both(("rate", "tail"))
    # Both directions with the same halvings: most rows are of both together.
    trend = fitted(transcribed, "a100-sxm", start, [*rates, Tied("head_halving"), Tied("keys_halving")])
    trend = {**start, **{name: trend[name] for name in both(("head_halving", "keys_halving"))}}
    attention = {}
    for device, library in (("a100-pcie", "flash2"), ("b200-sxm", "cudnn")):
        rows = attentions(device, "vendor fused", "yes")
        attention[device, library] = fitted(split(rows)[0], device, trend, rates)
        report("attention_kernel_throughput.csv (confirmed)", rows, device, attention[device, library])
    ratio = constants["a100-sxm"]["matmul_rate"] / constants["a100-pcie"]["matmul_rate"]
    sxm = attention["a100-sxm", "flash2"] = dict(attention["a100-pcie", "flash2"])
    for phase in ("fwd", "bwd"):
        sxm[phase, "rate"] = float(f"{sxm[phase, 'rate'] * ratio:.4g}")
    report("attention_kernel_throughput.csv (unconfirmed, rates not fit)", transcribed, "a100-sxm", sxm)
    tails = {name: attention["a100-pcie", "flash2"][name] for name in both(("tail",))}
    for library, c in hopper_attention({**start, **tails}).items():
        attention["h100-sxm", library] = c
    # Not tuned for it, it has the shape that it has on an H100.
    rows = attentions("b200-sxm", "FlashAttention-2", "yes", MORE)
    attention["b200-sxm", "flash2"] = fitted(split(rows)[0], "b200-sxm", attention["h100-sxm", "flash2"], both(("rate",)))
    report(f"{MORE}, FlashAttention-2", rows, "b200-sxm", attention["b200-sxm", "flash2"])

    delta_rules()
    print(f"unaligned_share {unaligned_share():.4g}")
    for device, c in constants.items():
        print(device, {name: c[name] for name in PRODUCTS})
    for (device, library), c in attention.items():
        print(device, library, {f"{phase} {name}": c[phase, name] for phase, name in both(ATTENTION)})


if __name__ == "__main__":
    main()
