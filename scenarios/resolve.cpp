#include "scenarios/resolve.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "strategies/pipeline/schedule_csv.hpp"

#include "scenarios/limits.hpp"
#include "scenarios/read_file.hpp"

namespace shardsim {

namespace {

constexpr const char* kField = "parallelism.schedule_file";
constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

void add(Reading& r, const SourceText& source, const CsvProblem& problem) {
  const std::string cell =
      printable(std::string_view(source.text).substr(problem.offset, problem.length));
  const std::string place =
      problem.cell == 0 ? std::string() : "cell " + text_of(problem.cell) + " (" + cell + ") ";
  r.problems.add("E0007", {&source, problem.offset, problem.length}, "", place + problem.what,
                 problem.fix);
}

// The path from the folder where the command runs.
std::string beside_scenario(const Reading& r, const std::string& path) {
  return (std::filesystem::path(r.folder) / path).lexically_normal().string();
}

// Reads and parses parallelism.schedule_file if the schedule is "file". Every cell that is no
// action is a problem at its line and cell. REQUIRES: the fields are read; resolve_batch() comes
// later.
void resolve_schedule_file(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  if (!r.all_good({"parallelism.schedule", kField}) || p.schedule != kScheduleFromFile) return;
  if (p.schedule_file.empty()) {
    return r.problem("E0103", "parallelism.schedule",
                     "schedule \"file\" needs parallelism.schedule_file",
                     "name a CSV file, relative to the scenario's folder");
  }
  const std::string path = beside_scenario(r, p.schedule_file);
  r.scenario.files.push_back({kField, path});
  const std::optional<std::string> text = read_regular_file(path, kMaxBytes, r.problems);
  if (!text) return;
  ScheduleCsv csv = parse_schedule_csv(*text, path);
  const SourceText source{path, *text, false};
  for (const CsvProblem& problem : csv.problems) add(r, source, problem);
  if (!csv.problems.empty()) return;
  if (csv.num_left_out > 0) {
    r.scenario.warnings.push_back(
        text_of(csv.num_left_out) + " UNSHARD, RESHARD and REDUCE_GRAD cells of " +
        p.schedule_file +
        " are left out: zero_stage and its fields say when parameters are gathered and gradients "
        "reduced");
  }
  r.scenario.own_schedule = std::make_shared<const PipelineSchedule>(std::move(csv.schedule));
}

// Its shape is that of the scenario's pipeline. REQUIRES: resolve_batch().
void check_schedule_file(Reading& r) {
  if (r.scenario.own_schedule == nullptr) return;
  const ParallelismSpec& p = r.scenario.parallelism;
  const PipelineShape& shape = r.scenario.own_schedule->shape;
  if (r.good("parallelism.pp") && p.pp != shape.num_ranks) {
    r.problem("E0206", "parallelism.pp",
              "schedule_file has " + text_of(shape.num_ranks) +
                  " lines, one per pipeline rank, but "
                  "pp is " +
                  text_of(p.pp),
              "set pp to " + text_of(shape.num_ranks));
  }
  if (r.good("parallelism.vpp") && p.vpp != shape.num_chunks) {
    r.problem("E0206", "parallelism.vpp",
              "schedule_file has " + text_of(shape.num_chunks) + " stages per rank, but vpp is " +
                  text_of(p.vpp),
              "leave vpp out");
  }
  const std::int64_t microbatches = r.scenario.training.num_microbatches;
  if (r.good("training.num_microbatches") && microbatches != shape.num_microbatches) {
    r.problem("E0204", "training.global_batch_size",
              "schedule_file has " + text_of(shape.num_microbatches) +
                  " microbatches, but there are " + text_of(microbatches),
              "change global_batch_size or micro_batch_size");
  }
}

// One node's worth of ranks of the first replica, the ones that people compare first.
void resolve_trace_ranks(Reading& r) {
  constexpr std::int64_t kEnough = 8;
  if (!r.good("system.ranks")) {
    return;
  }
  std::vector<std::int64_t> first(
      static_cast<std::size_t>(std::min(kEnough, r.scenario.system.ranks)));
  std::iota(first.begin(), first.end(), 0);
  derive(r, "output.trace_ranks", r.scenario.output.trace_ranks, first);
}

}  // namespace

std::string divisors(std::int64_t number, std::int64_t limit) {
  std::string list;
  int found = 0;
  for (std::int64_t d = 1; d <= std::min<std::int64_t>({number, limit, 4096}) && found < 12; ++d) {
    if (number % d == 0) {
      list += (found++ == 0 ? "" : ", ") + text_of(d);
    }
  }
  return list;
}

void resolve(Reading& r) {
  resolve_model(r);
  resolve_system(r);
  resolve_network(r);
  resolve_layout(r);
  resolve_sharding(r);
  resolve_offload(r);
  resolve_batch(r);
  resolve_tensor_parallel(r);
  resolve_context_parallel(r);
  resolve_experts(r);
  resolve_blocks(r);
  resolve_schedule_file(r);
  resolve_chunks(r);
  resolve_stages(r);
  resolve_pipeline(r);
  check_schedule_file(r);
  resolve_training(r);
  resolve_data_parallel(r);
  resolve_faults(r);
  resolve_trace_ranks(r);
  check_expectations(r);
  check_outputs(r);
  check_limits(r);
  check_nccl_calls(r);
}

}  // namespace shardsim
