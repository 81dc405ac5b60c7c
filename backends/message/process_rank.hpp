#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

#include "backends/message/message_plan.hpp"
#include "backends/process_backend.hpp"

// Backends over processes have this in common: their operations, who waits for them, what they have
// moved, and how it is reported where they do not end.
namespace shardsim {

/// How a process waits for the others.
struct WaitOptions {
  /// Nothing has moved for so long while something is waited for: then the run is lost.
  double deadline_s = 60.0;
  /// Seconds from any start, never going back.
  std::function<double()> clock;
  /// Called while nothing moves: lets others have the processor.
  std::function<void()> idle;
  /// Is told of every call, and asked while one is waited for; may be null. Outlives the backend.
  CallWatch* watch = nullptr;
};

/// One call of this process on its way.
class ProcessOperation : public std::enable_shared_from_this<ProcessOperation> {
 public:
  ProcessOperation(const CallRecord& record, std::int64_t sequence)
      : record_(record), sequence_(sequence) {}
  virtual ~ProcessOperation() = default;
  ProcessOperation(const ProcessOperation&) = delete;
  ProcessOperation& operator=(const ProcessOperation&) = delete;

  /// Takes the work that it follows, if there is one (it starts when that has ended, and not before
  /// its turn on its own group), and the ranges of padding. An average is divided by `group_size`.
  void set_options(const CallOptions& options, int group_size);
  void set_halves(std::span<const P2pOp> halves);
  /// Counts the messages of a plan by our own count. `width`: bytes per element of its slices.
  void count(int self, const MessagePlan& plan, std::int64_t width);

  [[nodiscard]] virtual bool ended() const = 0;
  [[nodiscard]] const CallRecord& record() const { return record_; }
  [[nodiscard]] std::int64_t sequence() const { return sequence_; }
  /// Halves of a point-to-point call; empty: a collective.
  [[nodiscard]] const std::vector<CallWatch::Half>& halves() const { return halves_; }
  /// Traffic of this process, counted message by message.
  [[nodiscard]] const TrafficCounters& moved() const { return moved_; }
  /// The same payload by link, as ranks of the group; empty for scalars.
  [[nodiscard]] const LinkTable& links() const { return links_; }

 protected:
  void count(int self, const MessageStep& message, std::int64_t width);

  CallRecord record_;
  std::int64_t sequence_;
  std::vector<CallWatch::Half> halves_;
  std::vector<ElementRange> padding_at_;
  int divisor_ = 1;  // Divides what is reduced, once.
  std::shared_ptr<const ProcessOperation> after_;
  TrafficCounters moved_;
  LinkTable links_;
};

/// The messages of point-to-point calls, in one round. Slices are in bytes, buffers by half.
[[nodiscard]] MessagePlan plan_transfer(std::span<const P2pOp> halves);

/// One group of processes: its operations run one after the other.
struct ProcessStream {
  std::string name;
  std::vector<int> members;  ///< World ranks.
  int member = 0;            ///< This process's rank in it.
  int instance = 0;          ///< Index among groups with this name and these members.
  std::int64_t next_sequence = 0;
  std::string last_ended;
};

class ProcessRank : public ProcessBackend {
 public:
  [[nodiscard]] const std::deque<GroupTraffic>& traffic() const override { return traffic_; }

  // For communicators.
  /// An equal text that lives as long as this.
  const char* keep_name(const std::string& name) { return names_.insert(name).first->c_str(); }
  void note_progress() { idle_s_ = 0.0; }
  void fail(Diagnosis diagnosis) {
    if (!failure_) failure_ = std::move(diagnosis);
  }

 protected:
  [[nodiscard]] virtual const WaitOptions& waiting() const = 0;
  /// One look at what is under way: `advance` tells whether something has moved. `time_out` throws
  /// where looks have found nothing for as long as a wait may take.
  void go_on_once(const std::function<bool()>& advance, const std::function<void()>& time_out);
  /// Tells the watch, if there is one.
  void tell(void (CallWatch::*event)(const CallWatch::Call&), const ProcessStream& stream,
            const ProcessOperation& operation) const;
  /// A report about an operation, without sides.
  [[nodiscard]] Diagnosis report(const char* code, const ProcessStream& stream,
                                 const ProcessOperation& operation) const;
  /// Nothing has moved until the deadline: `operation` is waited for, `stuck` is under way, and the
  /// `silent` ranks of the world have not answered it.
  [[nodiscard]] Diagnosis time_out_report(const ProcessStream& stream,
                                          const ProcessOperation& stuck,
                                          const ProcessOperation& operation,
                                          std::vector<int> silent) const;

  std::map<std::pair<std::string, std::vector<int>>, int> num_opened_;  // By name and members.
  std::deque<GroupTraffic> traffic_;
  std::optional<Diagnosis> failure_;

 private:
  std::set<std::string> names_;
  double idle_s_ = 0.0;  // In looks that found nothing, one after the other.
};

/// One process's end of a group.
class ProcessCommunicator : public Communicator, private WorkOwner {
 public:
  [[nodiscard]] int rank() const override { return stream_.member; }
  [[nodiscard]] int size() const override { return static_cast<int>(stream_.members.size()); }
  [[nodiscard]] const std::string& name() const override { return stream_.name; }
  [[nodiscard]] const TrafficCounters* counters() const override { return &traffic_.counters; }
  [[nodiscard]] Diagnosis diagnosis_of(const std::string& action, CallSite site) const override;

 protected:
  ProcessCommunicator(ProcessRank& process, ProcessStream& stream);
  /// The handle of an operation that has been posted.
  [[nodiscard]] Work hand_out(std::shared_ptr<ProcessOperation> operation);
  /// The messages of a collective by ring, chain, star or pairwise; sets the offsets.
  [[nodiscard]] MessagePlan plan_of(const Call& call);
  /// Returns when it has ended.
  virtual void await(const ProcessOperation& operation) = 0;
  /// Goes on with what is under way, without waiting for it. Whether it has ended.
  virtual bool poll(const ProcessOperation& operation) = 0;

  std::vector<std::int64_t> offsets_;  // For the call being posted.
  GroupTraffic traffic_;

 private:
  void wait(void* token) override;
  void abandon(void* token) noexcept override;
  [[nodiscard]] bool has_ended(void* token) override;
  [[nodiscard]] std::size_t first_ended(std::span<void* const> tokens) override;
  void add_call(const ProcessOperation& operation);  // One that has ended.

  ProcessRank& process_;
  ProcessStream& stream_;
  std::vector<std::shared_ptr<ProcessOperation>> unwaited_;
};

}  // namespace shardsim
