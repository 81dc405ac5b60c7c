#pragma once

#include <cstdint>
#include <string>

#include "sim/kernel/tracked.hpp"

namespace shardsim {

/// What is measured on one tier, against NCCL's own constants of it.
struct TierCorrection {
  Tracked<double> bandwidth_factor = 1.0;
  Tracked<double> added_latency_us = 0.0;
};

/// How communication is priced, and what NCCL's cost model asks of the machine beside its links.
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
