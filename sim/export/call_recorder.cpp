#include "sim/export/call_recorder.hpp"

#include <utility>

#include "backends/wrapping_communicator.hpp"

namespace shardsim {

namespace {

// Without buffers.
RecordedCall silent(const char* name) {
  RecordedCall call;
  call.name = name;
  call.is_scalar = true;
  return call;
}

class RecordingCommunicator final : public WrappingCommunicator {
 public:
  RecordingCommunicator(Communicator& inner, RunCalls& record, int world_rank, int group)
      : WrappingCommunicator(inner), record_(record), world_rank_(world_rank), group_(group) {
    stream_ = record_.open_stream(world_rank, inner.name(), group);
  }
  RecordingCommunicator(std::unique_ptr<Communicator> inner, RunCalls& record, int world_rank,
                        int group)
      : WrappingCommunicator(std::move(inner)),
        record_(record),
        world_rank_(world_rank),
        group_(group) {
    stream_ = record_.open_stream(world_rank, name(), group);
  }

  Work post(const Call& call) override {
    if (call.kind != CallKind::collective) {
      note_transfers(call);
    } else if (call.collective == CollectiveKind::barrier) {
      record_.add(world_rank_, stream_, silent("barrier"));
    } else {
      note_collective(call);
    }
    return inner().post(call);
  }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                                    CallSite site) override {
    record_.add(world_rank_, stream_, silent("split"));
    std::unique_ptr<Communicator> made = inner().split(color, key, name, site);
    if (made == nullptr) return nullptr;
    const int group = record_.join(group_, num_splits_++, color, made->name(), made->rank(),
                                   made->size(), world_rank_);
    return std::make_unique<RecordingCommunicator>(std::move(made), record_, world_rank_, group);
  }

 private:
  void note_collective(const Call& call) {
    const Tensor* input = call.input;
    const Tensor* output = call.output;
    // Only the root has the full buffer; on other ranks the chunk is used for both.
    if (call.record.root != rank()) {
      if (call.collective == CollectiveKind::gather) output = input;
      if (call.collective == CollectiveKind::scatter) input = output;
    }
    record_.add(world_rank_, stream_,
                {.name = call.record.name,
                 .dtype = call.record.dtype,
                 .op = call.record.reduce,
                 .input_elements = input->numel(),
                 .output_elements = output->numel(),
                 .root = call.record.root,
                 .is_scalar = call.record.traffic == TrafficClass::scalar,
                 .transfers = {}});
  }
  void note_transfers(const Call& call) {
    RecordedCall noted;
    noted.name = call.record.name;
    for (const P2pOp& half : call.halves) {
      noted.dtype = half.buffer.dtype();
      const bool sends = half.kind == P2pOp::Kind::send;
      (sends ? noted.input_elements : noted.output_elements) += half.buffer.numel();
      // Positions in the group; the record turns them into world ranks.
      noted.transfers.push_back({sends, half.peer, half.buffer.numel()});
    }
    record_.add(world_rank_, stream_, std::move(noted));
  }

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
