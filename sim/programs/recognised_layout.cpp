#include "sim/programs/recognised_layout.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

namespace shardsim {

namespace {

class LayoutReader {
 public:
  LayoutReader(const ProgramSet& set, const StepFacts& first, const RecognisedBlock& block)
      : first_(first), block_(block), world_(static_cast<int>(set.programs.of_rank.size())) {
    read_pipeline(set);
  }

  RecognisedLayout read() {
    is_v_ = ranks_.size() > 1 && recognise_vocabulary(first_, block_) > 0;
    count_work();
    first_backward_ = first_.next(StepEventKind::attention_backward, 0);
    find_tensor_parallel();
    for (const StepEvent& event : first_.events) {
      if (event.call != nullptr) sort_call(event);
    }
    layout_.clips = first_.operations.contains("linalg_vector_norm") ||
                    first_.operations.contains("_foreach_norm");
    read_data_parallel();
    check_axes();
    if (layout_.pp > 1) {
      layout_.schedule = recognise_schedule(ranks_, layout_, block_, is_v_);
    }
    return layout_;
  }

 private:
  // All ranks that messages reach from the first.
  void read_pipeline(const ProgramSet& set) {
    std::map<int, StepFacts> reached;
    std::vector<int> waiting = {first_.rank};
    while (!waiting.empty()) {
      const int rank = waiting.back();
      waiting.pop_back();
      if (reached.contains(rank)) continue;
      const StepFacts& facts = reached.emplace(rank, step_facts_of(set, rank)).first->second;
      for (const int peer : facts.peers()) waiting.push_back(peer);
    }
    layout_.pp = static_cast<int>(reached.size());
    const int stride = world_ / layout_.pp;
    int next = 0;
    for (auto& [rank, facts] : reached) {
      if (rank != next) {
        throw no_such_training(fmt::format(
            "messages go from rank 0 to rank {}: stages lie every {} ranks here", rank, stride));
      }
      next += stride;
      ranks_.push_back(std::move(facts));
    }
  }

  void count_work() {
    const StepFacts& last = is_v_ ? ranks_.front() : ranks_.back();
    layout_.vocabulary = recognise_vocabulary(last, block_);
    layout_.microbatches = std::ranges::count_if(last.events, [&](const StepEvent& event) {
      return event.kind == StepEventKind::product && event.shape.m == block_.tokens &&
             event.shape.n == layout_.vocabulary && event.shape.k == block_.hidden;
    });
    if (layout_.vocabulary == 0 || layout_.microbatches == 0) {
      throw no_such_training(fmt::format(
          "no product of rank {} is told apart as the head, which makes logits of {} columns",
          last.rank, block_.hidden));
    }
    const auto microbatches = static_cast<std::size_t>(layout_.microbatches);
    for (const StepFacts& rank : ranks_) {
      const std::size_t forward = rank.count(StepEventKind::attention);
      const std::size_t backward = rank.count(StepEventKind::attention_backward);
      layout_.recomputes = forward == 2 * backward;
      if ((forward != backward && !layout_.recomputes) || backward % microbatches != 0) {
        throw no_such_training(
            fmt::format("rank {} has {} attentions forward and {} backward in {} microbatches",
                        rank.rank, forward, backward, microbatches));
      }
      layout_.layers.push_back(static_cast<std::int64_t>(backward / microbatches));
    }
    if (layout_.pp > 1) count_chunks();
  }

  // The first rank sends forwards of all its chunks, and backwards of all but the first.
  void count_chunks() {
    std::int64_t sent = 0;
    for (const StepEvent& event : ranks_.front().events) {
      if (event.call == nullptr) continue;
      sent += std::ranges::count(event.call->messages, true, &ProgramMessage::sends);
    }
    layout_.vpp = is_v_ ? 2 : static_cast<int>((sent / layout_.microbatches + 1) / 2);
  }

  [[nodiscard]] bool moves_activation(const StepEvent& event) const {
    return event.call != nullptr && event.call->record.count == block_.tokens * block_.hidden;
  }

  // Two calls of an activation for each block in forward: a sharded unit has one.
  void find_tensor_parallel() {
    std::map<std::size_t, int> sums;
    std::map<std::size_t, int> gathers;
    int blocks = 0;
    for (std::size_t i = 0; i < first_backward_; ++i) {
      const StepEvent& event = first_.events[i];
      if (event.kind == StepEventKind::attention) ++blocks;
      if (!moves_activation(event)) continue;
      if (sums_for_all(*event.call)) ++sums[event.group];
      if (gathers_for_all(*event.call)) ++gathers[event.group];
    }
    for (const auto* calls : {&sums, &gathers}) {
      for (const auto& [group, count] : *calls) {
        if (count < 2 * blocks) continue;
        tensor_ = group;
        layout_.sequence_parallel = calls == &gathers;
      }
    }
    if (!tensor_) return;
    layout_.tp = first_.groups[*tensor_].size();
    // Cut logits are gathered, or reduced row by row; whole ones are neither.
    const StepFacts& last = is_v_ ? ranks_.front() : ranks_.back();
    const bool is_cut = std::ranges::any_of(last.events, [&](const StepEvent& event) {
      if (event.call == nullptr || event.group != *tensor_) return false;
      const std::int64_t count = event.call->record.count;
      return (sums_for_all(*event.call) && count == block_.tokens) ||
             (gathers_for_all(*event.call) && count % layout_.tp == 0 &&
              count / layout_.tp == block_.tokens * layout_.vocabulary);
    });
    if (is_cut) layout_.vocabulary *= layout_.tp;
  }

  void sort_call(const StepEvent& event) {
    const ProgramCall& call = *event.call;
    if (call.kind != CallKind::collective || event.group == tensor_ || is_scalar(call)) return;
    const StepGroup& group = first_.groups[event.group];
    const auto take = [&](std::optional<std::size_t>& known) {
      if (known && first_.groups[*known].members != group.members) {
        throw no_such_training(fmt::format("gradients go over two groups: {} and {}",
                                           first_.groups[*known].name, group.name));
      }
      known = event.group;
    };
    if (sums_in_parts(call) || gathers_for_all(call)) {
      take(shards_);
    } else if (sums_for_all(call)) {
      take(replicas_);
    } else {
      throw no_such_training(
          fmt::format("{} of {} elements over group {}, which is of no strategy here",
                      call.record.name, call.record.count, group.name));
    }
  }

  // Calls of the shards' group of the size that is most frequent: those of a block.
  struct UnitCalls {
    std::int64_t gathers = 0;
    std::int64_t sums = 0;
    bool gathers_in_forward = false;
  };
  [[nodiscard]] UnitCalls unit_calls() const {
    std::map<std::int64_t, UnitCalls> by_size;
    for (std::size_t i = 0; i < first_.events.size(); ++i) {
      const StepEvent& event = first_.events[i];
      if (event.call == nullptr || event.group != *shards_ || is_scalar(*event.call)) continue;
      UnitCalls& calls = by_size[event.call->record.count];
      if (sums_in_parts(*event.call)) ++calls.sums;
      if (!gathers_for_all(*event.call)) continue;
      ++calls.gathers;
      calls.gathers_in_forward |= i < first_backward_;
    }
    return std::ranges::max_element(
               by_size, {},
               [](const auto& entry) { return entry.second.gathers + entry.second.sums; })
        ->second;
  }

  void read_data_parallel() {
    if (!shards_) {
      if (replicas_) layout_.dp_shard = first_.groups[*replicas_].size();
    } else {
      layout_.dp_shard = first_.groups[*shards_].size();
      if (replicas_) layout_.dp_replicate = first_.groups[*replicas_].size();
      const UnitCalls calls = unit_calls();
      const std::int64_t runs = layout_.layers.front() * layout_.microbatches;
      layout_.zero_stage = calls.gathers_in_forward ? 3 : 1;
      layout_.reshards = 2 * calls.gathers > 3 * runs;
      layout_.reduces_every_microbatch = calls.sums >= runs;
    }
    for (const StepEvent& event : first_.events) {
      if (event.call == nullptr || is_scalar(*event.call)) continue;
      const bool sums = sums_in_parts(*event.call) || sums_for_all(*event.call);
      if (!sums || (event.group != shards_ && event.group != replicas_)) continue;
      layout_.reduced = event.call->record.dtype;
      // Replicas of shards reduce the same once more.
      if (!shards_ || event.group == shards_) layout_.num_reduced += event.call->record.count;
    }
    if (layout_.reduces_every_microbatch) layout_.num_reduced /= layout_.microbatches;
  }

  void check_axes() {
    const int data = layout_.dp_shard * layout_.dp_replicate;
    if (layout_.tp * data * layout_.pp != world_) {
      throw no_such_training(fmt::format(
          "tp {} x data parallel {} x pp {} are {} of {} ranks; what the others share is not "
          "recognised",
          layout_.tp, data, layout_.pp, layout_.tp * data * layout_.pp, world_));
    }
    layout_.tp_is_outside_dp =
        tensor_ && data > 1 && first_.groups[*tensor_].stride() == data && layout_.tp > 1;
    const int inner = layout_.tp_is_outside_dp ? 1 : layout_.tp;
    require_stride(tensor_, layout_.tp_is_outside_dp ? data : 1, "tensor-parallel");
    if (shards_) require_stride(shards_, inner, "sharded");
    require_stride(replicas_, shards_ ? inner * layout_.dp_shard : inner, "replicated");
  }

  void require_stride(const std::optional<std::size_t>& group, int stride, const char* what) const {
    if (!group || first_.groups[*group].stride() == stride) return;
    throw no_such_training(fmt::format("{} ranks lie every {} ranks, and every {} in a scenario",
                                       what, first_.groups[*group].stride(), stride));
  }

  const StepFacts& first_;
  const RecognisedBlock& block_;
  int world_;
  std::vector<StepFacts> ranks_;  // The pipeline, in the order of stages.
  bool is_v_ = false;             // The last stage is on the first rank.
  std::size_t first_backward_ = 0;
  std::optional<std::size_t> tensor_;  // Groups of the first rank.
  std::optional<std::size_t> shards_;
  std::optional<std::size_t> replicas_;
  RecognisedLayout layout_;
};

}  // namespace

std::int64_t RecognisedLayout::num_layers() const {
  return std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
}

RecognisedLayout recognise_layout(const ProgramSet& set, const StepFacts& first,
                                  const RecognisedBlock& block) {
  return LayoutReader(set, first, block).read();
}

}  // namespace shardsim
