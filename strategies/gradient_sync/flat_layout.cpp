#include "strategies/gradient_sync/flat_layout.hpp"

#include <algorithm>
#include <utility>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

const ParameterSpec& spec_of(const Model& model, int parameter) {
  return model.parameters()[static_cast<std::size_t>(parameter)];
}

// Whether two parameters may lie in one bucket.
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
        padding.resize(static_cast<std::size_t>(spec.split.parts));
        padding[static_cast<std::size_t>(part)].push_back({begin + range.begin, begin + range.end});
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

std::int64_t FlatChunk::padding(int tp_rank, std::int64_t begin, std::int64_t end) const {
  if (padding_at.empty()) return std::max<std::int64_t>(end - std::max(begin, numel), 0);
  return overlap(padding_at[static_cast<std::size_t>(tp_rank)], begin, end);
}

CallOptions FlatChunk::call_options(int tp_rank) const {
  CallOptions options{.label = label.c_str(), .padding = padding(tp_rank, 0, padded)};
  if (!padding_at.empty()) options.padding_at = padding_at[static_cast<std::size_t>(tp_rank)];
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
    places_[static_cast<std::size_t>(parameter)] = {static_cast<int>(chunks_.size()), chunk.numel};
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

}  // namespace shardsim
