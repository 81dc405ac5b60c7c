#pragma once

#include <span>

#include "strategies/model/attention.hpp"

// Copies of heads from one place to another: what a message is packed from and unpacked to.
namespace shardsim {

/// Elements [first, first + width) of each of `rows` rows, and where they go: the same rows of
/// another tensor, from row `to_row` on.
struct HeadCopy {
  Heads from;
  Heads to;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t from_row = 0;
  std::int64_t to_row = 0;
};

/// to = from, rounded to its dtype, or to += from. REQUIRES: data; part of an operation.
void copy_values(const HeadCopy& copy, bool adds = false);

/// All of them, as one operation, bound by the bytes it moves.
void copy_heads(Runtime& runtime, const char* name, std::span<const HeadCopy> copies,
                bool adds = false);

}  // namespace shardsim
