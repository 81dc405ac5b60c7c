#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

#include "sim/hardware/network_model.hpp"

#include "backends/message/message_operation.hpp"
#include "backends/process_backend.hpp"

namespace shardsim {

struct MessageOptions {
  /// Decides between algorithms as a simulation of the same machine does.
  Cluster cluster;
  Algorithm all_reduce_algorithm = Algorithm::automatic;
  bool buffered_sends = false;
  /// Nothing has moved for so long while something is waited for: then the run is lost.
  double deadline_s = 60.0;
  /// Seconds from any start, never going back.
  std::function<double()> clock;
  /// Called while nothing moves: lets others have the processor.
  std::function<void()> idle;
  /// Collectives of the transport's library, where it has any, instead of our own.
  bool native_collectives = false;
  /// Is told of every call, and asked while one is waited for; may be null. Outlives the rank.
  CallWatch* watch = nullptr;
};

/// One group's operations in the order they were posted: they run one after the other.
struct MessageStream {
  std::unique_ptr<Transport> transport;
  std::string name;
  int instance = 0;  ///< Index among groups with this name and these members.
  std::deque<std::shared_ptr<MessageOperation>> queue;  // The first is under way.
  std::int64_t next_sequence = 0;
  std::string last_ended;
};

/// One process of a run whose collectives are made of messages: drives the operations of all its
/// groups while it waits for one of them.
class MessageRank final : public ProcessBackend {
 public:
  /// `transport`: of all processes.
  MessageRank(std::unique_ptr<Transport> transport, MessageOptions options);
  ~MessageRank() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] const MessageOptions& options() const { return options_; }
  [[nodiscard]] std::unique_ptr<Communicator> world() override;
  void finish() override;
  [[nodiscard]] const std::deque<GroupTraffic>& traffic() const override { return traffic_; }

  // For communicators.
  MessageStream& open(std::unique_ptr<Transport> transport, const std::string& name);
  void close(MessageStream& stream, GroupTraffic traffic);
  /// An equal text that lives as long as this.
  const char* keep_name(const std::string& name) { return names_.insert(name).first->c_str(); }
  /// Puts it behind what was posted before.
  void post(MessageStream& stream, const std::shared_ptr<MessageOperation>& operation);
  /// Returns when `operation` has ended. Throws a CommunicationError (TIMEOUT) at the deadline.
  void wait(MessageStream& stream, const MessageOperation& operation);
  /// Ring or tree, as the network model prices it.
  [[nodiscard]] Algorithm choose(const GroupLayout& layout, const DoubleTree& tree,
                                 std::int64_t bytes, std::int64_t largest_chunk);
  void fail(Diagnosis diagnosis);

 private:
  bool advance_all();
  bool advance(MessageStream& stream, MessageOperation& operation);
  [[nodiscard]] CallWatch::Call call_of(const MessageStream& stream,
                                        const MessageOperation& operation) const;
  [[nodiscard]] Diagnosis diagnosis_of(const MessageStream& stream,
                                       const MessageOperation& operation) const;
  // World ranks of those whose messages are under way, ascending.
  [[nodiscard]] static std::vector<int> awaited(const MessageStream& stream,
                                                const MessageOperation& operation);
  [[noreturn]] void wrong_size(const MessageStream& stream, const MessageOperation& operation,
                               const WrongSize& error) const;
  [[noreturn]] void time_out(const MessageStream& stream, const MessageOperation& operation) const;

  std::unique_ptr<Transport> first_;  // Until world() takes it.
  MessageOptions options_;
  std::unique_ptr<NetworkModel> network_;
  int rank_;
  std::set<std::string> names_;
  std::vector<std::unique_ptr<MessageStream>> streams_;
  std::map<std::pair<std::string, std::vector<int>>, int> num_opened_;
  std::deque<GroupTraffic> traffic_;
  std::optional<Diagnosis> failure_;
};

}  // namespace shardsim
