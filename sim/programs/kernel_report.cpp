#include "sim/programs/kernel_report.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"

#include "sim/hardware/software.hpp"

#include "backends/program/program_tables.hpp"
#include "backends/replay/replay_code.hpp"

#include "sim/programs/last_step.hpp"

namespace shardsim {

namespace {

using StepKind = ProgramStep::Kind;

KernelPrice price_of(const ComputeOp& op) {
  if (op.kind == ComputeKind::host_transfer) return KernelPrice::host_link;
  if (op.shape.family != KernelFamily::other) return KernelPrice::family;
  return op.kind == ComputeKind::matmul ? KernelPrice::flops : KernelPrice::bytes;
}

class KernelCounter {
 public:
  KernelCounter(const RankProgram& program, const Device& device, const std::vector<Price>& prices)
      : tables_(*program.tables), device_(device), prices_(prices) {
    report_.streams.resize(program.num_streams);
  }

  // `counts`: whether the step is one of those that are asked for.
  void add(const ProgramStep& step, bool counts) {
    if (step.kind == StepKind::use_stream) stream_ = step.row;
    if (!counts) return;
    if (step.kind == StepKind::compute) {
      const ComputeOp& op = tables_.operation(step.row);
      KernelTime sum = kernels_of(op);
      sum.time = prices_[step.row].device;
      add(step, op.name, price_of(op), sum);
    } else if (step.kind == StepKind::hole) {
      add(step, tables_.hole(step.row).name, KernelPrice::recorded,
          {1, 0, prices_[tables_.num_operations() + step.row].device});
    }
  }

  KernelReport finish() {
    for (auto& [key, sum] : operators_) {
      report_.operators.push_back({key.first, key.second, sum});
    }
    const auto order = [](const KernelsOfOperator& row) {
      return std::make_tuple(-row.sum.time.picoseconds(), row.name, row.price);
    };
    std::ranges::sort(report_.operators, {}, order);
    for (auto& [key, sum] : modules_) report_.modules.push_back({key.first, key.second, sum});
    return std::move(report_);
  }

 private:
  [[nodiscard]] KernelTime kernels_of(const ComputeOp& op) const {
    const KernelUse& use = device_.use_of(op);
    const double moved =
        op.kind == ComputeKind::memory_bound ? static_cast<double>(op.bytes) * use.traffic : 0.0;
    return {std::llround(use.kernels), std::llround(moved), Time()};
  }

  void add(const ProgramStep& step, const char* name, KernelPrice price, const KernelTime& sum) {
    report_.all.add(sum);
    report_.streams[stream_].add(sum);
    operators_[{name, price}].add(sum);
    if (price == KernelPrice::bytes) report_.by_bytes += sum.time;
    const ProgramPlace place = step.slot == 0 ? ProgramPlace() : tables_.place(step.slot - 1);
    modules_[{place.module, place.phase}].add(sum);
  }

  const ProgramTables& tables_;
  const Device& device_;
  const std::vector<Price>& prices_;
  std::uint32_t stream_ = 0;
  std::map<std::pair<std::string, KernelPrice>, KernelTime> operators_;
  std::map<std::pair<std::string, ProgramPlace::Phase>, KernelTime> modules_;
  KernelReport report_;
};

}  // namespace

const char* name_of(KernelPrice price) {
  static constexpr const char* kNames[] = {"family", "flops", "bytes", "host_link", "recorded"};
  return kNames[static_cast<std::size_t>(price)];
}

bool KernelReport::knows_modules() const {
  return std::ranges::any_of(modules, [](const KernelsOfModule& row) {
    return !row.path.empty() || row.phase != ProgramPlace::Phase::none;
  });
}

KernelReport kernels_of(const ProgramSet& set, const ProgramReplayOptions& options,
                        const ProgramReplay& replay) {
  const RankProgram& program = set.programs.program_of(replay.last_rank);
  const auto& faults = options.cluster.faults;
  ReplayCodes codes(options.cluster.device, set.programs, nullptr, options.hole_factor);
  const std::vector<Price>& prices =
      codes.prices(faults == nullptr ? 1.0 : faults->slowdown_of(replay.last_rank));
  const auto [begin, end] = last_step_of(program);
  KernelCounter counter(program, options.cluster.device, prices);
  for (std::size_t at = 0; at < end; ++at) counter.add(program.steps[at], at >= begin);
  KernelReport report = counter.finish();
  report.rank = replay.last_rank;
  report.slower = replay.split.compute - report.streams.front().time;
  return report;
}

std::string folded(const std::string& path) {
  std::string text;
  for (const std::string_view word : split_at(std::string_view(path), '.')) {
    const bool is_number =
        !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
    text += fmt::format("{}{}", text.empty() ? "" : ".", is_number ? "*" : word);
  }
  return text;
}

std::vector<KernelsOfLayers> layers_of(const KernelReport& report) {
  std::map<std::pair<std::string, ProgramPlace::Phase>, KernelsOfLayers> found;
  for (const KernelsOfModule& row : report.modules) {
    KernelsOfLayers& layers = found[{folded(row.path), row.phase}];
    ++layers.modules;
    layers.sum.add(row.sum);
  }
  std::vector<KernelsOfLayers> rows;
  for (auto& [key, layers] : found) {
    rows.push_back({key.first, key.second, layers.modules, layers.sum});
  }
  return rows;
}

}  // namespace shardsim
