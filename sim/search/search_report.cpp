#include "sim/search/search_report.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "sim/kernel/time.hpp"

#include "reports/pages.hpp"
#include "reports/units.hpp"
#include "sim/experiment/model_words.hpp"

namespace shardsim {
namespace {

constexpr double kTrillion = 1e12;

std::vector<CategoryDifference> differences_of(const SimulatedPoint& best,
                                               const SimulatedPoint& next) {
  return {{"compute", best.compute_s, next.compute_s},
          {"exposed communication", best.exposed_comm_s, next.exposed_comm_s},
          {"bubble", best.bubble_s, next.bubble_s},
          {"host", best.host_s, next.host_s}};
}

// "1f1b instead of zb_h1": the first fields in which two candidates differ.
std::string changed_words(const Candidate& best, const Candidate& next) {
  std::string words;
  const auto compare = [&words](const char* name, const auto& a, const auto& b) {
    if (a == b) return;
    words += fmt::format("{}{} {} instead of {}", words.empty() ? "" : ", ", name, b, a);
  };
  compare("tp", best.tp, next.tp);
  compare("cp", best.cp, next.cp);
  compare("pp", best.pp, next.pp);
  compare("ep", best.ep, next.ep);
  compare("etp", best.etp, next.etp);
  compare("dp_replicate", best.dp_replicate, next.dp_replicate);
  compare("zero_stage", best.zero_stage, next.zero_stage);
  compare("schedule", best.schedule, next.schedule);
  compare("vpp", best.vpp, next.vpp);
  compare("micro_batch_size", best.micro_batch_size, next.micro_batch_size);
  compare("sequence_parallel", best.sequence_parallel, next.sequence_parallel);
  compare("recompute", std::string_view(to_string(best.recompute)), to_string(next.recompute));
  return words;
}

// `name`: the next one's.
std::string why_behind(const SearchReport& report, const SimulatedPoint& best,
                       const SimulatedPoint& next, const std::string& name) {
  const std::string changed = changed_words(best.candidate, next.candidate);
  if (next.is_tight && !best.is_tight) {
    return fmt::format("{} ({}) leaves less than {:.3g} % of the memory free, so it may run out.",
                       name, changed, report.memory_margin * kPercent);
  }
  if (report.objective == Objective::memory) {
    return fmt::format("{} ({}) holds {} more.", name, changed,
                       format_memory(next.device_bytes - best.device_bytes));
  }
  const double slower = next.step_time_s - best.step_time_s;
  if (slower <= 0.0) {
    return fmt::format("{} ({}) takes the same time and {} more memory.", name, changed,
                       format_memory(next.device_bytes - best.device_bytes));
  }
  const std::vector<CategoryDifference> differences = differences_of(best, next);
  const CategoryDifference* most = &differences.front();
  double saved = 0;
  for (const CategoryDifference& category : differences) {
    const double lost = category.runner_up_s - category.best_s;
    if (lost > most->runner_up_s - most->best_s) most = &category;
    if (lost < 0) saved -= lost;
  }
  std::string text = fmt::format("{} ({}) is {:.2g} % slower: {} more {}", name, changed,
                                 slower / best.step_time_s * kPercent,
                                 format_seconds(most->runner_up_s - most->best_s), most->category);
  if (saved > 0) text += fmt::format(", of which {} are won back elsewhere", format_seconds(saved));
  return text + ".";
}

// "number 3 of 20 layouts", or as near to it as bounds say.
std::string rank_words(const SearchReport& report, const GivenOutcome& given) {
  const std::size_t first = given.num_ahead + 1;
  const std::string all = format_count(report.num_candidates);
  if (given.num_undecided == 0) {
    return fmt::format("number {} of {} layouts", format_count(first), all);
  }
  return fmt::format(
      "between number {} and number {} of {} layouts, as {} that were not simulated "
      "may be better than it by their bounds",
      format_count(first), format_count(first + given.num_undecided), all,
      format_count(given.num_undecided));
}

void add_least(SearchReport& report, const SearchOutcome& outcome) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const SimulatedPoint& point : outcome.simulated) {
    if (point.fits) continue;
    ++report.num_did_not_fit;
    if (point.device_bytes >= least) continue;
    least = report.least_bytes_not_fitting = point.device_bytes;
    report.least_that_did_not_fit = words_of(point.candidate);
    report.least_is_simulated = true;
  }
  if (outcome.least_bytes == 0 || outcome.least_bytes >= least) return;
  report.least_bytes_not_fitting = outcome.least_bytes;
  report.least_that_did_not_fit = words_of(outcome.least);
  report.least_is_simulated = false;
}

std::vector<LayoutRow> rows_of(const SearchReport& report,
                               const std::vector<SimulatedPoint>& points) {
  std::vector<LayoutRow> rows;
  rows.reserve(points.size());
  for (const SimulatedPoint& point : points) {
    rows.push_back({.layout = words_of(point.candidate),
                    .step_s = point.step_time_s,
                    .mfu = point.mfu,
                    .tokens_per_s_per_gpu = point.tokens_per_s_per_gpu,
                    .device_bytes = point.device_bytes,
                    .usd_per_1t_tokens = report.usd_per_1t_tokens(point)});
  }
  return rows;
}

std::string counts_of(const SearchReport& report) {
  std::string text = fmt::format(
      "{} layouts: {} simulated in full, {} shown by bounds to be worse, {} shown not to fit.",
      format_count(report.num_candidates), format_count(report.num_simulated),
      format_count(report.num_slower), format_count(report.num_too_large));
  if (report.num_did_not_fit > 0) {
    text +=
        fmt::format(" {} of those simulated did not fit.", format_count(report.num_did_not_fit));
  }
  if (!report.least_that_did_not_fit.empty()) {
    text += fmt::format(" The smallest layout that does not fit is {}: {}{}.",
                        report.least_that_did_not_fit, report.least_is_simulated ? "" : "at least ",
                        format_memory(report.least_bytes_not_fitting));
  }
  if (report.num_refused > 0) {
    text += fmt::format(" {} turned out to be invalid.", format_count(report.num_refused));
  }
  if (report.num_failed > 0) {
    text += fmt::format(" {} failed, the first ({}) with: {}.", format_count(report.num_failed),
                        report.first_failed, report.first_failure);
  }
  if (report.stop == SearchStop::none) return text + " The search is complete.";
  text += fmt::format(" {} were left open. The search was {}.", format_count(report.num_open),
                      stop_words(report));
  return text;
}

// The order of the page, by Objective.
constexpr std::array kOrders = {"fastest first", "smallest first", "cheapest first"};

void measure_given(const SearchBase& base, SearchReport& report) {
  const SimulatedPoint& point = *report.given->point;
  const SearchBase own = base_of_given(base, *base.given);
  report.given_measured = measured_like(compile(scenario_of(own, point.candidate)), point);
  if (report.tokens <= 0) return;
  report.given_training =
      training_figures(report.given_measured, report.tokens, report.usd_per_gpu_hour);
}

// "It takes 14.8 days and $415 k more."
std::string training_lost(const SearchReport& report) {
  if (!report.given_training || report.training.empty()) return {};
  const TrainingFigures& best = report.training.front();
  const TrainingFigures& given = *report.given_training;
  const double days = given.days.centre - best.days.centre;
  if (days <= 0) return {};
  std::string text = fmt::format(" The training takes {} days", format_number(days));
  if (given.usd && best.usd) {
    text += " and $" + format_amount(given.usd->centre - best.usd->centre, Digits::three);
  }
  return text + " more.";
}

}  // namespace

std::string given_words(const SearchReport& report) {
  const GivenOutcome& given = *report.given;
  std::string text;
  if (!given.why_not_searched.empty()) {
    text =
        fmt::format("It is not among the layouts that are searched: {}. ", given.why_not_searched);
  }
  if (!given.point) return text + fmt::format("It was not simulated: {}.", given.failure);
  const SimulatedPoint& point = *given.point;
  if (!point.fits) {
    return text + fmt::format("It does not fit: it needs {} of {}. By its {} alone it would be {}.",
                              format_memory(point.device_bytes),
                              format_memory(report.memory_capacity_bytes),
                              report.objective == Objective::memory ? "memory" : "step",
                              rank_words(report, given));
  }
  text += fmt::format("It is {}.", rank_words(report, given));
  if (report.ranked.empty() || given.num_ahead == 0) return text;
  const SimulatedPoint& best = report.ranked.front();
  text += " " + why_behind(report, best, point, "Against #1 it") + training_lost(report);
  if (!point.is_tight || best.is_tight) return text;
  return text + fmt::format(" Its step is {} against {}.", format_seconds(point.step_time_s),
                            format_seconds(best.step_time_s));
}

std::string stop_words(const SearchReport& report) {
  const bool is_memory = report.objective == Objective::memory;
  const auto words_of = [&](double value) {
    return is_memory ? format_memory(value) : format_seconds(value);
  };
  std::string text = report.stop == SearchStop::interrupt
                         ? std::string("interrupted")
                         : fmt::format("stopped after {:.6g} s", report.time_limit_s);
  if (report.ranked.empty()) {
    if (report.num_candidates > 0 && report.num_open == 0) return text + ": no layout fits";
    text += ": no layout that fits was found so far";
  } else {
    const SimulatedPoint& best = report.ranked.front();
    text +=
        ": best " + words_of(is_memory ? static_cast<double>(best.device_bytes) : best.step_time_s);
  }
  if (!report.lower_bound) return text + "; nothing is known of the rest";
  if (!report.ranked.empty() && is_proven(report.ranked.front(), report.gap)) {
    return text + "; nothing left can rank above it (gap 0 %)";
  }
  if (report.gap == 0.0) {
    return text + "; nothing left is better, but slower layouts that leave the margin may be left";
  }
  text += fmt::format("; nothing left that could rank first {} than {}",
                      is_memory ? "needs less" : "is faster", words_of(*report.lower_bound));
  if (report.gap) text += fmt::format(" (gap {:.3g} %)", *report.gap * kPercent);
  return text;
}

double SearchReport::usd_per_1t_tokens(const SimulatedPoint& point) const {
  if (usd_per_gpu_hour <= 0 || point.tokens_per_s <= 0) return 0;
  return kTrillion / point.tokens_per_s / kSecondsPerHour * usd_per_gpu_hour *
         static_cast<double>(num_gpus);
}

SearchReport report_of(const SearchBase& base, const SearchRequest& request,
                       const SearchOutcome& outcome) {
  const Scenario& s = base.scenario;
  SearchReport report;
  report.model = s.model.preset.empty() ? request.model : s.model.preset;
  report.system = s.system.name;
  report.num_gpus = s.system.ranks;
  report.seq_len = s.model.seq_len;
  report.global_batch_size = s.training.global_batch_size;
  report.precision = to_string(s.training.precision);
  report.recipe = s.training.fp8_recipe;
  report.objective = request.objective;
  report.memory_capacity_bytes = s.system.device.memory_bytes;
  report.memory_margin = s.execution.memory_margin;
  report.usd_per_gpu_hour =
      request.usd_per_gpu_hour > 0 ? request.usd_per_gpu_hour : s.cost.usd_per_gpu_hour;
  report.tokens = s.training.tokens_total;
  report.assumptions = base.assumptions;
  report.ignored = base.ignored;
  report.warnings = base.warnings;
  report.mfu_counts = mfu_convention(s.model);
  report.not_modelled = s.model.not_modelled;
  for (const NumberSource& source : s.sources) {
    if (source.field.rfind("system.", 0) != 0) continue;
    report.sources.push_back(source.field + ": " + source.source);
  }
  std::ranges::copy_if(outcome.simulated, std::back_inserter(report.others), &SimulatedPoint::fits);
  std::ranges::sort(report.others, [&](const SimulatedPoint& a, const SimulatedPoint& b) {
    return ranks_before(a, b, request.objective);
  });
  report.ranked = best_of_families(report.others);
  report.ranked.resize(std::min(report.ranked.size(), static_cast<std::size_t>(request.top)));
  for (const SimulatedPoint& point : report.ranked) {
    report.measured.push_back(measured_like(compile(scenario_of(base, point.candidate)), point));
    if (report.tokens <= 0) continue;
    report.training.push_back(
        training_figures(report.measured.back(), report.tokens, report.usd_per_gpu_hour));
  }
  report.front = pareto_front(outcome.simulated, request.front_within);
  report.front_within = request.front_within;
  report.time_limit_s = request.time_limit_s;
  if (report.ranked.size() > 1) {
    report.differences = differences_of(report.ranked[0], report.ranked[1]);
    report.why_runner_up = why_behind(report, report.ranked[0], report.ranked[1], "#2");
  }
  static_cast<SearchCounts&>(report) = outcome;
  report.num_simulated = outcome.simulated.size();
  report.given = outcome.given;
  if (report.given && report.given->point) measure_given(base, report);
  if (outcome.num_failed > 0) report.first_failed = words_of(outcome.failed);
  add_least(report, outcome);
  return report;
}

LayoutPage page_of(const SearchReport& report) {
  LayoutPage page;
  page.title = fmt::format("{} on {} GPU{} of {}", report.model, format_count(report.num_gpus),
                           report.num_gpus == 1 ? "" : "s", report.system);
  page.facts = fmt::format("{}, {} tokens per sequence, global batch {}", report.precision,
                           format_count(report.seq_len), format_count(report.global_batch_size));
  page.order = kOrders.at(static_cast<std::size_t>(report.objective));
  page.why = report.why_runner_up.empty() ? "" : "The second: " + report.why_runner_up;
  const std::string measured = measured_words(report);
  page.counts =
      (measured.empty() ? "" : "Numbers without a range are by the model. " + measured + " ") +
      counts_of(report);
  if (report.given) {
    page.counts += fmt::format(" The given layout is {}. {}", words_of(report.given->candidate),
                               given_words(report));
  }
  page.capacity_bytes = report.memory_capacity_bytes;
  page.ranked = rows_of(report, report.ranked);
  page.front = rows_of(report, report.front);
  page.others = rows_of(report, report.others);
  page.assumptions = {"MFU counts " + report.mfu_counts};
  if (!report.not_modelled.empty())
    page.assumptions.push_back("not modelled: " + report.not_modelled);
  page.assumptions.insert(page.assumptions.end(), report.warnings.begin(), report.warnings.end());
  page.assumptions.insert(page.assumptions.end(), report.assumptions.begin(),
                          report.assumptions.end());
  page.assumptions.insert(page.assumptions.end(), report.ignored.begin(), report.ignored.end());
  page.assumptions.insert(page.assumptions.end(), report.sources.begin(), report.sources.end());
  return page;
}

}  // namespace shardsim
