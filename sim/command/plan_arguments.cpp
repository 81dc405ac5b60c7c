#include "sim/command/plan_arguments.hpp"

#include <ostream>
#include <string_view>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "reports/terminal_text.hpp"
#include "sim/console/output_paths.hpp"
#include "sim/console/shell_word.hpp"
#include "sim/console/whole_file.hpp"

#include "sim/question/amounts.hpp"

namespace shardsim {

namespace {

// "gpu_mtbf_hours=50000,restart_s=600": fields of the section "faults".
void add_failures(const std::string& words, std::vector<std::string>& overrides) {
  for (const std::string_view part : split_at(words, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == std::string_view::npos || equals + 1 == part.size()) {
      throw UsageError(
          "E1339", fmt::format("--failures {} is no list of FIELD=VALUE", escape_untrusted(words)),
          "write fields of the section \"faults\": --failures "
          "gpu_mtbf_hours=50000,restart_s=600,checkpoint_write_s=30");
    }
    overrides.push_back("faults." + std::string(part));
  }
}

}  // namespace

void apply_words(PlanArguments& arguments) {
  std::vector<std::string>& overrides = arguments.request.overrides;
  overrides = arguments.set;
  if (!arguments.software.empty()) overrides.push_back("system.software=" + arguments.software);
  if (!arguments.failures.empty()) add_failures(arguments.failures, overrides);
  if (!arguments.memory_margin.empty()) {
    overrides.push_back(fmt::format("execution.memory_margin={}",
                                    read_share(arguments.memory_margin, "--memory-margin")));
  }
}

std::string plan_command(const PlanArguments& arguments, const MachineChoice& machine) {
  const SearchRequest& r = arguments.request;
  const SearchRequest usual;
  std::string words = fmt::format("shardsim plan {} --gpus {} --gpu {}", shell_word(r.model),
                                  machine.num_gpus, shell_word(machine.gpu));
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words += fmt::format(" {} {}", option, shell_word(value));
  };
  if (r.seq_len) words += fmt::format(" --seq-len {}", *r.seq_len);
  if (r.global_batch_size) words += fmt::format(" --global-batch-size {}", *r.global_batch_size);
  add("--precision", r.precision);
  add("--software", arguments.software);
  for (const std::string& override : arguments.set) add("--set", override);
  for (const std::string& fixed : r.fixed) add("--fix", fixed);
  if (r.against) words += " --against " + shell_word(*r.against);
  if (r.approximate) words += " --approximate";
  if (r.objective != usual.objective) add("--objective", arguments.objective);
  if (r.top != usual.top) words += fmt::format(" --top {}", r.top);
  if (r.front_within != usual.front_within) {
    words += fmt::format(" --front-within {}", r.front_within);
  }
  add("--tokens", arguments.words.tokens);
  if (machine.usd_per_gpu_hour) {
    words += fmt::format(" --usd-per-gpu-hour {}", *machine.usd_per_gpu_hour);
  }
  add("--failures", arguments.failures);
  add("--memory-margin", arguments.memory_margin);
  if (r.time_limit_s != usual.time_limit_s) {
    words += fmt::format(" --time-limit {}", r.time_limit_s);
  }
  return words;
}

void check_plan_paths(const PlanArguments& arguments, const SearchBase& base) {
  std::vector<PathInUse> written;
  const auto add = [&written](const char* option, const std::string& path) {
    if (!path.empty()) written.push_back({option, path});
  };
  add("--out", arguments.out);
  add("--csv", arguments.csv);
  add("--report", arguments.report);
  std::vector<PathInUse> read = paths_read(base.scenario.files, base.model_file);
  const std::optional<std::string>& against = arguments.request.against;
  if (against && names_layout_file(*against)) read.push_back({"--against", *against});
  require_outputs(read, written);
}

void write_plan_file(const std::string& path, const std::string& text) {
  write_whole_file(path, [&text](std::ostream& file) { file << text; });
}

}  // namespace shardsim
