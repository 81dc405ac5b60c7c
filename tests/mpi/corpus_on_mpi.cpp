#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/harness/check_on_mpi.hpp"
#include "tests/harness/corpus/corpus_row.hpp"

// Programs of the bug corpus on the processes of an MPI job, and in memory:
//
//   corpus_on_mpi list                 all programs: key, expected code, number of the bug in words
//   corpus_on_mpi simulate N KEY...    verdicts in memory on N ranks
//   mpirun -n N corpus_on_mpi run KEY...
//   mpirun -n N corpus_on_mpi fingerprint KEY...   calls are compared as they are made, too
//
// A key is an id and the number of its program, "C10.2"; "+C10.2" is the program with its bug. A
// verdict is one line: key, code ("none"), ranks at fault, and the place of the first side.
namespace shardsim::corpus {
namespace {

std::map<std::string, Row> rows_by_key() {
  std::map<std::string, Row> rows;
  std::map<std::string, int> number;
  for (const auto& some : {failing_rows(), legal_rows()}) {
    for (const Row& row : some) rows[row.id + "." + std::to_string(++number[row.id])] = row;
  }
  return rows;
}

struct Choice {
  std::string key;
  Row row;
  bool planted = false;
};

std::vector<Choice> choices(int argc, char** argv, int first) {
  const std::map<std::string, Row> rows = rows_by_key();
  std::vector<Choice> chosen;
  for (int i = first; i < argc; ++i) {
    const bool planted = argv[i][0] == '+';
    chosen.push_back({argv[i], rows.at(argv[i] + (planted ? 1 : 0)), planted});
  }
  return chosen;
}

// Ranks that the row holds at fault: of the first side, or of all.
std::string ranks_of(const Row& row, const Diagnosis& found) {
  std::set<int> named;
  for (const DiagnosisSide& side : found.sides) {
    named.insert(side.ranks.begin(), side.ranks.end());
    if (row.who == Who::first) break;
  }
  return format_ranks({named.begin(), named.end()});
}

void print(const Choice& choice, const CheckReport& report) {
  const Diagnosis* found = report.failure ? &*report.failure : nullptr;
  if (found == nullptr && !report.warnings.empty()) found = &report.warnings.front();
  std::string place = "-";
  if (found != nullptr && !found->sides.empty() && found->sides.front().site.line > 0) {
    const char* const file = found->sides.front().site.file;
    const char* const name = std::strrchr(file, '/');
    place = std::string(name == nullptr ? file : name + 1) + ":" +
            std::to_string(found->sides.front().site.line);
  }
  std::printf("%s\t%s\t%s\t%s\n", choice.key.c_str(),
              found == nullptr ? "none" : found->code.c_str(),
              found == nullptr ? "-" : ranks_of(choice.row, *found).c_str(), place.c_str());
  if (std::getenv("SHARDSIM_REPORTS") != nullptr) std::printf("%s", report.to_text().c_str());
}

int list() {
  for (const auto& [key, row] : rows_by_key()) {
    std::printf("%s\t%s\t%s\n", key.c_str(), row.code.empty() ? "none" : row.code.c_str(),
                row.bug.c_str());
  }
  return 0;
}

int simulate(int ranks, const std::vector<Choice>& chosen) {
  for (const Choice& choice : chosen) {
    CheckOptions options = options_of(choice.row);
    options.ranks = {ranks};
    print(choice, check(program_of(choice.row, choice.planted), options));
  }
  return 0;
}

int run(const std::vector<Choice>& chosen, bool fingerprints) {
  std::vector<MpiProgram> programs;
  for (const Choice& choice : chosen) {
    CheckOptions options = options_for_mpi(options_of(choice.row));
    options.ranks.clear();
    programs.push_back({program_of(choice.row, choice.planted), options});
  }
  const MpiCheckOutcome outcome = check_on_mpi(programs, {.fingerprints = fingerprints});
  for (std::size_t i = 0; i < outcome.reports.size(); ++i) print(chosen[i], outcome.reports[i]);
  std::fflush(stdout);
  return static_cast<int>(outcome.exit_code);
}

}  // namespace
}  // namespace shardsim::corpus

int main(int argc, char** argv) {
  using namespace shardsim::corpus;
  const std::string verb = argc > 1 ? argv[1] : "";
  try {
    if (verb == "list") return list();
    if (verb == "simulate") return simulate(std::atoi(argv[2]), choices(argc, argv, 3));
    if (verb == "run" || verb == "fingerprint") {
      return run(choices(argc, argv, 2), verb == "fingerprint");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 2;
}
