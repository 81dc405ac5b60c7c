#include "strategies/gradient_sync/flat_layout.hpp"

#include <algorithm>
#include <utility>

#include "sim/kernel/error.hpp"

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

std::vector<std::vector<ElementRange>> padding_of(const Model& model, const FlatChunk& chunk) {
  std::vector<std::vector<ElementRange>> padding;
  std::int64_t begin = 0;
  for (const int parameter : chunk.parameters) {
    const ParameterSpec& spec = spec_of(model, parameter);
    for (int part = 0; part < spec.split.parts; ++part) {
      for (const ElementRange& range : filling(spec, part)) {
        padding.resize(to_size(spec.split.parts));
        padding[to_size(part)].push_back({begin + range.begin, begin + range.end});
      }
    }
    begin += spec.shape.numel();
  }
  if (chunk.padded > chunk.numel) {
    for (std::vector<ElementRange>& ranges : padding) {
      ranges.push_back({chunk.numel, chunk.padded});
    }
  }
  return padding;
}

}  // namespace

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
  return overlap(padding_at[to_size(tp_rank)], begin, end);
}

CallOptions FlatChunk::call_options(int tp_rank) const {
  CallOptions options{.label = label.c_str(), .padding = padding(tp_rank, 0, padded)};
  if (!padding_at.empty()) options.padding_at = padding_at[to_size(tp_rank)];
  return options;
}

FlatLayout::FlatLayout(const Model& model, int num_shards) : num_shards_(num_shards) {
  for (const ParameterSpec& spec : model.parameters()) shapes_.push_back(spec.shape);
  places_.resize(shapes_.size());
}

void FlatLayout::add_chunk(const Model& model, std::string label, std::vector<int> parameters) {
  FlatChunk chunk{.label = std::move(label), .parameters = std::move(parameters)};
  chunk.model_chunk = spec_of(model, chunk.parameters.front()).chunk;
  for (const int parameter : chunk.parameters) {
    places_[to_size(parameter)] = {static_cast<int>(chunks_.size()), chunk.numel};
    chunk.numel += shape(parameter).numel();
  }
  chunk.padded = (chunk.numel + num_shards_ - 1) / num_shards_ * num_shards_;
  chunk.padding_at = padding_of(model, chunk);
  chunk.offset = padded_;
  numel_ += chunk.numel;
  padded_ += chunk.padded;
  chunks_.push_back(std::move(chunk));
}

FlatLayout FlatLayout::buckets(const Model& model, const ReadyOrder& ready_order,
                               std::int64_t bucket_bytes, std::int64_t first_bucket_bytes,
                               DType gradient_dtype, int num_shards, std::int64_t minimum_numel) {
  FlatLayout layout(model, num_shards);
  std::vector<int> members;
  std::int64_t bytes = 0;
  const auto close = [&] {
    if (members.empty()) return;
    layout.add_chunk(model, "bucket " + std::to_string(layout.chunks_.size()), std::move(members));
    members.clear();
    bytes = 0;
  };
  const auto bytes_of = [&](int parameter) {
    return layout.shape(parameter).numel() * size_of(gradient_dtype);
  };
  const auto joins = [&](int parameter) {
    return members.empty() ||
           go_together(spec_of(model, members.back()), spec_of(model, parameter));
  };
  for (const std::vector<int>& together : ready_order) {
    std::int64_t size = 0;
    for (const int parameter : together) size += bytes_of(parameter);
    const auto is_full = [&](std::int64_t more) {
      const std::int64_t cap = layout.chunks_.empty() ? first_bucket_bytes : bucket_bytes;
      return bytes + more > cap && bytes >= minimum_numel * size_of(gradient_dtype);
    };
    if (is_full(size)) close();
    for (const int parameter : together) {
      if (is_full(bytes_of(parameter)) || !joins(parameter)) close();
      members.push_back(parameter);
      bytes += bytes_of(parameter);
    }
  }
  close();
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
  std::int64_t start = 0;
  for (const int parameter : chunk(index).parameters) {
    const std::int64_t stop = start + shape(parameter).numel();
    const std::int64_t from = std::max(start, begin);
    const std::int64_t to = std::min(stop, end);
    if (from < to) visit(parameter, from - start, to - from, from - begin);
    start = stop;
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
