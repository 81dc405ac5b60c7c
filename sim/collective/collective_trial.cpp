#include "sim/collective/collective_trial.hpp"

#include <algorithm>
#include <cstring>

namespace shardsim {

namespace {

void clear(const Tensor& tensor) {
  if (!tensor.has_data()) return;
  std::memset(tensor.data(), 0, static_cast<std::size_t>(tensor.num_bytes()));
}

}  // namespace

bool CollectiveTrial::works(BufferPlace place) const {
  return place == BufferPlace::in_place ? works_in_place(setting_.operation)
                                        : works_out_of_place(setting_.operation);
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
  const ReduceOp op = setting_.reduction;
  const int root = setting_.root;
  const int size = world_.size();
  switch (setting_.operation) {
    case TestedOperation::all_reduce:
      return world_.all_reduce(buffers.output, op);
    case TestedOperation::reduce_scatter:
      return world_.reduce_scatter(buffers.output, buffers.input, op);
    case TestedOperation::all_gather:
      return world_.all_gather(buffers.output, buffers.input);
    case TestedOperation::broadcast:
      return world_.broadcast(buffers.output, root);
    case TestedOperation::reduce:
      return world_.reduce(buffers.output, op, root);
    case TestedOperation::all_to_all:
      return world_.all_to_all(buffers.output, buffers.input, {}, {});
    case TestedOperation::gather:
      return world_.gather(buffers.output, buffers.input, root);
    case TestedOperation::scatter:
      return world_.scatter(buffers.output, buffers.input, root);
    case TestedOperation::sendrecv:
      break;
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
  switch (setting_.operation) {
    case TestedOperation::all_reduce:
      return values_->count_wrong(output, TestValues::kAll, 0);
    case TestedOperation::reduce_scatter:
      return values_->count_wrong(output, TestValues::kAll, rank * chunk);
    case TestedOperation::all_gather:
      return chunks_of_all(0);
    case TestedOperation::all_to_all:
      return chunks_of_all(rank * chunk);
    case TestedOperation::gather:  // Other members' outputs are not read, and not written.
      return rank == setting_.root ? chunks_of_all(0) : 0;
    case TestedOperation::broadcast:
      return values_->count_wrong(output, setting_.root, 0);
    case TestedOperation::reduce:  // Other members' buffers keep their values.
      return values_->count_wrong(output, rank == setting_.root ? TestValues::kAll : rank, 0);
    case TestedOperation::scatter:
      return values_->count_wrong(output, setting_.root, rank * chunk);
    case TestedOperation::sendrecv:
      return values_->count_wrong(output, (rank + size - 1) % size, 0);
  }
  return 0;
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
