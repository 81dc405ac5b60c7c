#include <algorithm>
#include <array>
#include <numeric>

#include "strategies/model/make_model.hpp"

#include "scenarios/resolve.hpp"

namespace shardsim {

namespace {

struct Divisible {
  const char* field;
  std::int64_t ModelSpec::*size;
  const char* what;
};

// The dimensions that tensor-parallel ranks split into equal parts.
constexpr Divisible kHidden = {"model.ffn_hidden_size", &ModelSpec::ffn_hidden_size,
                               "elements of the hidden layer"};
constexpr std::array<Divisible, 3> kSplit = {{
    {"model.num_attention_heads", &ModelSpec::num_attention_heads, "attention heads"},
    {"model.num_query_groups", &ModelSpec::num_query_groups, "key and value heads"},
    kHidden,
}};

void refuse_split(Reading& r, const Divisible& split) {
  const std::int64_t size = r.scenario.model.*split.size;
  r.problem("E0203", "parallelism.tp",
            "tp (" + text_of(r.scenario.parallelism.tp) + ") does not divide the model's " +
                text_of(size) + " " + split.what,
            "use a tp that divides it");
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
  return s.model.num_query_groups / std::max<std::int64_t>(s.parallelism.tp, 1);
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
      r.scenario.model.num_query_groups % p.tp == 0 && r.good("system.gpus_per_node");
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

}  // namespace

void resolve_tensor_parallel(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const ModelSpec& m = r.scenario.model;
  if (!r.all_good({"parallelism.tp", "model.family"}) || p.tp == 1) return;
  if (m.family == ModelFamily::mlp) return resolve_split_perceptron(r);
  for (const Divisible& split : kSplit) {
    if (r.good(split.field) && m.*split.size % p.tp != 0) refuse_split(r, split);
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

void resolve_blocks(Reading& r) {
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
