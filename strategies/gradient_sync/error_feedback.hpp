#pragma once

#include "strategies/gradient_sync/gradient_sync.hpp"

namespace shardsim {

/// The error of one compression of a flat buffer, to be added to its next input (Seide et al. 2014;
/// Karimireddy et al. 2019). Without error feedback it holds nothing, and does nothing.
class ErrorFeedback {
 public:
  /// For a buffer of `numel` gradients.
  ErrorFeedback(const SyncPlan& plan, Runtime& runtime, std::int64_t numel);

  /// Adds what was lost of elements [at, at + values.numel()).
  void add_to(const Tensor& values, std::int64_t at);
  /// `left`: what compression has left of these elements.
  void keep(const Tensor& left, std::int64_t at);
  [[nodiscard]] bool acts() const { return errors_.defined(); }
  /// REQUIRES: acts().
  [[nodiscard]] Tensor part(std::int64_t at, std::int64_t numel) const {
    return errors_.view(at, {numel});
  }

 private:
  Runtime& runtime_;
  Tensor errors_;  // Undefined without error feedback.
};

}  // namespace shardsim
