#include <string>

#include "scenarios/resolve.hpp"

namespace shardsim {

namespace {

// An object in a list of faults, for reports of its problems.
struct Item {
  Reading& reading;
  std::string list;
  std::size_t index;

  [[nodiscard]] bool given(const char* key) const { return reading.item(list, index, key).given; }
  [[nodiscard]] bool good(const char* key) const { return reading.item(list, index, key).good; }
  // Reports at a key that is written, or at the object.
  void refuse(const char* code, const char* key, const std::string& message,
              const std::string& help) const {
    const FieldState state = reading.item(list, index, given(key) ? key : "");
    reading.problems.add(code, state.span, state.pointer, message, help);
  }
};

// E0271: `value` of a key must be below `count`, the number of such parts.
void check_exists(const Item& item, const char* key, std::int64_t value, const char* counted_by,
                  std::int64_t count) {
  if (!item.good(key) || !item.reading.good(counted_by) || value < count) return;
  item.refuse("E0271", key, "there is no " + std::string(key) + " " + text_of(value),
              std::string(key) + "s go from 0 to " + text_of(count - 1) + " (" + counted_by + ")");
}

void check_straggler(const Item& item, const StragglerSpec& straggler) {
  const Scenario& s = item.reading.scenario;
  int chosen = 0;
  const char* last = "slowdown";
  for (const char* key : {"rank", "stage", "node"}) {
    if (!item.given(key)) continue;
    ++chosen;
    last = key;
  }
  if (chosen != 1) {
    item.refuse("E0270", last,
                chosen == 0 ? "a straggler without a rank, stage or node"
                            : "a straggler is chosen in " + text_of(chosen) + " ways",
                "give exactly one of rank, stage and node; several stragglers are several objects");
    return;
  }
  check_exists(item, "rank", straggler.rank, "system.ranks", s.system.ranks);
  check_exists(item, "stage", straggler.stage, "parallelism.pp", s.parallelism.pp);
  check_exists(item, "node", straggler.node, "system.nodes", s.system.nodes);
}

void check_place(const Item& item, const LinkPlaceSpec& place) {
  Reading& r = item.reading;
  if (!item.given("node") && !item.given("tier")) {
    item.refuse("E0272", "node", "a fault of links without a node or a tier",
                "\"node\": 3 is that node's network cards, \"tier\": \"inter_node\" those of all "
                "nodes");
    return;
  }
  check_exists(item, "node", place.node, "system.nodes", r.scenario.system.nodes);
  const char* const counted_by = place.is_inside() ? "system.gpus_per_node" : "system.nodes";
  const std::int64_t count =
      place.is_inside() ? r.scenario.system.gpus_per_node : r.scenario.system.nodes;
  if (!r.good(counted_by) || count > 1) return;
  item.refuse("E0273", item.given("tier") ? "tier" : "node",
              "no link is " + place.tier + " here, as " + counted_by + " is 1",
              "remove it, or choose the other tier");
}

void check_flapping(const Item& item, const FlappingLinkSpec& link) {
  check_place(item, link.place);
  if (!item.good("down_s") || !item.good("period_s")) return;
  // Times are whole picoseconds; a shorter period than a microsecond is a mistake of units.
  constexpr double kShortestPeriod = 1e-6;
  constexpr double kShortestUp = 1e-9;
  if (link.period_s < kShortestPeriod) {
    item.refuse("E0274", "period_s",
                "a period of " + number_text(link.period_s) + " s is below " +
                    number_text(kShortestPeriod) + " s",
                "write the period in seconds");
  } else if (link.period_s - link.down_s < kShortestUp) {
    item.refuse("E0274", "down_s",
                "down for " + number_text(link.down_s) + " s of every " +
                    number_text(link.period_s) + " s, nothing would ever move",
                "make down_s less than period_s");
  }
}

// Checks the fields that failures need beside the time between them.
void check_failures(Reading& r) {
  const FaultSpec& faults = r.scenario.faults;
  if (!r.all_good({"faults.gpu_mtbf_hours", "faults.node_mtbf_hours"})) return;
  if (!faults.has_failures()) return;
  const char* const first = r.given("faults.gpu_mtbf_hours") && faults.gpu_mtbf_hours > 0
                                ? "faults.gpu_mtbf_hours"
                                : "faults.node_mtbf_hours";
  const bool writes = r.given("faults.checkpoint_write_s");
  const bool rate = r.given("faults.checkpoint_gb_per_s") && faults.checkpoint_gb_per_s != 0;
  if (writes && rate) {
    r.problem("E0275", "faults.checkpoint_gb_per_s",
              "the time of a checkpoint is given twice: checkpoint_write_s and checkpoint_gb_per_s",
              "give one of them");
  } else if (!writes && !rate && r.good("faults.checkpoint_gb_per_s")) {
    r.problem("E0276", first, "failures are given, and not how long a checkpoint takes",
              "add \"checkpoint_write_s\": 30 or \"checkpoint_gb_per_s\": 100 to \"faults\"");
  }
  if (!r.given("faults.restart_s")) {
    r.problem("E0277", first, "failures are given, and not how long a restart takes",
              "add \"restart_s\": 600 to \"faults\"");
  }
}

// --- Draws -------------------------------------------------------------------------------------

constexpr const char* kDraws = "faults.draws.";

// E0281: a distribution and its spread come together.
std::string factor_problem(const FactorSpec& factor) {
  if (factor.distribution == FactorShape::none && factor.spread > 0) {
    return "a spread without a distribution";
  }
  if (factor.distribution != FactorShape::none && factor.spread == 0) {
    return "a distribution without a spread";
  }
  return "";
}

constexpr const char* kFactorHelp =
    "write both, such as \"distribution\": \"lognormal\", \"spread\": 0.05";

// Whether it is complete.
bool check_jitter(Reading& r, const char* name, const FactorSpec& jitter) {
  const std::string path = std::string(kDraws) + name;
  const std::string problem = factor_problem(jitter);
  if (!r.good(path + ".distribution") || !r.good(path + ".spread")) return false;
  if (problem.empty()) return true;
  const bool has_spread = r.given(path + ".spread");
  r.problem("E0281", path + (has_spread ? ".spread" : ".distribution"), problem, kFactorHelp);
  return false;
}

// E0282: draws are of plans with prices that no moment changes.
void check_draws_fit(Reading& r) {
  if (r.scenario.execution.tensors == TensorMode::real) {
    r.problem("E0282", "faults.draws.count", "draws are of plans, and this run has real tensors",
              "use execution.tensors \"meta\", or remove \"draws\"");
  } else if (!r.scenario.faults.flapping_links.empty()) {
    r.problem("E0282", "faults.draws.count",
              "draws have the same links all the time, and here links flap",
              "remove \"flapping_links\" or \"draws\"");
  }
}

void check_draws(Reading& r) {
  const DrawSpec& draws = r.scenario.faults.draws;
  bool complete = check_jitter(r, "compute_jitter", draws.compute_jitter);
  complete = check_jitter(r, "communication_jitter", draws.communication_jitter) && complete;
  for (std::size_t i = 0; i < draws.stragglers.size(); ++i) {
    const Item item{r, "faults.draws.stragglers", i};
    const std::string problem = factor_problem(draws.stragglers[i].factor);
    const auto is_bad = [&](const char* key) { return item.given(key) && !item.good(key); };
    if (problem.empty() || is_bad("spread") || is_bad("distribution")) continue;
    item.refuse("E0281", item.given("spread") ? "spread" : "distribution", problem, kFactorHelp);
  }
  if (!r.good("faults.draws.count") || !complete) return;
  if (draws.count > 0 && draws.changes_steps()) check_draws_fit(r);
  if (draws.count == 0 && draws.changes_steps()) {
    const char* const place = draws.compute_jitter.spread > 0 ? "faults.draws.compute_jitter.spread"
                              : draws.has_jitter() ? "faults.draws.communication_jitter.spread"
                                                   : "faults.draws.count";
    r.problem("E0279", place, "distributions of faults are given, and no number of draws",
              "add \"count\": 1000 to \"draws\"");
  } else if (draws.count > 0 && !draws.changes_steps() && !r.scenario.faults.has_failures()) {
    r.problem("E0280", "faults.draws.count", "there is nothing to draw",
              "add \"stragglers\" or a jitter to \"draws\", or failures (gpu_mtbf_hours) to "
              "\"faults\"");
  }
}

}  // namespace

void resolve_faults(Reading& r) {
  const FaultSpec& faults = r.scenario.faults;
  for (std::size_t i = 0; i < faults.stragglers.size(); ++i) {
    check_straggler({r, "faults.stragglers", i}, faults.stragglers[i]);
  }
  for (std::size_t i = 0; i < faults.slow_links.size(); ++i) {
    const Item item{r, "faults.slow_links", i};
    check_place(item, faults.slow_links[i].place);
    if (item.given("bandwidth_factor") || item.given("added_latency_us")) continue;
    item.refuse("E0278", item.given("tier") ? "tier" : "node", "a slow link that is not slower",
                "add \"bandwidth_factor\": 0.5 or \"added_latency_us\": 10");
  }
  for (std::size_t i = 0; i < faults.flapping_links.size(); ++i) {
    check_flapping({r, "faults.flapping_links", i}, faults.flapping_links[i]);
  }
  check_failures(r);
  check_draws(r);
}

}  // namespace shardsim
