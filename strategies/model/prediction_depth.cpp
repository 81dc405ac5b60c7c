#include "strategies/model/prediction_depth.hpp"

#include <span>
#include <utility>

#include "strategies/model/columns.hpp"
#include "strategies/model/gathered_linear.hpp"
#include "strategies/model/latent_rows.hpp"

namespace shardsim {

namespace {

constexpr const char* kProjection = "mtp.projection";  // Name in errors.

std::string depth_name(int depth) { return "mtp." + std::to_string(depth); }

int next_parameter(const ParameterTable& table) { return static_cast<int>(table.specs().size()); }

int add_depth_norm(const ModelNorm& norm, ParameterTable& table, const std::string& name) {
  const int place = next_parameter(table);
  norm.add_parameters(table, name);
  return place;
}

// Begins the unit, whose first parameter it returns.
int begin_depth(ParameterTable& table, int depth) {
  table.begin_unit(depth_name(depth));
  return next_parameter(table);
}

}  // namespace

PredictionDepth::PredictionDepth(const ModelOptions& options, const ModelNorm& norm,
                                 TransformerBlock::Branches branches, ParameterTable& table,
                                 int depth)
    : norm_(norm),
      first_(begin_depth(table, depth)),
      stream_norm_(add_depth_norm(norm, table, depth_name(depth) + ".stream_norm")),
      embedding_norm_(add_depth_norm(norm, table, depth_name(depth) + ".embedding_norm")),
      projection_(table.add_split(depth_name(depth) + ".projection",
                                  {options.hidden_size, 2 * options.hidden_size},
                                  {Init::Kind::bell, kInitScale}, 0, options.tensor_parallel)),
      final_norm_(add_depth_norm(norm, table, depth_name(depth) + ".final_norm")),
      block_number_(static_cast<int>(options.num_layers) + depth),
      low_(options.low),
      block_first_(next_parameter(table)),
      block_(options, norm, std::move(branches), table, {block_number_, depth_name(depth)}),
      end_(next_parameter(table)) {
  table.never_quantize(projection_);
}

Pass PredictionDepth::inside(Pass pass) const {
  pass.first = block_first_;
  pass.block = block_number_;
  if (low_.recipe != ScalingRecipe::none) pass.low = &low_;
  return pass;
}

Tensor PredictionDepth::forward(const Pass& pass, const Tensor& x, const Tensor& embedding,
                                Saved& saved) const {
  Saved of_block;
  saved.resize(num_kept);
  saved[stream] = x;
  saved[embedded] = embedding;
  NormOutput e = norm_.forward(pass, embedding_norm_, embedding);
  NormOutput h = norm_.forward(pass, stream_norm_, x);
  saved[embedded_statistics] = std::move(e.statistics);
  saved[stream_statistics] = std::move(h.statistics);
  saved[joined] = join_columns(pass.runtime, e.y, h.y);  // (b, s, 2 h)
  e.y = h.y = {};
  Tensor y = apply_gathered_linear(pass, projection_, saved[joined], kProjection);
  saved[made] = block_.forward(inside(pass), y, of_block);
  y = {};
  NormOutput last = norm_.forward(pass, final_norm_, saved[made]);
  saved[made_statistics] = std::move(last.statistics);
  for (Tensor& each : of_block) saved.push_back(std::move(each));
  return std::move(last.y);
}

PredictionDepth::Gradients PredictionDepth::backward(const Pass& pass, Tensor dy,
                                                     Saved& saved) const {
  Saved of_block;
  for (Tensor& each : std::span(saved).subspan(num_kept)) of_block.push_back(std::move(each));
  saved.resize(num_kept);
  dy = norm_.backward(pass, final_norm_, dy, saved[made], saved[made_statistics]);
  saved[made] = {};
  saved[made_statistics] = {};
  dy = block_.backward(inside(pass), dy, of_block);
  dy = backward_gathered_linear(pass, projection_, dy, std::move(saved[joined]), kProjection);
  const Tensor d_embedding = copy_columns(pass.runtime, {dy, 0, norm_.hidden_size});
  const Tensor d_stream = copy_columns(pass.runtime, {dy, norm_.hidden_size, norm_.hidden_size});
  dy = {};
  Gradients gradients;
  gradients.embedding = norm_.backward(pass, embedding_norm_, d_embedding, saved[embedded],
                                       saved[embedded_statistics]);
  gradients.x =
      norm_.backward(pass, stream_norm_, d_stream, saved[stream], saved[stream_statistics]);
  saved.clear();
  return gradients;
}

}  // namespace shardsim
