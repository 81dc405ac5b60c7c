#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/metric_rows.hpp"

#include "scenarios/formats/megatron.hpp"
#include "sim/diff/run_side.hpp"

namespace shardsim {

namespace {

constexpr const char* kBegin = "--- arguments ---";
constexpr const char* kEnd = "--- end of arguments ---";

constexpr std::array<std::pair<const char*, const char*>, 14> kTold = {
    {{"num_layers", "model.num_layers"},
     {"hidden_size", "model.hidden_size"},
     {"ffn_hidden_size", "model.ffn_hidden_size"},
     {"num_attention_heads", "model.num_attention_heads"},
     {"kv_channels", "model.head_dim"},
     {"num_experts", "model.num_experts"},
     {"seq_length", "model.seq_len"},
     {"world_size", "system.ranks"},
     {"tensor_model_parallel_size", "parallelism.tp"},
     {"pipeline_model_parallel_size", "parallelism.pp"},
     {"context_parallel_size", "parallelism.cp"},
     {"expert_model_parallel_size", "parallelism.ep"},
     {"micro_batch_size", "training.micro_batch_size"},
     {"global_batch_size", "training.global_batch_size"}}};

bool is_whole_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// Finds the arguments of the last run in a log that reports iterations. Lines come in order.
class MegatronRunFinder {
 public:
  void read(const std::string& line) {
    if (line.find(kBegin) != std::string::npos) {
      inside_ = true;
      next_.clear();
    }
    if (inside_) next_ += line + "\n";
    if (line.find(kEnd) != std::string::npos) inside_ = false;
  }

  // Called for a reported iteration. Returns whether it is the first one of a new run.
  [[nodiscard]] bool iterates() {
    if (next_.empty()) return false;
    block_ = std::exchange(next_, {});
    inside_ = false;
    return true;
  }

  // Model, GPUs, degrees and batch under the names of a scenario's fields, as far as known.
  [[nodiscard]] std::map<std::string, std::string> fields() const {
    std::map<std::string, std::string> fields;
    if (block_.empty()) return fields;
    const SourceText source = {"log", block_};
    MegatronArguments arguments = read_megatron_arguments(source);
    for (const auto& [name, path] : kTold) {
      const std::string value = arguments.written(name);
      if (is_whole_number(value)) fields[path] = value;
    }
    // Without groups every head has its own, whatever the number of groups.
    const std::string groups = arguments.written("num_query_groups");
    if (arguments.written("group_query_attention") == "True" && is_whole_number(groups)) {
      fields["model.num_query_groups"] = groups;
    } else if (arguments.written("group_query_attention") == "False" &&
               fields.count("model.num_attention_heads") > 0) {
      fields["model.num_query_groups"] = fields["model.num_attention_heads"];
    }
    // It is written down of runs without experts, too.
    const std::string slices = arguments.written(megatron::kExpertTensor.theirs);
    if (fields.count("model.num_experts") > 0 && is_whole_number(slices)) {
      fields[megatron::kExpertTensor.ours] = slices;
    }
    return fields;
  }

 private:
  std::string block_;  // The arguments of the run whose iterations are read.
  std::string next_;   // Those of a run that has begun.
  bool inside_ = false;
};

// The first iterations wait for compilation, warm-up of the allocator and NCCL's connections.
constexpr std::size_t kWarmUp = 2;
constexpr std::size_t kEnough = 5;  // Fewer are all taken.
constexpr const char* kIterationTime = "elapsed time per iteration (ms):";
constexpr double kMebibyte = 1024.0 * 1024.0;

// Adds the number behind each `label` in a line; blanks between them do not count.
void for_each_after(const std::string& line, const std::string& label,
                    std::vector<double>& numbers) {
  for (std::size_t at = line.find(label); at != std::string::npos; at = line.find(label, at)) {
    at += label.size();
    const std::size_t begin = line.find_first_not_of(' ', at);
    if (begin == std::string::npos) return;
    double number = 0.0;
    const auto error = std::from_chars(line.data() + begin, line.data() + line.size(), number).ec;
    if (error == std::errc() && std::isfinite(number) && number > 0.0) numbers.push_back(number);
  }
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

struct LoggedIterations {
  std::vector<double> ms;
  std::vector<double> tflops;
  std::vector<double> global_batch_sizes;
  std::vector<double> max_allocated_mb;
  std::vector<double> max_reserved_mb;

  // Ranks write without waiting for each other: one line may hold several reports.
  void read(const std::string& line) {
    for_each_after(line, kIterationTime, ms);
    for_each_after(line, "throughput per GPU (TFLOP/s/GPU):", tflops);
    for_each_after(line, "global batch size:", global_batch_sizes);
    if (line.find("memory (MB)") == std::string::npos) return;
    for_each_after(line, "| max allocated:", max_allocated_mb);
    for_each_after(line, "| max reserved:", max_reserved_mb);
  }

  // Drops the first iterations.
  static void settle(std::vector<double>& values) {
    if (values.size() >= kEnough) {
      values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(kWarmUp));
    }
  }
};

}  // namespace

std::optional<RunSide> read_megatron_log(std::istream& log) {
  LoggedIterations logged;
  std::string line;
  MegatronRunFinder run;
  while (std::getline(log, line)) {
    run.read(line);
    // A log that was appended to has several runs: the last one counts.
    const bool reports = line.find(kIterationTime) != std::string::npos;
    if (reports && run.iterates()) logged = {};
    logged.read(line);
  }
  if (logged.ms.empty()) return std::nullopt;
  const std::size_t all = logged.ms.size();
  LoggedIterations::settle(logged.ms);
  LoggedIterations::settle(logged.tflops);
  RunSide side{.kind = SideKind::megatron_log};
  const double step_s = median_of(logged.ms) / 1e3;
  side.step_ps = picoseconds_of(step_s);
  side.metrics[metric::kStepTimeS.name] = step_s;
  side.what =
      fmt::format("Megatron-LM log, median of {} of {} reported iterations", logged.ms.size(), all);
  if (!logged.tflops.empty()) {
    side.metrics[metric::kModelTflopsPerGpu.name] = median_of(logged.tflops);
  }
  const auto add_largest = [&side](const char* metric, const std::vector<double>& mb) {
    if (!mb.empty()) side.metrics[metric] = *std::max_element(mb.begin(), mb.end()) * kMebibyte;
  };
  add_largest(metric::kMemoryAllocatedPeakBytesMax.name, logged.max_allocated_mb);
  add_largest(metric::kMemoryReservedPeakBytesMax.name, logged.max_reserved_mb);
  side.fields = run.fields();
  // The arguments give the final size of a batch that grows.
  if (!logged.global_batch_sizes.empty()) {
    side.fields["training.global_batch_size"] =
        fmt::format("{:.0f}", logged.global_batch_sizes.back());
  }
  side.notes.emplace_back("the log has the time of an iteration, but not its parts");
  return side;
}

}  // namespace shardsim
