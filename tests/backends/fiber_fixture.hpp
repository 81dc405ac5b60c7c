#pragma once

#include <cstdint>
#include <functional>

#include "backends/fiber/fiber_world.hpp"

// A small two-tier world for tests: nodes of 4, round numbers.
namespace shardsim {

inline Cluster test_cluster(int ranks, int gpus_per_node = 0) {
  Cluster cluster;
  cluster.gpus_per_node = gpus_per_node > 0 ? gpus_per_node : ranks;
  cluster.num_nodes = ranks / cluster.gpus_per_node;
  cluster.intra_node = {.bytes_per_s = 100e9, .latency_s = 1e-6};
  cluster.inter_node = {.bytes_per_s = 10e9, .latency_s = 5e-6};
  cluster.device.name = "test device";
  cluster.device.memory_bytes = std::int64_t{1} << 40;
  cluster.device.memory_bytes_per_s = 1e12;
  cluster.device.peak_flops_per_s.fill(1e12);
  return cluster;
}

/// Runs `body` on `ranks` ranks of one node with data.
inline void run_ranks(int ranks, const FiberWorld::RankBody& body, FiberOptions options = {}) {
  options.cluster = test_cluster(ranks);
  FiberWorld world(options);
  world.run(body);
}

/// A flat tensor with element i = value(i).
inline Tensor filled(Runtime& runtime, std::int64_t count, DType dtype,
                     const std::function<double(std::int64_t)>& value) {
  Tensor tensor = runtime.allocate(MemoryCategory::comm, {count}, dtype);
  for (std::int64_t i = 0; tensor.has_data() && i < count; ++i) tensor.set(i, value(i));
  return tensor;
}

/// The diagnosis a run of `body` ends with; fails if it ends well.
inline Diagnosis diagnosis_of(int ranks, const FiberWorld::RankBody& body,
                              FiberOptions options = {}) {
  try {
    run_ranks(ranks, body, std::move(options));
  } catch (const CommunicationError& error) {
    return error.diagnosis();
  }
  return Diagnosis{.code = "NONE", .summary = "the run ended well"};
}

}  // namespace shardsim
