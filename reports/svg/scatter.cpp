#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "reports/pages.hpp"
#include "reports/svg/drawing.hpp"
#include "reports/units.hpp"

namespace shardsim {

namespace {

using svg::Anchor;
using svg::Drawing;

constexpr double kLeftEdge = 76;
constexpr double kRightEdge = svg::kFigureWidth - 24;
constexpr double kTopEdge = 40;
constexpr double kBottomEdge = 380;
constexpr double kScatterHeight = 430;
constexpr const char* kFrontInk = "#2b6cb0";
constexpr const char* kOtherInk = "#aab3bf";
constexpr double kBytesPerGib = 1024.0 * 1024.0 * 1024.0;

// Values from `low` to `high` along pixels from `from` to `to`, with ticks at round numbers.
struct Scale {
  double low = 0;
  double high = 1;
  double from = 0;
  double to = 1;
  double tick = 1;

  [[nodiscard]] double at(double value) const {
    return from + (value - low) / (high - low) * (to - from);
  }
};

// 1, 2 or 5 times a power of ten, four to ten of them in the range.
Scale scale_of(double least, double most, double from, double to) {
  if (!(most > least)) most = least + std::max(1.0, std::abs(least));
  const double raw = (most - least) / 5.0;
  double tick = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {5.0, 2.0}) {
    if (tick * factor <= raw) {
      tick *= factor;
      break;
    }
  }
  return {.low = std::floor(least / tick) * tick,
          .high = std::ceil(most / tick) * tick,
          .from = from,
          .to = to,
          .tick = tick};
}

void dot(Drawing& drawing, double x, double y, double radius, const char* ink) {
  const std::string r = svg::length(radius);
  drawing.path(
      fmt::format("M{} {}a{} {} 0 1 0 {} 0a{} {} 0 1 0 -{} 0z", svg::length(x - radius),
                  svg::length(y), r, r, svg::length(2 * radius), r, r, svg::length(2 * radius)),
      ink);
}

void axes(Drawing& drawing, const Scale& speed, const Scale& memory) {
  for (double value = speed.low; value <= speed.high + speed.tick / 2; value += speed.tick) {
    drawing.line(speed.at(value), kTopEdge, speed.at(value), kBottomEdge, svg::kLine);
    drawing.text(speed.at(value), kBottomEdge + 18, format_number(value), Anchor::middle,
                 svg::kMuted);
  }
  for (double value = memory.low; value <= memory.high + memory.tick / 2; value += memory.tick) {
    drawing.line(kLeftEdge, memory.at(value), kRightEdge, memory.at(value), svg::kLine);
    drawing.text(kLeftEdge - 8, memory.at(value) + 4, fmt::format("{:g}", value), Anchor::end,
                 svg::kMuted);
  }
  drawing.text((kLeftEdge + kRightEdge) / 2, kBottomEdge + 40, "tokens/s/GPU", Anchor::middle,
               svg::kMuted);
  drawing.text(kLeftEdge, kTopEdge - 24, "memory of the fullest GPU, GiB", Anchor::start,
               svg::kMuted);
}

}  // namespace

std::string to_svg_scatter(const LayoutPage& page) {
  if (page.front.empty() && page.others.empty()) return {};
  double least_speed = std::numeric_limits<double>::infinity();
  double most_speed = 0;
  double least_memory = least_speed;
  double most_memory = 0;
  for (const auto* rows : {&page.others, &page.front}) {
    for (const LayoutRow& row : *rows) {
      const double gib = static_cast<double>(row.device_bytes) / kBytesPerGib;
      least_speed = std::min(least_speed, row.tokens_per_s_per_gpu);
      most_speed = std::max(most_speed, row.tokens_per_s_per_gpu);
      least_memory = std::min(least_memory, gib);
      most_memory = std::max(most_memory, gib);
    }
  }
  const Scale speed = scale_of(least_speed, most_speed, kLeftEdge, kRightEdge);
  const Scale memory = scale_of(least_memory, most_memory, kBottomEdge, kTopEdge);
  Drawing drawing("Layouts by speed and memory: those on the front, and all others simulated");
  axes(drawing, speed, memory);
  const auto draw = [&](const LayoutRow& row, double radius, const char* ink) {
    dot(drawing, speed.at(row.tokens_per_s_per_gpu),
        memory.at(static_cast<double>(row.device_bytes) / kBytesPerGib), radius, ink);
  };
  for (const LayoutRow& row : page.others) draw(row, 2.5, kOtherInk);
  for (const LayoutRow& row : page.front) draw(row, 5, kFrontInk);
  drawing.text(kRightEdge, kTopEdge - 24, "large: nothing is both faster and smaller", Anchor::end,
               kFrontInk);
  return drawing.finish(kScatterHeight);
}

}  // namespace shardsim
