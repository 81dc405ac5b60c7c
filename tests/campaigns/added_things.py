#!/usr/bin/env python3
"""Adds a schedule, a gradient compressor, a kind of routing and a metric to a copy of the tracked files,
builds the command there, runs each, and counts the files that were touched by hand.

The additions are what a contributor would write: the thing's own file, its row, a declaration where
the table asks for one, a line of meson.build; THINGS says how many files that is. If a name or a switch comes back in
another file, the build or the run of the added thing fails: that is what this finds. Tests of the additions, and the
schema of results, are not part of it.

usage: added_things.py [--keep FOLDER]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from planted_price import copy_tracked

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tidy"))
import rules  # noqa: E402  (found by the line above)

SCHEDULE = """#include "strategies/pipeline/schedule_table.hpp"

// Added by tests/campaigns/added_things.py: one microbatch after the other.
namespace shardsim {

std::vector<Action> one_by_one(const PipelineShape& shape, int /*rank*/) {
  std::vector<Action> actions;
  for (int m = 0; m < shape.num_microbatches; ++m) {
    actions.push_back(make_action(ActionKind::forward, 0, m));
    actions.push_back(make_action(ActionKind::backward, 0, m));
  }
  return actions;
}

}  // namespace shardsim
"""

COMPRESSOR = """#include <cmath>

#include "strategies/gradient_sync/compressed_reducer.hpp"

// Added by tests/campaigns/added_things.py: each element as the power of two below it, in one byte.
namespace shardsim {

namespace {

double power_below(double value) {
  if (std::fabs(value) < std::ldexp(1.0, -61) || !std::isfinite(value)) return 0.0;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int level = exponent > 60 ? 60 : exponent;
  return std::copysign(std::ldexp(1.0, level - 1), value);
}

double code_of(double power) {
  if (power == 0.0) return 0.0;
  int exponent = 0;
  std::frexp(power, &exponent);
  return std::copysign(static_cast<double>(exponent + 62), power);
}

double power_of(double code) {
  return code == 0.0 ? 0.0 : std::copysign(std::ldexp(1.0, static_cast<int>(std::fabs(code)) - 63), code);
}

class PowersOfTwo final : public Compressor {
 public:
  [[nodiscard]] std::vector<Tensor> make_parcel(Runtime& runtime, std::int64_t numel, DType,
                                                std::int64_t ranks) const override {
    std::vector<Tensor> parcel;
    parcel.push_back(runtime.allocate(MemoryCategory::comm, {ranks * numel}, DType::int8));
    return parcel;
  }
  void compress(Runtime& runtime, const Tensor& values,
                const std::vector<Tensor>& parcel) const override {
    const Tensor& codes = parcel[0];
    const ComputeOp op{"powers_of_two", ComputeKind::memory_bound, values.dtype(), 0,
                       2 * values.num_bytes() + codes.num_bytes()};
    runtime.compute(op, [&] {
      for (std::int64_t i = 0; i < values.numel(); ++i) {
        const double power = power_below(values.get(i));
        codes.set(i, code_of(power));
        values.set(i, values.get(i) - power);
      }
    });
  }
  void add(const Tensor& sum, const std::vector<Tensor>& gathered, std::int64_t rank,
           std::int64_t /*ranks*/) const override {
    for (std::int64_t i = 0; i < sum.numel(); ++i) {
      sum.set(i, sum.get(i) + power_of(gathered[0].get(rank * sum.numel() + i)));
    }
  }
};

}  // namespace

std::unique_ptr<Compressor> make_powers_of_two(const GradientCompression& /*options*/) {
  return std::make_unique<PowersOfTwo>();
}

CompressedValues powers_below(const std::vector<double>& values, const GradientCompression& /*options*/) {
  CompressedValues sent{values, values};
  for (std::size_t i = 0; i < values.size(); ++i) {
    double power = 0.0;
    for (int level = 60; level >= -60 && power == 0.0; --level) {
      if (std::fabs(values[i]) >= std::ldexp(1.0, level - 1)) power = std::ldexp(1.0, level - 1);
    }
    sent.received[i] = std::copysign(power, values[i]);
    sent.left[i] = values[i] - sent.received[i];
  }
  return sent;
}

double bytes_of_powers(const GradientCompression& /*options*/, double numel, double /*element_bytes*/) {
  return numel;
}

}  // namespace shardsim
"""


def insert(tree, path, mark, text, *, before=True):
    """Puts `text` before (or after) the one place in a file where `mark` stands."""
    file = tree / path
    whole = file.read_text(encoding="utf-8")
    if whole.count(mark) != 1:
        sys.exit(f"added_things: {path} has {whole.count(mark)} times the text {mark!r}")
    file.write_text(whole.replace(mark, text + mark if before else mark + text), encoding="utf-8")


def write(tree, path, text):
    (tree / path).write_text(text, encoding="utf-8")


def add_schedule(tree):
    write(tree, "strategies/pipeline/one_by_one.cpp", SCHEDULE)
    insert(tree, "strategies/pipeline/schedule_table.hpp",
           "std::vector<Action> dualpipe_v(", "std::vector<Action> one_by_one(const PipelineShape& shape, int rank);\n")
    insert(tree, "strategies/pipeline/schedule_table.cpp", 'ScheduleRow{.name = "looped_bfs"',
           'ScheduleRow{.name = "one_by_one",\n.summary = "one microbatch after the other",\n'
           '.in_flight = InFlight::one,\n.actions_of_rank = one_by_one},\n    ')
    insert(tree, "strategies/pipeline/meson.build", "'gpipe.cpp',\n", "'one_by_one.cpp',\n  ")


def add_compressor(tree):
    write(tree, "strategies/gradient_sync/powers_of_two.cpp", COMPRESSOR)
    insert(tree, "strategies/gradient_sync/compressed_reducer.hpp",
           "[[nodiscard]] std::unique_ptr<Compressor> make_top_k(",
           "[[nodiscard]] std::unique_ptr<Compressor> make_powers_of_two(const GradientCompression& options);\n"
           "[[nodiscard]] CompressedValues powers_below(const std::vector<double>& values,\n"
           "                                            const GradientCompression& options);\n"
           "[[nodiscard]] double bytes_of_powers(const GradientCompression& options, double numel,\n"
           "                                     double element_bytes);\n")
    insert(tree, "strategies/gradient_sync/compressors.cpp",
           "constexpr std::array<const CompressorRow*, 2> kCompressors = {&kLargestElements, &kInt8Blocks};",
           'constexpr CompressorRow kPowers = {.name = "powers_of_two",\n'
           '.summary = "the power of two below each element, from each rank to each",\n'
           ".route = kToAllRanks,\n.make = make_powers_of_two,\n.reads_ratio = false,\n"
           ".reads_block_size = false,\n.in_doubles = powers_below,\n.parcel_bytes = bytes_of_powers,\n"
           '.unpacking = nullptr,\n.assumption = "One pass",\n.assumption_source = "a test"};\n\n'
           "constexpr std::array<const CompressorRow*, 3> kCompressors = {&kLargestElements, &kInt8Blocks, &kPowers};\n//")
    insert(tree, "strategies/gradient_sync/meson.build", "'quantized_reducer.cpp',\n", "'powers_of_two.cpp',\n  ")


def add_routing(tree):
    insert(tree, "strategies/model/routing.hpp", "  listed,   ///<", "  halves,   ///< The first half of the experts.\n")
    insert(tree, "strategies/model/routing.cpp", "    RoutingRow{.kind = RoutingKind::listed,",
           "    RoutingRow{.kind = RoutingKind::halves,\n"
           '.name = "halves",\n.meaning = "twice the share for the first half of the experts",\n'
           '.shares = "the first half of the experts gets twice the share",\n.reads_skew = false,\n'
           ".reads_popularity = false,\n.moves_on = false,\n.weights = halves_weights},\n")
    insert(tree, "strategies/model/routing.cpp", "ExpertWeights listed_weights(",
           "ExpertWeights halves_weights(const MoeOptions& options) {\n"
           "  std::vector<double> weights(static_cast<std::size_t>(options.num_experts), 1.0);\n"
           "  for (std::size_t i = 0; i < weights.size() / 2; ++i) weights[i] = 2.0;\n"
           "  return {weights};\n}\n\n")


def add_metric(tree):
    insert(tree, "sim/kernel/metric_rows.hpp", "  ROW(kMoeLoadImbalance,",
           '  ROW(kStepTimeMs, real, always, "ms/step", "step_time_ms", "Milliseconds of a step.") \\\n')
    insert(tree, "sim/run/metrics.cpp", "  metrics.push_back({metric::kStepTimeS.name, step_s});\n",
           "  metrics.push_back({metric::kStepTimeMs.name, 1e3 * step_s});\n", before=False)


def texts_of(tree):
    """{path: bytes} of the copied sources."""
    return {path.relative_to(tree).as_posix(): path.read_bytes() for folder in rules.PRODUCT
            for path in (tree / folder).rglob("*") if path.is_file()}


def touched_by(add, tree):
    """The files that an addition makes or changes."""
    before = texts_of(tree)
    add(tree)
    after = texts_of(tree)
    return sorted(path for path in after if before.get(path) != after[path])


QUICK = "scenarios/quickstart.json"


def run(command, *arguments):
    done = subprocess.run([str(command), "run", *arguments, "--json"], cwd=command.parents[3],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"added_things: run {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return json.loads(done.stdout)


def oracle_passed(result):
    return result["metrics"].get("oracle.passed") is True


# What is added: how, what shows that it works, and the files that may be touched.
THINGS = (
    ("schedule", add_schedule, 4,
     lambda command: oracle_passed(run(command, "scenarios/verify-gpt-pp4-gpipe.json", "--set",
                                       "parallelism.schedule=one_by_one"))),
    ("compressor", add_compressor, 4,
     lambda command: oracle_passed(run(command, "scenarios/verify-llama-top-k.json", "--set",
                                       "parallelism.gradient_compression=powers_of_two"))),
    ("routing", add_routing, 2,
     lambda command: oracle_passed(run(command, "scenarios/verify-llama-ep4-uniform.json", "--set", "model.moe_routing=halves"))),
    ("metric", add_metric, 2,
     lambda command: run(command, QUICK)["metrics"]["step_time_ms"] > 0),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", help="the folder for the copy, which then stays")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        tree = pathlib.Path(given.keep or scratch).resolve()
        tree.mkdir(parents=True, exist_ok=True)
        copy_tracked(tree)
        touched = {name: touched_by(add, tree) for name, add, _, _ in THINGS}
        for step in (["meson", "setup", str(tree / "build"), str(tree)],
                     ["ninja", "-C", str(tree / "build"), "-j", str(os.cpu_count()), "command"]):
            done = subprocess.run(step, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"added_things: {' '.join(step)} failed:\n{done.stdout[-4000:]}")
        command = tree / "build/sim/command/shardsim"
        failed = 0
        for name, _, by_hand, works in THINGS:
            works_here, files = works(command), touched[name]
            good = works_here and len(files) <= by_hand
            failed += not good
            print(f"{'ok' if good else 'FAIL':4} {name}: {len(files)} files by hand ({', '.join(files)})"
                  f"{'' if works_here else '; its run shows nothing of it'}")
    print(f"{len(THINGS) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
