#include <memory>

#include "sim/hardware/kernels/kernel_constants.hpp"

#include "strategies/gradient_sync/compressors.hpp"
#include "strategies/optimizer/rules.hpp"

#include "scenarios/kernels_of.hpp"
#include "scenarios/resolve.hpp"

namespace shardsim {

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

std::string words_of(DType type) {
  return type == DType::fp4_e2m1 ? std::string("fp4") : to_string(type);
}

std::string peak_of(DType type) { return "system.device.peak_tflops." + words_of(type); }

bool lacks_peak(const Reading& r, DType precision) {
  return r.scenario.system.device.peak_tflops.of(precision) <= 0 && r.good(peak_of(precision)) &&
         r.sections.count("system.device") > 0;
}

// Whether the kernels of the device say that it has no such products.
bool lacks_kernels(const SystemSpec& system, DType products) {
  const std::shared_ptr<const KernelConstants> kernels = kernels_of(system.device);
  if (system.kernel_model != "shapes" || kernels == nullptr) return false;
  if (products == DType::fp4_e2m1) return kernels->fp4_share.value == 0.0;
  return products == DType::fp8_e4m3 && kernels->fp8_share.value == 0.0;
}

void require_peaks(Reading& r) {
  const TrainingSpec& t = r.scenario.training;
  const DType own = t.dtype();
  const DType products = t.product_dtype();
  const DType lacking = lacks_peak(r, products) ? products : own;
  if (lacks_peak(r, lacking)) {
    r.problem("E0207", "training.precision", "the device has no peak rate for " + words_of(lacking),
              "set " + peak_of(lacking) + ", or use a precision that it has");
  } else if (r.good("system.device.kernels") && lacks_kernels(r.scenario.system, products)) {
    r.problem("E0207", "training.precision",
              "system.device.kernels " + r.scenario.system.device.kernels + " has no products in " +
                  words_of(products),
              "use a precision that it has, or system.kernel_model roofline");
  }
  const bool is_narrow = own != DType::fp64 && own != DType::fp32;
  const bool has_experts = r.good("model.num_experts") && r.scenario.model.num_experts > 0;
  if (is_narrow && has_experts && lacks_peak(r, DType::fp32)) {
    r.problem("E0207", "model.num_experts",
              "routers weigh experts in fp32, and the device has no peak rate for fp32",
              "set " + peak_of(DType::fp32));
  }
}

constexpr const char* kChoice = "parallelism.data_parallel";
constexpr const char* kCompression = "parallelism.gradient_compression";

bool is_data_parallel_only(const ParallelismSpec& p) {
  return p.tp == 1 && p.pp == 1 && p.cp == 1 && p.ep == 1 && p.etp == 1;
}

// Reports a problem of either choice: the value of `path`. REQUIRES: that of kCompression is not
// none.
void refuse(Reading& r, const char* path, const std::string& why, const std::string& fix) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const std::string value(path == kChoice ? std::string_view(to_string(p.data_parallel))
                                          : p.compression.compressor->name);
  r.problem("E0206", path, last_key(path) + " \"" + value + "\" " + why, fix);
}

void check_members(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  if (!r.good("parallelism.elastic_members")) return;
  const std::int64_t runs = r.scenario.training.num_microbatches * p.dp_shard;
  for (const std::int64_t members : p.elastic_members) {
    if (members < p.elastic_min || members > p.elastic_max) {
      r.problem("E0208", "parallelism.elastic_members",
                text_of(members) + " members, but elastic_min is " + text_of(p.elastic_min) +
                    " and elastic_max " + text_of(p.elastic_max),
                "keep to the bounds, or change them");
      return;
    }
    if (members > p.dp_shard || members > runs) {
      r.problem("E0208", "parallelism.elastic_members",
                text_of(members) + " members, but there are " + text_of(p.dp_shard) +
                    " data-parallel ranks, and " + text_of(runs) + " microbatches in a step",
                "let no more take part");
      return;
    }
  }
}

void check_elastic(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  if (!is_data_parallel_only(p) || p.dp_replicate > 1 || p.dp_shard == 1) {
    refuse(r, kChoice, "is about data-parallel ranks that leave and join, without any other axis",
           "use dp_shard alone, of 2 or more");
  } else if (p.zero_stage > 0) {
    refuse(r, kChoice,
           "does not cut anew what zero_stage " + text_of(p.zero_stage) + " has sharded",
           "use zero_stage 0");
  } else {
    check_members(r);
  }
}

void check_compression(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  if (!p.compresses()) return;
  if (p.data_parallel != DataParallelKind::synchronous) {
    refuse(
        r, kCompression,
        std::string("cannot be combined with data_parallel \"") + to_string(p.data_parallel) + "\"",
        "choose one of them");
  } else if (p.zero_stage > 0 || !is_data_parallel_only(p)) {
    refuse(r, kCompression, "is of plain data parallelism: whole gradients, no other axis",
           "use zero_stage 0 without tp, pp, cp and ep");
  }
}

// The first max_staleness steps have nothing to apply, and wait for nothing.
void check_staleness(Reading& r) {
  const std::int64_t staleness = r.scenario.parallelism.max_staleness;
  if (!r.all_good({"parallelism.max_staleness", "execution.steps"})) return;
  if (r.scenario.execution.steps > staleness) return;
  r.problem("E0208", "execution.steps",
            "in " + text_of(r.scenario.execution.steps) +
                " steps no gradient is applied: those of a step are applied " + text_of(staleness) +
                " steps later (parallelism.max_staleness)",
            "run " + text_of(staleness + 1) + " steps or more");
}

void check_choice(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  if (p.trains_apart() && p.dp_replicate == 1) {
    refuse(r, kChoice, "averages replicas, of which there is one: dp_replicate is 1",
           "let dp_replicate be 2 or more");
  }
  if (p.data_parallel == DataParallelKind::async_sgd && p.zero_stage > 1) {
    refuse(r, kChoice,
           "needs whole gradients for each step under way, which zero_stage " +
               text_of(p.zero_stage) + " does not keep",
           "use zero_stage 0 or 1");
  }
  if (p.data_parallel == DataParallelKind::async_sgd) check_staleness(r);
  if (p.is_elastic()) check_elastic(r);
}

// Muon needs whole gradients of the matrices that a rank updates, on the device, of one step.
void check_muon(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  if (!r.good("training.optimizer") || !r.scenario.training.uses_muon()) return;
  const auto refuse_muon = [&](const std::string& why, const char* fix) {
    r.problem("E0206", "training.optimizer", "optimizer \"muon\" " + why, fix);
  };
  if (p.zero_stage > 1) {
    refuse_muon("needs whole gradients of the matrices that a rank updates, which zero_stage " +
                    text_of(p.zero_stage) + " does not keep",
                "use zero_stage 0 or 1");
  }
  if (p.offloads()) {
    refuse_muon("iterates on what is on the device, and something is offloaded",
                "leave the offload_* fields out");
  }
  if (p.compresses()) {
    refuse_muon("is not combined with compressed gradients", "leave gradient_compression out");
  }
  if (p.data_parallel != DataParallelKind::synchronous) {
    refuse_muon(std::string("is not combined with data_parallel \"") + to_string(p.data_parallel) +
                    "\", which is another algorithm",
                "use data_parallel \"synchronous\"");
  }
}

// Both choices decide the field that the message is about.
void check_surroundings(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const bool compresses = p.compresses();
  if (p.data_parallel == DataParallelKind::synchronous && !compresses) return;
  const char* const path = compresses ? kCompression : kChoice;
  if (r.good("model.num_experts") && r.scenario.model.num_experts > 0) {
    refuse(r, path,
           "is for models without experts, which balance the tokens of one synchronous step",
           "use data_parallel \"synchronous\" and no compression, or a model without experts");
  }
  if (p.offloads()) {
    refuse(r, path, "works on what is on the device, and something is offloaded",
           "leave the offload_* fields out");
  }
  const TrainingSpec& t = r.scenario.training;
  if (r.good("training.loss_scaling") && t.loss_scaling != LossScaling::Mode::none) {
    refuse(r, path, "uses gradients other than those of one step, whose loss scale it would need",
           "use bf16 or fp32, or set training.loss_scaling to \"none\"");
  }
  const bool is_verified = r.scenario.execution.tensors == TensorMode::real;
  const bool is_wide = t.precision == Precision::fp64 && t.grad_reduce_dtype == DType::fp64 &&
                       t.optimizer_state_dtype == DType::fp64;
  if (is_verified && !is_wide &&
      r.all_good(
          {"training.precision", "training.grad_reduce_dtype", "training.optimizer_state_dtype"})) {
    refuse(r, path, "is verified in fp64 only: its reference follows no rounding",
           "use precision fp64, or execution.tensors \"meta\"");
  }
}

}  // namespace

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

void resolve_training(Reading& r) {
  TrainingSpec& t = r.scenario.training;
  if (r.good("training.optimizer")) {
    derive(r, "training.weight_decay", t.weight_decay,
           t.uses_muon() ? kMuonWeightDecay : optimizer_rule(t.optimizer).default_weight_decay);
  }
  if (!r.good("training.precision")) return;
  derive(r, "training.grad_reduce_dtype", t.grad_reduce_dtype, t.dtype());
  derive(r, "training.optimizer_state_dtype", t.optimizer_state_dtype, t.master_dtype());
  if (r.good("training.grad_reduce_dtype")) resolve_loss_scaling(r);
  require_peaks(r);
  resolve_low_precision(r);
}

void resolve_data_parallel(Reading& r) {
  ParallelismSpec& p = r.scenario.parallelism;
  if (!r.all_good({"parallelism.tp", "parallelism.pp", "parallelism.cp", "parallelism.ep",
                   "parallelism.etp", "parallelism.dp_replicate", "parallelism.dp_shard",
                   "parallelism.zero_stage", kChoice, kCompression})) {
    return;
  }
  derive(r, "parallelism.elastic_members", p.elastic_members, {p.data_parallel_size()});
  check_choice(r);
  check_compression(r);
  check_surroundings(r);
  check_muon(r);
}

}  // namespace shardsim
