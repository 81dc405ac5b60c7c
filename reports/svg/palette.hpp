#pragma once

#include <array>

#include "sim/kernel/memory_ledger.hpp"

// Colours of the plain figures: those of reports/web/src/report.css on light paper.
namespace shardsim::svg {

/// A part of a figure: its name, its colour, and the colour of text on it.
struct Ink {
  const char* name;
  const char* fill;
  const char* text;
};

inline constexpr const char* kInk = "#1b222c";
inline constexpr const char* kMuted = "#5a6675";
inline constexpr const char* kLine = "#e1e5ea";
inline constexpr const char* kAlarm = "#b3261e";

inline constexpr std::array<Ink, 4> kTimeInks = {
    {{"computing", "#2b6cb0", "#ffffff"},
     {"waiting for communication", "#e08a2c", "#241500"},
     {"pipeline bubble and idle", "#c3cad3", "#1b222c"},
     {"waiting for the host", "#7b5ea7", "#ffffff"}}};

/// In the order of MemoryCategory.
inline constexpr std::array<Ink, kNumMemoryCategories> kMemoryInks = {
    {{"parameters", "#2b6cb0", "#ffffff"},
     {"gradients", "#8fbce8", "#0d2136"},
     {"optimizer", "#e3a63b", "#241500"},
     {"activations", "#25806a", "#ffffff"},
     {"communication", "#ad4f85", "#ffffff"}}};

/// The colours of a schedule: computations by their names,
inline constexpr std::array<Ink, 7> kWorkInks = {{{"forward", "#2b6cb0", "#ffffff"},
                                                  {"backward", "#25806a", "#ffffff"},
                                                  {"weight grad", "#98c97a", "#14240a"},
                                                  {"optimizer", "#e3a63b", "#241500"},
                                                  {"input grad", "#6cbfa8", "#06231a"},
                                                  {"gradients", "#8fbce8", "#0d2136"},
                                                  {"several", "#aab3bf", "#1b222c"}}};
/// and all others in turn.
inline constexpr std::array<Ink, 5> kOtherInks = {{{"", "#d9742a", "#1d0d00"},
                                                   {"", "#ad4f85", "#ffffff"},
                                                   {"", "#7b5ea7", "#ffffff"},
                                                   {"", "#94702c", "#ffffff"},
                                                   {"", "#64748b", "#ffffff"}}};

}  // namespace shardsim::svg
