#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/call_record.hpp"
#include "backends/communicator.hpp"

namespace shardsim {

/// What can be seen to be wrong with a call on the calling rank alone: the same for all backends.
/// What members disagree about is found when they meet.
class CheckedCommunicator : public Communicator {
 protected:
  /// Throws a CommunicationError (ARG_RANGE) that says who called and where.
  [[noreturn]] virtual void refuse(const char* call, const std::string& what,
                                   const std::string& hint, CallSite site) const = 0;

  /// Enters what a call's options say into its record, uneven chunks and the places of padding as
  /// a hash. (All_to_all's counts are no options: they differ between members by right, and who
  /// sends what whom is compared by pairs, where a backend can.)
  void complete(CallRecord& record, const CallOptions& options) const;
  /// Where each member's chunk begins in a full buffer of `count` elements, and its end: size + 1
  /// values. `any_count`: cut as all_reduce does, else by `options.counts` or equal.
  [[nodiscard]] std::vector<std::int64_t> chunk_offsets(std::int64_t count,
                                                        const CallOptions& options,
                                                        bool any_count) const;
  void check_peer(const char* call, int peer, CallSite site) const;
  /// `argument` is what the interface calls the buffer.
  void check_defined(const char* call, const char* argument, const Tensor& buffer,
                     CallSite site) const {
    if (!buffer.defined()) refuse_undefined(call, argument, site);
  }
  void check_reduce_op(const char* call, ReduceOp op, CallSite site) const;
  void check_color(int color, CallSite site) const;
  /// Padding is part of the full buffer of `count` elements. REQUIRES: there is some.
  void check_padding(const char* call, const CallOptions& options, std::int64_t count,
                     CallSite site) const;
  /// `full` is the buffer of all chunks, `own` this member's chunk; both exist.
  void check_chunks(const char* call, const CallOptions& options, const Tensor& full,
                    const Tensor& own, CallSite site) const;
  void check_splits(const Tensor& output, const Tensor& input,
                    std::span<const std::int64_t> send_counts,
                    std::span<const std::int64_t> recv_counts, CallSite site) const;
  /// Elements of all chunks of gather and scatter. Only the root knows the full buffer; elsewhere
  /// it may be undefined.
  [[nodiscard]] std::int64_t full_count(const char* call, const CallOptions& options, int root,
                                        const Tensor& full, const Tensor& own, CallSite site) const;

 private:
  void refuse_undefined(const char* call, const char* argument, CallSite site) const;
  void check_counts(const char* call, const CallOptions& options, const Tensor& own,
                    CallSite site) const;
  void refuse_counts(const char* call, CallSite site) const;
};

}  // namespace shardsim
