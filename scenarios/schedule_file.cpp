#include "scenarios/schedule_file.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "strategies/pipeline/schedule_csv.hpp"

#include "scenarios/read_file.hpp"
#include "scenarios/resolve.hpp"

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

}  // namespace

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

}  // namespace shardsim
