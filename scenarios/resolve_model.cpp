#include <algorithm>
#include <numeric>

#include "strategies/model/make_model.hpp"

#include "scenarios/resolve.hpp"

// The model, and how its dimensions are cut over ranks.
namespace shardsim {

namespace {

void resolve_mlp(Reading& r) {
  ModelSpec& m = r.scenario.model;
  for (const char* path : {"model.num_attention_heads", "model.num_query_groups", "model.head_dim",
                           "model.value_head_dim"}) {
    if (r.given(path)) {
      r.problem("E0201", path, "an mlp has no attention", "remove \"" + last_key(path) + "\"");
    }
  }
  if (r.good("model.seq_len") && m.seq_len != 1) {
    r.problem("E0201", "model.seq_len", "an mlp has no sequences: seq_len must be 1", "remove it");
  }
  if (r.good("model.tied_embeddings") && m.tied_embeddings) {
    r.problem("E0201", "model.tied_embeddings", "an mlp has no embeddings to tie", "remove it");
  }
  derive(r, "model.num_attention_heads", m.num_attention_heads, std::int64_t{0});
  derive(r, "model.num_query_groups", m.num_query_groups, std::int64_t{0});
  derive(r, "model.head_dim", m.head_dim, std::int64_t{0});
  derive(r, "model.value_head_dim", m.value_head_dim, std::int64_t{0});
  derive(r, "model.seq_len", m.seq_len, std::int64_t{1});
}

// Heads share the stream's width, unless their size is given.
void resolve_head_dim(Reading& r) {
  ModelSpec& m = r.scenario.model;
  if (m.is_latent()) return;  // The sum of their parts.
  const char* const cause =
      r.given("model.head_dim") ? "model.head_dim" : "model.num_attention_heads";
  if (!r.given("model.head_dim")) {
    if (!r.all_good({"model.num_attention_heads", "model.hidden_size"})) {
      r.fields["model.head_dim"].good = false;
      return;
    }
    if (m.hidden_size % m.num_attention_heads != 0) {
      r.problem("E0201", cause,
                "num_attention_heads (" + text_of(m.num_attention_heads) +
                    ") must divide hidden_size (" + text_of(m.hidden_size) +
                    "), as head_dim is not given",
                "try " + divisors(m.hidden_size, m.hidden_size) + ", or give head_dim");
      r.fields["model.head_dim"].good = false;
      return;
    }
    derive(r, "model.head_dim", m.head_dim, m.hidden_size / m.num_attention_heads);
  }
}

void resolve_value_head_dim(Reading& r) {
  ModelSpec& m = r.scenario.model;
  if (m.is_latent()) return;
  if (!r.good("model.head_dim")) {
    r.fields["model.value_head_dim"].good = false;
    return;
  }
  derive(r, "model.value_head_dim", m.value_head_dim, m.head_dim);
  if (m.family == ModelFamily::llama || !r.good("model.value_head_dim")) return;
  if (m.value_head_dim == m.head_dim) return;
  r.problem("E0201", "model.value_head_dim",
            std::string("family ") + to_string(m.family) +
                " has values of as many elements as keys (" + text_of(m.head_dim) + ")",
            "leave it out, or use the llama family");
}

void resolve_attention(Reading& r) {
  ModelSpec& m = r.scenario.model;
  const std::string family = to_string(m.family);
  need(r, "model.num_attention_heads", family);
  need(r, "model.seq_len", family);
  if (r.good("model.num_attention_heads")) {
    derive(r, "model.num_query_groups", m.num_query_groups, m.num_attention_heads);
  }
  resolve_head_dim(r);
  resolve_value_head_dim(r);
  if (!r.all_good({"model.num_attention_heads", "model.num_query_groups"})) return;
  if (m.num_attention_heads % m.num_query_groups != 0) {
    r.problem("E0201", "model.num_query_groups",
              "num_query_groups (" + text_of(m.num_query_groups) +
                  ") must divide num_attention_heads (" + text_of(m.num_attention_heads) + ")",
              "try " + divisors(m.num_attention_heads, m.num_attention_heads));
  } else if (m.family == ModelFamily::gpt2 && m.num_query_groups != m.num_attention_heads) {
    r.problem("E0201", "model.num_query_groups", "gpt2 has one key and value head per query head",
              "remove it, or use the llama family");
  }
}

void resolve_attention_biases(Reading& r) {
  ModelSpec& m = r.scenario.model;
  const bool has_all = m.family == ModelFamily::gpt2;
  derive(r, "model.query_key_value_bias", m.query_key_value_bias, has_all);
  derive(r, "model.attention_out_bias", m.attention_out_bias, has_all);
  if (m.family == ModelFamily::llama) return;
  for (const auto& [path, value] : {std::pair("model.query_key_value_bias", m.query_key_value_bias),
                                    std::pair("model.attention_out_bias", m.attention_out_bias)}) {
    if (value == has_all) continue;
    r.problem("E0201", path,
              std::string("family ") + to_string(m.family) +
                  (has_all ? " always has biases of attention" : " has no attention"),
              "leave it out, or use the llama family");
  }
}

struct Divisible {
  const char* field;
  std::int64_t ModelSpec::*size;
  const char* what;
};

// The dimensions that tensor-parallel ranks split into equal parts.
constexpr Divisible kHidden = {"model.ffn_hidden_size", &ModelSpec::ffn_hidden_size,
                               "elements of the hidden layer"};
constexpr Divisible kGroups = {"model.num_query_groups", &ModelSpec::num_query_groups,
                               "key and value heads"};
constexpr Divisible kHeads = {"model.num_attention_heads", &ModelSpec::num_attention_heads,
                              "attention heads"};

void refuse_split(Reading& r, const Divisible& split) {
  const ModelSpec& m = r.scenario.model;
  const std::int64_t size = m.*split.size;
  const bool may_copy =
      split.size == &ModelSpec::num_query_groups && m.family == ModelFamily::llama;
  r.problem(
      "E0203", "parallelism.tp",
      "tp (" + text_of(r.scenario.parallelism.tp) + ") does not divide the model's " +
          text_of(size) + " " + split.what,
      may_copy ? "use a tp that divides them, or a multiple of them" : "use a tp that divides it");
}

// Tensor parallelism splits layers in pairs, so it cuts hidden layers. A stage cannot end within a
// pair.
void resolve_split_perceptron(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const ModelSpec& m = r.scenario.model;
  if (r.good("model.ffn_hidden_size") && m.ffn_hidden_size % p.tp != 0) refuse_split(r, kHidden);
  if (r.good("parallelism.pp") && p.pp > 1) {
    r.problem(
        "E0206", "parallelism.pp",
        "tensor parallelism joins the layers of family mlp to pairs, which cannot be cut into "
        "stages",
        "use a transformer, or tp 1 or pp 1");
  }
  if (p.sequence_parallel) {
    r.problem("E0206", "parallelism.sequence_parallel",
              "family mlp has no sequence to divide among ranks", "leave it out");
  }
}

constexpr const char* kUlysses = "parallelism.cp_ulysses_degree";

// Heads a tensor-parallel rank can give away in equal parts; groups divide heads.
std::int64_t heads_to_exchange(const Scenario& s) {
  return s.model.groups_of_rank(s.parallelism.tp);
}

// The largest group of one node's ranks that divides cp and the heads; 1: none.
std::int64_t usual_ulysses_degree(const Scenario& s) {
  const ParallelismSpec& p = s.parallelism;
  const std::int64_t fits = std::gcd(p.cp, heads_to_exchange(s));
  std::int64_t best = 1;
  for (std::int64_t u = 2; u <= fits && u < p.cp; ++u) {
    if (fits % u == 0 && u * p.tp <= s.system.gpus_per_node) best = u;
  }
  return best;
}

// Whether a form may do with heads that cp does not divide.
bool fits_few_heads(const ContextAttentionRow& row) { return !exchanges_with_all(row); }

void refuse_heads(Reading& r, const char* field, std::int64_t degree) {
  const Scenario& s = r.scenario;
  const bool is_chosen = exchanges_with_chosen(context_attention_row(s.parallelism.cp_attention));
  const ContextAttentionTrait fits =
      usual_ulysses_degree(s) > 1 ? fits_few_heads : exchanges_no_heads;
  r.problem("E0203", field,
            "attention exchanges heads among " + text_of(degree) +
                " context-parallel ranks, which do not divide the " +
                text_of(heads_to_exchange(s)) + " key and value heads of a tensor-parallel rank",
            is_chosen ? "try " + divisors(std::gcd(s.parallelism.cp, heads_to_exchange(s)), degree)
                      : "use " + context_attentions_that(fits, " or ", "\"") +
                            " for cp_attention, or a smaller cp");
}

void resolve_ulysses(Reading& r) {
  ParallelismSpec& p = r.scenario.parallelism;
  const bool knows_heads =
      r.all_good({"parallelism.tp", "parallelism.cp_attention", "model.num_query_groups"}) &&
      r.scenario.model.divides_groups(p.tp) && r.good("system.gpus_per_node");
  if (!knows_heads) {
    r.fields[kUlysses].good = false;
    return;
  }
  const ContextAttentionRow& form = context_attention_row(p.cp_attention);
  const bool is_chosen = exchanges_with_chosen(form);
  const std::int64_t usual =
      form.exchanging_ranks(p.cp, is_chosen ? usual_ulysses_degree(r.scenario) : 1);
  const bool was_given = r.given(kUlysses);
  derive(r, kUlysses, p.cp_ulysses_degree, usual);
  if (!r.good(kUlysses)) return;
  if (!is_chosen) p.cp_ulysses_degree = usual;  // A written one has no effect, see warnings.
  const std::int64_t u = p.cp_ulysses_degree;
  if (is_chosen && p.cp % u != 0) {
    r.problem("E0203", kUlysses,
              "cp_ulysses_degree (" + text_of(u) + ") does not divide cp (" + text_of(p.cp) + ")",
              "try " + divisors(p.cp, p.cp));
  } else if (is_chosen && u == 1 && !was_given) {
    r.problem("E0206", "parallelism.cp_attention",
              "no group of ranks on a node divides both cp (" + text_of(p.cp) + ") and the " +
                  text_of(heads_to_exchange(r.scenario)) + " key and value heads of a rank",
              "use " + context_attentions_that(exchanges_no_heads, " or ", "\"") +
                  (std::gcd(p.cp, heads_to_exchange(r.scenario)) > 1 ? ", or say cp_ulysses_degree"
                                                                     : ""));
  } else if (heads_to_exchange(r.scenario) % u != 0) {
    refuse_heads(r, is_chosen ? kUlysses : "parallelism.cp", u);
  }
}

// Choices that the llama family has alone, and those of the transformers.
void resolve_attention_choices(Reading& r) {
  const ModelSpec& m = r.scenario.model;
  struct Choice {
    const char* path;
    bool is_made;
    const char* what;
    bool is_llamas;
  };
  for (const Choice& choice :
       {Choice{"model.query_key_norm", m.query_key_norm != QueryKeyNorm::none,
               "norms of queries and keys", true},
        Choice{"model.query_temperature_scale", m.query_temperature_scale > 0,
               "layers without rotary positions, whose queries grow", true},
        Choice{"model.attention_output_gate", m.attention_output_gate, "gate of attention", true},
        Choice{"model.attention_head_gate", m.attention_head_gate, "gate of attention", true},
        Choice{"model.value_norm", m.value_norm, "norm of values", true},
        Choice{"model.value_scale", m.value_scale != 1.0, "values to scale", true},
        Choice{"model.attention_scale", m.attention_scale > 0, "scores to scale", false},
        Choice{"model.attention_logit_cap", m.attention_logit_cap > 0, "scores to cap", false},
        Choice{"model.final_logit_cap", m.final_logit_cap > 0, "logits to cap", false}}) {
    const bool fits =
        m.family == ModelFamily::llama || (!choice.is_llamas && m.family != ModelFamily::mlp);
    if (!choice.is_made || fits) continue;
    r.problem("E0201", choice.path,
              std::string("family ") + to_string(m.family) + " has no " + choice.what,
              "leave it out, or use the llama family");
  }
}

// A width that no block has is 0.
void resolve_inner_width(Reading& r) {
  ModelSpec& m = r.scenario.model;
  const char* const path = "model.ffn_hidden_size";
  if (m.family != ModelFamily::llama) {
    if (r.good("model.hidden_size")) derive(r, path, m.ffn_hidden_size, 4 * m.hidden_size);
    return;
  }
  const bool knows_layers =
      r.all_good({"model.num_layers", "model.num_experts", "model.first_dense_layers"});
  if (knows_layers && m.layers_with_dense() == 0) return derive(r, path, m.ffn_hidden_size, 0);
  need(r, path, "llama");
}

}  // namespace

void need(Reading& r, const std::string& path, const std::string& family) {
  if (!r.given(path) && r.broken.count("model") == 0) {
    r.problem("E0103", path, "\"" + last_key(path) + "\" is missing in \"model\"",
              "the " + family + " family needs it");
  }
}

void resolve_model(Reading& r) {
  ModelSpec& m = r.scenario.model;
  if (!r.good("model.family")) return;
  resolve_layers(r);
  resolve_prediction(r);
  resolve_inner_width(r);
  if (m.family == ModelFamily::mlp) {
    resolve_mlp(r);
  } else {
    resolve_attention(r);
  }
  resolve_attention_choices(r);
  resolve_block_shape(r);
  resolve_rotary_dim(r);
  resolve_attention_biases(r);
  resolve_latent_attention(r);
  resolve_layer_heads(r);
  derive(r, "model.tied_embeddings", m.tied_embeddings, m.family == ModelFamily::gpt2);
  if (!r.good("model.seq_len")) return;
  derive(r, "model.max_position_embeddings", m.max_position_embeddings, m.seq_len);
  if (r.good("model.max_position_embeddings") && m.seq_len > m.max_position_embeddings) {
    const std::string numbers = "seq_len is " + text_of(m.seq_len) +
                                ", but the model knows positions up to " +
                                text_of(m.max_position_embeddings);
    if (m.family == ModelFamily::llama) {
      r.scenario.warnings.push_back(numbers + "; costs are right, the model may not be");
    } else {
      r.problem("E0205", "model.seq_len", numbers, "shorten it, or set max_position_embeddings");
    }
  }
}

void resolve_tensor_parallel(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const ModelSpec& m = r.scenario.model;
  if (!r.all_good({"parallelism.tp", "model.family"}) || p.tp == 1) return;
  if (m.family == ModelFamily::mlp) return resolve_split_perceptron(r);
  if (r.good(kHeads.field) && m.num_attention_heads % p.tp != 0) refuse_split(r, kHeads);
  const bool has_dense = m.layers_with_dense() > 0;
  if (has_dense && r.good(kHidden.field) && m.ffn_hidden_size % p.tp != 0) {
    refuse_split(r, kHidden);
  }
  if (r.good(kGroups.field) && !m.divides_groups(p.tp, m.num_query_groups)) {
    refuse_split(r, kGroups);
  }
  const std::int64_t micro = r.scenario.training.micro_batch_size;
  const bool cuts_tokens =
      p.sequence_parallel &&
      r.all_good({"model.seq_len", "training.micro_batch_size", "parallelism.cp"});
  const std::int64_t positions = cuts_tokens ? m.seq_len / p.cp : 0;  // Per sample on a rank.
  if (cuts_tokens && positions % p.tp != 0 && (micro % p.tp * (positions % p.tp)) % p.tp != 0) {
    r.problem("E0203", "parallelism.sequence_parallel",
              "tp (" + text_of(p.tp) + ") does not divide a microbatch of " + text_of(micro) +
                  " x " + text_of(positions) + " tokens" + (p.cp > 1 ? " of a cp rank" : ""),
              p.cp > 1 ? "use a seq_len that tp x cp divides" : "use a seq_len that tp divides");
  }
}

void resolve_recomputed_modules(Reading& r) {
  const char* const path = "training.recompute_modules";
  if (!r.all_good({path, "training.recompute"})) return;
  const TrainingSpec& t = r.scenario.training;
  try {
    const RecomputeModules modules = recompute_modules_of(t.recompute_modules);
    if (t.recompute == Recompute::selective && modules.has(RecomputeModule::mlp) &&
        r.good("model.parallel_block") && r.scenario.model.parallel_block) {
      r.problem(
          "E0206", path,
          "parallel_block has attention and MLP in one region: the MLP alone cannot run again",
          "leave mlp out, or switch parallel_block off");
    }
  } catch (const UsageError& error) {
    r.problem(error.code(), path, error.what(), error.fix());
  }
}

void resolve_blocks(Reading& r) {
  resolve_recomputed_modules(r);
  if (!r.good("model.family") || r.scenario.model.family != ModelFamily::mlp) return;
  const TrainingSpec& t = r.scenario.training;
  if (r.good("training.recompute") && t.recompute != Recompute::none) {
    r.problem("E0206", "training.recompute", "family mlp has no blocks to recompute",
              "leave it out, or use a transformer");
  }
  if (r.good("training.hidden_dropout") && t.hidden_dropout > 0) {
    r.problem("E0206", "training.hidden_dropout", "family mlp has no dropout",
              "leave it out, or use a transformer");
  }
  if (r.good("training.activation_store") && t.activation_store != ActivationStore::same) {
    r.problem("E0206", "training.activation_store",
              "family mlp keeps no inputs of activation functions",
              "leave it out, or use a transformer");
  }
}

void resolve_context_parallel(Reading& r) {
  const Scenario& s = r.scenario;
  const std::int64_t cp = s.parallelism.cp;
  if (!r.all_good({"parallelism.cp", "model.family"})) {
    r.fields[kUlysses].good = false;
    return;
  }
  if (cp == 1 || s.model.family == ModelFamily::mlp) {
    derive(r, kUlysses, r.scenario.parallelism.cp_ulysses_degree, std::int64_t{1});
    if (cp == 1) return;
    r.problem("E0206", "parallelism.cp", "family mlp has no sequence to cut and no attention",
              "leave cp out, or use a transformer");
    return;
  }
  if (r.good("model.seq_len") && s.model.seq_len % (2 * cp) != 0) {
    r.problem("E0203", "parallelism.cp",
              "cp (" + text_of(cp) + ") cuts every sample into " + text_of(2 * cp) +
                  " equal runs of positions, which do not divide seq_len (" +
                  text_of(s.model.seq_len) + ")",
              s.model.seq_len < 2 * cp
                  ? "use a smaller cp or a longer seq_len"
                  : "use a seq_len of " + text_of(s.model.seq_len / (2 * cp) * (2 * cp)));
  }
  resolve_ulysses(r);
}

}  // namespace shardsim
