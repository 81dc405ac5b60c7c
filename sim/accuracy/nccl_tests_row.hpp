#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/accuracy/log_line.hpp"
#include "sim/accuracy/nccl_tests_table.hpp"

// A row of nccl-tests, read by the line that names its columns: their set differs between releases,
// and `shardsim collective` adds some at the end.
namespace shardsim {

struct ParsedRow {
  NcclTestsRow row;
  std::string reduction;
  std::optional<int> root;
};

class NcclTestsColumns {
 public:
  /// `header`: "# size count type redop root time algbw busbw #wrong ...". Throws ScenarioError
  /// E0941 if it lacks one of them.
  NcclTestsColumns(const LogLine& header, const Span& place);

  /// Throws ScenarioError E0941 to E0944.
  [[nodiscard]] ParsedRow parse(const LogLine& line, const Span& place) const;

 private:
  // The first column of out-of-place or in-place: time, algbw, busbw and wrong elements.
  struct Place {
    std::size_t time = 0;
    bool counts_wrong = false;  // Old releases print the largest error instead.
  };
  struct Timing {
    double time_us = 0.0;
    double algbw = 0.0;
    double busbw = 0.0;
  };

  [[nodiscard]] std::optional<Timing> timing(const LogLine& line, const Span& place,
                                             const Place& columns) const;
  void check_type(const std::string& type, const std::string& reduction, const Span& place) const;

  std::size_t num_columns_ = 0;
  std::size_t size_ = 0;
  std::size_t type_ = 0;
  std::size_t reduction_ = 0;
  std::optional<std::size_t> root_;
  std::vector<Place> places_;
};

}  // namespace shardsim
