#include <filesystem>
#include <ostream>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/command/verbs.hpp"
#include "sim/console/output_paths.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/sweep/part_file.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

struct MergeArguments {
  std::string folder;
  bool csv = false;
  bool ndjson = false;  // The default, given explicitly.
  std::string output;   // Empty or "-": standard output.
};

constexpr std::size_t kShownRanges = 6;

// "3, 17-20, 512 and others": the missing points of [0, num_points).
std::string missing_words(const std::set<std::size_t>& there, std::size_t num_points) {
  std::string words;
  std::size_t ranges = 0;
  for (std::size_t point = 0; point < num_points; ++point) {
    if (there.count(point) > 0) continue;
    std::size_t last = point;
    while (last + 1 < num_points && there.count(last + 1) == 0) ++last;
    if (++ranges > kShownRanges) return words + " and others";
    words += fmt::format("{}{}", ranges == 1 ? "" : ", ", point);
    if (last > point) words += fmt::format("-{}", last);
    point = last;
  }
  return words;
}

void require_parts(const PointIndex& index, const std::string& folder) {
  if (!index.parts().empty()) return;
  throw UsageError("E1317", fmt::format("there are no parts of a sweep in {}", folder),
                   "`shardsim sweep FILE --out DIR` writes them as part-i-of-n.ndjson");
}

void require_all_points(const PointIndex& index) {
  const PartHeader& header = index.parts().front().header;
  const std::set<std::size_t> there = index.points();
  if (there.size() == header.num_points) return;
  throw Error(ExitCode::check_failed, "E1315",
              fmt::format("{} of {} points are missing: {}", header.num_points - there.size(),
                          header.num_points, missing_words(there, header.num_points)),
              "finish with: " + header.command);
}

// All parts must leave out the same, or the result would depend on which is read first.
std::set<std::string> skipped_statuses(const PointIndex& index) {
  const PartContents& first = index.parts().front();
  for (const PartContents& part : index.parts()) {
    if (part.header.skip == first.header.skip) continue;
    throw UsageError("E1310",
                     fmt::format("{} and {} do not skip the same points", first.path.string(),
                                 part.path.string()),
                     "run each shard again with the same \"skip\": what is computed stays");
  }
  return {first.header.skip.begin(), first.header.skip.end()};
}

void write_rows(const PointIndex& index, bool csv, std::ostream& out) {
  const std::set<std::string> skip = skipped_statuses(index);
  if (csv) out << csv_header(index.parts().front().header.columns);
  index.for_each_line([&](const KeptRow& row, const std::string& line) {
    if (skip.count(row.status) == 0) out << (csv ? csv_of(line) : line + "\n");
  });
}

void write_rows_to(const PointIndex& index, bool csv, const fs::path& path) {
  std::vector<PathInUse> parts;
  for (const PartContents& part : index.parts()) {
    parts.push_back({"a part of the sweep", part.path});
  }
  require_apart(parts, {{"the output", path}});
  write_whole_file(
      path, [&](std::ostream& file) { write_rows(index, csv, file); }, "choose another with -o");
}

// `shardsim merge DIR`: the rows of all parts, ascending, each point once, without those that the
// sweep skips. The bytes do not depend on which process computed them, nor on the order. Throws
// Error (E1315, exit code 1) with the command to finish if points are missing.
int command_merge(const MergeArguments& arguments, const Console& console) {
  const PointIndex index(arguments.folder, nullptr);
  require_parts(index, arguments.folder);
  if (index.num_damaged() > 0) {
    console.err << fmt::format("warning: {} damaged lines were passed over\n", index.num_damaged());
  }
  require_all_points(index);
  const std::string& output = arguments.output;
  const bool csv = arguments.csv || fs::path(output).extension() == ".csv";
  if (output.empty() || output == "-") {
    write_rows(index, csv, console.out);
    return 0;
  }
  write_rows_to(index, csv, output);
  tell_written(output, console.err);
  return 0;
}

void add_merge_options(CLI::App& app, MergeArguments& arguments) {
  app.add_option("folder", arguments.folder, "Folder of the parts (--out of the sweep)")
      ->required();
  CLI::Option* csv = app.add_flag("--csv", arguments.csv, "Write CSV");
  app.add_flag("--ndjson", arguments.ndjson, "Write one JSON object per line (the default)")
      ->excludes(csv);
  app.add_option("-o,--output", arguments.output, "File to write (standard output)");
}

}  // namespace

Verb merge_verb() {
  return with_arguments<MergeArguments>(
      {.name = "merge",
       .summary = "Merge the parts of a sweep, and list what is missing",
       .examples = {{"shardsim merge plan.sweep --csv -o plan.csv", "one table of all parts"}}},
      add_merge_options, command_merge);
}

}  // namespace shardsim
