#include "tests/harness/corpus/corpus_row.hpp"

#include <algorithm>

namespace shardsim::corpus {

std::vector<Row> failing_rows() {
  std::vector<Row> all;
  for (const auto& some :
       {collective_rows(), group_rows(), argument_rows(), message_rows(), open_message_rows(),
        buffer_rows(), culprit_rows(), scale_rows(), reduction_rows(), shard_rows(),
        pipeline_rows(), stream_rows(), expert_rows(), precision_rows()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  std::stable_sort(all.begin(), all.end(), [](const Row& a, const Row& b) { return a.id < b.id; });
  return all;
}

namespace {

bool right_ranks(const Row& row, const Diagnosis& found) {
  std::set<int> named;
  for (const DiagnosisSide& side : found.sides) {
    named.insert(side.ranks.begin(), side.ranks.end());
    if (row.who == Who::first) break;
  }
  const std::vector<int> culprits = row.culprits(row.options.ranks.back());
  return named == std::set<int>(culprits.begin(), culprits.end());
}

std::string place_of(const CallSite& site) {
  const std::string file = site.file;
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(site.line);
}

}  // namespace

Finding judge(const Row& row, const Diagnosis& found, const Plant::Lines& lines) {
  Finding finding;
  finding.code = found.code;
  finding.right_code = found.code == row.code;
  finding.right_ranks = right_ranks(row, found);
  finding.right_text = found.to_text().find(row.text) != std::string::npos;
  finding.ranks = found.sides.empty() ? "" : format_ranks(found.sides.front().ranks);
  for (const DiagnosisSide& side : found.sides) {
    if (std::string(side.site.file).empty()) continue;
    const bool right = side.site.file == row.file && lines.contains(side.site.line);
    if (finding.place.empty()) {
      finding.place = place_of(side.site);
      finding.right_place = right;
    }
    if (row.who == Who::first) break;
    finding.right_place = finding.right_place && right;
  }
  return finding;
}

}  // namespace shardsim::corpus
