#include "strategies/model/dispatch_rows.hpp"

#include <vector>

namespace shardsim {

namespace {

using Lists = std::vector<std::vector<std::int64_t>>;

// One list after the other.
void write_lists(const Lists& lists, const Tensor& order) {
  std::int64_t at = 0;
  for (const std::vector<std::int64_t>& list : lists) {
    for (const std::int64_t number : list) {
      if (at < order.numel()) order.set(at, static_cast<double>(number));
      ++at;
    }
  }
  require_size("experts", "number of rows that are dispatched", at, order.numel());
}

// Calls visit(token, slot, member) for each slot whose expert is a member's.
template <class Visitor>
void for_each_slot(const Tensor& chosen, const HopExperts& hop, Visitor&& visit) {
  const std::int64_t k = last_dim(chosen);
  for (std::int64_t pair = 0; pair < chosen.numel(); ++pair) {
    const std::int64_t member = hop.member_of(static_cast<std::int64_t>(chosen.get(pair)));
    if (member >= 0) visit(pair / k, pair % k, member);
  }
}

// Calls visit(token, member) once for each member that has an expert of the token.
template <class Visitor>
void for_each_copy(const Tensor& chosen, const HopExperts& hop, Visitor&& visit) {
  std::vector<std::int64_t> last(to_size(hop.members), -1);  // The token that came last.
  for_each_slot(chosen, hop, [&](std::int64_t token, std::int64_t /*slot*/, std::int64_t member) {
    if (last[to_size(member)] == token) return;
    last[to_size(member)] = token;
    visit(token, member);
  });
}

void add_one(const Tensor& counts, std::int64_t at) { counts.set(at, counts.get(at) + 1.0); }

Tensor new_order(Runtime& runtime, std::int64_t rows) {
  return new_activation(runtime, Shape{rows}, DType::int32);
}

}  // namespace

Tensor count_for_nodes(Runtime& runtime, const Tensor& chosen, const DispatchGrid& grid) {
  const std::int64_t row = 1 + grid.ranks * (1 + grid.experts);
  Tensor counts = new_activation(runtime, {grid.nodes, row}, DType::int32);
  const std::int64_t bytes = chosen.num_bytes() + counts.num_bytes();
  runtime.compute(memory_op("count_for_nodes", counts.dtype(), bytes), [&] {
    const HopExperts nodes{.each = grid.ranks * grid.experts, .members = grid.nodes};
    const HopExperts ranks{.each = grid.experts, .members = grid.nodes * grid.ranks};
    for_each_copy(chosen, nodes,
                  [&](std::int64_t /*token*/, std::int64_t node) { add_one(counts, node * row); });
    for_each_copy(chosen, ranks, [&](std::int64_t /*token*/, std::int64_t rank) {
      add_one(counts, rank / grid.ranks * row + 1 + rank % grid.ranks);
    });
    for (std::int64_t pair = 0; pair < chosen.numel(); ++pair) {
      const auto expert = static_cast<std::int64_t>(chosen.get(pair));
      add_one(counts, expert / nodes.each * row + 1 + grid.ranks + expert % nodes.each);
    }
  });
  return counts;
}

Tensor count_for_ranks(Runtime& runtime, const Tensor& told, const DispatchGrid& grid) {
  const std::int64_t row = last_dim(told);
  Tensor counts = new_activation(runtime, {grid.ranks, 1 + grid.experts}, DType::int32);
  const std::int64_t bytes = told.num_bytes() + counts.num_bytes();
  runtime.compute(memory_op("count_for_ranks", counts.dtype(), bytes), [&] {
    for (std::int64_t rank = 0; rank < grid.ranks; ++rank) {
      for (std::int64_t i = 0; i <= grid.experts; ++i) {
        const std::int64_t column = i == 0 ? 1 + rank : grid.ranks + rank * grid.experts + i;
        double sum = 0.0;
        for (std::int64_t node = 0; node < grid.nodes; ++node) {
          sum += told.get(node * row + column);
        }
        counts.set(rank * (1 + grid.experts) + i, sum);
      }
    }
  });
  return counts;
}

Tensor order_copies(Runtime& runtime, const Tensor& chosen, const HopExperts& hop,
                    std::int64_t rows) {
  Tensor order = new_order(runtime, rows);
  const std::int64_t bytes = chosen.num_bytes() + order.num_bytes();
  runtime.compute(memory_op("order_copies", order.dtype(), bytes), [&] {
    Lists copies(to_size(hop.members));
    for_each_copy(chosen, hop, [&](std::int64_t token, std::int64_t member) {
      copies[to_size(member)].push_back(token * hop.members + member);
    });
    write_lists(copies, order);
  });
  return order;
}

Tensor order_pairs(Runtime& runtime, const Tensor& chosen, const HopExperts& here,
                   std::int64_t rows) {
  Tensor order = new_order(runtime, rows);
  const std::int64_t bytes = chosen.num_bytes() + order.num_bytes();
  runtime.compute(memory_op("order_rows", order.dtype(), bytes), [&] {
    Lists pairs(to_size(here.members));
    for_each_slot(chosen, here, [&](std::int64_t token, std::int64_t slot, std::int64_t expert) {
      pairs[to_size(expert)].push_back(token * last_dim(chosen) + slot);
    });
    write_lists(pairs, order);
  });
  return order;
}

}  // namespace shardsim
