#include "strategies/optimizer/rules.hpp"

#include "scenarios/checked_product.hpp"
#include "scenarios/resolve.hpp"

namespace shardsim {

void resolve_batch(Reading& r) {
  TrainingSpec& t = r.scenario.training;
  const ParallelismSpec& p = r.scenario.parallelism;
  if (!r.all_good({"training.global_batch_size", "training.micro_batch_size",
                   "parallelism.dp_shard", "parallelism.dp_replicate"})) {
    return;
  }
  const auto once = product_if_fits({t.micro_batch_size, p.dp_replicate, p.dp_shard});
  if (!once.has_value() || t.global_batch_size % *once != 0) {
    std::string help = "use a larger global batch";
    if (once.has_value()) {
      const std::int64_t below = t.global_batch_size - t.global_batch_size % *once;
      help = "use " + (below > 0 ? text_of(below) + " or " : "") + text_of(below + *once);
    }
    r.problem("E0204", "training.global_batch_size",
              "global_batch_size (" + text_of(t.global_batch_size) +
                  ") must be a multiple of micro_batch_size (" + text_of(t.micro_batch_size) +
                  ") x dp_replicate (" + text_of(p.dp_replicate) + ") x dp_shard (" +
                  text_of(p.dp_shard) + ")" + (once.has_value() ? " = " + text_of(*once) : ""),
              help);
    return;
  }
  const std::int64_t microbatches = t.global_batch_size / *once;
  derive(r, "training.num_microbatches", t.num_microbatches, microbatches);
  if (r.good("training.num_microbatches") && t.num_microbatches != microbatches) {
    r.problem("E0210", "training.num_microbatches",
              "global batch, micro-batch and data-parallel ranks give " + text_of(microbatches) +
                  " microbatches, not " + text_of(t.num_microbatches),
              "leave num_microbatches out, or use global_batch_size " +
                  (product_if_fits({*once, t.num_microbatches}).has_value()
                       ? text_of(*product_if_fits({*once, t.num_microbatches}))
                       : "that fits"));
  }
}

namespace {

// Scaling moves gradients within the range of their type.
void resolve_loss_scaling(Reading& r) {
  TrainingSpec& t = r.scenario.training;
  const bool is_narrow = has_narrow_gradients(t);
  derive(r, "training.loss_scaling", t.loss_scaling,
         is_narrow ? LossScaling::Mode::dynamic : LossScaling::Mode::none);
  if (is_narrow || !r.good("training.loss_scaling") || t.loss_scaling == LossScaling::Mode::none) {
    return;
  }
  r.problem("E0212", "training.loss_scaling",
            std::string("loss_scaling is ") + to_string(t.loss_scaling) + ", but gradients are " +
                to_string(t.precision) + " and sent as " + to_string(t.grad_reduce_dtype) +
                ", which have the range of fp32 or more: there is nothing to scale for",
            "leave loss_scaling out, or use precision fp16");
}

std::string peak_of(DType precision) {
  return std::string("system.device.peak_tflops.") + to_string(precision);
}

bool lacks_peak(const Reading& r, DType precision) {
  return r.scenario.system.device.peak_tflops.of(precision) <= 0 && r.good(peak_of(precision)) &&
         r.sections.count("system.device") > 0;
}

void require_peaks(Reading& r) {
  const DType own = r.scenario.training.precision;
  if (lacks_peak(r, own)) {
    r.problem("E0207", "training.precision",
              std::string("the device has no peak rate for ") + to_string(own),
              "set " + peak_of(own) + ", or use a precision that it has");
  }
  const bool is_narrow = own != DType::fp64 && own != DType::fp32;
  const bool has_experts = r.good("model.num_experts") && r.scenario.model.num_experts > 0;
  if (is_narrow && has_experts && lacks_peak(r, DType::fp32)) {
    r.problem("E0207", "model.num_experts",
              "routers weigh experts in fp32, and the device has no peak rate for fp32",
              "set " + peak_of(DType::fp32));
  }
}

}  // namespace

void resolve_training(Reading& r) {
  TrainingSpec& t = r.scenario.training;
  if (r.good("training.optimizer")) {
    derive(r, "training.weight_decay", t.weight_decay,
           optimizer_rule(t.optimizer).default_weight_decay);
  }
  if (!r.good("training.precision")) {
    return;
  }
  derive(r, "training.grad_reduce_dtype", t.grad_reduce_dtype, t.precision);
  if (r.good("training.grad_reduce_dtype")) {
    resolve_loss_scaling(r);
  }
  require_peaks(r);
}

}  // namespace shardsim
