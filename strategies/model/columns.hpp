#pragma once

#include <cstdint>
#include <span>

#include "strategies/model/layer.hpp"

// Some columns of a tensor's rows, for layers that read and write parts of a wider tensor: one
// projection gives queries, keys, values and gates side by side, and its gradient is filled part by
// part.
namespace shardsim {

/// Columns [first, first + count) of the rows of `tensor`.
struct Columns {
  Tensor tensor;
  std::int64_t first = 0;
  std::int64_t count = 0;

  [[nodiscard]] DType dtype() const { return tensor.dtype(); }
  [[nodiscard]] std::int64_t num_bytes() const {
    return num_rows(tensor) * count * size_of(tensor.dtype());
  }
  [[nodiscard]] std::int64_t at(std::int64_t row, std::int64_t column) const {
    return row * last_dim(tensor) + first + column;
  }
  [[nodiscard]] double get(std::int64_t row, std::int64_t column) const {
    return tensor.get(at(row, column));
  }
  void set(std::int64_t row, std::int64_t column, double value) const {
    tensor.set(at(row, column), value);
  }
};

[[nodiscard]] inline Columns all_columns(const Tensor& tensor) {
  return {tensor, 0, last_dim(tensor)};
}

/// Elements of `from` become those of `to`. REQUIRES: as many rows and columns.
inline void copy_columns(const Columns& from, const Columns& to) {
  for (std::int64_t row = 0; row < num_rows(to.tensor); ++row) {
    for (std::int64_t i = 0; i < to.count; ++i) to.set(row, i, from.get(row, i));
  }
}

/// A tensor of these columns alone.
[[nodiscard]] inline Tensor copy_columns(Runtime& runtime, const Columns& from) {
  Tensor to = new_activation(runtime, with_last(from.tensor.shape(), from.count), from.dtype());
  runtime.compute(memory_op("copy_columns", from.dtype(), 2 * to.num_bytes()),
                  [&] { copy_columns(from, all_columns(to)); });
  return to;
}

/// Neighbouring columns with one factor.
struct ScaledColumns {
  std::int64_t count = 0;
  double factor = 1.0;
};

/// In place: each row's parts, one behind the other, times their factors. REQUIRES: the parts are
/// all columns.
inline void scale_columns(Runtime& runtime, const Tensor& x, std::span<const ScaledColumns> parts) {
  runtime.compute(memory_op("scale_columns", x.dtype(), 2 * x.num_bytes()), [&] {
    for (std::int64_t row = 0; row < num_rows(x); ++row) {
      Columns columns{x, 0, 0};
      for (const ScaledColumns& part : parts) {
        columns.first += columns.count;
        columns.count = part.count;
        for (std::int64_t i = 0; i < part.count; ++i) {
          columns.set(row, i, part.factor * columns.get(row, i));
        }
      }
    }
  });
}

/// Throws as require_size does, unless there are so many rows and columns.
inline void require_columns(const char* layer, const char* what, const Columns& columns,
                            std::int64_t rows, std::int64_t count) {
  require_size(layer, what, num_rows(columns.tensor) * columns.count, rows * count);
  const std::int64_t end = columns.first + columns.count;
  if (end > last_dim(columns.tensor)) require_size(layer, what, end, last_dim(columns.tensor));
}

}  // namespace shardsim
