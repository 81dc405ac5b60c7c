#include "tests/mutants/mutant_lists.hpp"

#include <string>

#include <fmt/format.h>

#include "tests/mutants/context_faults.hpp"
#include "tests/mutants/copies.hpp"
#include "tests/mutants/expert_faults.hpp"
#include "tests/mutants/wrong_numbers.hpp"

namespace shardsim::test {

namespace {

void add_ring_mutants(std::vector<Mutant>& all) {
  const auto add = [&](const char* scenario, const Hops& hops) {
    all.push_back({scenario, "stale keys and values in backward", stale_keys(hops)});
    all.push_back({scenario, "gradients of keys and values do not come home",
                   lost_gradient_hop(hops, hops.per_layer - 1)});
    if (hops.per_layer == 1) return;
    all.push_back({scenario, "gradients of keys and values are lost on their way",
                   lost_gradient_hop(hops, 0)});
    all.push_back({scenario, "blocks are masked as another rank's", keys_from_behind()});
  };
  add("llama-cp2-ring", {.forward = 2, .per_layer = 1});
  add("llama-cp4-two-level", {.forward = 2, .per_layer = 1});
  add("gpt-cp4-ring", {.forward = 6, .per_layer = 3});
  add("llama-cp2-tp2-dp2", {.forward = 2, .per_layer = 1});
}

}  // namespace

std::vector<Mutant> model_parallel_mutants() {
  std::vector<Mutant> all;
  const auto drop_sum = [&](const char* scenario, const char* label) {
    all.push_back({scenario, std::string("no sum of ") + label, dropped_reduction(label)});
  };
  const auto drop_gather = [&](const char* scenario, const char* label) {
    all.push_back({scenario, std::string("no gather of ") + label, dropped_gather(label)});
  };
  for (const char* scenario : {"llama-tp2", "gpt-tp4", "gpt-tp2-pp2-dp2-zero1"}) {
    for (const char* label : {"row output", "column input gradient", "largest logit",
                              "target logit", "sum of exponentials"}) {
      drop_sum(scenario, label);
    }
  }
  for (const char* scenario :
       {"llama-sp2", "gpt-sp2", "llama-tp2-pp2-dp2-sp", "gpt-tp2-pp2-dp2-zero2-offload"}) {
    for (const char* label :
         {"row output", "column input gradient", "sequence-parallel gradients"}) {
      drop_sum(scenario, label);
    }
    for (const char* label : {"column input", "column input again", "row output gradient"}) {
      drop_gather(scenario, label);
    }
  }
  for (const char* label : {"expert outputs", "expert token gradients"}) {
    drop_sum("llama-experts-etp4-pp2-zero3", label);
  }
  for (const char* label : {"expert tokens", "expert output gradients"}) {
    drop_gather("llama-experts-etp4-pp2-zero3", label);
  }
  drop_sum("llama-normed-heads-tp2", "sequence-parallel gradients");
  // M8: copies of key and value heads, of which each has a part of the gradient.
  for (const char* scenario : {"llama-copied-heads-tp4", "llama-copied-heads-windows-cp2-tp4-dp2",
                               "llama-copied-heads-whole-norm-fsdp2-tp4-pp2-sp",
                               "llama-copied-heads-muon-tp4-dp2-distributed"}) {
    drop_sum(scenario, "gradients of copied heads");
  }
  drop_sum("llama-copied-heads-normed-biased-tp4-sp", "sequence-parallel gradients");
  // Latents and the keys' shared part; down projections and norms of latents.
  drop_sum("llama-latent-tp2", "column input gradient");
  for (const char* scenario : {"llama-latent-tp2-sp", "llama-latent-keys-tp2-sp"}) {
    drop_sum(scenario, "column input gradient");
    drop_sum(scenario, "sequence-parallel gradients");
    drop_gather(scenario, "column input");
    drop_gather(scenario, "column input again");
  }
  for (const char* scenario :
       {"gpt-pp4-gpipe", "gpt-pp4-1f1b", "gpt-pp3-zb-h1", "gpt-pp2-fsdp4", "gpt-hsdp-tp2-pp2",
        "gpt-tp2-pp2-dp2-zero2-offload", "llama-mtp-tied-pp4", "llama-mtp-experts-tp2-pp2-ep2"}) {
    drop_sum(scenario, "tied embedding gradient");
  }
  drop_gather("llama-mtp-tp2-cp2-sp", "column output");
  drop_gather("llama-mtp-tp2-cp2-sp", "column output gradient");
  all.push_back({"llama-mtp-tp2-cp2-sp", "targets counted on one rank", no_averaging()});
  for (const char* scenario :
       {"llama-sp2", "gpt-tp4", "gpt-pp4-1f1b", "gpt-tp2-pp2-dp2-zero1", "gpt-hsdp-tp2-pp2"}) {
    all.push_back({scenario, "clipping by the norm of one rank's part", local_norm()});
  }
  for (const char* scenario : {"llama-tp2", "llama-sp2", "gpt-tp2-dp4"}) {
    all.push_back({scenario, "tensor-parallel ranks in reverse", reversed_group("tp")});
    all.push_back({scenario, "sums that are maxima", reduced_by_max()});
    all.push_back({scenario, "one part counted twice", own_part_twice()});
  }
  return all;
}

std::vector<Mutant> context_parallel_mutants() {
  std::vector<Mutant> all;
  add_ring_mutants(all);
  for (const char* scenario : {"gpt-cp3-all-gather", "gpt-cp2-pp2-dp2"}) {
    all.push_back({scenario, "keys are not gathered", dropped_gather("keys and values")});
    all.push_back({scenario, "gradients of keys are not summed",
                   dropped_reduction("key and value gradients")});
  }
  for (const char* scenario : {"llama-cp2-ulysses", "gpt-cp4-two-level-dp2"}) {
    for (const char* label : {"queries, keys and values", "attention output",
                              "attention output gradient", "query, key and value gradients"}) {
      all.push_back({scenario, std::string("no exchange of ") + label, dropped_exchange(label)});
      all.push_back({scenario, std::string("wrong parts of ") + label, shifted_exchange(label)});
    }
  }
  // All ranks that see parts of the samples sum weights' gradients and counts of targets. Ranks are
  // counted tp, cp, dp.
  all.push_back({"llama-cp2-tp2-dp2", "gradients summed over dp alone", pairs_as_group("dp", 4)});
  all.push_back({"llama-cp2-tp2-dp2", "gradients summed over cp alone", pairs_as_group("dp", 2)});
  for (const char* scenario : {"llama-cp2-ring", "gpt-cp4-ulysses", "llama-cp2-fsdp4"}) {
    all.push_back({scenario, "targets counted on one rank", no_averaging()});
  }
  for (const char* scenario : {"llama-cp2-fsdp4", "gpt-cp4-two-level-dp2"}) {
    all.push_back({scenario, "one rank's gradients are lost", lost_contribution()});
    all.push_back({scenario, "clipping by the norm of one rank's part", local_norm()});
  }
  return all;
}

std::vector<Mutant> expert_mutants() {
  std::vector<Mutant> all;
  // Those in which several ranks have the same experts.
  for (const char* scenario : {"llama-ep2-file", "llama-ep4-tp2-sp", "llama-ep2-zero3"}) {
    for (const double factor : {2.0, 0.5}) {
      const auto scaled = [factor](const Tensor& tensor) { scale(tensor, factor); };
      all.push_back({scenario, fmt::format("experts' gradients times {}", factor),
                     before_expert_reductions(scaled)});
    }
    all.push_back({scenario, "experts' gradients are not summed", no_expert_reduction()});
  }
  for (const char* scenario :
       {"llama-ep4-uniform", "llama-ep4-learned", "llama-ep4-tp2-sp", "llama-ep4-capacity",
        "llama-ep2-zero3", "llama-ep4-per-node", "llama-ep8-per-node-limit"}) {
    for (const std::string label :
         {"expert tokens", "expert outputs", "expert output gradients", "expert token gradients"}) {
      all.push_back({scenario, "lost row of " + label, lost_token(label)});
      all.push_back({scenario, "shifted rows of " + label, shifted_rows(label)});
    }
  }
  // Where tokens go once to each node.
  for (const char* scenario : {"llama-ep4-per-node", "llama-ep8-per-node-limit"}) {
    for (const std::string label : {"expert outputs", "expert token gradients"}) {
      all.push_back({scenario, "doubled row of " + label, doubled_token(label)});
    }
    all.push_back({scenario, "lost weights of a token", lost_token("expert choice")});
    all.push_back({scenario, "weights of another token", shifted_rows("expert choice")});
  }
  return all;
}

}  // namespace shardsim::test
