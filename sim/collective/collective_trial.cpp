#include <algorithm>
#include <cstring>

#include "sim/kernel/hash.hpp"

#include "sim/collective/collective_run.hpp"

namespace shardsim {

namespace {

// Up to here every integer is a number of the type.
std::int64_t largest_exact(DType dtype) {
  switch (dtype) {
    case DType::fp8_e4m3:  // These two are not offered.
    case DType::fp4_e2m1:
      return 16;
    case DType::int8:
      return 127;
    case DType::bf16:
      return 256;
    case DType::fp16:
      return 2048;
    case DType::fp32:
      return std::int64_t{1} << 24;
    case DType::fp64:
    case DType::int32:
    case DType::int64:
      return std::int64_t{1} << 30;
  }
  return 1;
}

void clear(const Tensor& tensor) {
  if (!tensor.has_data()) return;
  std::memset(tensor.data(), 0, static_cast<std::size_t>(tensor.num_bytes()));
}

}  // namespace

TestValues::TestValues(DType dtype, ReduceOp op, bool reduces, int ranks)
    : dtype_(dtype), op_(reduces ? op : ReduceOp::sum), ranks_(ranks) {
  constexpr std::int64_t kLargest = 97;
  const bool adds = reduces && (op == ReduceOp::sum || op == ReduceOp::avg);
  most_ = std::min<std::int64_t>(largest_exact(dtype), ranks);
  span_ = std::min(largest_exact(dtype) / (adds ? ranks : 1), kLargest);
  if (!reduces) return;
  reduced_.reserve(kPeriod);
  for (std::int64_t residue = 0; residue < kPeriod; ++residue) {
    reduced_.push_back(reduced(residue));
  }
}

double TestValues::at(int rank, std::int64_t index) const {
  const std::int64_t residue = index % kPeriod;
  if (op_ == ReduceOp::product) {  // Three ranks have a 2: the product is at most 8.
    return (rank + residue) % ranks_ < 3 ? 2.0 : 1.0;
  }
  if (span_ == 0) return (rank + residue) % ranks_ < most_ ? 1.0 : 0.0;
  RollingHash hash;
  hash.add(static_cast<std::uint64_t>(rank));
  hash.add(static_cast<std::uint64_t>(residue));
  return static_cast<double>(1 + hash.value() % static_cast<std::uint64_t>(span_));
}

double TestValues::reduced(std::int64_t residue) const {
  double result = at(0, residue);
  for (int rank = 1; rank < ranks_; ++rank) {
    const double value = at(rank, residue);
    switch (op_) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        result += value;
        break;
      case ReduceOp::min:
        result = std::min(result, value);
        break;
      case ReduceOp::max:
        result = std::max(result, value);
        break;
      case ReduceOp::product:
        result *= value;
        break;
    }
  }
  return op_ == ReduceOp::avg ? result / ranks_ : result;
}

Tensor TestValues::pattern(int source, std::int64_t first, std::int64_t count) const {
  const Tensor pattern =
      Tensor::allocate(nullptr, MemoryCategory::activations, {count}, dtype_, false);
  for (std::int64_t i = 0; i < count; ++i) {
    pattern.set(i, source == kAll ? reduced_[static_cast<std::size_t>((first + i) % kPeriod)]
                                  : at(source, first + i));
  }
  return pattern;
}

void TestValues::fill(const Tensor& buffer, int rank, std::int64_t first) const {
  const Tensor one = pattern(rank, first, std::min(kPeriod, buffer.numel()));
  const std::int64_t period = one.num_bytes();
  for (std::int64_t at = 0; at < buffer.num_bytes(); at += period) {
    std::memcpy(buffer.data() + at, one.data(),
                static_cast<std::size_t>(std::min(period, buffer.num_bytes() - at)));
  }
}

std::int64_t TestValues::count_wrong(const Tensor& buffer, int source, std::int64_t first) const {
  const Tensor one = pattern(source, first, std::min(kPeriod, buffer.numel()));
  const auto size = static_cast<std::size_t>(size_of(dtype_));
  std::int64_t wrong = 0;
  for (std::int64_t at = 0; at < buffer.num_bytes(); at += one.num_bytes()) {
    const auto bytes = static_cast<std::size_t>(std::min(one.num_bytes(), buffer.num_bytes() - at));
    const std::byte* actual = buffer.data() + at;
    if (std::memcmp(actual, one.data(), bytes) == 0) continue;
    for (std::size_t i = 0; i < bytes; i += size) {
      if (std::memcmp(actual + i, one.data() + i, size) != 0) ++wrong;
    }
  }
  return wrong;
}

bool CollectiveTrial::works(BufferPlace place) const {
  const CollectiveRow* const row = collective_of(setting_.operation);
  if (place == BufferPlace::out_of_place) return row == nullptr || !row->in_place();
  return row != nullptr &&
         (row->path == CollectivePath::ring || row->path == CollectivePath::chain);
}

std::int64_t CollectiveTrial::sent_in_all() const {
  const TrafficCounters* counters = world_.counters();
  if (counters == nullptr) return 0;
  return counters->payload_sent + counters->padding_sent + counters->scalar_sent;
}

CollectiveTrial::Buffers CollectiveTrial::allocate(BufferPlace place,
                                                   const ElementCounts& counts) const {
  const auto tensor = [&](std::int64_t elements) {
    return Tensor::allocate(nullptr, MemoryCategory::comm, {elements}, setting_.dtype,
                            values_ == nullptr);
  };
  Buffers buffers;
  if (place == BufferPlace::out_of_place) {
    buffers.input = tensor(counts.send);
    buffers.output = tensor(counts.receive);
    return buffers;
  }
  buffers.whole = tensor(std::max(counts.send, counts.receive));
  const auto part = [&](std::int64_t elements) {
    const bool chunk = elements < buffers.whole.numel();
    return buffers.whole.view(chunk ? elements * world_.rank() : 0, {elements});
  };
  buffers.input = part(counts.send);
  buffers.output = part(counts.receive);
  return buffers;
}

Work CollectiveTrial::post(const Buffers& buffers) {
  const int size = world_.size();
  if (const CollectiveRow* const row = collective_of(setting_.operation)) {
    return world_.collective(*row, buffers.output, buffers.input, setting_.reduction,
                             setting_.root);
  }
  const P2pOp halves[] = {
      {P2pOp::Kind::send, buffers.input, (world_.rank() + 1) % size},
      {P2pOp::Kind::recv, buffers.output, (world_.rank() + size - 1) % size},
  };
  return world_.batch(halves);
}

void CollectiveTrial::repeat(const Buffers& buffers, int times) {
  for (int i = 0; i < times; ++i) post(buffers).wait();
}

void CollectiveTrial::warm_up() {
  const BufferPlace place =
      works(BufferPlace::out_of_place) ? BufferPlace::out_of_place : BufferPlace::in_place;
  for (const std::int64_t size : {setting_.sizes.back(), setting_.sizes.front()}) {
    repeat(allocate(place, setting_.counts(size)), setting_.warmup);
  }
}

void CollectiveTrial::time(const Buffers& buffers, int iterations, TrialResult::Place& found) {
  world_.barrier().wait();
  const double begin = clock_();
  repeat(buffers, iterations);
  found.seconds = (clock_() - begin) / iterations;
  world_.barrier().wait();
}

std::int64_t CollectiveTrial::count_wrong(const Tensor& output, std::int64_t chunk) const {
  const int rank = world_.rank();
  const int size = world_.size();
  const auto chunks_of_all = [&](std::int64_t first) {
    std::int64_t wrong = 0;
    for (int source = 0; source < size; ++source) {
      wrong += values_->count_wrong(output.view(source * chunk, {chunk}), source, first);
    }
    return wrong;
  };
  const CollectiveRow* const row = collective_of(setting_.operation);
  if (row == nullptr) return values_->count_wrong(output, (rank + size - 1) % size, 0);
  const bool receives = row->root != RootRole::target || rank == setting_.root;
  const bool pairs = row->path == CollectivePath::pairs;
  const std::int64_t first = pairs || row->output == BufferPart::chunk ? rank * chunk : 0;
  // Other members' outputs are not read, and not written.
  if (pairs || row->input == BufferPart::chunk) return receives ? chunks_of_all(first) : 0;
  // In place, other members' buffers keep their values.
  const int source = row->reduces ? TestValues::kAll : setting_.root;
  return values_->count_wrong(output, receives ? source : rank, first);
}

std::int64_t CollectiveTrial::check(const Buffers& buffers, std::int64_t chunk) {
  clear(buffers.whole.defined() ? buffers.whole : buffers.output);
  values_->fill(buffers.input, world_.rank(), 0);
  repeat(buffers, 1);
  return count_wrong(buffers.output, chunk);
}

TrialResult CollectiveTrial::run(std::int64_t size, int iterations, int checks) {
  TrialResult result;
  const ElementCounts counts = setting_.counts(size);
  for (const BufferPlace place : kBufferPlaces) {
    if (!works(place)) continue;
    const Buffers buffers = allocate(place, counts);
    TrialResult::Place& found = result.at(place);
    const std::int64_t before = sent_in_all();
    repeat(buffers, 1);
    result.sent_bytes = sent_in_all() - before;
    if (iterations > 0) time(buffers, iterations, found);
    for (int i = 0; i < checks && values_ != nullptr; ++i) {
      found.wrong = std::max(found.wrong.value_or(0), check(buffers, counts.argument));
    }
  }
  return result;
}

}  // namespace shardsim
