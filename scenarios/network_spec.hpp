#pragma once

#include <cstdint>
#include <string>

#include "sim/kernel/tracked.hpp"

namespace shardsim {

/// Measured corrections of NCCL's own constants on one tier.
struct TierCorrection {
  Tracked<double> bandwidth_factor = 1.0;
  Tracked<double> added_latency_us = 0.0;
};

/// The price model of communication, and further machine data for NCCL's cost model.
struct NetworkSpec {
  std::string model = "alpha_beta";               // or "nccl"
  std::string gpu_generation = "by_device_name";  // or "ampere", "hopper", "blackwell"
  std::string cpu_vendor = "intel";               // or "amd"
  std::string nccl_version = "2.30.7";            // or "2.28.9"
  std::int64_t nics_per_node = 0;                 // 0: one per GPU
  std::int64_t nodes_per_pod = 0;                 // 0: all nodes
  Tracked<double> oversubscription = 1.0;         // between pods
  Tracked<double> pcie_gb_per_s = 0;  // between a GPU and its network card; nccl only, else 0
  std::string nccl_algorithms;        // as NCCL_ALGO; empty: all
  std::string nccl_protocols;         // as NCCL_PROTO; empty: all
  TierCorrection intra_node;          // of NCCL's prices
  TierCorrection inter_node;

  bool is_nccl() const { return model == "nccl"; }
};

}  // namespace shardsim
