#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"

#include "reports/units.hpp"
#include "scenarios/source_text.hpp"

#include "sim/programs/kernel_report.hpp"

// Kernels of a rank for people.
namespace shardsim {

namespace {

using Phase = ProgramPlace::Phase;

constexpr std::size_t kTopOperators = 8;
constexpr std::size_t kTopModules = 12;
constexpr std::size_t kNameWidth = 34;
constexpr std::size_t kShownKernelName = 200;

double percent(Time part, Time all) {
  return all > Time() ? 100.0 * part.seconds() / all.seconds() : 0.0;
}

// The end of a name tells more than its begin.
std::string in_width(const std::string& name, std::size_t indent) {
  const std::string text = printable(name, kShownKernelName);
  const std::size_t width = kNameWidth - std::min(indent, kNameWidth / 2);
  return std::string(kNameWidth - width, ' ') +
         (text.size() <= width ? text : "..." + text.substr(text.size() + 3 - width));
}

// --- Operators ---------------------------------------------------------------------------------

std::string operator_row(const std::string& name, const KernelTime& sum, Time all) {
  return fmt::format("  {:<{}}{:>10}{:>12}{:>8.1f} %\n", in_width(name, 0), kNameWidth,
                     format_count(sum.kernels), format_seconds(sum.time.seconds()),
                     percent(sum.time, all));
}

std::string operators_text(const KernelReport& report) {
  std::string text = fmt::format("  {:<{}}{:>10}{:>12}{:>10}\n", "operator", kNameWidth, "kernels",
                                 "time", "share");
  KernelTime others;
  std::size_t num_others = 0;
  for (std::size_t i = 0; i < report.operators.size(); ++i) {
    const KernelsOfOperator& row = report.operators[i];
    if (i < kTopOperators) {
      const bool is_plain = row.price == KernelPrice::bytes;
      text += operator_row(row.name + (is_plain ? " (bytes)" : ""), row.sum, report.all.time);
      continue;
    }
    others.add(row.sum);
    ++num_others;
  }
  if (num_others > 0) {
    text += operator_row(fmt::format("{} others", num_others), others, report.all.time);
  }
  return text;
}

// --- Modules -----------------------------------------------------------------------------------

// A module with its parts, or layers of one kind with theirs.
struct ModuleSum {
  std::array<Time, kNumPhases> phases = {};
  std::set<std::string> modules = {};

  [[nodiscard]] Time of(Phase phase) const { return phases.at(static_cast<std::size_t>(phase)); }
  [[nodiscard]] Time all() const {
    Time sum;
    for (const Time time : phases) sum += time;
    return sum;
  }
};
using ModuleSums = std::map<std::string, ModuleSum>;

// Each path and what it begins with: "a.b" and "a".
ModuleSums sums_of(const KernelReport& report) {
  ModuleSums sums;
  for (const KernelsOfModule& row : report.modules) {
    if (row.path.empty()) continue;
    for (std::size_t end = row.path.find('.');; end = row.path.find('.', end + 1)) {
      const std::string module = row.path.substr(0, end);
      ModuleSum& sum = sums[folded(module)];
      sum.phases.at(static_cast<std::size_t>(row.phase)) += row.sum.time;
      sum.modules.insert(module);
      if (end == std::string::npos) break;
    }
  }
  return sums;
}

bool is_part(const std::string& part, const std::string& whole) {
  return part.size() > whole.size() + 1 && part.starts_with(whole) && part[whole.size()] == '.';
}

// The longest, in the order of their paths. Whatever only holds another one is left out.
std::vector<std::string> top_of(const ModuleSums& sums) {
  std::vector<std::string> top;
  for (const auto& [path, sum] : sums) {
    const bool only_holds =
        std::ranges::any_of(sums, [&whole = path, &all = sum](const auto& part) {
          return is_part(part.first, whole) && part.second.all() == all.all();
        });
    if (!only_holds) top.push_back(path);
  }
  std::ranges::sort(top, {}, [&](const std::string& path) {
    return std::make_tuple(-sums.at(path).all().picoseconds(), path);
  });
  if (top.size() > kTopModules) top.resize(kTopModules);
  std::ranges::sort(top, {},
                    [](const std::string& path) { return split_at(std::string_view(path), '.'); });
  return top;
}

class ModuleTable {
 public:
  explicit ModuleTable(const KernelReport& report) : report_(report) {
    for (const KernelsOfModule& row : report.modules) {
      recomputes_ = recomputes_ || row.phase == Phase::recomputation;
      if (row.path.empty()) outside_.phases.at(static_cast<std::size_t>(row.phase)) += row.sum.time;
    }
  }

  [[nodiscard]] std::string text() const {
    std::string text =
        fmt::format("  {:<{}}{:>10}", "module, with its parts", kNameWidth, "forward");
    if (recomputes_) text += fmt::format("{:>12}", "recomputed");
    text += fmt::format("{:>12}{:>12}{:>10}\n", "backward", "all", "share");
    const ModuleSums sums = sums_of(report_);
    std::vector<std::string> above;
    Time shown;
    for (const std::string& path : top_of(sums)) {
      while (!above.empty() && !is_part(path, above.back())) above.pop_back();
      const std::string name = above.empty() ? path : path.substr(above.back().size() + 1);
      const ModuleSum& sum = sums.at(path);
      const std::string count =
          sum.modules.size() > 1 ? fmt::format(" ({})", sum.modules.size()) : std::string();
      text += row(in_width(name + count, 2 * above.size()), sum, sum.all());
      if (above.empty()) shown += sum.all();
      above.push_back(path);
    }
    const Time optimizer = outside_.of(Phase::optimizer);
    const Time outside = outside_.all() - optimizer;
    const Time others = report_.all.time - shown - outside_.all();
    if (others > Time()) text += row("other modules", {}, others);
    if (outside > Time()) text += row("in no module", outside_, outside);
    if (optimizer > Time()) text += row("optimizer", {}, optimizer);
    return text;
  }

 private:
  [[nodiscard]] std::string row(const std::string& name, const ModuleSum& sum, Time all) const {
    const auto time = [](Time value) {
      return value > Time() ? format_seconds(value.seconds()) : std::string();
    };
    std::string text =
        fmt::format("  {:<{}}{:>10}", name, kNameWidth, time(sum.of(Phase::forward)));
    if (recomputes_) text += fmt::format("{:>12}", time(sum.of(Phase::recomputation)));
    return text + fmt::format("{:>12}{:>12}{:>8.1f} %\n", time(sum.of(Phase::backward)), time(all),
                              percent(all, report_.all.time));
  }

  const KernelReport& report_;
  ModuleSum outside_;
  bool recomputes_ = false;
};

std::string streams_text(const KernelReport& report) {
  std::string text;
  for (std::size_t stream = 0; stream < report.streams.size(); ++stream) {
    const KernelTime& sum = report.streams[stream];
    if (sum.time == Time()) continue;
    text += fmt::format("{} {}: {}", text.empty() ? "  computing by stream:" : ",", stream,
                        format_seconds(sum.time.seconds()));
  }
  return text + "\n";
}

}  // namespace

std::string kernels_text(const KernelReport& report) {
  if (report.all.time == Time()) return {};
  std::string text = fmt::format(
      "kernels of rank {}: {} in {}, {:.1f} % of it priced by bytes alone\n", report.rank,
      format_count(report.all.kernels), format_seconds(report.all.time.seconds()),
      percent(report.by_bytes, report.all.time));
  text += operators_text(report);
  if (report.knows_modules()) text += ModuleTable(report).text();
  if (report.streams.size() > 1) text += streams_text(report);
  if (report.slower > Time()) {
    text += fmt::format("  slower than alone, beside collectives or by faults: {}\n",
                        format_seconds(report.slower.seconds()));
  }
  return text;
}

}  // namespace shardsim
