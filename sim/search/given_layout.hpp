#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "sim/search/layout_space.hpp"

// A layout that the user names, to be ranked among those of a search: the one of today, or one that
// was published.
namespace shardsim {

struct SearchBase;

struct GivenLayout {
  Candidate candidate;
  /// Fields that are no axis of a search, as `--set` takes them: layers of stages.
  std::vector<std::string> overrides;
};

/// Whether the words of a given layout are the name of a file.
[[nodiscard]] bool names_layout_file(const std::string& words);

/// The layout of these sections, resolved. Throws UsageError E1340: its schedule comes from a file.
[[nodiscard]] Candidate candidate_of(const ParallelismSpec& parallelism,
                                     const TrainingSpec& training);

/// `words`: "tp=2,pp=8,ep=32", where an axis that is not named is 1 or off, and sequence_parallel
/// is on with tp; or the file of a scenario, of which the axes and stage_layers count. Throws
/// UsageError E1325 (axes), E1340, and ScenarioError for a layout that the reader refuses.
[[nodiscard]] GivenLayout read_given_layout(const SearchBase& base, const std::string& words);

/// The base whose candidates have the given layout's own fields, too.
[[nodiscard]] SearchBase base_of_given(const SearchBase& base, const GivenLayout& given);

/// Why no candidate of the space is that layout, in one sentence; empty: one is, at `place`.
[[nodiscard]] std::string why_not_searched(const LayoutSpace& space, const GivenLayout& given,
                                           LayoutPlace& place);

}  // namespace shardsim
