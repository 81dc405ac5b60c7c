#include "group.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <c10/core/StreamGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "call_text.hpp"
#include "device.hpp"

namespace shardsim_torch {

namespace {

using c10d::ReduceOp;
using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

Recorders recorders;
std::atomic<std::int64_t> next_work = 1;
std::atomic<StreamNumber> next_group_stream = kGroupStreams;

// --- Works -------------------------------------------------------------------------------------

// Its data is there at once; the log says when the device waits for it.
class LoggedWork final : public c10d::Work {
 public:
  LoggedWork(std::int64_t number, StreamNumber group_stream, const Tensors& results)
      : number_(number), results_(results) {
    std::vector<c10::Device> devices;
    for (const at::Tensor& tensor : results) {
      if (tensor.is_cuda()) devices = {c10::Device(c10::kCUDA, 0)};
    }
    future_ = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), devices);
    // Who waits for the future waits for an event in the group's stream.
    const c10::StreamGuard guard(stream_of(group_stream));
    future_->markCompleted(c10::IValue(results));
  }

  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override {
    synchronize();
    return true;
  }
  void synchronize() override {
    if (number_ == 0) return;
    Log::get().add({.kind = EntryKind::wait, .stream = current_stream(), .number = number_});
  }
  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  std::int64_t number_;  // 0: it moves nothing on the device.
  Tensors results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// --- Values ------------------------------------------------------------------------------------

std::vector<std::uint8_t> bytes_of(const at::Tensor& tensor) {
  const at::Tensor flat = on_host(tensor).contiguous();
  const auto* const begin = static_cast<const std::uint8_t*>(flat.data_ptr());
  return {begin, begin + flat.nbytes()};
}

at::Tensor tensor_of(const std::vector<std::uint8_t>& bytes, const at::Tensor& like) {
  at::Tensor made = at::empty(like.sizes(), like.options().device(c10::kCPU));
  if (bytes.size() == static_cast<std::size_t>(made.nbytes())) {
    std::memcpy(made.data_ptr(), bytes.data(), bytes.size());
  }
  return made;
}

void set_values(const at::Tensor& to, const at::Tensor& values) {
  if (!is_small(to) || to.numel() != values.numel()) return;
  on_host(to).copy_(values.view(to.sizes()));
  set_known(to);
}

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
        members_(std::move(members)),
        stream_(next_group_stream++) {}

  const std::string getBackendName() const override { return "shardsim"; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return num_calls_; }

  // Messages between these are one batch; collectives are a call each.
  void startCoalescing() override { coalesced_.emplace(); }
  WorkPtr endCoalescing() override {
    const Coalesced all = std::exchange(coalesced_, std::nullopt).value_or(Coalesced());
    if (all.messages.empty()) return work(all.last_work, all.tensors);
    return work(log(CallText(name_, "batch").messages(all.messages).text()), all.tensors);
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const auto root = static_cast<int>(options.rootRank);
    for (const at::Tensor& tensor : tensors) {
      if (const auto values = exchange(tensor)) set_values(tensor, (*values)[place(root)]);
    }
    return post(tensors, CallText(name_, "broadcast").buffer(tensors).root(root));
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
    for (const at::Tensor& tensor : tensors) {
      const auto values = exchange(tensor);
      if (values && root == getRank()) set_values(tensor, reduced(*values, options.reduceOp));
    }
    return post(tensors,
                CallText(name_, "reduce").buffer(tensors).reduction(options.reduceOp).root(root));
  }

  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions&) override {
    if (const auto values = exchange(input)) set_values(output, at::cat(flat(*values)));
    return post({output}, CallText(name_, "all_gather").buffer({output}));
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    WorkPtr last;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      last = _allgather_base(outputs[i], inputs[i], options);
    }
    return last;
  }
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions&) override {
    for (std::size_t i = 0; i < outputs.size(); ++i) gather_into(outputs[i], inputs[i]);
    return post(outputs.front(), CallText(name_, "all_gather").buffer(outputs.front()));
  }

  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    if (const auto values = exchange(input)) {
      set_values(output, chunk(reduced(*values, options.reduceOp), getRank()));
    }
    return post({output},
                CallText(name_, "reduce_scatter").buffer({input}).reduction(options.reduceOp));
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
    WorkPtr last;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      last = _reduce_scatter_base(outputs[i], inputs[i], options);
    }
    return last;
  }
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    return post(
        outputs,
        CallText(name_, "reduce_scatter").buffer(inputs.front()).reduction(options.reduceOp));
  }

  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    if (!outputs.empty()) {
      gather_into(outputs.front(), inputs.front());
    } else {
      (void)exchange(inputs.front());
    }
    const auto root = static_cast<int>(options.rootRank);
    const Tensors& result = outputs.empty() ? inputs : outputs.front();
    return post(result, CallText(name_, "gather").parts(inputs.front(), getSize()).root(root));
  }
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    const auto root = static_cast<int>(options.rootRank);
    if (!inputs.empty()) outputs.front().copy_(inputs.front()[place(getRank())]);
    return post(outputs, CallText(name_, "scatter").parts(outputs.front(), getSize()).root(root));
  }

  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& to,
                        std::vector<std::int64_t>& from, const c10d::AllToAllOptions&) override {
    // Names are those of the base class: `to` are sizes of the output.
    const std::vector<std::int64_t> received = split(output, to);
    const std::vector<std::int64_t> sent = split(input, from);
    if (from.empty() && to.empty()) exchange_chunks(output, input);
    return post({output}, CallText(name_, "all_to_all").type(input).counts(sent, received));
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions&) override {
    std::vector<std::int64_t> sent;
    std::vector<std::int64_t> received;
    for (const at::Tensor& tensor : inputs) sent.push_back(tensor.numel());
    for (const at::Tensor& tensor : outputs) received.push_back(tensor.numel());
    return post(outputs, CallText(name_, "all_to_all").type(inputs.front()).counts(sent, received));
  }

  WorkPtr send(Tensors& tensors, int to, int) override {
    leave_message(tensors.front(), to);
    return post_message(tensors, {true, to, tensors.front()});
  }
  WorkPtr recv(Tensors& tensors, int from, int) override {
    take_message(tensors.front(), from);
    return post_message(tensors, {false, from, tensors.front()});
  }
  WorkPtr recvAnysource(Tensors&, int) override {
    TORCH_CHECK(false, "shardsim: a receive from any rank cannot be recorded: it depends on time");
  }

  WorkPtr barrier(const c10d::BarrierOptions&) override {
    const std::int64_t number = log(CallText(name_, "barrier").text());
    // Its host waits.
    Log::get().add({.kind = EntryKind::wait, .stream = current_stream(), .number = number});
    Log::get().add({.kind = EntryKind::synchronize, .stream = current_stream()});
    return work(0, {});
  }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool) override { barrier(options); }

 private:
  struct Coalesced {
    std::vector<CallMessage> messages;
    Tensors tensors;
    std::int64_t last_work = 0;
  };

  static std::size_t place(int member) { return static_cast<std::size_t>(member); }

  // --- The log ---------------------------------------------------------------------------------

  std::int64_t log(const std::string& text) {
    const std::int64_t number = next_work++;
    ++num_calls_;
    Log::get().add_call(current_stream(), text, number, stream_);
    return number;
  }
  WorkPtr work(std::int64_t number, const Tensors& results) {
    return c10::make_intrusive<LoggedWork>(number, stream_, results);
  }
  // Calls with tensors of the host move nothing on the device.
  WorkPtr post(const Tensors& results, const CallText& call) {
    if (!call.is_of_device()) return work(0, results);
    const std::int64_t number = log(call.text());
    if (coalesced_) coalesced_->last_work = number;
    return work(number, results);
  }
  WorkPtr post_message(const Tensors& tensors, const CallMessage& message) {
    if (!tensors.front().is_cuda()) return work(0, tensors);
    if (coalesced_) {
      coalesced_->messages.push_back(message);
      coalesced_->tensors.insert(coalesced_->tensors.end(), tensors.begin(), tensors.end());
      return work(0, tensors);
    }
    return work(log(CallText(name_, message.sends ? "send" : "recv").messages({message}).text()),
                tensors);
  }

  // --- Values of others ------------------------------------------------------------------------

  WorkPtr all_reduce(Tensors& tensors, const ReduceOp& op) {
    for (const at::Tensor& tensor : tensors) {
      if (const auto values = exchange(tensor)) set_values(tensor, reduced(*values, op));
    }
    return post(tensors, CallText(name_, "all_reduce").buffer(tensors).reduction(op));
  }

  void gather_into(const Tensors& outputs, const at::Tensor& input) {
    const auto values = exchange(input);
    for (std::size_t i = 0; values && i < outputs.size(); ++i) set_values(outputs[i], (*values)[i]);
  }

  // The recorded rank that stands for a member, if it is one of this group's.
  [[nodiscard]] std::optional<int> stand_in(std::size_t member) const {
    const int own = members_[place(getRank())];
    if (recorders.store == nullptr || recorders.representative.empty()) return own;
    const int other = recorders.representative[static_cast<std::size_t>(members_[member])];
    const bool is_member = std::find(members_.begin(), members_.end(), other) != members_.end();
    return is_member ? other : own;
  }

  // By member, the values of its part; none where they are not known, or are many.
  std::optional<std::vector<at::Tensor>> exchange(const at::Tensor& own) {
    if (static_cast<std::size_t>(own.nbytes()) > kSmallBytes) return std::nullopt;
    const std::string key = name_ + "/" + std::to_string(num_exchanges_++) + "/";
    const bool known = is_known(own) && is_small(own);
    const int self = members_[place(getRank())];
    if (recorders.store != nullptr) {
      recorders.store->set(key + std::to_string(self),
                           known ? bytes_of(own) : std::vector<std::uint8_t>());
    }
    std::map<int, at::Tensor> values;
    if (known) values[self] = on_host(own).contiguous();
    std::vector<at::Tensor> all;
    for (std::size_t member = 0; member < members_.size(); ++member) {
      const int other = *stand_in(member);
      if (other != self && values.count(other) == 0) {
        const std::vector<std::uint8_t> bytes = recorders.store->get(key + std::to_string(other));
        if (!bytes.empty()) values[other] = tensor_of(bytes, own);
      }
      const auto found = values.find(other);
      if (found == values.end()) return std::nullopt;
      all.push_back(found->second);
    }
    return all;
  }

  void exchange_chunks(const at::Tensor& output, const at::Tensor& input) {
    const auto values = exchange(input);
    if (!values) return;
    std::vector<at::Tensor> parts;
    for (const at::Tensor& other : *values) parts.push_back(chunk(other, getRank()));
    set_values(output, at::cat(flat(parts)));
  }

  // Messages between two recorded ranks.
  [[nodiscard]] std::string message_key(int from, int to) {
    const int count = num_messages_[{from, to}]++;
    return name_ + "/" + std::to_string(from) + ">" + std::to_string(to) + "/" +
           std::to_string(count);
  }
  [[nodiscard]] bool is_recorded(int member) const {
    const int rank = members_[place(member)];
    return recorders.store != nullptr && !recorders.representative.empty() &&
           recorders.representative[static_cast<std::size_t>(rank)] == rank;
  }
  void leave_message(const at::Tensor& tensor, int to) {
    const std::string key = message_key(getRank(), to);
    if (!is_recorded(to) || static_cast<std::size_t>(tensor.nbytes()) > kSmallBytes) return;
    const bool known = is_known(tensor) && is_small(tensor);
    recorders.store->set(key, known ? bytes_of(tensor) : std::vector<std::uint8_t>());
  }
  void take_message(const at::Tensor& tensor, int from) {
    const std::string key = message_key(from, getRank());
    if (!is_recorded(from) || static_cast<std::size_t>(tensor.nbytes()) > kSmallBytes) return;
    const std::vector<std::uint8_t> bytes = recorders.store->get(key);
    if (!bytes.empty()) set_values(tensor, tensor_of(bytes, tensor));
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
  [[nodiscard]] std::vector<std::int64_t> split(const at::Tensor& tensor,
                                                const std::vector<std::int64_t>& rows) const {
    const std::int64_t width =
        tensor.dim() == 0 || tensor.size(0) == 0 ? 1 : tensor.numel() / tensor.size(0);
    std::vector<std::int64_t> elements;
    for (const std::int64_t count : rows) elements.push_back(count * width);
    if (rows.empty()) elements.assign(place(getSize()), tensor.numel() / getSize());
    return elements;
  }

  std::string name_;
  std::vector<int> members_;
  StreamNumber stream_;
  std::uint64_t num_calls_ = 0;
  std::int64_t num_exchanges_ = 0;
  std::map<std::pair<int, int>, int> num_messages_;
  std::optional<Coalesced> coalesced_;
};

}  // namespace

void set_recorders(Recorders given) { recorders = std::move(given); }

c10::intrusive_ptr<c10d::Backend> make_group(const std::string& name, int rank,
                                             const std::vector<int>& members) {
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
