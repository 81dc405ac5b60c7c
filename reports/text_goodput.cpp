#include <string>

#include <fmt/format.h>

#include "reports/text_sections.hpp"

namespace shardsim {

namespace {

// "28 min", "3.1 h", "45 s": the units in which people speak of outages.
std::string period_text(double seconds) {
  constexpr double kMinute = 60.0;
  constexpr double kHour = 3600.0;
  constexpr double kDay = 86400.0;
  if (seconds >= 3.0 * kDay) return fmt::format("{:.1f} days", seconds / kDay);
  if (seconds >= 2.0 * kHour) return fmt::format("{:.1f} h", seconds / kHour);
  if (seconds >= 2.0 * kMinute) return fmt::format("{:.0f} min", seconds / kMinute);
  return fmt::format("{:.1f} s", seconds);
}

std::string share_text(double share) { return fmt::format("{:.1f} %", 100.0 * share); }

// Marks Daly's interval, or gives it beside another one.
std::string interval_text(double interval_s, double daly_s) {
  if (interval_s == daly_s) return period_text(interval_s) + " (Daly)";
  return fmt::format("{} (Daly {})", period_text(interval_s), period_text(daly_s));
}

}  // namespace

Lines goodput_section(const Result& result, const Page& page) {
  const auto number = [&](const MetricRow& row) { return result.number(row).value_or(0.0); };
  if (result.find(metric::kGoodputFraction) == nullptr) return {};
  std::string text = share_text(number(metric::kGoodputFraction));
  if (result.find(metric::kGoodputFractionLow) != nullptr) {
    text += fmt::format(" ({} to {})", share_text(number(metric::kGoodputFractionLow)),
                        share_text(number(metric::kGoodputFractionHigh)));
  }
  text += fmt::format(
      " at one failure per {}: checkpoints {}, rework {}, restarts {}; interval {}",
      period_text(number(metric::kGoodputMtbfS)),
      share_text(number(metric::kGoodputLostShareCheckpoint)),
      share_text(number(metric::kGoodputLostShareRework)),
      share_text(number(metric::kGoodputLostShareRestart)),
      interval_text(number(metric::kGoodputCheckpointIntervalS), number(metric::kGoodputDalyS)));
  return page.row("goodput", text);
}

}  // namespace shardsim
