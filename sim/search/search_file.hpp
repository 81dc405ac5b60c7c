#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// A JSON file that names the model of a search: a scenario, or the section "model" of one. The
// fields that a search decides are removed from it; all else keeps its place, so that errors name
// the file's lines.
namespace shardsim {

struct SearchFile {
  std::string text;  ///< A scenario, for the reader.
  std::optional<std::int64_t> global_batch_size;
  std::vector<std::string> ignored;  ///< The removed fields with reasons, in sentences.
};

/// Throws ScenarioError, and UsageError E1331 for a global batch that is no whole number.
[[nodiscard]] SearchFile read_search_file(const std::string& path);

/// The whole of `words` as a number of sequences. Throws UsageError E1331.
[[nodiscard]] std::int64_t batch_of_words(const std::string& words);

}  // namespace shardsim
