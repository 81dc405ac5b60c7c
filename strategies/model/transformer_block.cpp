#include "strategies/model/transformer_block.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "backends/graph_scope.hpp"

namespace shardsim {

TransformerBlock::TransformerBlock(const ModelOptions& options, const ModelNorm& norm,
                                   Branches branches, ParameterTable& table, const Id& id)
    : branches_(std::move(branches)),
      norm_(norm),
      placement_(options.norm_placement),
      residual_scale_(options.residual_scale),
      block_(id.number),
      recomputes_all_(options.recompute == Recompute::full),
      // Behind a branch, a norm reads its output, and dropout leaves a mask.
      stops_early_(options.recompute_stops_early && options.norm_placement == NormPlacement::pre &&
                   options.hidden_dropout == 0.0),
      recomputes_norms_(options.recomputes(RecomputeModule::layernorm)),
      graphs_(options.graphs),
      mask_bytes_(options.hidden_dropout > 0.0 ? options.memory.mask_bytes : 0.0),
      norm_bytes_(recomputes_norms_ || norm.form.is_layer ? 0.0 : options.memory.norm_kept_bytes) {
  const auto first = static_cast<int>(table.specs().size());
  const auto next = [&] { return static_cast<int>(table.specs().size()) - first; };
  for (const std::shared_ptr<const Branch>& branch : branches_) {
    Place at{.norm = next(), .saved = num_saved_};
    const std::string number = std::to_string(places_.size() + 1);
    if (has_input_norm()) norm_.add_parameters(table, id.name + ".norm" + number);
    at.output_norm = next();
    if (has_output_norm()) norm_.add_parameters(table, id.name + ".output_norm" + number);
    at.branch = next();
    branch->add_parameters(table, id.name, id.number);
    places_.push_back(at);
    num_saved_ += num_saved + branch->num_kept();
  }
}

BranchInput TransformerBlock::input_of(const Pass& pass, const Branch& branch, const Place& at,
                                       Saved& saved) const {
  Tensor* const here = &saved[at.saved];
  return {pass,
          {has_input_norm() ? &norm_ : nullptr, at.norm, at.branch, here[input], here[norm_output],
           here[norm_statistics], here[quantized]},
          {.is_dropped = recomputes_norms_, .reads_value = branch.reads_input()}};
}

Tensor TransformerBlock::forward(const Pass& pass, const Tensor& x, Saved& saved) const {
  Tensor y = run_forward(pass, x, saved);
  if (recomputes_all_) saved.resize(1);  // The input.
  return y;
}

Tensor TransformerBlock::run_forward(const Pass& pass, const Tensor& x, Saved& saved) const {
  saved.resize(num_saved_);
  Tensor stream = x;  // (b, s, h)
  for (std::size_t i = 0; i < branches_.size(); ++i) {
    stream = run_branch(pass, i, stream, /*refills=*/false, saved);
  }
  return stream;
}

void TransformerBlock::recompute(const Pass& pass, const Tensor& x, Saved& saved) const {
  saved.resize(num_saved_);
  Tensor stream = x;
  for (std::size_t i = 0; i < branches_.size(); ++i) {
    const bool is_last = i + 1 == branches_.size();
    stream = run_branch(pass, i, stream, stops_early_ && is_last, saved);
  }
}

Tensor TransformerBlock::run_branch(const Pass& pass, std::size_t i, const Tensor& stream,
                                    bool refills, Saved& saved) const {
  const Branch& branch = *branches_[i];
  const Place& at = places_[i];
  const Runtime::Graph graph(pass.runtime, branch.is_captured(graphs_));
  saved[at.saved + input] = stream;
  saved[at.saved + norms_beside] = keep_beside_norms(pass, stream);
  BranchInput normed = input_of(pass, branch, at, saved);
  const std::span<Tensor> kept = std::span(saved).subspan(at.saved + num_saved, branch.num_kept());
  if (refills) {
    branch.refill(part_of(pass, at.branch), normed, kept);
    return {};
  }
  Tensor y = branch.forward(part_of(pass, at.branch), normed, kept);
  y = join(pass, branch, at, std::move(y), &saved[at.saved]);
  if (i == 0) saved[masks] = keep_masks(pass, y);
  add_in_place(pass.runtime, stream, y);
  return y;
}

Tensor TransformerBlock::backward(const Pass& pass, const Tensor& dy, Saved& saved) const {
  if (recomputes_all_) {
    const Tensor x = saved[input];
    recompute(pass, x, saved);
  }
  Tensor d_stream = dy;
  for (std::size_t i = branches_.size(); i-- > 0;) {
    const Branch& branch = *branches_[i];
    const Place& at = places_[i];
    const Runtime::Graph graph(pass.runtime, branch.is_captured(graphs_));
    Tensor d = join_backward(pass, branch, at, d_stream, &saved[at.saved]);
    if (i == 0) saved[masks] = {};
    BranchInput normed = input_of(pass, branch, at, saved);
    const std::span<Tensor> kept =
        std::span(saved).subspan(at.saved + num_saved, branch.num_kept());
    d = branch.backward(part_of(pass, at.branch), std::move(d), normed, kept);
    if (has_input_norm()) {
      d = norm_.backward(pass, at.norm, d, saved[at.saved + input],
                         saved[at.saved + norm_statistics]);
    }
    saved[at.saved + norms_beside] = {};
    if (i > 0) {
      saved[at.saved + input] = {};
      saved[at.saved + norm_statistics] = {};
    }
    add_in_place(pass.runtime, d_stream, d);
    if (i == 0) saved.clear();
    d_stream = std::move(d);
  }
  return d_stream;
}

// A branch's output is a whole sum over ranks here.
Tensor TransformerBlock::join(const Pass& pass, const Branch& branch, const Place& at, Tensor y,
                              Tensor* here) const {
  if (has_output_norm()) {
    here[output] = std::move(y);
    NormOutput norm = norm_.forward(pass, at.output_norm, here[output]);
    here[output_statistics] = std::move(norm.statistics);
    y = std::move(norm.y);
  }
  apply_dropout(pass, branch.dropout_stream(), y);
  if (residual_scale_ != 1.0) scale_in_place(pass.runtime, y, residual_scale_);
  return y;
}

Tensor TransformerBlock::join_backward(const Pass& pass, const Branch& branch, const Place& at,
                                       const Tensor& dy, Tensor* here) const {
  Tensor d = residual_scale_ == 1.0 ? dy : scaled(pass.runtime, dy, residual_scale_);
  d = backward_dropout(pass, branch.dropout_stream(), d);
  if (!has_output_norm()) return d;
  d = norm_.backward(pass, at.output_norm, d, here[output], here[output_statistics]);
  here[output] = {};
  here[output_statistics] = {};
  return d;
}

std::int64_t TransformerBlock::forward_flops_per_sample() const {
  std::int64_t flops = 0;
  for (const auto& branch : branches_) flops += branch->forward_flops_per_sample(block_);
  return flops;
}

std::vector<OffloadModule> TransformerBlock::readers_of_kept() const {
  std::vector<OffloadModule> readers(num_saved_, OffloadModule::everything);
  for (std::size_t i = 0; i < branches_.size(); ++i) {
    const std::size_t first = places_[i].saved;
    readers[first + input] = branches_[i]->stream_reader();
    for (const BranchSaved each : {norm_output, quantized}) {
      readers[first + each] = branches_[i]->input_reader();
    }
    for (std::size_t kept = 0; kept < branches_[i]->num_kept(); ++kept) {
      readers[first + num_saved + kept] = branches_[i]->reader_of(kept);
    }
  }
  readers.resize(num_kept());
  return readers;
}

bool TransformerBlock::keeps_state() const {
  return std::any_of(branches_.begin(), branches_.end(),
                     [](const auto& branch) { return branch->keeps_state(); });
}

// Memory that a framework keeps for the dropout masks of all branches.
Tensor TransformerBlock::keep_masks(const Pass& pass, const Tensor& y) const {
  if (mask_bytes_ <= 0.0) return {};
  const double elements = static_cast<double>(branches_.size()) * static_cast<double>(y.numel());
  return pass.runtime.occupy(MemoryCategory::activations, elements * mask_bytes_);
}

Tensor TransformerBlock::keep_beside_norms(const Pass& pass, const Tensor& x) const {
  if (norm_bytes_ <= 0.0) return {};
  const int norms = static_cast<int>(has_input_norm()) + static_cast<int>(has_output_norm());
  return pass.runtime.occupy(MemoryCategory::activations,
                             norms * static_cast<double>(x.numel()) * norm_bytes_);
}

}  // namespace shardsim
