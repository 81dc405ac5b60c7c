#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "scenarios/scenario_error.hpp"
#include "scenarios/suggest.hpp"
#include "sim/accuracy/nccl_tests_table.hpp"

namespace shardsim {

namespace {

// busbw / algbw of the largest size that has it, 0 if none does.
double bus_share_of(const NcclTestsTable& table) {
  std::int64_t largest = 0;
  double share = 0.0;
  for (const NcclTestsRow& row : table.rows) {
    if (row.bus_share == 0.0 || row.size < largest) continue;
    largest = row.size;
    share = row.bus_share;
  }
  return share;
}

// Two decimals of 10 GB/s and more.
bool agree(double share, double factor) { return std::abs(share / factor - 1.0) < 2e-3; }

// sendrecv_perf names the reduction that -o asks for, its default sum, though it reduces nothing.
bool reduction_fits(const NcclTestsTable& table, TestedOperation operation) {
  return operation == TestedOperation::sendrecv ||
         reduces(operation) == (table.reduction != "none");
}

bool root_fits(const NcclTestsTable& table, TestedOperation operation) {
  return !table.root || has_root(operation) == (*table.root >= 0);
}

// All operations that the columns allow.
std::vector<std::string> operations_like(const NcclTestsTable& table, int ranks) {
  const double share = bus_share_of(table);
  std::vector<std::string> names;
  for (const std::string& name : tested_operation_names()) {
    const TestedOperation operation = tested_operation_of(name);
    if (!reduction_fits(table, operation) || !root_fits(table, operation)) continue;
    if (share == 0.0 || agree(share, bus_factor(operation, ranks))) names.push_back(name);
  }
  return names;
}

// Takes from the options the ranks of a table whose own lines do not give all of them.
void set_ranks_by_options(const NcclTestsTable& table, const TestedLayoutOptions& options,
                          TestedLayout& layout) {
  if (options.ranks == 0) {
    throw_problem(
        "E0945", table.place,
        table.ranks == 0
            ? std::string("no line before this table names its ranks (\"#  Rank  0 ... on HOST\")")
            : fmt::format("the lines before this table name {} ranks, the highest is rank {}",
                          table.ranks, table.highest_rank),
        "add --ranks and --nodes: how many GPUs took part, on how many nodes");
  }
  if (options.ranks <= table.highest_rank) {
    throw_problem("E0945", table.place,
                  fmt::format("a line before this table names rank {}, and there are {} by --ranks",
                              table.highest_rank, options.ranks),
                  "count all GPUs that took part, on all nodes");
  }
  layout.ranks = options.ranks;
  layout.nodes = options.nodes;
}

void set_ranks(const NcclTestsTable& table, const TestedLayoutOptions& options,
               TestedLayout& layout) {
  const bool whole = table.ranks > 0 && table.highest_rank + 1 == table.ranks;
  if (whole) {
    layout.ranks = table.ranks;
    layout.nodes = table.nodes;
  }
  const bool contradicts = (options.ranks > 0 && options.ranks != layout.ranks) ||
                           (options.nodes > 0 && options.nodes != layout.nodes);
  if (whole && contradicts) {
    throw_problem(
        "E0945", table.place,
        fmt::format("the lines before this table name {} ranks on {} nodes, the options {} "
                    "and {}",
                    table.ranks, table.nodes, options.ranks, options.nodes),
        "leave --ranks and --nodes out, or give those of this table alone");
  }
  if (!whole) set_ranks_by_options(table, options, layout);
  if (layout.ranks < 2) {
    throw_problem("E0945", table.place, "one rank communicates with nobody",
                  "run the test on two GPUs or more (-g 8, or with MPI)");
  }
  constexpr int kMostRanks = 16384;
  if (layout.ranks > kMostRanks) {
    throw_problem("E0945", table.place,
                  fmt::format("{} ranks are more than {}", layout.ranks, kMostRanks),
                  "correct the line that says so");
  }
}

// busbw alone is the same for several operations.
void require_columns_of(const NcclTestsTable& table, TestedOperation operation, bool by_option) {
  std::string cause;
  if (!reduction_fits(table, operation)) {
    cause = fmt::format("redop is {} in this table, and {} {}", table.reduction, name_of(operation),
                        reduces(operation) ? "reduces" : "does not reduce");
  } else if (!root_fits(table, operation)) {
    cause = fmt::format("root is {} in this table, and {} has {}", *table.root, name_of(operation),
                        has_root(operation) ? "one" : "none");
  }
  if (cause.empty()) return;
  throw_problem("E0946", table.place, cause,
                by_option ? "name the operation of this table by --op"
                          : "correct the line before it that names the test, or remove that line "
                            "and add --op");
}

void set_operation(const NcclTestsTable& table, const TestedLayoutOptions& options,
                   TestedLayout& layout) {
  const std::optional<TestedOperation> asked =
      options.operation.empty() ? std::nullopt
                                : std::optional(tested_operation_of(options.operation));
  if (asked && table.operation && *asked != *table.operation) {
    throw_problem("E0946", table.place,
                  fmt::format("the text says that this is {}, and --op {}",
                              name_of(*table.operation), name_of(*asked)),
                  "leave --op out, or give the files of each operation alone");
  }
  if (asked || table.operation) {
    layout.operation = asked ? *asked : *table.operation;
    require_columns_of(table, layout.operation, !table.operation);
    return;
  }
  const std::vector<std::string> possible = operations_like(table, layout.ranks);
  if (possible.size() != 1) {
    throw_problem("E0946", table.place,
                  possible.empty()
                      ? fmt::format("redop, root and busbw / algbw match no operation on {} ranks",
                                    layout.ranks)
                      : "this may be " + one_of_list(possible) + ": the text does not say",
                  std::string("add --op, such as --op ") + collective::kAllReduce.name);
  }
  layout.operation = tested_operation_of(possible.front());
}

}  // namespace

std::string words_of(const TestedLayout& layout) {
  return fmt::format("{} ranks on {} node{}", layout.ranks, layout.nodes,
                     layout.nodes == 1 ? "" : "s");
}

TestedLayout tested_layout_of(const NcclTestsTable& table, const TestedLayoutOptions& options) {
  TestedLayout layout;
  set_ranks(table, options, layout);
  set_operation(table, options, layout);
  const double share = bus_share_of(table);
  const double factor = bus_factor(layout.operation, layout.ranks);
  if (share != 0.0 && !agree(share, factor)) {
    throw_problem("E0947", table.place,
                  fmt::format("busbw is {:.4f} algbw in this table, and {:.4f} in {} of {} ranks",
                              share, factor, name_of(layout.operation), layout.ranks),
                  "correct --ranks or --op, or the lines that name the ranks");
  }
  return layout;
}

}  // namespace shardsim
