#include "strategies/model/head_slices.hpp"

namespace shardsim {

namespace {

std::int64_t width_of(const Tensor& whole) {
  return whole.shape().rank() == 1 ? 1 : last_dim(whole);
}

}  // namespace

std::int64_t HeadSlices::whole() const {
  std::int64_t rows = 0;
  for (const HeadSection& section : sections_) rows += section.count;
  return rows;
}

std::int64_t HeadSlices::count() const {
  std::int64_t rows = 0;
  for (const HeadSection& section : sections_) rows += section.count / section.parts;
  return rows;
}

std::vector<HeadRun> HeadSlices::runs(int rank) const {
  std::vector<HeadRun> runs;
  std::int64_t first = 0;
  std::int64_t at = 0;
  for (const HeadSection& section : sections_) {
    const std::int64_t part = std::int64_t{rank} * section.parts / ranks_;
    const std::int64_t size = section.count / section.parts;
    runs.push_back({first + part * size, at, size});
    first += section.count;
    at += size;
  }
  return runs;
}

Shape HeadSlices::shape_of(const Tensor& whole) const {
  return whole.shape().rank() == 1 ? Shape{count()} : Shape{count(), last_dim(whole)};
}

Tensor HeadSlices::of(Runtime& runtime, const Tensor& whole) const {
  if (ranks_ == 1) return whole;
  const std::int64_t width = width_of(whole);
  if (!is_copied()) return whole.view(runs(rank_).front().first * width, shape_of(whole));
  Tensor part = new_activation(runtime, shape_of(whole), whole.dtype());
  runtime.compute(memory_op("head_rows", whole.dtype(), 2 * part.num_bytes()), [&] {
    for (const HeadRun& run : runs(rank_)) {
      for (std::int64_t i = 0; i < run.count * width; ++i) {
        part.set(run.at * width + i, whole.get(run.first * width + i));
      }
    }
  });
  return part;
}

Tensor HeadSlices::gradient_of(Runtime& runtime, const Tensor& whole) const {
  if (!is_copied()) return of(runtime, whole);
  return new_activation(runtime, shape_of(whole), whole.dtype());
}

void HeadSlices::add(Runtime& runtime, const Tensor& part, const Tensor& whole) const {
  if (!is_copied()) return;
  const std::int64_t width = width_of(whole);
  runtime.compute(memory_op("add_head_rows", whole.dtype(), 3 * part.num_bytes()), [&] {
    for (const HeadRun& run : runs(rank_)) {
      const std::int64_t elements = run.count * width;
      add_values(whole.view(run.first * width, {elements}),
                 values_of(part.view(run.at * width, {elements})));
    }
  });
}

HeadParameter::HeadParameter(const Pass& pass, int k, const HeadSlices& rows)
    : pass_(pass), k_(k), rows_(rows) {
  const Tensor whole = pass.weight(k);
  weight_ = rows.of(pass.runtime, whole);
  sum_ = gradient_of_sum(pass, k, whole);
  gradient_ = rows.gradient_of(pass.runtime, sum_);
}

void HeadParameter::finish() {
  rows_.add(pass_.runtime, gradient_, sum_);
  weight_ = gradient_ = {};
  finish_sum(pass_, k_, std::move(sum_));
}

}  // namespace shardsim
