#pragma once

#include <cstdint>

#include "backends/communicator.hpp"

// What the last bits of numbers that ranks exchange do to results. For the harness alone.
namespace shardsim {

/// What is moved: terms of a sum (or mean), or numbers that arrive as they are.
enum class Carried : std::uint8_t { terms, copies };

/// While it lives, numbers of fp32, bf16 or fp16 that fibers of this thread exchange arrive as a
/// neighbour of what they are, above or below, drawn: whoever computes a number and sends it has
/// rounded it once, by at most half of that. Equal numbers of one rank (but for their sign) have
/// equal errors. Terms of two ranks do not: 1000.4 and 999.9 are the same in bf16, and what is left
/// of them is the error of either. Tensors of nothing but whole numbers up to 16 have none: those
/// are flags and counts.
class LastBitErrors {
 public:
  /// Of all terms of sums.
  explicit LastBitErrors(std::uint64_t seed);
  /// Of all copies that rank `sender` of the world sends.
  LastBitErrors(std::uint64_t seed, int sender);
  ~LastBitErrors();
  LastBitErrors(const LastBitErrors&) = delete;
  LastBitErrors& operator=(const LastBitErrors&) = delete;

  /// `tensor`, or what arrives instead of it.
  [[nodiscard]] Tensor applied(const Tensor& tensor, Carried moved, int sender) const;
  /// Of this thread; null: there are no errors.
  [[nodiscard]] static const LastBitErrors* active();

 private:
  [[nodiscard]] double neighbour(double value, DType dtype, int sender) const;

  std::uint64_t seed_;
  Carried moved_;
  int sender_ = -1;
  const LastBitErrors* before_;
};

/// What arrives of a tensor: itself, unless errors are drawn.
[[nodiscard]] inline Tensor as_moved(const Tensor& tensor, Carried moved, int sender) {
  const LastBitErrors* const errors = LastBitErrors::active();
  return errors == nullptr ? tensor : errors->applied(tensor, moved, sender);
}

}  // namespace shardsim
