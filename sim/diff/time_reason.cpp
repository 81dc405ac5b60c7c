#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "reports/units.hpp"
#include "sim/diff/comparison.hpp"
#include "sim/diff/run_side.hpp"

// Why a step takes longer, in a clause. Each axis has a row of its own, but computing is one row:
// so communication is compared with it as a whole, and its largest axis is named afterwards.

namespace shardsim {
namespace {

constexpr const char* kAxisPrefix = "exposed ";

bool is_exposed_row(const DiffRow& row) { return row.name.starts_with(kAxisPrefix); }

// "waits less for communication": the meaning of a row of the time table.
std::string deed_of(const DiffRow& row) {
  const char* const amount = row.difference() < 0 ? "less" : "more";
  if (row.name == kComputePart) return fmt::format("it computes {}", amount);
  if (row.name == kExposedPart) return fmt::format("it waits {} for communication", amount);
  if (row.name == kBubblePart) return fmt::format("its pipeline idles {}", amount);
  if (row.name == kHostPart) return fmt::format("it waits {} for the host", amount);
  if (row.name == kCopiesPart) return fmt::format("it copies {}", amount);
  if (row.name == kIdlePart) return fmt::format("it idles {}", amount);
  if (row.name.rfind("exposed ", 0) != 0) return "";
  const std::string axis = row.name.substr(row.name.find(' ') + 1);
  if (row.b == 0) return axis + " no longer waits";
  return fmt::format("{} waits {}", axis, amount);
}

// "+39.2 ms".
std::string signed_time(std::int64_t difference) {
  return (difference < 0 ? "-" : "+") + format_seconds(seconds_of(std::abs(difference)));
}

// The table with one row for all communication that is exposed.
DiffTable communication_as_one(const DiffTable& time) {
  DiffTable coarse{.total = time.total};
  DiffRow all{kExposedPart, 0, 0};
  for (const DiffRow& row : time.rows) {
    if (!is_exposed_row(row)) {
      coarse.rows.push_back(row);
      continue;
    }
    all.a += row.a;
    all.b += row.b;
  }
  coarse.rows.push_back(all);
  return coarse;
}

// The rows of its axes.
DiffTable axes_of(const DiffTable& time, const DiffRow& all) {
  DiffTable axes{.total = all};
  for (const DiffRow& row : time.rows) {
    if (is_exposed_row(row)) axes.rows.push_back(row);
  }
  return axes;
}

}  // namespace

std::string reason_words(const DiffTable& time) {
  const DiffTable coarse = communication_as_one(time);
  const DiffRow* reason = main_reason(coarse);
  if (reason == nullptr) return "";
  const DiffTable axes = axes_of(time, *reason);
  std::string largest;
  if (reason->name == kExposedPart) {
    const DiffRow* axis = main_reason(axes);
    if (axis != nullptr && axis->difference() == reason->difference()) {
      reason = axis;
    } else if (axis != nullptr) {
      largest =
          fmt::format(", most of it {} ({})", axis->name.substr(std::string(kAxisPrefix).size()),
                      signed_time(axis->difference()));
    }
  }
  const std::string deed = deed_of(*reason);
  if (deed.empty()) return "";
  return fmt::format(", mostly because {} ({}){}", deed, signed_time(reason->difference()),
                     largest);
}

}  // namespace shardsim
