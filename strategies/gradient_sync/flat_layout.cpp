#include "strategies/gradient_sync/flat_layout.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/gradient_sync/whole_matrices.hpp"

namespace shardsim {

namespace {

class OrderRecorder final : public ModuleParameters {
 public:
  OrderRecorder(Runtime& runtime, const Model& model, DType dtype) {
    for (const ParameterSpec& spec : model.parameters()) {
      tensors_.push_back(runtime.allocate(MemoryCategory::params, spec.shape, dtype));
    }
  }
  Tensor weight(int index) override { return tensors_[to_size(index)]; }
  Tensor gradient(int index) override {
    together_ = false;
    return tensors_[to_size(index)];
  }
  void gradient_ready(int index) override {
    if (!together_) order.emplace_back();
    order.back().push_back(index);
    together_ = true;
  }

  ReadyOrder order;

 private:
  std::vector<Tensor> tensors_;
  bool together_ = false;
};

// A parameter that backward never reports still needs a place: zero-filled, reduced last.
void append_unreported(ReadyOrder& order, std::size_t num_parameters) {
  std::vector<bool> reported(num_parameters, false);
  for (const std::vector<int>& together : order) {
    for (const int index : together) reported[to_size(index)] = true;
  }
  for (std::size_t index = num_parameters; index-- > 0;) {
    if (!reported[index]) order.push_back({static_cast<int>(index)});
  }
}

// The activations between stages are made up: the order does not depend on them.
void run_once(const Model& model, Runtime& runtime, OrderRecorder& recorder, const Batch& batch) {
  std::vector<Saved> saved(to_size(model.num_modules()));
  const auto of_chunk = [&](int chunk) {
    const ModuleRange modules = model.modules_of_chunk(chunk);
    return std::span<Saved>(saved).subspan(to_size(modules.first), to_size(modules.count));
  };
  const auto handed_over = [&] {
    return runtime.allocate(MemoryCategory::activations, model.activation_shape(1), model.dtype());
  };
  for (int chunk = 0; chunk < model.num_chunks(); ++chunk) {
    (void)forward_chunk(model, chunk, {runtime, recorder}, recorder, handed_over(), batch,
                        of_chunk(chunk));
  }
  for (int chunk = model.num_chunks() - 1; chunk >= 0; --chunk) {
    (void)backward_chunk(model, chunk, {runtime, recorder}, recorder, handed_over(), batch,
                         of_chunk(chunk));
  }
}

// Whether two parameters may lie in one bucket or unit.
bool go_together(const ParameterSpec& a, const ParameterSpec& b) {
  return a.chunk == b.chunk && !a.tied && !b.tied;
}

// Ranges of a chunk between and behind its parameters.
std::vector<ElementRange> gaps_of(const FlatLayout& layout, const FlatChunk& chunk) {
  std::vector<ElementRange> gaps;
  std::int64_t end = 0;
  const auto add = [&](std::int64_t begin) {
    if (begin > end) gaps.push_back({end, begin});
  };
  for (const int parameter : chunk.parameters) {
    const std::int64_t begin = layout.place(parameter).offset;
    add(begin);
    end = begin + layout.shape(parameter).numel();
  }
  add(chunk.padded);
  return gaps;
}

std::vector<std::vector<ElementRange>> padding_of(const Model& model, const FlatLayout& layout,
                                                  const FlatChunk& chunk) {
  std::vector<std::vector<ElementRange>> padding;
  for (const int parameter : chunk.parameters) {
    const std::int64_t begin = layout.place(parameter).offset;
    const ParameterSpec& spec = spec_of(model, parameter);
    for (int part = 0; part < spec.split.parts; ++part) {
      for (const ElementRange& range : filling(spec, part)) {
        padding.resize(to_size(spec.split.parts));
        padding[to_size(part)].push_back({begin + range.begin, begin + range.end});
      }
    }
  }
  const std::vector<ElementRange> gaps = gaps_of(layout, chunk);
  const bool only_at_end = gaps.empty() || gaps.front().begin == chunk.numel;
  if (padding.empty() && !only_at_end) padding.emplace_back();
  for (std::vector<ElementRange>& ranges : padding) {
    ranges.insert(ranges.end(), gaps.begin(), gaps.end());
    std::sort(ranges.begin(), ranges.end(),
              [](const ElementRange& a, const ElementRange& b) { return a.begin < b.begin; });
  }
  return padding;
}

}  // namespace

// The bucket of one rule that is open: see FlatLayout::buckets.
class BucketFiller {
 public:
  BucketFiller(FlatLayout& layout, const Model& model, std::int64_t minimum_numel, bool packs)
      : layout_(layout), model_(model), minimum_numel_(minimum_numel), packs_(packs) {}

  /// Parameters of one rule that are reported together. `cap`: elements of a bucket, as of now.
  void add(const std::vector<int>& together, const std::function<std::int64_t()>& cap) {
    if (together.empty()) return;
    std::int64_t size = 0;
    for (const int parameter : together) size += numel_of(parameter);
    if (is_full(size, cap())) close();
    for (const int parameter : together) {
      if (is_full(numel_of(parameter), cap()) || !joins(parameter)) close();
      members_.push_back(parameter);
      numel_ += numel_of(parameter);
      if (packs_) packer().add(numel_of(parameter));
    }
  }
  void close() {
    if (members_.empty()) return;
    std::string label = "bucket " + std::to_string(layout_.chunks_.size());
    if (packs_) {
      layout_.add_packed_chunk(model_, std::move(label), packer().pack(model_, members_));
    } else {
      layout_.add_chunk(model_, std::move(label), std::move(members_));
    }
    members_.clear();
    numel_ = 0;
  }

 private:
  [[nodiscard]] std::int64_t numel_of(int parameter) const {
    return layout_.shape(parameter).numel();
  }
  [[nodiscard]] bool is_full(std::int64_t more, std::int64_t cap) {
    if (packs_) return packer().is_full(more, std::max(cap, minimum_numel_));
    return numel_ + more > cap && numel_ >= minimum_numel_;
  }
  [[nodiscard]] bool joins(int parameter) const {
    return members_.empty() ||
           go_together(spec_of(model_, members_.back()), spec_of(model_, parameter));
  }
  WholeMatrixPacker& packer() {
    if (!packer_) packer_.emplace(layout_.num_shards());
    return *packer_;
  }

  FlatLayout& layout_;
  const Model& model_;
  std::int64_t minimum_numel_;
  bool packs_;
  std::optional<WholeMatrixPacker> packer_;
  std::vector<int> members_;
  std::int64_t numel_ = 0;
};

ReadyOrder gradient_ready_order(const Model& model, DType dtype) {
  ShapesOnlyRuntime runtime;
  OrderRecorder recorder(runtime, model, dtype);
  const Batch batch = model.make_batch(runtime, 0, 0, 1, 0.0);
  run_once(model, runtime, recorder, batch);
  append_unreported(recorder.order, model.parameters().size());
  return std::move(recorder.order);
}

std::int64_t FlatChunk::padding(int tp_rank, std::int64_t begin, std::int64_t end) const {
  if (padding_at.empty()) return std::max<std::int64_t>(end - std::max(begin, numel), 0);
  return overlap(ranges_of(tp_rank), begin, end);
}

CallOptions FlatChunk::call_options(int tp_rank) const {
  CallOptions options{.label = label.c_str(), .padding = padding(tp_rank, 0, padded)};
  if (!padding_at.empty()) options.padding_at = ranges_of(tp_rank);
  return options;
}

FlatLayout::FlatLayout(const Model& model, int num_shards) : num_shards_(num_shards) {
  for (const ParameterSpec& spec : model.parameters()) shapes_.push_back(spec.shape);
  places_.resize(shapes_.size());
}

void FlatLayout::add_chunk(const Model& model, std::string label, std::vector<int> parameters) {
  FlatChunk chunk{.label = std::move(label), .parameters = std::move(parameters)};
  for (const int parameter : chunk.parameters) {
    places_[to_size(parameter)].offset = chunk.numel;
    chunk.numel += shape(parameter).numel();
  }
  chunk.padded = (chunk.numel + num_shards_ - 1) / num_shards_ * num_shards_;
  finish_chunk(model, std::move(chunk));
}

void FlatLayout::add_packed_chunk(const Model& model, std::string label,
                                  const PackedMatrices& packed) {
  FlatChunk chunk{.label = std::move(label), .parameters = packed.parameters};
  for (std::size_t i = 0; i < packed.parameters.size(); ++i) {
    places_[to_size(packed.parameters[i])].offset = packed.offsets[i];
    chunk.numel += shape(packed.parameters[i]).numel();
  }
  chunk.padded = packed.shard * num_shards_;
  finish_chunk(model, std::move(chunk));
}

void FlatLayout::finish_chunk(const Model& model, FlatChunk chunk) {
  for (const int parameter : chunk.parameters) {
    places_[to_size(parameter)].chunk = static_cast<int>(chunks_.size());
  }
  const ParameterSpec& first = spec_of(model, chunk.parameters.front());
  chunk.model_chunk = first.chunk;
  chunk.matrices = has_apart_ && first.has_matrices();
  chunk.padding_at = padding_of(model, *this, chunk);
  chunk.offset = padded_;
  chunk.state_offset = padded_of(chunk.matrices);
  numel_ += chunk.numel;
  padded_ += chunk.padded;
  if (chunk.matrices) padded_matrices_ += chunk.padded;
  chunks_.push_back(std::move(chunk));
}

FlatLayout FlatLayout::buckets(const Model& model, const ReadyOrder& ready_order,
                               std::int64_t bucket_bytes, std::int64_t first_bucket_bytes,
                               DType gradient_dtype, int num_shards, std::int64_t minimum_numel,
                               MatrixBuckets matrices) {
  FlatLayout layout(model, num_shards);
  layout.has_apart_ = matrices != MatrixBuckets::mixed;
  BucketFiller rest(layout, model, minimum_numel, false);
  BucketFiller of_matrices(layout, model, minimum_numel, matrices == MatrixBuckets::whole);
  const auto cap = [&] {
    return (layout.chunks_.empty() ? first_bucket_bytes : bucket_bytes) / size_of(gradient_dtype);
  };
  for (const std::vector<int>& together : ready_order) {
    std::vector<int> of_rule[2];
    for (const int parameter : together) {
      const bool is_apart = layout.has_apart_ && spec_of(model, parameter).has_matrices();
      of_rule[is_apart ? 1 : 0].push_back(parameter);
    }
    rest.add(of_rule[0], cap);
    of_matrices.add(of_rule[1], cap);
  }
  of_matrices.close();
  rest.close();
  return layout;
}

FlatLayout FlatLayout::units(const Model& model, int num_shards) {
  FlatLayout layout(model, num_shards);
  for (const ParameterUnit& unit : model.units()) {
    std::vector<int> members;
    for (int i = 0; i < unit.count; ++i) members.push_back(unit.first + i);
    layout.add_chunk(model, unit.name, std::move(members));
  }
  return layout;
}

void FlatLayout::for_each_piece(int index, std::int64_t begin, std::int64_t end,
                                const PieceVisitor& visit) const {
  for (const int parameter : chunk(index).parameters) {
    const std::int64_t start = place(parameter).offset;
    const std::int64_t stop = start + shape(parameter).numel();
    const std::int64_t from = std::max(start, begin);
    const std::int64_t to = std::min(stop, end);
    if (from < to) visit(parameter, from - start, to - from, from - begin);
  }
}

void OtherUnits::list_units(const std::vector<int>& number_of) {
  for (int module = 0; module < inner_.num_modules(); ++module) {
    std::vector<int>& numbers = module_units_.emplace_back();
    for (const int unit : inner_.units_of(module)) {
      const int number = number_of[to_size(unit)];
      if (number == kNoUnit) continue;
      if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) {
        numbers.push_back(number);
      }
    }
  }
}

GroupedUnits::GroupedUnits(const Model& inner, std::int64_t minimum_numel) : OtherUnits(inner) {
  std::vector<int> group_of;  // By unit of the inner model.
  std::int64_t numel = 0;     // Size of the group being filled.
  for (const ParameterUnit& unit : inner.units()) {
    const ParameterSpec& spec = spec_of(inner, unit.first);
    const auto joins = [&] {
      if (units_.empty() || numel >= minimum_numel) return false;
      const ParameterUnit& last = units_.back();
      const ParameterSpec& before = spec_of(inner, last.first);
      return go_together(before, spec) && before.expert == spec.expert &&
             last.first + last.count == unit.first;
    };
    if (joins()) {
      units_.back().name += "+" + unit.name;
      units_.back().count += unit.count;
    } else {
      units_.push_back(unit);
      numel = 0;
    }
    for (int i = unit.first; i < unit.first + unit.count; ++i) {
      numel += spec_of(inner, i).shape.numel();
    }
    group_of.push_back(static_cast<int>(units_.size()) - 1);
  }
  list_units(group_of);
}

}  // namespace shardsim
