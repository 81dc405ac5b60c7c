#include "sim/command/import_layout.hpp"

#include <atomic>
#include <ostream>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "reports/units.hpp"
#include "sim/console/parallel.hpp"
#include "sim/console/progress.hpp"
#include "sim/search/search_report.hpp"

namespace shardsim {

namespace {

// A first good layout takes seconds, and who imports a file waits for it.
constexpr double kLimitS = 20.0;

SearchOutcome search_shortly(const SearchBase& base, const SearchRequest& request,
                             std::ostream& err) {
  const InterruptWatch interrupt;
  Progress progress(err, true, Progress::Where::terminal);
  // The best is wanted alone: once it is proven, the rest is left out.
  std::atomic<bool> is_decided = false;
  SearchHooks hooks;
  hooks.jobs = default_jobs();
  hooks.on_progress = [&](const SearchProgress& found) {
    is_decided = found.fits_none || (found.best && is_proven(*found.best, found.gap));
    progress.tick(fmt::format("searching a layout, {} simulated", found.simulated));
  };
  hooks.stop = [&] {
    if (interrupt.is_asked()) return SearchStop::interrupt;
    return is_decided || progress.seconds() >= kLimitS ? SearchStop::time_limit : SearchStop::none;
  };
  SearchOutcome outcome = search(base, request, hooks);
  progress.done();
  return outcome;
}

[[noreturn]] void refuse(const SearchReport& report, const std::string& model) {
  std::string why = report.stop == SearchStop::none || report.num_open == 0
                        ? "no layout fits"
                        : fmt::format("no layout that fits was found in {:.3g} s", kLimitS);
  if (!report.least_that_did_not_fit.empty()) {
    why += fmt::format("; {} needs {} of {}", report.least_that_did_not_fit,
                       format_memory(report.least_bytes_not_fitting),
                       format_memory(report.memory_capacity_bytes));
  }
  throw Error(ExitCode::does_not_fit, "E1348",
              fmt::format("{} on {} GPUs of {}: {}", model, report.num_gpus, report.system, why),
              "use more GPUs or larger ones; without --plan the file is written with a layout that "
              "is assumed");
}

const ForeignValue kPlanOption = {"--plan", ""};

// Fields of a layout that are 1 or off have that as their default.
void write_layout_fields(const Candidate& layout, const std::string& why, Import& import) {
  const auto degree = [&](const char* path, std::int64_t value) {
    if (value > 1) import.derive(kPlanOption, path, value, why);
  };
  degree("parallelism.tp", layout.tp);
  degree("parallelism.cp", layout.cp);
  degree("parallelism.pp", layout.pp);
  degree("parallelism.ep", layout.ep);
  degree("parallelism.etp", layout.etp);
  degree("parallelism.vpp", layout.vpp);
  degree("parallelism.dp_replicate", layout.dp_replicate);
  import.derive(kPlanOption, "parallelism.zero_stage", std::int64_t{layout.zero_stage}, why);
  if (layout.sequence_parallel) {
    import.derive(kPlanOption, "parallelism.sequence_parallel", true, why);
  }
  if (layout.schedule != "none") {
    import.derive(kPlanOption, "parallelism.schedule", std::string(layout.schedule), why);
  }
  import.derive(kPlanOption, "training.micro_batch_size", layout.micro_batch_size, why);
  import.derive(kPlanOption, "training.recompute", std::string(to_string(layout.recompute)), why);
}

}  // namespace

void plan_imported(const ImportRequest& request, const std::string& preset, std::int64_t gpus,
                   Import& import, std::ostream& err) {
  SearchRequest wanted;
  wanted.model = request.files.front();
  wanted.gpu = preset;
  wanted.num_gpus = gpus;
  wanted.approximate = request.approximate;
  wanted.top = 1;
  wanted.front_within = 1.0;
  wanted.time_limit_s = kLimitS;
  const SearchBase base = prepare_search(wanted);
  const SearchReport report = report_of(base, wanted, search_shortly(base, wanted, err));
  if (report.stop == SearchStop::interrupt) {
    throw Error(ExitCode::interrupted, "E9000", "the search of a layout was interrupted",
                "give the command again, or leave --plan out");
  }
  if (report.ranked.empty()) refuse(report, request.files.front());
  const SimulatedPoint& best = report.ranked.front();
  write_layout_fields(best.candidate, "the fastest that was found", import);
  import.derive(kPlanOption, "system.software", base.scenario.system.software,
                "the framework that it was priced as");
  import.derive(kPlanOption, "training.global_batch_size", report.global_batch_size,
                "4 Ki tokens for each GPU, from 1 Mi to 16 Mi tokens");
  err << fmt::format("layout {}: a step takes {} by the model, {} of {} on the device",
                     words_of(best.candidate), format_seconds(best.step_time_s),
                     format_memory(best.device_bytes), format_memory(report.memory_capacity_bytes));
  if (report.gap && *report.gap > 0) {
    err << fmt::format("; the best possible is at most {} % faster",
                       format_number(*report.gap * kPercent));
  }
  err << "\n";
}

}  // namespace shardsim
