#include <utility>

#include "scenarios/field_table.hpp"

namespace shardsim {

namespace {

using F = FaultSpec;

bool with_failures(const Scenario& s) { return s.faults.has_failures(); }

constexpr auto kStragglers = [](auto& s) -> auto& { return s.faults.stragglers; };
constexpr auto kSlowLinks = [](auto& s) -> auto& { return s.faults.slow_links; };
constexpr auto kFlappingLinks = [](auto& s) -> auto& { return s.faults.flapping_links; };

constexpr auto kDrawnStragglers = [](auto& s) -> auto& { return s.faults.draws.stragglers; };

// An optional place; a place that is not chosen is not written.
Field place_row(Field row, double last, const char* derived, const char* doc) {
  row.get_item = [read = std::move(row.get_item)](const Scenario& s, std::size_t index) {
    std::optional<FieldValue> value = read(s, index);
    return *value == FieldValue(kNotChosen) ? std::nullopt : value;
  };
  return row.range(0, last).derived(derived).doc(doc);
}

Field tier_row(Field row) {
  return row.one_of({"intra_node", "inter_node"})
      .or_else("\"inter_node\"")
      .doc("Links inside nodes, or network cards and what is between nodes.");
}

std::vector<Field> straggler_fields() {
  using S = StragglerSpec;
  const char* const other = "as rank, stage or node says; give exactly one of them";
  return {
      place_row(item_field("faults.stragglers[].rank", kStragglers, &S::rank), kTwoTo40, other,
                "One rank."),
      place_row(item_field("faults.stragglers[].stage", kStragglers, &S::stage), kTwoTo20, other,
                "All ranks of one pipeline rank, from 0 to pp - 1."),
      place_row(item_field("faults.stragglers[].node", kStragglers, &S::node), kTwoTo40, other,
                "All ranks of one node."),
      item_field("faults.stragglers[].slowdown", kStragglers, &S::slowdown)
          .range(1, 1000)
          .required()
          .doc("Factor by which computing is slower there. For a rank named by several lines the "
               "factors multiply."),
  };
}

std::vector<Field> link_fields() {
  using S = SlowLinkSpec;
  using L = FlappingLinkSpec;
  const char* const all = "all nodes, where tier is given";
  const char* const node = "The links of one node; with tier inter_node its network cards.";
  return {
      place_row(item_field("faults.slow_links[].node", kSlowLinks, &S::place, &LinkPlaceSpec::node),
                kTwoTo40, all, node),
      tier_row(item_field("faults.slow_links[].tier", kSlowLinks, &S::place, &LinkPlaceSpec::tier)),
      item_field("faults.slow_links[].bandwidth_factor", kSlowLinks, &S::bandwidth_factor)
          .above(0, 1)
          .or_else("1")
          .doc("Share of the bandwidth that is left. The smallest of several lines holds."),
      item_field("faults.slow_links[].added_latency_us", kSlowLinks, &S::added_latency_us)
          .range(0, 1e9)
          .unit("us")
          .or_else("0")
          .doc("Time added to the latency: of every message of an algorithm with network_model "
               "alpha_beta, of every operation with nccl. The largest of several lines holds."),
      place_row(item_field("faults.flapping_links[].node", kFlappingLinks, &L::place,
                           &LinkPlaceSpec::node),
                kTwoTo40, all, node),
      tier_row(item_field("faults.flapping_links[].tier", kFlappingLinks, &L::place,
                          &LinkPlaceSpec::tier)),
      item_field("faults.flapping_links[].down_s", kFlappingLinks, &L::down_s)
          .above(0, 1e6)
          .unit("s")
          .required()
          .doc("How long the links are down. Transfers in flight wait and then continue."),
      item_field("faults.flapping_links[].period_s", kFlappingLinks, &L::period_s)
          .above(0, 1e6)
          .unit("s")
          .required()
          .doc("From the start of one outage to the start of the next."),
      item_field("faults.flapping_links[].phase_s", kFlappingLinks, &L::phase_s)
          .range(0, 1e6)
          .unit("s")
          .or_else("0")
          .doc("When the first outage begins, from the start of the run."),
  };
}

// 0 asks for the derived value, which needs more than the scenario.
template <typename... Members>
Field automatic_row(const char* path, Members... members) {
  Field row = field(path, members...);
  row.get = [members...](const Scenario& s) {
    const double value = (s.*....*members);
    return value > 0 ? FieldValue(value) : FieldValue(std::string("auto"));
  };
  return row.or_auto();
}

// --- Draws -------------------------------------------------------------------------------------

bool with_draws(const Scenario& s) { return s.faults.draws.count > 0; }

std::vector<Field> drawn_straggler_fields() {
  using S = DrawnStragglerSpec;
  return {
      item_field("faults.draws.stragglers[].part", kDrawnStragglers, &S::part)
          .one_of({"rank", "node", "stage"})
          .or_else("\"rank\"")
          .doc("Parts of the job that may be stragglers: each rank, node or pipeline stage for "
               "itself."),
      item_field("faults.draws.stragglers[].probability", kDrawnStragglers, &S::probability)
          .above(0, 1)
          .required()
          .doc("Probability that a part is a straggler in a draw."),
      item_field("faults.draws.stragglers[].slowdown", kDrawnStragglers, &S::slowdown)
          .range(1, 1000)
          .required()
          .doc("Factor by which a straggler computes slower."),
      item_field("faults.draws.stragglers[].distribution", kDrawnStragglers, &S::factor,
                 &FactorSpec::distribution)
          .or_else("\"none\"")
          .doc("Distribution of a factor beside slowdown, drawn for each straggler."),
      item_field("faults.draws.stragglers[].spread", kDrawnStragglers, &S::factor,
                 &FactorSpec::spread)
          .range(0, 2)
          .or_else("0")
          .doc("Spread s of that factor: uniform 1 + s u, exponential 1 - s ln(1 - u), lognormal "
               "exp(s z)."),
  };
}

std::vector<Field> jitter_fields(const char* distribution, const char* spread,
                                 FactorSpec DrawSpec::*jitter, const std::string& of) {
  return {
      field(distribution, &Scenario::faults, &F::draws, jitter, &FactorSpec::distribution)
          .or_else("\"none\"")
          .doc("Distribution of the factor on the time of " + of + "."),
      field(spread, &Scenario::faults, &F::draws, jitter, &FactorSpec::spread)
          .range(0, 2)
          .or_else("0")
          .sourced()
          .doc("Spread s of that factor: uniform 1 + s u, exponential 1 - s ln(1 - u), lognormal "
               "exp(s z), with u uniform in (0, 1) and z standard normal."),
  };
}

std::vector<Field> draw_fields() {
  using D = DrawSpec;
  std::vector<Field> draws = {
      field("faults.draws.count", &Scenario::faults, &F::draws, &D::count)
          .range(0, kTwoTo20)
          .or_else("0")
          .doc("How many times faults are drawn; each draw simulates a step, and failures of a "
               "training. 0: not at all."),
      field("faults.draws.seed", &Scenario::faults, &F::draws, &D::seed)
          .range(0, kTwoTo53)
          .or_else("0")
          .acts_when("draws are requested", with_draws)
          .doc("Seed of the draws: the same seed draws the same faults."),
      automatic_row("faults.draws.training_days", &Scenario::faults, &F::draws, &D::training_days)
          .above(0, 1e5)
          .unit("days")
          .derived("the days that training.tokens_total takes, or 30 without tokens_total")
          .acts_when("draws and failures are requested",
                     [](const Scenario& s) { return with_draws(s) && with_failures(s); })
          .doc("Training, without what failures cost, in which each draw has failures."),
  };
  return joined({draws,
                 jitter_fields("faults.draws.compute_jitter.distribution",
                               "faults.draws.compute_jitter.spread", &D::compute_jitter,
                               "each operation that computes"),
                 jitter_fields("faults.draws.communication_jitter.distribution",
                               "faults.draws.communication_jitter.spread", &D::communication_jitter,
                               "each communication"),
                 drawn_straggler_fields()});
}

// --- Failures ----------------------------------------------------------------------------------

Field failure_field(const char* path, double F::*member) {
  return field(path, &Scenario::faults, member).sourced();
}

std::vector<Field> checkpoint_fields() {
  return {
      automatic_row("faults.checkpoint_interval_s", &Scenario::faults, &F::checkpoint_interval_s)
          .above(0, 1e9)
          .unit("s")
          .acts_when("failures are given", with_failures)
          .derived("the optimum of Daly (2006)")
          .doc("Training between two checkpoints. With failures the work since the last one is "
               "lost."),
      automatic_row("faults.checkpoint_write_s", &Scenario::faults, &F::checkpoint_write_s)
          .above(0, 1e9)
          .unit("s")
          .acts_when("failures are given", with_failures)
          .derived("weights and optimizer state / checkpoint_gb_per_s")
          .sourced()
          .doc("Time that training stands still for a checkpoint. If it is written beside "
               "training: only the stall."),
      failure_field("faults.checkpoint_gb_per_s", &F::checkpoint_gb_per_s)
          .range(0, 1e9)
          .unit("GB/s")
          .or_else("0")
          .acts_when("checkpoint_write_s is auto",
                     [](const Scenario& s) {
                       return with_failures(s) && s.faults.checkpoint_write_s == 0;
                     })
          .doc("Rate at which the storage takes the whole job's checkpoint; 0: not known."),
      failure_field("faults.detection_s", &F::detection_s)
          .range(0, 1e9)
          .unit("s")
          .or_else("0")
          .acts_when("failures are given", with_failures)
          .doc("From a failure until it is noticed."),
      failure_field("faults.restart_s", &F::restart_s)
          .range(0, 1e9)
          .unit("s")
          .derived("none: failures need it")
          .acts_when("failures are given", with_failures)
          .doc("From then on until training goes on: nodes replaced, program started, checkpoint "
               "read."),
  };
}

}  // namespace

std::vector<Section> fault_sections() {
  return {
      {"faults",
       "Faults of the machine; there are no others. Lists make steps "
       "slower; failures (`gpu_mtbf_hours`, `node_mtbf_hours`) lower the goodput."},
      list_section("faults.stragglers", "Ranks that compute slower than the others.", kStragglers,
                   "a straggler", R"({"rank": 3, "slowdown": 1.2})"),
      list_section("faults.slow_links",
                   "Links that are always slower. A collective, or a message, is as slow as the "
                   "slowest link it uses.",
                   kSlowLinks, "a slow link", R"({"node": 3, "bandwidth_factor": 0.5})"),
      list_section("faults.flapping_links",
                   "Links that fail and recover periodically. Transfers over them wait meanwhile.",
                   kFlappingLinks, "a flapping link",
                   R"({"node": 3, "down_s": 0.5, "period_s": 60})"),
      {"faults.draws",
       "Faults that are drawn many times over one recording of the step: percentiles of the step "
       "time, of the goodput and of the training's days. There is no default distribution."},
      {"faults.draws.compute_jitter", "A random factor on each operation that computes."},
      {"faults.draws.communication_jitter", "A random factor on each communication."},
      list_section("faults.draws.stragglers",
                   "Parts that are stragglers with a probability; the lines multiply.",
                   kDrawnStragglers, "a drawn straggler",
                   R"({"part": "rank", "probability": 0.001, "slowdown": 1.2})"),
  };
}

std::vector<Field> fault_fields() {
  std::vector<Field> failures = {
      failure_field("faults.gpu_mtbf_hours", &F::gpu_mtbf_hours)
          .range(0, 1e12)
          .unit("h")
          .or_else("0")
          .doc("Mean time between failures of one GPU that stop the training; 0: none do. "
               "Published figures are in docs/guide/faults.md."),
      failure_field("faults.node_mtbf_hours", &F::node_mtbf_hours)
          .range(0, 1e12)
          .unit("h")
          .or_else("0")
          .doc("The same of one node, beside its GPUs' own: the rates add up."),
      field("faults.observed_failures", &Scenario::faults, &F::observed_failures)
          .range(0, kTwoTo31)
          .or_else("0")
          .acts_when("failures are given", with_failures)
          .doc("How many failures these figures were counted from: the fewer, the wider is the "
               "band of the goodput. 0: not known, no band."),
  };
  return joined({failures, checkpoint_fields(), straggler_fields(), link_fields(), draw_fields()});
}

}  // namespace shardsim
