#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/communicator.hpp"
#include "backends/tagged_messages.hpp"

#include "sim/harness/call_steps.hpp"

// Writes down what a rank of a real run does with its communicators and messages, so that it can be
// judged like a run in memory (logged_run.hpp).
namespace shardsim {

/// Stands between a program and the communicators of its process, which it owns: a program that
/// destroys one too early, or never, does no harm. Every call is written before it is made.
class CallLog final : public std::enable_shared_from_this<CallLog>, private WorkOwner {
 public:
  /// `messages` outlives this. `woken`: called after each wait.
  CallLog(std::unique_ptr<Communicator> world, TaggedMessages& messages,
          std::function<void()> woken);
  ~CallLog() override;

  /// For the program, until end(). REQUIRES: this is held by a shared_ptr.
  void open();
  [[nodiscard]] Communicator& world();
  [[nodiscard]] TaggedMessages& messages();

  /// The steps since the last time. All of them together are for a StepReader.
  [[nodiscard]] std::string take_steps() { return writer_.take(); }
  /// Whether the rank waits for others now.
  [[nodiscard]] bool is_waiting() const { return is_waiting_; }
  /// Whether a wait has thrown: the rank stands in it for good.
  [[nodiscard]] bool is_stuck() const { return is_stuck_; }
  /// The program has ended: what it holds of communicators and works does nothing from here on.
  void end();
  /// The same, and it has thrown.
  void refused(const Diagnosis& report);
  void threw(const std::string& what, const std::string& code, const std::string& fix);
  /// Destroys communicators on which nothing is under way.
  void close_all();
  /// Names and sizes, each once.
  [[nodiscard]] const std::vector<std::pair<std::string, int>>& groups() const { return names_; }

 private:
  class LoggedCommunicator;
  class LoggedMessages;
  struct Held {  // A call or message that was not waited for.
    int number = 0;
    int group = -1;  // -1: a message with a tag.
    Work work;
    bool is_open = false;  // A receive that leaves open what it takes.
    MessageStatus taken;
    MessageStatus* status = nullptr;  // The program's.
    bool dropped = false;
    std::list<Held>::iterator place;
  };
  struct Group {
    std::unique_ptr<Communicator> communicator;
    int num_held = 0;
    bool closed = false;
  };

  void write(const CallStep& step);
  Held& hold(int group);
  [[nodiscard]] Work hand_out(Held& held);
  [[nodiscard]] Work post(int group, const Call& call);
  [[nodiscard]] Work send(const Tensor& buffer, int peer, int tag, const CallOptions& options,
                          const CallSite& site);
  [[nodiscard]] Work recv(const Tensor& buffer, int source, int tag, MessageStatus* status,
                          const CallOptions& options, const CallSite& site);
  [[nodiscard]] MessageStatus probe(int source, int tag, DType dtype, const CallSite& site);
  [[nodiscard]] std::optional<MessageStatus> try_probe(int source, int tag, DType dtype,
                                                       const CallSite& site);
  [[nodiscard]] std::unique_ptr<Communicator> split(int group, int color, int key,
                                                    const std::string& name, const CallSite& site);
  void close(int group) noexcept;
  void close_if_idle(Group& group);
  void release(Held& held);
  // Runs `body`, which waits for others.
  void wait_in(const std::function<void()>& body);

  void wait(void* token) override;
  void abandon(void* token) noexcept override;
  [[nodiscard]] bool has_ended(void* token) override;
  [[nodiscard]] std::size_t first_ended(std::span<void* const> tokens) override;

  TaggedMessages& real_messages_;
  std::function<void()> woken_;
  StepWriter writer_;
  std::vector<Group> groups_;
  std::vector<std::pair<std::string, int>> names_;
  std::list<Held> held_;
  int num_works_ = 0;
  std::unique_ptr<LoggedCommunicator> world_;
  std::unique_ptr<LoggedMessages> tagged_;
  bool is_live_ = true;
  bool is_waiting_ = false;
  bool is_stuck_ = false;
};

}  // namespace shardsim
