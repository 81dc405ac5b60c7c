#include "sim/collective/tested_operation.hpp"

#include "sim/kernel/error.hpp"

#include "scenarios/suggest.hpp"

namespace shardsim {

namespace {

struct Traits {
  TestedOperation operation;
  std::string_view name;
  bool reduces;
  bool has_root;
  bool out_of_place;
  bool in_place;
};

constexpr Traits kTraits[] = {
    {TestedOperation::all_reduce, "all_reduce", true, false, false, true},
    {TestedOperation::reduce_scatter, "reduce_scatter", true, false, true, true},
    {TestedOperation::all_gather, "all_gather", false, false, true, true},
    {TestedOperation::broadcast, "broadcast", false, true, false, true},
    {TestedOperation::reduce, "reduce", true, true, false, true},
    {TestedOperation::all_to_all, "all_to_all", false, false, true, false},
    {TestedOperation::sendrecv, "sendrecv", false, false, true, false},
    {TestedOperation::gather, "gather", false, true, true, false},
    {TestedOperation::scatter, "scatter", false, true, true, false},
};

const Traits& traits_of(TestedOperation operation) {
  return kTraits[static_cast<std::size_t>(operation)];
}

}  // namespace

std::string_view name_of(TestedOperation operation) { return traits_of(operation).name; }

std::vector<std::string> tested_operation_names() {
  std::vector<std::string> names;
  for (const Traits& traits : kTraits) names.emplace_back(traits.name);
  return names;
}

TestedOperation tested_operation_of(const std::string& name) {
  for (const Traits& traits : kTraits) {
    if (traits.name == name) return traits.operation;
  }
  const std::vector<std::string> names = tested_operation_names();
  if (name.empty()) {
    throw UsageError("E1084", "no operation is given", "name one: " + one_of_list(names));
  }
  const std::string near = nearest(name, names);
  throw UsageError(
      "E1084", "there is no operation \"" + name + "\"",
      (near.empty() ? "" : "write \"" + near + "\"; ") + "there are " + one_of_list(names));
}

bool reduces(TestedOperation operation) { return traits_of(operation).reduces; }
bool has_root(TestedOperation operation) { return traits_of(operation).has_root; }
bool works_in_place(TestedOperation operation) { return traits_of(operation).in_place; }
bool works_out_of_place(TestedOperation operation) { return traits_of(operation).out_of_place; }

ElementCounts element_counts(TestedOperation operation, std::int64_t elements,
                             std::int64_t element_bytes, int ranks) {
  constexpr std::int64_t kChunkBytes = 16;
  const std::int64_t chunk = elements / ranks & -(kChunkBytes / element_bytes);
  const std::int64_t full = chunk * ranks;
  switch (operation) {
    case TestedOperation::all_reduce:
    case TestedOperation::broadcast:
    case TestedOperation::reduce:
    case TestedOperation::sendrecv:
      return {elements, elements, elements};
    case TestedOperation::all_to_all:
      return {full, full, chunk};
    case TestedOperation::reduce_scatter:
    case TestedOperation::scatter:
      return {full, chunk, chunk};
    case TestedOperation::all_gather:
    case TestedOperation::gather:
      return {chunk, full, chunk};
  }
  return {};
}

double bus_factor(TestedOperation operation, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (operation) {
    case TestedOperation::all_reduce:
      return 2 * others;
    case TestedOperation::broadcast:
    case TestedOperation::reduce:
    case TestedOperation::sendrecv:
      return 1.0;
    case TestedOperation::reduce_scatter:
    case TestedOperation::all_gather:
    case TestedOperation::all_to_all:
    case TestedOperation::gather:
    case TestedOperation::scatter:
      return others;
  }
  return 1.0;
}

}  // namespace shardsim
