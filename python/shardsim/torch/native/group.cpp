#include "group.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include <c10/core/StreamGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "call_text.hpp"
#include "device.hpp"
#include "exchange.hpp"
#include "order.hpp"
#include "remote.hpp"
#include "sizes.hpp"
#include "work.hpp"

namespace shardsim_torch {

namespace {

using c10d::ReduceOp;
using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

std::atomic<std::int64_t> next_work = 1;
std::atomic<StreamNumber> next_group_stream = kGroupStreams;

// --- Values ------------------------------------------------------------------------------------

at::Tensor reduced(const std::vector<at::Tensor>& parts, const ReduceOp& op) {
  at::Tensor sum = parts.front().clone();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (op == ReduceOp::MIN) {
      sum = at::minimum(sum, parts[i]);
    } else if (op == ReduceOp::MAX) {
      sum = at::maximum(sum, parts[i]);
    } else if (op == ReduceOp::PRODUCT) {
      sum.mul_(parts[i]);
    } else {
      sum.add_(parts[i]);
    }
  }
  if (op == ReduceOp::AVG) sum.div_(static_cast<double>(parts.size()));
  return sum;
}

// --- The group ---------------------------------------------------------------------------------

class Group final : public c10d::Backend {
 public:
  Group(std::string name, int rank, std::vector<int> members)
      : Backend(rank, static_cast<int>(members.size())),
        name_(std::move(name)),
        exchange_(name_, rank, std::move(members)),
        stream_(next_group_stream++) {}

  Group(const std::string& name, int rank, const std::vector<int>& members, Remote& remote)
      : Group(name, rank, members) {
    remote.form(name, members);
  }

  const std::string getBackendName() const override { return "shardsim"; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return num_calls_; }

  // Messages between these are one batch; collectives are a call each.
  void startCoalescing() override { coalesced_.emplace(); }
  WorkPtr endCoalescing() override {
    const Coalesced all = std::exchange(coalesced_, std::nullopt).value_or(Coalesced());
    const Fetch fetch = [fetches = all.fetches] {
      for (const Fetch& each : fetches) each();
    };
    const std::vector<CallMessage> messages = without_own(all.messages);
    if (messages.empty()) return work(all.last_work, all.tensors, fetch);
    return post_messages("batch", messages, all.tensors, fetch);
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    check_dense("broadcast", tensors);
    const auto root = static_cast<int>(options.rootRank);
    return post(CallText(name_, "broadcast").buffer(tensors).root(root), tensors, tensors,
                exchange_.each(tensors, [root](const at::Tensor& tensor, const Values& values) {
                  set_values(tensor, values[place(root)]);
                }));
  }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return all_reduce(tensors, options.reduceOp);
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    return all_reduce(tensors, options.reduceOp);
  }

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    const auto root = static_cast<int>(options.rootRank);
    const ReduceOp op = options.reduceOp;
    check_dense("reduce", tensors);
    return post(CallText(name_, "reduce").buffer(tensors).reduction(op).root(root), tensors,
                tensors,
                exchange_.each(tensors, [=, this](const at::Tensor& tensor, const Values& values) {
                  if (root == getRank()) set_values(tensor, reduced(values, op));
                }));
  }

  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions&) override {
    check_parts("all_gather", output, input, getSize());
    return post(CallText(name_, "all_gather").buffer({output}), {input}, {output},
                exchange_.all(input, [output](const Values& values) {
                  set_values(output, at::cat(flat(values)));
                }));
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    return coalesced(outputs,
                     [&](std::size_t i) { _allgather_base(outputs[i], inputs[i], options); });
  }
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions&) override {
    TORCH_CHECK(outputs.size() == 1, "shardsim: an all_gather has one input on each rank");
    const Tensors& parts = outputs.front();
    return post(CallText(name_, "all_gather").buffer(parts).chunks(parts), inputs, parts,
                gathered(parts, inputs.front()));
  }

  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    const ReduceOp op = options.reduceOp;
    check_parts("reduce_scatter", input, output, getSize());
    return post(CallText(name_, "reduce_scatter").buffer({input}).reduction(op), {input}, {output},
                exchange_.all(input, [=, this](const Values& values) {
                  set_values(output, chunk(reduced(values, op), getRank()));
                }));
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
    return coalesced(outputs,
                     [&](std::size_t i) { _reduce_scatter_base(outputs[i], inputs[i], options); });
  }
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    const Tensors& parts = inputs.front();
    return post(
        CallText(name_, "reduce_scatter").buffer(parts).reduction(options.reduceOp).chunks(parts),
        parts, outputs);
  }

  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    const auto root = static_cast<int>(options.rootRank);
    const Tensors results = outputs.empty() ? Tensors() : outputs.front();
    return post(CallText(name_, "gather").parts(inputs.front(), getSize()).root(root), inputs,
                results, gathered(results, inputs.front()));
  }
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    const auto root = static_cast<int>(options.rootRank);
    for (int member = 0; !inputs.empty() && member < getSize(); ++member) {
      const at::Tensor& part = inputs.front()[place(member)];
      if (member != getRank()) {
        exchange_.leave_message(part, member);
      } else if (is_known(part) && is_small(part)) {
        set_values(outputs.front(), on_host(part));
      }
    }
    const Fetch fetch = inputs.empty() ? exchange_.message(outputs.front(), root) : nullptr;
    return post(CallText(name_, "scatter").parts(outputs.front(), getSize()).root(root),
                inputs.empty() ? Tensors() : inputs.front(), outputs, fetch);
  }

  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& to,
                        std::vector<std::int64_t>& from, const c10d::AllToAllOptions&) override {
    // Names are those of the base class: `to` are sizes of the output.
    const std::vector<std::int64_t> received = elements_of_rows(output, to, getSize());
    const std::vector<std::int64_t> sent = elements_of_rows(input, from, getSize());
    Fetch fetch;
    if (from.empty() && to.empty()) {
      fetch = exchange_.all(input, [=, this](const Values& values) {
        std::vector<at::Tensor> parts;
        for (const at::Tensor& other : values) parts.push_back(chunk(other, getRank()));
        set_values(output, at::cat(flat(parts)));
      });
    }
    return post(CallText(name_, "all_to_all").type(input).counts(sent, received), {input}, {output},
                fetch);
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions&) override {
    std::vector<std::int64_t> sent;
    std::vector<std::int64_t> received;
    for (const at::Tensor& tensor : inputs) sent.push_back(tensor.numel());
    for (const at::Tensor& tensor : outputs) received.push_back(tensor.numel());
    return post(CallText(name_, "all_to_all").type(inputs.front()).counts(sent, received), inputs,
                outputs);
  }

  WorkPtr send(Tensors& tensors, int to, int) override {
    exchange_.leave_message(tensors.front(), to);
    return post_message(tensors, {true, to, tensors.front()}, nullptr);
  }
  WorkPtr recv(Tensors& tensors, int from, int) override {
    return post_message(tensors, {false, from, tensors.front()},
                        exchange_.message(tensors.front(), from));
  }
  WorkPtr recvAnysource(Tensors&, int) override {
    TORCH_CHECK(false, "shardsim: a receive from any rank cannot be recorded: it depends on time");
  }

  WorkPtr barrier(const c10d::BarrierOptions&) override {
    const CallText call(name_, "barrier");
    const std::int64_t number = log(call.text(), {}, {}, performed(call, {}, {}, nullptr));
    // Its host waits.
    Log::get().add({.kind = EntryKind::wait, .stream = current_stream(), .number = number});
    Log::get().add({.kind = EntryKind::synchronize, .stream = current_stream()});
    return work(0, {}, nullptr);
  }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool) override { barrier(options); }

 private:
  struct Coalesced {
    std::vector<CallMessage> messages;
    Tensors tensors;
    std::vector<Fetch> fetches;
    std::int64_t last_work = 0;
  };
  using Values = Exchange::Values;

  static std::size_t place(int member) { return static_cast<std::size_t>(member); }

  // Messages of a batch to the rank itself, as V-shaped pipelines have them, are copies.
  [[nodiscard]] std::vector<CallMessage> without_own(const std::vector<CallMessage>& all) const {
    std::vector<CallMessage> others;
    std::vector<at::Tensor> sent;
    std::vector<at::Tensor> received;
    for (const CallMessage& message : all) {
      if (message.peer != getRank()) {
        others.push_back(message);
      } else {
        (message.sends ? sent : received).push_back(message.tensor);
      }
    }
    TORCH_CHECK(sent.size() == received.size(), "shardsim: a rank sends itself ", sent.size(),
                " messages and receives ", received.size(), " of them");
    const at::NoGradGuard guard;  // Buffers of a pipeline are leaves of its graphs.
    for (std::size_t i = 0; i < sent.size(); ++i) received[i].copy_(sent[i]);
    return others;
  }

  // --- The log ---------------------------------------------------------------------------------

  // With data, `fetch` is kept by the order of works.
  std::int64_t log(const std::string& text, const Tensors& sent, const Tensors& results,
                   const Fetch& fetch) {
    const std::int64_t number = next_work++;
    ++num_calls_;
    if (with_data()) {
      Order::get().post(number, current_stream(), stream_, sent, results, name_of_call(text),
                        fetch);
    } else {
      Log::get().add_call(current_stream(), text, number, stream_);
    }
    return number;
  }
  // "all_reduce of group 1".
  std::string name_of_call(const std::string& text) const {
    constexpr std::string_view kKey = "\"kind\": \"";
    const std::size_t begin = text.find(kKey) + kKey.size();
    return text.substr(begin, text.find('"', begin) - begin) + " of group " + name_;
  }
  // Calls that are waited for at once, within others that are.
  template <class Post>
  WorkPtr coalesced(const Tensors& outputs, Post post) {
    const bool is_first = !coalesced_;
    if (is_first) startCoalescing();
    for (std::size_t i = 0; i < outputs.size(); ++i) post(i);
    return is_first ? endCoalescing() : work(0, outputs, nullptr);
  }
  WorkPtr work(std::int64_t number, const Tensors& results, Fetch fetch) {
    return make_work(c10::intrusive_ptr<c10d::Backend>::unsafe_reclaim_from_nonowning(this), number,
                     stream_, results, std::move(fetch));
  }
  // Calls with tensors of the host move nothing on the device.
  WorkPtr post(const CallText& call, const Tensors& sent, const Tensors& results,
               Fetch fetch = nullptr) {
    fetch = performed(call, sent, results, std::move(fetch));
    const std::int64_t number = call.is_of_device() ? log(call.text(), sent, results, fetch) : 0;
    if (with_data() && number != 0) fetch = nullptr;
    // What is not fetched is not known.
    for (const at::Tensor& tensor : results) set_unknown(tensor);
    if (!coalesced_ || number == 0) return work(number, results, std::move(fetch));
    coalesced_->last_work = number;
    coalesced_->tensors.insert(coalesced_->tensors.end(), results.begin(), results.end());
    if (fetch) coalesced_->fetches.push_back(std::move(fetch));
    return work(number, results, nullptr);
  }
  WorkPtr post_message(const Tensors& tensors, const CallMessage& message, Fetch fetch) {
    if (!tensors.front().is_cuda() && !with_data()) return work(0, tensors, std::move(fetch));
    if (!message.sends) set_unknown(tensors.front());
    if (coalesced_) {
      coalesced_->messages.push_back(message);
      coalesced_->tensors.insert(coalesced_->tensors.end(), tensors.begin(), tensors.end());
      if (fetch) coalesced_->fetches.push_back(std::move(fetch));
      return work(0, tensors, nullptr);
    }
    return post_messages(message.sends ? "send" : "recv", {message}, tensors, std::move(fetch));
  }
  WorkPtr post_messages(const char* kind, const std::vector<CallMessage>& messages,
                        const Tensors& tensors, Fetch fetch) {
    const CallText call = CallText(name_, kind).messages(messages);
    Tensors sent;
    Tensors received;
    for (const CallMessage& each : messages) (each.sends ? sent : received).push_back(each.tensor);
    fetch = performed(call, sent, received, std::move(fetch));
    const std::int64_t number = log(call.text(), sent, received, fetch);
    return work(number, tensors, with_data() ? nullptr : std::move(fetch));
  }
  // How the results come: with data they are the call's own.
  Fetch performed(const CallText& call, const Tensors& sent, const Tensors& results,
                  Fetch fetch) const {
    Remote* const remote = Remote::get();
    if (remote == nullptr) return fetch;
    Order::get().fetch_for(sent, stream_);
    Order::get().fetch_for(results, stream_);
    const std::int64_t number = remote->post(call.text(), sent);
    return [=] { remote->wait(number, results); };
  }

  // --- Values of others ------------------------------------------------------------------------

  WorkPtr all_reduce(Tensors& tensors, const ReduceOp& op) {
    check_dense("all_reduce", tensors);
    return post(CallText(name_, "all_reduce").buffer(tensors).reduction(op), tensors, tensors,
                exchange_.each(tensors, [op](const at::Tensor& tensor, const Values& values) {
                  set_values(tensor, reduced(values, op));
                }));
  }

  Fetch gathered(const Tensors& outputs, const at::Tensor& input) {
    return exchange_.all(input, [outputs](const Values& values) {
      for (std::size_t i = 0; i < outputs.size(); ++i) set_values(outputs[i], values[i]);
    });
  }

  // --- Parts -----------------------------------------------------------------------------------

  static std::vector<at::Tensor> flat(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> made;
    for (const at::Tensor& tensor : tensors) made.push_back(tensor.reshape({-1}));
    return made;
  }
  [[nodiscard]] at::Tensor chunk(const at::Tensor& tensor, int member) const {
    return tensor.reshape({getSize(), -1})[member];
  }

  std::string name_;
  Exchange exchange_;
  StreamNumber stream_;
  std::uint64_t num_calls_ = 0;
  std::optional<Coalesced> coalesced_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_group(const std::string& name, int rank,
                                             const std::vector<int>& members) {
  if (Remote* const remote = Remote::get()) {
    return c10::make_intrusive<Group>(name, rank, members, *remote);
  }
  return c10::make_intrusive<Group>(name, rank, members);
}

}  // namespace shardsim_torch

// DistributedDataParallel asks for the time of its phases.
namespace c10d {
namespace {
class NoTimer final : public Timer {
 public:
  explicit NoTimer(c10::Device) {}
  std::optional<std::int64_t> measureDifference(Event, Event) override { return std::nullopt; }
};
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kCUDA, NoTimer);
}  // namespace
}  // namespace c10d
