#include "sim/collective/tested_operation.hpp"

#include <algorithm>
#include <array>

#include "sim/kernel/error.hpp"

#include "scenarios/suggest.hpp"

namespace shardsim {

namespace {

// In the order of TestedOperation.
constexpr std::array<const CollectiveRow*, 9> kTested = {&collective::kAllReduce,
                                                         &collective::kReduceScatter,
                                                         &collective::kAllGather,
                                                         &collective::kBroadcast,
                                                         &collective::kReduce,
                                                         &collective::kAllToAll,
                                                         nullptr,
                                                         &collective::kGather,
                                                         &collective::kScatter};

}  // namespace

const CollectiveRow* collective_of(TestedOperation operation) {
  return kTested[static_cast<std::size_t>(operation)];
}

std::string_view name_of(TestedOperation operation) {
  const CollectiveRow* const row = collective_of(operation);
  return row == nullptr ? "sendrecv" : row->name;
}

std::string test_program_of(TestedOperation operation) {
  const CollectiveRow* const row = collective_of(operation);
  const bool pairs = row != nullptr && row->path == CollectivePath::pairs;
  return std::string(pairs ? "alltoall" : name_of(operation)) + "_perf";
}

std::vector<std::string> tested_operation_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kTested.size(); ++i) {
    names.emplace_back(name_of(static_cast<TestedOperation>(i)));
  }
  return names;
}

TestedOperation tested_operation_of(const std::string& name) {
  const std::vector<std::string> names = tested_operation_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<TestedOperation>(found - names.begin());
  if (name.empty()) {
    throw UsageError("E1084", "no operation is given", "name one: " + one_of_list(names));
  }
  const std::string near = nearest(name, names);
  throw UsageError(
      "E1084", "there is no operation \"" + name + "\"",
      (near.empty() ? "" : "write \"" + near + "\"; ") + "there are " + one_of_list(names));
}

bool reduces(TestedOperation operation) {
  const CollectiveRow* const row = collective_of(operation);
  return row != nullptr && row->reduces;
}

bool has_root(TestedOperation operation) {
  const CollectiveRow* const row = collective_of(operation);
  return row != nullptr && row->root != RootRole::none;
}

bool works_in_place(TestedOperation operation) {
  const CollectiveRow* const row = collective_of(operation);
  return row != nullptr &&
         (row->path == CollectivePath::ring || row->path == CollectivePath::chain);
}

bool works_out_of_place(TestedOperation operation) {
  const CollectiveRow* const row = collective_of(operation);
  return row == nullptr || !row->in_place();
}

ElementCounts element_counts(TestedOperation operation, std::int64_t elements,
                             std::int64_t element_bytes, int ranks) {
  constexpr std::int64_t kChunkBytes = 16;
  const std::int64_t chunk = elements / ranks & -(kChunkBytes / element_bytes);
  const std::int64_t full = chunk * ranks;
  const CollectiveRow* const row = collective_of(operation);
  if (row == nullptr || row->in_place()) return {elements, elements, elements};
  return {row->input == BufferPart::chunk ? chunk : full,
          row->output == BufferPart::chunk ? chunk : full, chunk};
}

double bus_factor(TestedOperation operation, int ranks) {
  const CollectiveRow* const row = collective_of(operation);
  return row == nullptr ? 1.0 : bus_factor(*row, ranks);
}

}  // namespace shardsim
