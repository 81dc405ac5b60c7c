#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/programs/program_set.hpp"

// A rank's last training step, as far as a scenario can be told by it: products, attention, and
// calls, in the order of the program.
namespace shardsim {

enum class StepEventKind : std::uint8_t { product, attention, attention_backward, call };

struct StepEvent {
  StepEventKind kind = StepEventKind::product;
  KernelShape shape = {};             ///< A kernel's.
  const ProgramCall* call = nullptr;  ///< A call's.
  std::size_t group = 0;              ///< Among `groups`: where the call is made.
};

/// A group of the rank, by world ranks.
struct StepGroup {
  std::string name;
  std::vector<int> members;

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  /// From one member to the next; 0: members do not lie evenly.
  [[nodiscard]] int stride() const;
};

struct StepFacts {
  int rank = 0;
  std::vector<StepGroup> groups;
  std::vector<StepEvent> events;
  std::set<std::string> operations;    ///< Names of all kernels.
  std::optional<DType> product_dtype;  ///< The first product's.

  [[nodiscard]] std::size_t count(StepEventKind kind) const;
  /// The first event of a kind at or behind a place; events.size(): there is none.
  [[nodiscard]] std::size_t next(StepEventKind kind, std::size_t from) const;
  /// World ranks that messages of the rank go to or come from.
  [[nodiscard]] std::set<int> peers() const;
};

/// Where the programs mark steps, the last one that ends; else all.
[[nodiscard]] StepFacts step_facts_of(const ProgramSet& set, int rank);

/// A collective by its row: of each kind, whether it is that.
[[nodiscard]] bool sums_for_all(const ProgramCall& call);
[[nodiscard]] bool sums_in_parts(const ProgramCall& call);
[[nodiscard]] bool gathers_for_all(const ProgramCall& call);
/// So few elements that they are a norm, a loss or a count.
[[nodiscard]] bool is_scalar(const ProgramCall& call);

}  // namespace shardsim
