#include "sim/accuracy/run_preamble.hpp"

#include <algorithm>
#include <utility>

#include "sim/kernel/text.hpp"

#include "scenarios/scenario_error.hpp"

namespace shardsim {

namespace {

constexpr std::string_view kSpace = " \t\r";

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  return at;
}

// Length of a launcher's mark at the beginning, 0 if there is none.
std::size_t mark_length(std::string_view text) {
  if (!text.empty() && text.front() == '[') {
    std::size_t at = skip_digits(text, 1);
    if (at == 1) return 0;
    if (at < text.size() && text[at] == ',') at = skip_digits(text, at + 1);
    if (at >= text.size() || text[at] != ']') return 0;
    ++at;
    for (const std::string_view stream : {"<stdout>:", "<stderr>:"}) {
      if (text.substr(at, stream.size()) == stream) return at + stream.size();
    }
    return at;
  }
  const std::size_t at = skip_digits(text, 0);
  return at > 0 && text.substr(at, 2) == ": " ? at + 1 : 0;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const std::size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const bool hash = words.empty() && text.front() == '#';
    const std::size_t end = hash ? 1 : std::min(text.find_first_of(kSpace), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

// 0 for a word that is no number.
int count_in(std::string_view word) {
  constexpr long long kMost = 1 << 20;
  return static_cast<int>(std::clamp(parse_number<long long>(word).value_or(0), 0LL, kMost));
}

}  // namespace

std::size_t LogLine::find(std::string_view word) const {
  return static_cast<std::size_t>(std::find(words.begin(), words.end(), word) - words.begin());
}

std::vector<LogLine> log_lines(std::string_view text) {
  std::vector<LogLine> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    const std::size_t indent = std::min(line.find_first_not_of(kSpace), line.size());
    const std::size_t skipped = indent + mark_length(line.substr(indent));
    line.remove_prefix(skipped);
    lines.push_back({begin + skipped, line, words_of(line)});
    begin = end + 1;
  }
  return lines;
}

// "/opt/nccl-tests/build/all_reduce_perf_mpi" names a test as well.
void RunPreamble::take_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  constexpr std::string_view kMpi = "_mpi";
  if (name.size() > kMpi.size() && name.substr(name.size() - kMpi.size()) == kMpi) {
    name.remove_suffix(kMpi.size());
  }
  // hypercube_perf is none of them.
  for (const std::string& each : tested_operation_names()) {
    const TestedOperation operation = tested_operation_of(each);
    if (test_program_of(operation) == name) since_.operation = operation;
  }
}

// "#  Rank  0 Group  0 Pid   1887 on   worker-1 device  0 [0x8d] NVIDIA H100 80GB HBM3"
void RunPreamble::take_rank(const LogLine& line) {
  constexpr long long kMostRanks = 1 << 20;
  const std::optional<long long> rank = parse_number<long long>(line.word(2));
  const std::size_t on = line.find("on");
  if (!rank || *rank < 0 || *rank > kMostRanks || on == line.words.size()) return;
  if (line.word(3) == "Group" && line.word(4) != "0") {
    throw_problem("E0945", {source_, line.offset, line.text.size()},
                  "the ranks work in several groups at once, which disturb each other",
                  "run the test without NCCL_TESTS_SPLIT");
  }
  run_.ranks.insert(static_cast<int>(*rank));
  run_.hosts.emplace(line.word(on + 1));
  run_.gpu.clear();
  bool behind_bus = false;
  for (const std::string_view word : line.words) {
    if (behind_bus) run_.gpu += (run_.gpu.empty() ? "" : " ") + std::string(word);
    behind_bus = behind_bus || (word.front() == '[' && word.back() == ']');
  }
}

// "# shardsim collective all_reduce on fiber: 8 ranks", and two lines on "of dgx-h100: 1 nodes of 8
// GPUs".
void RunPreamble::take_own(const LogLine& line) {
  if (line.word(1) == "shardsim" && line.word(2) == "collective") {
    since_.operation = tested_operation_of(std::string(line.word(3)));
    run_.own_ranks = count_in(line.word(6));
    if (line.word(5) == "fiber:") return;
    throw_problem(
        "E0950", {source_, line.offset, line.text.size()},
        "these times are not NCCL's alone: buffers of `shardsim collective` are on the host",
        "measure with nccl-tests");
  }
  const std::size_t nodes = line.find("nodes");
  if (run_.own_ranks > 0 && nodes >= 1 && line.word(nodes + 1) == "of") {
    run_.own_nodes = count_in(line.word(nodes - 1));
  }
}

// A launcher's command line, or that of a shell with tracing on.
void RunPreamble::take_command(const LogLine& line) {
  for (const std::string_view word : line.words) {
    take_name(word);
    const bool selects = word.substr(0, 10) == "NCCL_ALGO=" || word.substr(0, 11) == "NCCL_PROTO=";
    if (selects) since_.variables += (since_.variables.empty() ? "" : " ") + std::string(word);
  }
}

void RunPreamble::take(const LogLine& line) {
  if (!line.is_comment()) {
    take_command(line);
  } else if (line.word(1) == "nThread") {  // The first words of a run, however the last one ended.
    // A run that died leaves its ranks and its name behind. Commands come before the run that they
    // start.
    before_run_ = std::exchange(since_, {});
    run_ = {};
  } else if (line.word(1) == "Rank") {
    take_rank(line);
  } else if (line.word(1) == "Collective" && line.word(3) == "starting:") {
    take_name(line.word(4));
  } else {
    take_own(line);
  }
}

void RunPreamble::describe(NcclTestsTable& table) const {
  table.operation = since_.operation ? since_.operation : before_run_.operation;
  table.ranks = run_.own_ranks > 0 ? run_.own_ranks : static_cast<int>(run_.ranks.size());
  table.nodes = run_.own_ranks > 0 ? run_.own_nodes : static_cast<int>(run_.hosts.size());
  table.highest_rank = run_.own_ranks > 0   ? run_.own_ranks - 1
                       : run_.ranks.empty() ? -1
                                            : *run_.ranks.rbegin();
  table.gpu = run_.gpu;
  table.variables = before_run_.variables;
  if (!since_.variables.empty()) {
    table.variables += (table.variables.empty() ? "" : " ") + since_.variables;
  }
}

}  // namespace shardsim
