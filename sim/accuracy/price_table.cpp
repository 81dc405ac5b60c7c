#include "sim/accuracy/price_table.hpp"

#include <numeric>

#include "sim/hardware/nccl/prices.hpp"

namespace shardsim {

namespace {

CollectiveKind kind_of(TestedOperation operation) {
  switch (operation) {
    case TestedOperation::all_reduce:
      return CollectiveKind::all_reduce;
    case TestedOperation::reduce_scatter:
      return CollectiveKind::reduce_scatter;
    case TestedOperation::all_gather:
      return CollectiveKind::all_gather;
    case TestedOperation::broadcast:
      return CollectiveKind::broadcast;
    case TestedOperation::reduce:
      return CollectiveKind::reduce;
    case TestedOperation::gather:
      return CollectiveKind::gather;
    case TestedOperation::scatter:
      return CollectiveKind::scatter;
    case TestedOperation::all_to_all:
    case TestedOperation::sendrecv:
      break;
  }
  return CollectiveKind::all_to_all;
}

// Every rank sends to the next at once; the slowest message is the operation.
NcclPrice slowest_message(const NcclPrices& prices, int ranks, std::int64_t bytes) {
  NcclPrice slowest;
  for (int rank = 0; rank < ranks; ++rank) {
    const NcclPrice price = prices.message(rank, (rank + 1) % ranks, bytes);
    if (price.latency_us + price.transfer_us > slowest.latency_us + slowest.transfer_us) {
      slowest = price;
    }
  }
  return slowest;
}

}  // namespace

std::vector<CalibrationPoint> price_sizes(const Cluster& cluster, TestedOperation operation,
                                          const std::vector<std::int64_t>& sizes) {
  std::vector<int> members(static_cast<std::size_t>(cluster.num_ranks()));
  std::iota(members.begin(), members.end(), 0);
  const GroupLayout layout(cluster, members);
  const DoubleTree tree(layout);
  NcclPrices prices(cluster);
  std::vector<CalibrationPoint> points;
  for (const std::int64_t size : sizes) {
    NcclPrice price;
    if (operation == TestedOperation::sendrecv) {
      price = slowest_message(prices, layout.size(), size);
    } else {
      CollectiveRequest request;
      request.kind = kind_of(operation);
      request.layout = &layout;
      request.tree = operation == TestedOperation::all_reduce ? &tree : nullptr;
      request.bytes = size;
      request.largest_chunk = (size + layout.size() - 1) / layout.size();
      price = prices.collective(request);
    }
    points.push_back({.latency_us = price.latency_us, .transfer_us = price.transfer_us});
  }
  return points;
}

}  // namespace shardsim
