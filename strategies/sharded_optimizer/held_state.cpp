#include "strategies/sharded_optimizer/held_state.hpp"

#include <algorithm>
#include <utility>

namespace shardsim {

namespace {

// Rows of a slice become one strided run.
void append(ElementRuns& runs, std::int64_t first, std::int64_t count) {
  if (!runs.empty() && runs.back().count == count) {
    ElementRun& last = runs.back();
    const std::int64_t stride = last.repeats == 1 ? first - last.first : last.stride;
    if (stride >= count && first == last.first + last.repeats * stride) {
      last.stride = stride;
      ++last.repeats;
      return;
    }
  }
  runs.push_back({.first = first, .count = count});
}

std::vector<std::int64_t> dims_of(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (int axis = 0; axis < shape.rank(); ++axis) dims.push_back(shape[axis]);
  return dims;
}

class ChunkLister {
 public:
  ChunkLister(const ParallelPlan& plan, const MeshPlace& place, std::vector<HeldChunk>& chunks)
      : plan_(plan),
        part_(plan.part(place)),
        ranges_(responsible_ranges(plan, place)),
        chunks_(chunks) {}

  void add(const StatePiece& piece) {
    const LocalRange& range = ranges_[to_size(piece.parameter)];
    const std::int64_t end = piece.first + piece.values.numel();
    HeldChunk main{.tensor = {}, .elements = {}, .values = {}, .main = true};
    HeldChunk copy{};
    add_part(copy, piece, piece.first, range.count > 0 ? range.first : end);
    if (range.count > 0) {
      add_part(main, piece, range.first, range.first + range.count);
      add_part(copy, piece, range.first + range.count, end);
    }
    for (HeldChunk* chunk : {&main, &copy}) {
      if (!chunk->elements.empty()) chunks_.push_back(std::move(*chunk));
    }
  }

 private:
  void add_part(HeldChunk& chunk, const StatePiece& piece, std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    StatePiece part = piece;
    part.first = begin;
    part.values = piece.values.view(begin - piece.first, {end - begin});
    for_each_whole_piece(part_, part, [&](const WholePiece& whole) {
      const ParameterSpec& spec = spec_of(plan_.whole(), whole.piece.parameter);
      const std::string_view kind =
          piece.kind == StateKind::parameter ? std::string_view("parameter") : piece.state;
      chunk.tensor = {.name = std::string(kind) + "/" + spec.name,
                      .dtype = piece.values.dtype(),
                      .shape = dims_of(spec.shape)};
      append(chunk.elements, whole.piece.first, whole.piece.values.numel());
      chunk.values.push_back(whole.piece.values);
    });
  }

  const ParallelPlan& plan_;
  ModelPart part_;
  std::vector<LocalRange> ranges_;
  std::vector<HeldChunk>& chunks_;
};

// The weights of a kind that this rank is responsible for.
void add_responsible_ranges(const ParallelPlan& plan, const MeshPlace& place, WeightKind kind,
                            std::vector<LocalRange>& ranges) {
  const ParallelOptions& options = plan.options();
  const Model& model = *plan.part(place).model;
  const FlatLayout& layout = plan.layout(place.pp, kind);
  const MeshShape& mesh = options.mesh;
  const bool sharded = options.zero_stage > 0;
  const int owners = sharded ? mesh.num_shards(kind) : 1;
  const int copies = sharded ? mesh.dp_replicate : mesh.num_owners(kind);
  const int copy = sharded ? place.dp_replicate : mesh.owner_of(place, kind);
  for (int chunk = 0; chunk < static_cast<int>(layout.chunks().size()); ++chunk) {
    const std::int64_t owned = layout.chunk(chunk).padded / owners;
    const std::int64_t owned_begin = sharded ? mesh.shard_of(place, kind) * owned : 0;
    const std::int64_t share = (owned + copies - 1) / copies;
    const std::int64_t begin = owned_begin + std::min(owned, copy * share);
    const std::int64_t end = owned_begin + std::min(owned, (copy + 1) * share);
    layout.for_each_piece(chunk, begin, end,
                          [&](int parameter, std::int64_t first, std::int64_t count, std::int64_t) {
                            if (!is_main_copy(spec_of(model, parameter), place)) return;
                            ranges[to_size(parameter)] = {first, count};
                          });
  }
}

}  // namespace

std::vector<LocalRange> responsible_ranges(const ParallelPlan& plan, const MeshPlace& place) {
  const ParallelOptions& options = plan.options();
  const Model& model = *plan.part(place).model;
  std::vector<LocalRange> ranges(model.parameters().size());
  add_responsible_ranges(plan, place, WeightKind::dense, ranges);
  if (options.mesh.experts_apart()) {
    add_responsible_ranges(plan, place, WeightKind::expert, ranges);
  }
  return ranges;
}

void for_each_responsible_run(const ParallelPlan& plan, const MeshPlace& place,
                              const std::function<void(const ResponsibleRun&)>& visit) {
  const ModelPart part = plan.part(place);
  const std::vector<LocalRange> ranges = responsible_ranges(plan, place);
  for (std::size_t local = 0; local < ranges.size(); ++local) {
    if (ranges[local].count == 0) continue;
    const int number = static_cast<int>(local);
    const ParameterSpec& spec = spec_of(*part.model, number);
    for_each_whole_run(spec, part.index().of(spec), ranges[local].first, ranges[local].count,
                       [&](const WholeRun& run) {
                         visit({.local = number,
                                .local_first = ranges[local].first + run.at,
                                .whole = part.whole_number(number),
                                .whole_first = run.whole_first,
                                .count = run.count});
                       });
  }
}

namespace {

const char* name_of(OperandKind kind) {
  switch (kind) {
    case OperandKind::input:
      return "input";
    case OperandKind::weight:
      return "weight";
    case OperandKind::gradient:
      return "gradient";
  }
  return "";
}

// Scales of experts are those of this rank's, as all ranks that have the same ones know them.
void add_scales(const ParallelPlan& plan, const MeshPlace& place, const DelayedScales& scales,
                std::vector<HeldChunk>& chunks) {
  const Model& model = *plan.part(place).model;
  const MeshShape& mesh = plan.options().mesh;
  const bool is_first = place == MeshPlace{.pp = place.pp};
  const bool is_first_expert = place.dp_replicate == 0 && mesh.etp_of(place) == 0 &&
                               mesh.expert_index(place) < mesh.expert_parts();
  for (const DelayedScales::Held& held : scales.held()) {
    const ParameterSpec& spec = spec_of(model, held.site.parameter);
    const std::int64_t here = held.multipliers.numel();
    const std::int64_t all = spec.expert ? here * mesh.ep : here;
    const std::int64_t first = spec.expert ? here * mesh.ep_of(place) : 0;
    const bool is_main = (spec.expert ? is_first_expert : is_first) && is_main_copy(spec, place);
    const std::int64_t length = last_dim(held.history);
    const std::string name = spec.name + "." + name_of(held.site.kind);
    chunks.push_back({.tensor = {"amax_history/" + name, DType::fp32, {all, length}},
                      .elements = flat_run(first * length, here * length),
                      .values = {held.history},
                      .main = is_main});
    chunks.push_back({.tensor = {"amax_multiplier/" + name, DType::fp32, {all}},
                      .elements = flat_run(first, here),
                      .values = {held.multipliers},
                      .main = is_main});
  }
}

}  // namespace

std::vector<HeldChunk> held_chunks(const ParallelPlan& plan, const MeshPlace& place,
                                   const GradientSync& sync, const ModelParallel& state) {
  std::vector<HeldChunk> chunks;
  ChunkLister lister(plan, place, chunks);
  const auto add = [&](const StatePiece& piece) { lister.add(piece); };
  sync.visit(StateKind::parameter, add);
  sync.visit(StateKind::optimizer_state, add);
  if (state.delayed_scales != nullptr) add_scales(plan, place, *state.delayed_scales, chunks);
  const RouterBiases* const biases = state.router_biases;
  if (biases == nullptr) return chunks;
  const bool is_first = place == MeshPlace{.pp = place.pp};
  for (std::size_t i = 0; i < biases->specs().size(); ++i) {
    const RouterBiasSpec& spec = biases->specs()[i];
    chunks.push_back({.tensor = {.name = "router_bias/" + spec.name,
                                 .dtype = spec.dtype,
                                 .shape = {spec.num_experts}},
                      .elements = flat_run(0, spec.num_experts),
                      .values = {biases->bias(i)},
                      .main = is_first});
  }
  return chunks;
}

}  // namespace shardsim
