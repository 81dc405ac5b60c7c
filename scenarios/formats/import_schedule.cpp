#include <filesystem>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/schedule_csv.hpp"
#include "strategies/pipeline/validate.hpp"

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

PipelineSchedule read_schedule(const std::string& path) {
  const SourceText source = {path, read_foreign_text(path)};
  ScheduleCsv csv = parse_schedule_csv(source.text, path);
  ProblemList problems;
  for (const CsvProblem& problem : csv.problems) {
    problems.add("E1368", {&source, problem.offset, problem.length}, "", problem.what, problem.fix);
  }
  problems.throw_if_any();
  return std::move(csv.schedule);
}

// Until October 2024 (pull request 138886) PyTorch wrote a B before a W for today's I.
bool has_old_letters(const PipelineSchedule& schedule) {
  bool has_whole = false;
  bool has_weight = false;
  for (const std::vector<Action>& cells : schedule.actions) {
    for (const Action& action : cells) {
      has_whole = has_whole || action.kind == ActionKind::backward;
      has_weight = has_weight || action.kind == ActionKind::backward_weight;
    }
  }
  return has_whole && has_weight;
}

void require_sound(const PipelineSchedule& schedule) {
  const std::vector<ScheduleProblem> problems = validate(schedule);
  if (problems.empty()) return;
  const std::string explained = explain(schedule, problems.front());
  throw Error(
      ExitCode::communication, "E1370", explained.substr(0, explained.find('\n')),
      has_old_letters(schedule)
          ? "where W cells follow, write I for B: PyTorch did not until October 2024"
          : fmt::format("correct the file; this is the first of {} problems", problems.size()));
}

// As the scenario will name it: relative to its own folder.
std::string beside_output(const std::string& path, const std::string& output) {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::absolute(output.empty() ? fs::path("x") : fs::path(output)).parent_path();
  return fs::absolute(path)
      .lexically_normal()
      .lexically_relative(folder.lexically_normal())
      .string();
}

// A small model with a layer per stage, so that a run can check its numbers against a reference.
void assume_model(std::int64_t stages, Import& import) {
  constexpr std::int64_t kHidden = 32;
  constexpr std::int64_t kHeads = 4;
  constexpr std::int64_t kVocabulary = 64;
  constexpr std::int64_t kSequence = 16;
  import.assume("the model", "model.family", std::string("llama"),
                "a small one with a layer per stage: say --model");
  import.derive("stages", std::to_string(stages), "model.num_layers", stages);
  import.derive("the model", "", "model.hidden_size", kHidden);
  import.derive("the model", "", "model.ffn_hidden_size", 2 * kHidden);
  import.derive("the model", "", "model.num_attention_heads", kHeads);
  import.derive("the model", "", "model.vocab_size", kVocabulary);
  import.derive("the model", "", "model.seq_len", kSequence);
}

}  // namespace

void import_schedule(const ImportRequest& request, Import& import) {
  const std::string& file = request.files.front();
  const PipelineSchedule schedule = read_schedule(file);
  require_sound(schedule);
  const PipelineShape& shape = schedule.shape;
  if (request.model.empty()) {
    assume_model(schedule.num_stages(), import);
  } else {
    import_named_model(request.model, request.approximate, import);
  }
  const std::int64_t gpus = import_system(request, {shape.num_ranks, "rows"}, import);
  if (gpus % shape.num_ranks != 0) {
    throw_problem("E1369", {},
                  fmt::format("{} pipeline ranks do not divide {} GPUs", shape.num_ranks, gpus),
                  fmt::format("use --gpus {} or a multiple of it", shape.num_ranks));
  }
  const std::int64_t data = gpus / shape.num_ranks;
  const auto number = [](int value) { return static_cast<std::int64_t>(value); };
  import.derive("rows", std::to_string(shape.num_ranks), "parallelism.pp", number(shape.num_ranks));
  import.derive("stages per rank", std::to_string(shape.num_chunks), "parallelism.vpp",
                number(shape.num_chunks));
  import.derive("file", file, "parallelism.schedule", std::string(kScheduleFromFile));
  import.take("file", file, "parallelism.schedule_file", beside_output(file, request.output));
  import.derive("GPUs per stage", std::to_string(data), "parallelism.dp_shard", data);
  import.derive("microbatches", std::to_string(shape.num_microbatches),
                "training.global_batch_size", shape.num_microbatches * data,
                "one sequence per microbatch");
  import.derive("microbatches", std::to_string(shape.num_microbatches), "training.micro_batch_size",
                std::int64_t{1});
}

}  // namespace shardsim
