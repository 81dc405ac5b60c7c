#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reports/pages.hpp"
#include "reports/svg/drawing.hpp"
#include "reports/terminal_text.hpp"
#include "reports/units.hpp"

namespace shardsim {

namespace {

using svg::Anchor;
using svg::Drawing;

constexpr double kLeftEdge = 76;
constexpr double kRightEdge = svg::kFigureWidth - 250;  // Behind it are the names.
constexpr double kTopEdge = 40;
constexpr double kBottomEdge = 380;
constexpr double kScatterHeight = 430;
constexpr const char* kFrontInk = "#2b6cb0";
constexpr const char* kOtherInk = "#aab3bf";
constexpr const char* kNameInk = "#9dbbe0";
constexpr double kNamePitch = 15;
constexpr std::size_t kMostNames = 20;
constexpr std::size_t kLongestName = 34;
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

struct Place {
  const LayoutRow* row;
  double x;
  double y;
  double name_y = 0;
};

// A point shows this when it is pointed at.
std::string title_of(const LayoutRow& row) {
  return fmt::format("{}: step {}, {} tokens/s/GPU, {}", row.layout, format_seconds(row.step_s),
                     format_number(row.tokens_per_s_per_gpu), format_memory(row.device_bytes));
}

// A line from each point to its name at the right; names keep their distance and the order of the
// points from top to bottom.
void draw_names(Drawing& drawing, std::vector<Place> places) {
  if (places.size() > kMostNames) places.resize(kMostNames);
  std::ranges::stable_sort(places, {}, &Place::y);
  double next = kTopEdge + kNamePitch;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const double latest = kBottomEdge - kNamePitch * static_cast<double>(places.size() - 1 - i);
    places[i].name_y = std::min(std::max(places[i].y, next), latest);
    next = places[i].name_y + kNamePitch;
  }
  for (const Place& place : places) {
    drawing.line(place.x, place.y, kRightEdge + 12, place.name_y, kNameInk);
    drawing.text(kRightEdge + 16, place.name_y + 4,
                 truncate_to_width(escape_untrusted(place.row->layout), kLongestName),
                 Anchor::start, svg::kInk, 11);
  }
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
  const auto place_of = [&](const LayoutRow& row) {
    return Place{&row, speed.at(row.tokens_per_s_per_gpu),
                 memory.at(static_cast<double>(row.device_bytes) / kBytesPerGib)};
  };
  std::vector<Place> front;
  for (const LayoutRow& row : page.front) front.push_back(place_of(row));
  for (const LayoutRow& row : page.others) {
    const Place place = place_of(row);
    drawing.disc(place.x, place.y, 3, kOtherInk, title_of(row));
  }
  draw_names(drawing, front);
  for (const Place& place : front) {
    drawing.disc(place.x, place.y, 5, kFrontInk, title_of(*place.row));
  }
  drawing.text(kRightEdge, kTopEdge - 24, "named: nothing is both faster and smaller", Anchor::end,
               kFrontInk);
  return drawing.finish(kScatterHeight);
}

}  // namespace shardsim
