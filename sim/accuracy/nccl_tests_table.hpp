#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/source_text.hpp"
#include "sim/collective/collective_setting.hpp"

// The output of nccl-tests, as users have it: with lines of launchers and of NCCL's own log around
// it, several runs in one file, with or without the lines that name the ranks.
//
// The operation of a table, and its ranks and nodes. They come from the table's own lines, and from
// the command's options for the rest. They are never guessed if two operations fit.
namespace shardsim {

/// One size.
struct NcclTestsRow {
  std::int64_t size = 0;   ///< Bytes, as the column "size"; above 0.
  double time_us = 0.0;    ///< Mean of out-of-place and in-place, as far as there are times.
  double bus_share = 0.0;  ///< busbw / algbw; 0 if they are too small to give it.
  Span place;
};

/// One run of one test.
struct NcclTestsTable {
  std::shared_ptr<const SourceText> source;  ///< The text that places point into.
  Span place;                                ///< The line that names the columns.
  std::optional<TestedOperation> operation;  ///< As given by a line before it.
  int ranks = 0;                             ///< Lines that name one, or as shardsim gives it.
  int nodes = 0;                             ///< The hosts of these ranks.
  int highest_rank = -1;           ///< The highest of these ranks; ranks - 1 if none is missing.
  std::string gpu;                 ///< As the lines name it; empty if they do not.
  std::string variables;           ///< "NCCL_ALGO=Ring", from an earlier command line; else empty.
  std::string reduction;           ///< "sum", ...; "none".
  std::optional<int> root;         ///< -1: none. Nothing: tables of old releases do not give it.
  bool complete = false;           ///< Whether its last line, the average bandwidth, is there.
  int num_empty = 0;               ///< Rows of 0 bytes, which are left out.
  std::vector<NcclTestsRow> rows;  ///< In order of the text.
};

/// All tables in a text, one or more. Throws ScenarioError with the line: E0940 (no table), E0941
/// (a row that is cut off or no row), E0942 (wrong results), E0943 (columns that contradict each
/// other), E0944 (operations without a price in NCCL's model here), E0945 (several groups at once),
/// E0950 (times that include copies to the host).
[[nodiscard]] std::vector<NcclTestsTable> parse_nccl_tests(const std::string& text,
                                                           const std::string& file_name);

/// Reads a file of at most 64 MiB; "-" is `input`. Throws ScenarioError, as above too.
[[nodiscard]] std::vector<NcclTestsTable> read_nccl_tests(const std::string& path,
                                                          std::istream& input);

/// The command's options; empty or 0: not given.
struct TestedLayoutOptions {
  std::string operation;
  int ranks = 0;
  int nodes = 0;
};

struct TestedLayout {
  TestedOperation operation{};
  int ranks = 0;
  int nodes = 0;  ///< 0: as many as the ranks fill.
};

/// "16 ranks on 2 nodes". REQUIRES: nodes are known.
[[nodiscard]] std::string words_of(const TestedLayout& layout);

/// Throws ScenarioError: E0945 (ranks unknown, one rank, or two different numbers given); E0946
/// (the operation unknown, two different ones given, or not one with such a redop and root); E0947
/// (busbw / algbw does not fit the operation and the ranks). Throws UsageError E1084 for an unknown
/// operation.
[[nodiscard]] TestedLayout tested_layout_of(const NcclTestsTable& table,
                                            const TestedLayoutOptions& options);

}  // namespace shardsim
