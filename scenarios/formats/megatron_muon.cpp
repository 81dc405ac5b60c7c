#include <string>

#include <fmt/format.h>

#include "strategies/optimizer/rules.hpp"

#include "scenarios/formats/megatron.hpp"

// Muon of Megatron-LM: names and defaults of megatron/training/arguments.py, meanings of
// megatron/core/optimizer/emerging_optimizers.py (NVIDIA/Megatron-LM@d98e8a6).
namespace shardsim {

namespace {

void take_or(MegatronArguments& arguments, const NamePair& pair, double otherwise, Import& import) {
  const double value = arguments.number(pair.theirs).value_or(otherwise);
  import.take({pair.theirs, fmt::format("{:g}", value)}, pair.ours, value);
}

void take_text_or(MegatronArguments& arguments, const NamePair& pair, const char* otherwise,
                  Import& import) {
  const std::string value = arguments.text(pair.theirs).value_or(otherwise);
  import.take({pair.theirs, value}, pair.ours, value);
}

// The optimizers that their muon_scalar_optimizer can be.
std::string scalar_optimizer_of(MegatronArguments& arguments) {
  const OptimizerRule& otherwise = optimizer_rule(default_optimizer());
  return arguments.text(megatron::kMuonScalar.theirs)
      .value_or(std::string(otherwise.elsewhere.megatron.front()));
}

void warn_about_muon(MegatronArguments& arguments, Import& import) {
  if (arguments.truth("muon_no_split_qkv") || !arguments.truth("muon_split_qkv", true)) {
    import.warn({"muon_split_qkv", "False"}, "q, k and v are orthogonalized apart here");
  }
  if (arguments.truth("swiglu")) {
    import.warn({"swiglu", "True"},
                "muon of Megatron-LM orthogonalizes gate and up as one matrix; here each is one");
  }
}

}  // namespace

bool megatron::is_muon(const std::string& optimizer) {
  return optimizer == kMuon || optimizer == kLayerWiseMuon;
}

std::string megatron::elementwise_optimizer(MegatronArguments& arguments,
                                            const std::string& optimizer) {
  return is_muon(optimizer) ? scalar_optimizer_of(arguments) : optimizer;
}

std::string megatron_muon_limit(MegatronArguments& arguments) {
  const std::string type = arguments.text(megatron::kMuonCoefficients.theirs).value_or("quintic");
  if (type == "quintic" || type == "simple") return {};
  return fmt::format("{} {}: here are quintic and simple, and quintic stands in for it",
                     megatron::kMuonCoefficients.theirs, type);
}

void import_megatron_muon(MegatronArguments& arguments, const std::string& optimizer,
                          const OptimizerRule& scalar, Import& import) {
  const bool is_deprecated = optimizer != kMuon;
  import.derive({"optimizer", optimizer}, "training.optimizer", std::string(kMuon),
                is_deprecated ? "the old name of muon with use_distributed_optimizer" : "");
  import.derive({megatron::kMuonScalar.theirs, scalar_optimizer_of(arguments)},
                megatron::kMuonScalar.ours, std::string(scalar.name));
  take_or(arguments, megatron::kMuonMomentum, 0.9, import);
  const bool nesterov = arguments.truth(megatron::kMuonNesterov.theirs);
  import.take({megatron::kMuonNesterov.theirs, nesterov ? "True" : "False"},
              megatron::kMuonNesterov.ours, nesterov);
  take_integer(arguments, megatron::kMuonSteps, kForeignDegree, import);
  take_text_or(arguments, megatron::kMuonScale, "spectral", import);
  take_or(arguments, megatron::kMuonExtraScale, 1.0, import);
  take_text_or(arguments, megatron::kMuonTensor, "duplicated", import);
  if (megatron_muon_limit(arguments).empty()) {
    take_text_or(arguments, megatron::kMuonCoefficients, "quintic", import);
  }
  if (import.integer("parallelism.zero_stage") == 1) {
    import.derive({"optimizer", optimizer}, "training.muon_dp_mode", std::string("layer_wise"),
                  "each matrix has one owner");
  }
  warn_about_muon(arguments, import);
}

}  // namespace shardsim
