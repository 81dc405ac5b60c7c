#include "sim/app/desk/exchange/call_recorder.hpp"

#include <utility>

namespace shardsim {

namespace {

// Without buffers.
RecordedCall silent(const char* name) {
  RecordedCall call;
  call.name = name;
  call.is_scalar = true;
  return call;
}

class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(Communicator& inner, RunCalls& record, int world_rank, int group)
      : inner_(inner), record_(record), world_rank_(world_rank), group_(group) {
    stream_ = record_.open_stream(world_rank, inner.name(), group);
  }
  RecordingCommunicator(std::unique_ptr<Communicator> inner, RunCalls& record, int world_rank,
                        int group)
      : RecordingCommunicator(*inner, record, world_rank, group) {
    owned_ = std::move(inner);
  }

  [[nodiscard]] int rank() const override { return inner_.rank(); }
  [[nodiscard]] int size() const override { return inner_.size(); }
  [[nodiscard]] const std::string& name() const override { return inner_.name(); }
  [[nodiscard]] const TrafficCounters* counters() const override { return inner_.counters(); }

  Work all_reduce(const Tensor& buffer, ReduceOp op, const CallOptions& options,
                  CallSite site) override {
    note("all_reduce", buffer, buffer, options, op);
    return inner_.all_reduce(buffer, op, options, site);
  }
  Work reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                      const CallOptions& options, CallSite site) override {
    note("reduce_scatter", input, output, options, op);
    return inner_.reduce_scatter(output, input, op, options, site);
  }
  Work all_gather(const Tensor& output, const Tensor& input, const CallOptions& options,
                  CallSite site) override {
    note("all_gather", input, output, options);
    return inner_.all_gather(output, input, options, site);
  }
  Work all_to_all(const Tensor& output, const Tensor& input,
                  std::span<const std::int64_t> send_counts,
                  std::span<const std::int64_t> recv_counts, const CallOptions& options,
                  CallSite site) override {
    note("all_to_all", input, output, options);
    return inner_.all_to_all(output, input, send_counts, recv_counts, options, site);
  }
  Work broadcast(const Tensor& buffer, int root, const CallOptions& options,
                 CallSite site) override {
    note("broadcast", buffer, buffer, options, ReduceOp::sum, root);
    return inner_.broadcast(buffer, root, options, site);
  }
  Work reduce(const Tensor& buffer, ReduceOp op, int root, const CallOptions& options,
              CallSite site) override {
    note("reduce", buffer, buffer, options, op, root);
    return inner_.reduce(buffer, op, root, options, site);
  }
  Work gather(const Tensor& output, const Tensor& input, int root, const CallOptions& options,
              CallSite site) override {
    note("gather", input, root == rank() ? output : input, options, ReduceOp::sum, root);
    return inner_.gather(output, input, root, options, site);
  }
  Work scatter(const Tensor& output, const Tensor& input, int root, const CallOptions& options,
               CallSite site) override {
    note("scatter", root == rank() ? input : output, output, options, ReduceOp::sum, root);
    return inner_.scatter(output, input, root, options, site);
  }
  Work barrier(const CallOptions& options, CallSite site) override {
    record_.add(world_rank_, stream_, silent("barrier"));
    return inner_.barrier(options, site);
  }
  Work send(const Tensor& buffer, int peer, const CallOptions& options, CallSite site) override {
    note_transfers("send", {{{P2pOp::Kind::send, buffer, peer}}});
    return inner_.send(buffer, peer, options, site);
  }
  Work recv(const Tensor& buffer, int peer, const CallOptions& options, CallSite site) override {
    note_transfers("recv", {{{P2pOp::Kind::recv, buffer, peer}}});
    return inner_.recv(buffer, peer, options, site);
  }
  Work batch(std::span<const P2pOp> operations, const CallOptions& options,
             CallSite site) override {
    note_transfers("batch", operations);
    return inner_.batch(operations, options, site);
  }
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                      CallSite site) override {
    record_.add(world_rank_, stream_, silent("split"));
    std::unique_ptr<Communicator> made = inner_.split(color, key, name, site);
    if (made == nullptr) return nullptr;
    const int group = record_.join(group_, num_splits_++, color, made->name(), made->rank(),
                                   made->size(), world_rank_);
    return std::make_unique<RecordingCommunicator>(std::move(made), record_, world_rank_, group);
  }

 private:
  void note(const char* name, const Tensor& input, const Tensor& output, const CallOptions& options,
            ReduceOp op = ReduceOp::sum, int root = -1) {
    record_.add(world_rank_, stream_,
                {.name = name,
                 .dtype = input.dtype(),
                 .op = op,
                 .input_elements = input.numel(),
                 .output_elements = output.numel(),
                 .root = root,
                 .is_scalar = options.traffic == TrafficClass::scalar,
                 .transfers = {}});
  }
  void note_transfers(const char* name, std::span<const P2pOp> operations) {
    RecordedCall call;
    call.name = name;
    for (const P2pOp& operation : operations) {
      call.dtype = operation.buffer.dtype();
      const bool sends = operation.kind == P2pOp::Kind::send;
      (sends ? call.input_elements : call.output_elements) += operation.buffer.numel();
      // Positions in the group; the record turns them into world ranks.
      call.transfers.push_back({sends, operation.peer, operation.buffer.numel()});
    }
    record_.add(world_rank_, stream_, std::move(call));
  }

  std::unique_ptr<Communicator> owned_;  // Null for the communicator of all ranks.
  Communicator& inner_;
  RunCalls& record_;
  int world_rank_;
  int group_;
  std::size_t stream_ = 0;
  int num_splits_ = 0;
};

constexpr int kNoParent = -1;

}  // namespace

std::function<std::unique_ptr<Communicator>(Communicator&)> RunCalls::hook() {
  return [this](Communicator& world) {
    const int rank = world.rank();
    const int group = join(kNoParent, 0, 0, world.name(), rank, world.size(), rank);
    return std::make_unique<RecordingCommunicator>(world, *this, rank, group);
  };
}

int RunCalls::join(int parent, int split, int color, const std::string& name, int position,
                   int size, int world_rank) {
  const auto [found, is_new] =
      keys_.try_emplace({parent, split, color}, static_cast<int>(groups_.size()));
  if (is_new) {
    groups_.push_back({name, std::vector<int>(static_cast<std::size_t>(size), -1)});
  }
  groups_[static_cast<std::size_t>(found->second)].members[static_cast<std::size_t>(position)] =
      world_rank;
  return found->second;
}

std::size_t RunCalls::open_stream(int world_rank, const std::string& name, int group) {
  std::vector<RecordedStream>& streams = streams_[static_cast<std::size_t>(world_rank)];
  streams.push_back({name, group, {}});
  return streams.size() - 1;
}

void RunCalls::add(int world_rank, std::size_t stream, RecordedCall call) {
  streams_[static_cast<std::size_t>(world_rank)][stream].calls.push_back(std::move(call));
}

}  // namespace shardsim
