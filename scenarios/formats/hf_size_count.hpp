#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"

// Counts for the sizes of features that no scenario can express, see hf_feature_sizes.hpp.
namespace shardsim {

/// A count that knows whether it fits into 64 bits: a file may say anything.
class SizeCount {
 public:
  // A number is a count.
  SizeCount(std::int64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor)

  friend SizeCount operator*(SizeCount a, SizeCount b) {
    SizeCount product = 0;
    product.fits_ = !__builtin_mul_overflow(a.value_, b.value_, &product.value_);
    product.fits_ = product.fits_ && a.fits_ && b.fits_;
    return product;
  }
  friend SizeCount operator+(SizeCount a, SizeCount b) {
    SizeCount sum = 0;
    sum.fits_ = !__builtin_add_overflow(a.value_, b.value_, &sum.value_);
    sum.fits_ = sum.fits_ && a.fits_ && b.fits_;
    return sum;
  }
  [[nodiscard]] std::string words() const {
    return fits_ ? std::to_string(value_) : "more than 9223372036854775807";
  }

 private:
  std::int64_t value_;
  bool fits_ = true;
};

/// As words.
inline std::string cost_words(SizeCount parameters, SizeCount flops) {
  return fmt::format("{} parameters and {} FLOPs per token forward", parameters.words(),
                     flops.words());
}

/// Reads the sizes that a formula needs, and remembers those that the file does not have.
class SizeKeys {
 public:
  std::int64_t operator()(ForeignObject& object, const char* key) {
    const std::int64_t value = object.integer(key, kForeignCount).value_or(0);
    if (value == 0) missing_.push_back(object.name_of(key));
    return value;
  }
  [[nodiscard]] bool are_there() const { return missing_.empty(); }
  [[nodiscard]] std::string words() const {
    return fmt::format("its size needs {}", fmt::join(missing_, ", "));
  }

 private:
  std::vector<std::string> missing_;
};

}  // namespace shardsim
