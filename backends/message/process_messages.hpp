#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/message/message_rank.hpp"
#include "backends/tagged_messages.hpp"

namespace shardsim {

/// One process's end of the messages with tags among all processes. The transport matches them;
/// they are under way from their call on, whatever the rank waits for.
class ProcessMessages final : public TaggedMessages, private WorkOwner {
 public:
  /// `transport`: of all processes, for these messages alone. REQUIRES: it has tags. `process`
  /// outlives this, and is told of all calls as of those of a group called "messages".
  ProcessMessages(MessageRank& process, std::unique_ptr<Transport> transport);
  ~ProcessMessages() override;

  [[nodiscard]] int rank() const override { return stream_.member; }
  [[nodiscard]] int size() const override { return static_cast<int>(stream_.members.size()); }
  Work send(const Tensor& buffer, int peer, int tag, const CallOptions& options,
            CallSite site) override;
  Work recv(const Tensor& buffer, int source, int tag, MessageStatus* status,
            const CallOptions& options, CallSite site) override;
  MessageStatus probe(int source, int tag, DType dtype, CallSite site) override;
  std::optional<MessageStatus> try_probe(int source, int tag, DType dtype, CallSite site) override;

  /// Messages that have been waited for.
  [[nodiscard]] const TrafficCounters& counters() const { return counters_; }

 private:
  class Half;

  [[nodiscard]] Work post(std::shared_ptr<Half> half, Transport::Request request);
  static Half& half_of(void* token);
  // `buffer`: null for a probe, which has none.
  void require(bool in_range, const CallRecord& record, const Tensor* buffer) const;
  [[nodiscard]] std::unique_ptr<Half> half_of_probe(int source, int tag, DType dtype,
                                                    CallSite site) const;
  void wait(void* token) override;
  void abandon(void* token) noexcept override;
  [[nodiscard]] bool has_ended(void* token) override;
  [[nodiscard]] std::size_t first_ended(std::span<void* const> tokens) override;
  // Whether a half has ended that had not.
  bool advance();
  bool advance(Half& half);
  [[noreturn]] void time_out(const Half& half) const;
  [[noreturn]] void truncated(const Half& half) const;

  MessageRank& process_;
  std::unique_ptr<Transport> transport_;
  ProcessStream stream_;
  std::vector<std::shared_ptr<Half>> halves_;  // Not waited for, as posted.
  TrafficCounters counters_;
};

}  // namespace shardsim
