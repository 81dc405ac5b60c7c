#include <algorithm>
#include <map>
#include <optional>
#include <ostream>
#include <set>

#include <fmt/format.h>

#include "sim/collective/collective_run.hpp"
#include "sim/export/recorded_run.hpp"

namespace shardsim {

namespace {

// A table: the measured operation and its place. The reduction does not change the cost: all are
// priced as sums, which is what `shardsim calibrate` reads.
struct TableKey {
  TestedOperation operation;
  int ranks;
  int nodes;
  DType dtype;
  auto operator<=>(const TableKey&) const = default;
};
using SizesByTable = std::map<TableKey, std::set<std::int64_t>>;

std::optional<TestedOperation> operation_of(const RecordedCall& call) {
  if (!call.transfers.empty()) return TestedOperation::sendrecv;
  for (const std::string& name : tested_operation_names()) {
    if (name == call.name) return tested_operation_of(name);
  }
  return std::nullopt;
}

// The size in the sense of nccl-tests: that of the larger buffer.
std::int64_t size_of_call(const RecordedCall& call) {
  return std::max(call.input_elements, call.output_elements) * size_of(call.dtype);
}

// 0 if the group has not equally many members on each.
int even_nodes(const RecordedGroup& group, const Cluster& cluster) {
  std::map<int, int> members;
  for (const int rank : group.members) ++members[cluster.node_of(rank)];
  const bool even = std::all_of(members.begin(), members.end(), [&](const auto& node) {
    return node.second == members.begin()->second;
  });
  return even ? static_cast<int>(members.size()) : 0;
}

SizesByTable sizes_of(const RecordedRun& run, std::ostream& err) {
  const Cluster& cluster = run.experiment.cluster();
  SizesByTable sizes;
  std::set<int> uneven;
  for (const std::vector<RecordedOperation>& operations : run.ranks) {
    for (const RecordedOperation& operation : operations) {
      if (operation.call == nullptr || operation.call->is_scalar) continue;
      const RecordedGroup& group = group_of(run, operation);
      const std::optional<TestedOperation> tested = operation_of(*operation.call);
      if (!tested || group.members.size() < 2) continue;
      const int nodes = even_nodes(group, cluster);
      if (nodes == 0) {
        if (uneven.insert(operation.group).second) {
          err << fmt::format("note: group {} has unequally many ranks on its nodes: left out\n",
                             group.name);
        }
        continue;
      }
      sizes[{*tested, static_cast<int>(group.members.size()), nodes, operation.call->dtype}].insert(
          size_of_call(*operation.call));
    }
  }
  return sizes;
}

// Below this, chunks of 16 bytes per rank come to nothing.
std::int64_t smallest_size(const TableKey& key) {
  constexpr std::int64_t kChunk = 16;
  return kChunk * key.ranks;
}

// `all_reduce_perf -b 8 -e 8G -f 2`, what `shardsim calibrate` asks for.
void add_powers_of_two(std::set<std::int64_t>& sizes) {
  constexpr std::int64_t kSmallest = 8;
  constexpr std::int64_t kLargest = std::int64_t{8} << 30;
  for (std::int64_t size = kSmallest; size <= kLargest; size *= 2) sizes.insert(size);
}

std::string table_of(const TableKey& key, const std::set<std::int64_t>& sizes,
                     const NcclTestsExport& options) {
  CollectiveArguments arguments;
  arguments.operation = std::string(name_of(key.operation));
  arguments.iterations = 1;  // Times are virtual: all iterations are equal.
  arguments.warmup = 0;
  arguments.checks = 0;
  arguments.ranks = key.ranks;
  arguments.nodes = key.nodes;
  arguments.system = options.file;
  arguments.overrides = options.overrides;
  arguments.dtype = nccl_type_name(key.dtype);
  CollectiveSetting setting = collective_setting_of(arguments, 0);
  setting.sizes.clear();
  for (const std::int64_t size : sizes) {
    if (size >= smallest_size(key)) setting.sizes.push_back(size);
  }
  if (setting.sizes.empty()) return "";
  setting.sizes_text = fmt::format("minBytes {} maxBytes {} step: 0(sizes of the run)",
                                   setting.sizes.front(), setting.sizes.back());
  return collective_table(setting, "fiber", simulate_collectives(setting, {}));
}

}  // namespace

std::string nccl_tests_tables(const RecordedRun& run, const NcclTestsExport& options,
                              std::ostream& err) {
  std::string text;
  for (auto [key, sizes] : sizes_of(run, err)) {
    if (options.sweep) add_powers_of_two(sizes);
    text += table_of(key, sizes, options);
  }
  return text;
}

}  // namespace shardsim
