#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backends/communicator.hpp"

namespace shardsim {

/// Checks the arguments of one call on the calling rank alone, alike for all backends. Members
/// compare the rest when they meet. Each check throws a CommunicationError (ARG_RANGE) that says
/// who called and where.
class ArgumentCheck {
 public:
  ArgumentCheck(const Communicator& group, const char* call, CallSite site)
      : group_(group), call_(call), site_(site) {}

  /// A root, or the other side of a message.
  void peer(int peer) const;
  /// `argument` is what the interface calls the buffer.
  void defined(const char* argument, const Tensor& buffer) const {
    if (!buffer.defined()) refuse_undefined(argument);
  }
  void reduce_op(ReduceOp op) const;
  void color(int color) const;
  /// The caller is one of `members`: returns which.
  [[nodiscard]] int member_of(const RankSpan& members) const;
  /// The work that the call follows must be pending.
  void after(const CallOptions& options) const {
    if (options.after != nullptr && !options.after->pending()) refuse_after();
  }
  /// Padding is part of the full buffer of `count` elements. REQUIRES: there is some.
  void padding(const CallOptions& options, std::int64_t count) const;
  /// `full` is the buffer of all chunks, `own` this member's chunk; both exist.
  void chunks(const CallOptions& options, const Tensor& full, const Tensor& own) const;
  /// The counts of an all_to_all.
  void splits(const Tensor& output, const Tensor& input, std::span<const std::int64_t> send_counts,
              std::span<const std::int64_t> recv_counts) const;
  /// Elements of all chunks of gather and scatter. Only the root knows the full buffer; elsewhere
  /// it may be undefined.
  [[nodiscard]] std::int64_t full_count(const CallOptions& options, int root, const Tensor& full,
                                        const Tensor& own) const;

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const;
  void refuse_undefined(const char* argument) const;
  void refuse_after() const;
  void counts(const CallOptions& options, const Tensor& own) const;
  void refuse_counts() const;

  const Communicator& group_;
  const char* call_;
  CallSite site_;
};

}  // namespace shardsim
