"""How soon `shardsim serve` answers: 200 changes of llama3-70b on 8 to 4,096 GPUs, one after the other,
each as the page asks for it. Then how soon the page draws: 50 changes of its controls in a headless
Chromium, from the change to the charts.

usage: serve_latency.py SHARDSIM [answers | charts]

Prints the median and the 95th percentile. On a quiet machine the answers should take at most 100 ms and
250 ms, and the charts 500 ms.
"""
import contextlib
import http.client
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))
from served import Served  # noqa: E402
from served_page import answer_ms, browser, drawn_ms, open_page  # noqa: E402

CHANGES = 200
MEDIAN_S, MOST_S = 0.1, 0.25
CHARTS = 50
MOST_DRAWN_S = 0.5
GPUS = [2 ** power for power in range(3, 13)]
# One after the other; the next change is another one of these, and another number of GPUs.
LAYOUTS = [
    {"tp": 8, "zero_stage": 1},
    {"tp": 8, "zero_stage": 3},
    {"tp": 4, "pp": 2, "zero_stage": 1},
    {"tp": 8, "cp": 2, "zero_stage": 1},
    {"tp": 8, "pp": 4, "zero_stage": 1},
    {"tp": 4, "pp": 8, "zero_stage": 1},
    {"tp": 2, "pp": 4, "zero_stage": 1},
    {"tp": 8, "pp": 4, "vpp": 5, "schedule": "interleaved_1f1b", "zero_stage": 1},
    {"zero_stage": 3},
    {"tp": 8, "pp": 8, "zero_stage": 2},
    {"tp": 8, "pp": 4, "schedule": "zb_h1", "zero_stage": 1},
]
RECOMPUTE = ["none", "selective", "full"]


def default_batch(gpus):
    """As the page and `shardsim plan` choose it, for sequences of 8,192 tokens."""
    return min(max(gpus * 4096, 1 << 20), 1 << 24) // 8192


def scenarios():
    """So many changes, of which each layout fits the number of GPUs and the batch."""
    chosen = []
    step = 0
    while len(chosen) < CHANGES:
        gpus = GPUS[(7 * step) % len(GPUS)]
        layout = LAYOUTS[step % len(LAYOUTS)]
        recompute = RECOMPUTE[step % len(RECOMPUTE)]
        step += 1
        ranks = layout.get("tp", 1) * layout.get("pp", 1) * layout.get("cp", 1)
        batch = default_batch(gpus)
        if gpus % ranks or batch % (gpus // ranks):
            continue
        if layout.get("vpp", 1) > 1 and (batch // (gpus // ranks)) % layout["pp"]:
            continue
        chosen.append({
            "schema_version": 1, "name": "a layout", "model": {"preset": "llama3-70b"},
            "system": {"preset": "dgx-h100", "ranks": gpus},
            "parallelism": {**layout, "sequence_parallel": layout.get("tp", 1) > 1},
            "training": {"global_batch_size": batch, "micro_batch_size": 1, "recompute": recompute,
                         "tokens_total": 1e13 + step},
            "cost": {"usd_per_gpu_hour": 2.5}, "execution": {"fold": "auto"}})
    return chosen


# What a user changes beside the number of GPUs; each step fits 16 GPUs and more.
CONTROLS = [("recompute", "full"), ("tp", 8), ("pp", 2), ("zero", 3), ("recompute", "selective"), ("pp", 1), ("tp", 4), ("zero", 1),
            ("recompute", "none")]


def changes():
    """In turns another number of GPUs and another of the controls."""
    for step in range(CHARTS // 2):
        yield "gpus", GPUS[1:][(7 * step) % len(GPUS[1:])]
        yield CONTROLS[step % len(CONTROLS)]


def median_and_most(seconds):
    return statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]


def draw_charts(shardsim):
    if browser.find_browser() is None:
        print("there is no Chromium, so the page is not measured")
        return True
    with Served(shardsim) as served, browser.Browser() as chromium:
        page = open_page(chromium, served.url)
        drawn_ms(page, "pp", 1)  # The first layout has a pipeline of four, which is too long for 16 GPUs.
        times, drawing = [], []
        for control, value in changes():
            times.append((drawn_ms(page, control, value) / 1e3, f"{control}={value}"))
            drawing.append(1e3 * times[-1][0] - answer_ms(page))
            if not page.evaluate("document.getElementById('errors').hidden"):
                sys.exit(f"{control}={value}: {page.evaluate('document.getElementById(`error-list`).textContent')}")
    seconds = [time_s for time_s, _ in times]
    median, most = median_and_most(seconds)
    print(f"{len(seconds)} changes in Chromium, to their charts: median {1e3 * median:.0f} ms, 95th percentile {1e3 * most:.0f} ms, "
          f"largest {1e3 * max(seconds):.0f} ms ({max(times)[1]}); without the answer: median {statistics.median(drawing):.0f} ms, "
          f"largest {max(drawing):.0f} ms")
    return most <= MOST_DRAWN_S


def ask_answers(shardsim):
    times = []
    with Served(shardsim) as served, contextlib.closing(http.client.HTTPConnection(*served.address)) as connection:
        for scenario in scenarios():
            body = json.dumps(scenario)
            begin = time.perf_counter()
            connection.request("POST", served.base + "show", body, {"Content-Type": "application/json", "Shardsim-Page": "a"})
            answer = connection.getresponse()
            text = answer.read()
            times.append((time.perf_counter() - begin, scenario))
            if answer.status != 200:
                sys.exit(f"{answer.status}: {text[:600]} for {body}")
        memory = served.memory_mib()
    seconds = [time_s for time_s, _ in times]
    median, most = median_and_most(seconds)
    print(f"{len(seconds)} changes: median {1e3 * median:.0f} ms, 95th percentile {1e3 * most:.0f} ms, "
          f"largest {1e3 * max(seconds):.0f} ms, memory {memory:.0f} MiB")
    for time_s, scenario in sorted(times, key=lambda each: -each[0])[:8]:
        print(f"  {1e3 * time_s:5.0f} ms  {scenario['system']['ranks']} GPUs, {scenario['parallelism']}, "
              f"batch {scenario['training']['global_batch_size']}, {scenario['training']['recompute']}")
    return median <= MEDIAN_S and most <= MOST_S


def main(shardsim, parts):
    measures = {"answers": ask_answers, "charts": draw_charts}
    return 0 if all([measures[part](shardsim) for part in parts or measures]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
