#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// One line of a launcher's output, without what the launcher puts before it.
namespace shardsim {

struct LogLine {
  std::size_t offset = 0;  ///< The offset of the text behind the launcher's mark.
  std::string_view text;
  std::vector<std::string_view> words;

  [[nodiscard]] bool is_comment() const { return !words.empty() && words.front().front() == '#'; }
  /// Word `i`, or nothing behind the last.
  [[nodiscard]] std::string_view word(std::size_t i) const {
    return i < words.size() ? words[i] : std::string_view();
  }
  /// Place of a word, or words.size().
  [[nodiscard]] std::size_t find(std::string_view word) const;
};

/// All lines. Marks that are left out: "[1,0]<stdout>:" (Open MPI), "[0]" (MPICH), "0:" (Slurm). A
/// "#" that sticks to a word is a word of its own where it begins the line.
[[nodiscard]] std::vector<LogLine> log_lines(std::string_view text);

/// A whole number of digits and at most one sign; nothing for anything else.
[[nodiscard]] std::optional<long long> whole_number(std::string_view word);
/// A finite number, whole word.
[[nodiscard]] std::optional<double> decimal_number(std::string_view word);

}  // namespace shardsim
