#include "strategies/sharding/position_exchange.hpp"

#include <utility>

#include "strategies/model/sequence_part.hpp"

namespace shardsim {

Tensor PositionExchange::allocate_message(std::int64_t rows, DType dtype) const {
  return runtime_.allocate(MemoryCategory::comm, {ranks(), rows, sections_.count()}, dtype);
}

// Messages are rows [rank with the heads, b, s / c] at one end.
template <class Visit>
void PositionExchange::for_each_of_positions(const Columns& x, Visit&& visit) const {
  const std::int64_t rows = num_rows(x.tensor);
  const std::int64_t width = sections_.count();
  for (int peer = 0; peer < ranks(); ++peer) {
    for (const HeadRun& run : sections_.runs(peer)) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t place = (peer * rows + row) * width + run.at;
        for (std::int64_t i = 0; i < run.count; ++i) visit(place + i, row, run.first + i);
      }
    }
  }
}

// They are rows [rank with the positions, b, s / c] at the other end.
template <class Visit>
void PositionExchange::for_each_of_heads(std::int64_t rows, Visit&& visit) const {
  const std::int64_t width = sections_.count();
  for (int peer = 0; peer < ranks(); ++peer) {
    const SequencePart part{peer, ranks()};
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t place = (peer * rows + row) * width;
      const std::int64_t to = part.token_of(row, seq_len_) * width;
      for (std::int64_t i = 0; i < width; ++i) visit(place + i, to + i);
    }
  }
}

Tensor PositionExchange::to_heads(const Columns& x, const char* label) const {
  const std::int64_t rows = num_rows(x.tensor);
  require_columns("exchange of positions", "number of elements", x, rows, sections_.whole());
  Tensor sent = allocate_message(rows, x.dtype());
  const std::int64_t bytes = sent.num_bytes();
  runtime_.compute(memory_op("pack_heads", x.dtype(), x.num_bytes() + bytes), [&] {
    for_each_of_positions(x, [&](std::int64_t place, std::int64_t row, std::int64_t column) {
      sent.set(place, x.get(row, column));
    });
  });
  const Tensor received = allocate_message(rows, x.dtype());
  group_.all_to_all(received, sent, {}, {}, {.label = label}).wait();
  sent = {};
  const std::int64_t samples = rows * ranks() / seq_len_;
  Tensor y = new_activation(runtime_, {samples, seq_len_, sections_.count()}, x.dtype());
  runtime_.compute(memory_op("order_positions", x.dtype(), 2 * bytes), [&] {
    for_each_of_heads(rows,
                      [&](std::int64_t place, std::int64_t to) { y.set(to, received.get(place)); });
  });
  return y;
}

void PositionExchange::to_positions(const Tensor& y, const Columns& x, const char* label) const {
  const std::int64_t rows = num_rows(x.tensor);
  require_columns("exchange of heads", "number of elements", x, rows, sections_.whole());
  require_size("exchange of heads", "number of elements of heads", y.numel(),
               rows * ranks() * sections_.count());
  Tensor sent = allocate_message(rows, y.dtype());
  const std::int64_t bytes = sent.num_bytes();
  runtime_.compute(memory_op("share_positions", y.dtype(), 2 * bytes), [&] {
    for_each_of_heads(rows,
                      [&](std::int64_t place, std::int64_t from) { sent.set(place, y.get(from)); });
  });
  const Tensor received = allocate_message(rows, y.dtype());
  group_.all_to_all(received, sent, {}, {}, {.label = label}).wait();
  sent = {};
  runtime_.compute(memory_op("unpack_heads", y.dtype(), bytes + x.num_bytes()), [&] {
    std::vector<double> sums(to_size(rows * x.count));
    for_each_of_positions(x, [&](std::int64_t place, std::int64_t row, std::int64_t column) {
      sums[to_size(row * x.count + column)] += received.get(place);
    });
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < x.count; ++i) x.set(row, i, sums[to_size(row * x.count + i)]);
    }
  });
}

}  // namespace shardsim
