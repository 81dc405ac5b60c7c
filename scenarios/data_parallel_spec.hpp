#pragma once

#include <cstdint>
#include <vector>

#include "scenarios/enumerations.hpp"

namespace shardsim {

/// Alternatives to a sum of every gradient in every step: a part of ParallelismSpec, in
/// fields_data_parallel.cpp.
struct DataParallelSpec {
  DataParallelKind data_parallel = DataParallelKind::synchronous;
  std::int64_t sync_period = 1;    // local_sgd, diloco: updates between averages
  double outer_learning_rate = 0;  // diloco
  double outer_momentum = 0;
  std::int64_t max_staleness = 0;             // async_sgd: updates
  std::vector<std::int64_t> elastic_members;  // elastic: ranks in each step, the last for the rest
  std::int64_t elastic_min = 1;
  std::int64_t elastic_max = 1024;
  GradientCompression compression;

  bool trains_apart() const {
    return data_parallel == DataParallelKind::local_sgd ||
           data_parallel == DataParallelKind::diloco;
  }
  bool is_elastic() const { return data_parallel == DataParallelKind::elastic; }
  bool compresses() const { return compression.acts(); }
  /// Whether training differs on purpose from that of one device on the whole batch.
  bool changes_algorithm() const {
    return trains_apart() || data_parallel == DataParallelKind::async_sgd || compresses();
  }
};

}  // namespace shardsim
