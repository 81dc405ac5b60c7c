#include <algorithm>
#include <numeric>

#include "scenarios/resolve.hpp"

namespace shardsim {
namespace {

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

void refuse_heads(Reading& r, const char* field, std::int64_t degree) {
  const Scenario& s = r.scenario;
  r.problem("E0203", field,
            "attention exchanges heads among " + text_of(degree) +
                " context-parallel ranks, which do not divide the " +
                text_of(heads_to_exchange(s)) + " key and value heads of a tensor-parallel rank",
            s.parallelism.cp_attention == ContextAttention::ulysses
                ? std::string("use \"ring\"") +
                      (usual_ulysses_degree(s) > 1 ? ", \"all_gather\" or \"two_level\""
                                                   : " or \"all_gather\"") +
                      " for cp_attention, or a smaller cp"
                : "try " + divisors(std::gcd(s.parallelism.cp, heads_to_exchange(s)), degree));
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
  const bool two_level = p.cp_attention == ContextAttention::two_level;
  const std::int64_t all = p.cp_attention == ContextAttention::ulysses ? p.cp : 1;
  const bool was_given = r.given(kUlysses);
  derive(r, kUlysses, p.cp_ulysses_degree, two_level ? usual_ulysses_degree(r.scenario) : all);
  if (!r.good(kUlysses)) return;
  if (!two_level) p.cp_ulysses_degree = all;  // Whatever was written has no effect, see warnings.
  const std::int64_t u = p.cp_ulysses_degree;
  if (two_level && p.cp % u != 0) {
    r.problem("E0203", kUlysses,
              "cp_ulysses_degree (" + text_of(u) + ") does not divide cp (" + text_of(p.cp) + ")",
              "try " + divisors(p.cp, p.cp));
  } else if (two_level && u == 1 && !was_given) {
    r.problem("E0206", "parallelism.cp_attention",
              "no group of ranks on a node divides both cp (" + text_of(p.cp) + ") and the " +
                  text_of(heads_to_exchange(r.scenario)) + " key and value heads of a rank",
              std::string("use \"ring\" or \"all_gather\"") +
                  (std::gcd(p.cp, heads_to_exchange(r.scenario)) > 1 ? ", or say cp_ulysses_degree"
                                                                     : ""));
  } else if (heads_to_exchange(r.scenario) % u != 0) {
    refuse_heads(r, two_level ? kUlysses : "parallelism.cp", u);
  }
}

}  // namespace

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
