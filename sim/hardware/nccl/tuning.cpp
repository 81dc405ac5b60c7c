#include "sim/hardware/nccl/tuning.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/hardware/nccl/graph.hpp"

namespace shardsim {

namespace {

// Trees do not follow the model at middle sizes; NCCL multiplies their bandwidth by a table. No
// factor below 64 bytes and past the table's end.
double tree_correction(NcclProtocol protocol, std::int64_t bytes) {
  const int column = std::bit_width(static_cast<std::uint64_t>(bytes) / 64) - 1;
  if (column < 0 || column >= nccl_table(NcclTable::tree_correction).size[1]) return 1.0;
  return nccl_constant(NcclTable::tree_correction, at(protocol), column);
}

// A sum over many ranks in fp8 loses too much in a ring, which rounds at every hop.
bool avoids_ring(const NcclPlacement& placement, const NcclQuery& call) {
  const CollectiveRow& row = row_of(call.kind);
  return call.dtype == DType::fp8_e4m3 && row.path == CollectivePath::ring && row.reduces &&
         placement.ranks > nccl_constant(NcclTable::fp8_ring_ranks);
}

bool is_open(const NcclOption& option, NcclAllowed allowed) {
  return option.unavailable == nullptr && (allowed == nullptr || allowed(option.algorithm));
}

NcclOption without_size(const NcclPlatform& platform, const NcclPlacement& placement,
                        const NcclQuery& call, NcclAlgorithm algorithm, NcclProtocol protocol) {
  NcclOption option{.algorithm = algorithm, .protocol = protocol};
  option.unavailable = why_unavailable(platform, placement, call, algorithm, protocol);
  if (option.unavailable != nullptr) return option;
  const NcclGraph graph = graph_of(algorithm, platform, placement);
  option.channels = graph.channels;
  option.channel_inside = graph.inside;
  option.channel_between = graph.between;
  option.latency_us = latency_us(platform, placement, call, algorithm, protocol);
  option.bandwidth = algorithm_bandwidth(platform, placement, call, algorithm, protocol);
  return option;
}

}  // namespace

NcclTuning::NcclTuning(const NcclPlatform& platform, const NcclPlacement& placement,
                       const NcclQuery& call)
    : selection_(platform.overrides.selection),
      placement_(placement),
      call_(call),
      executed_channels_(executed_channels(platform, placement)) {
  const CollectivePath path = row_of(call.kind).path;
  if (path != CollectivePath::ring && path != CollectivePath::chain) {
    throw UsageError(
        "E0404", fmt::format("NCCL has no algorithms to choose from for {}", name_of(call.kind)),
        "price it as messages");
  }
  for (int algorithm = 0; algorithm < kNcclAlgorithms; ++algorithm) {
    for (int protocol = 0; protocol < kNcclProtocols; ++protocol) {
      options_.push_back(without_size(platform, placement, call,
                                      static_cast<NcclAlgorithm>(algorithm),
                                      static_cast<NcclProtocol>(protocol)));
    }
  }
}

bool NcclTuning::on_plateau(std::int64_t bytes) const {
  if (placement_.nodes == 1) return false;
  const std::int64_t share = bytes / (std::int64_t{executed_channels_} * placement_.ranks);
  return static_cast<double>(share) >= nccl_constant(NcclTable::plateau_bytes);
}

NcclOption NcclTuning::at_size(NcclOption option, std::int64_t bytes) const {
  const bool ring = option.algorithm == NcclAlgorithm::ring;
  if (option.algorithm == NcclAlgorithm::tree) {
    option.bandwidth *= tree_correction(option.protocol, bytes);
  }
  if (ring && option.protocol == NcclProtocol::simple && row_of(call_.kind).reduces_to_all() &&
      on_plateau(bytes)) {
    option.latency_us *= nccl_constant(NcclTable::ring_plateau);
  }
  option.time_us =
      option.latency_us + static_cast<double>(bytes) / (kBytesPerUs * option.bandwidth);
  option.cost_us = option.time_us;
  if (ring && avoids_ring(placement_, call_)) {
    option.cost_us *= nccl_constant(NcclTable::fp8_ring_factor);
  }
  return option;
}

std::vector<NcclOption> NcclTuning::options(std::int64_t bytes) const {
  std::vector<NcclOption> options;
  for (const NcclOption& option : options_) {
    options.push_back(option.unavailable == nullptr ? at_size(option, bytes) : option);
  }
  return options;
}

bool NcclTuning::offers(NcclAllowed allowed) const {
  return std::ranges::any_of(
      options_, [allowed](const NcclOption& option) { return is_open(option, allowed); });
}

// The error gives a reason for each algorithm with Simple, the protocol that all have.
void NcclTuning::refuse() const {
  std::string reasons;
  for (const NcclOption& option : options_) {
    if (option.protocol != NcclProtocol::simple) continue;
    const char* why = option.unavailable;
    if (why == nullptr) why = "what the scenario asks for leaves it out";
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", name_of(option.algorithm), why);
  }
  throw UsageError(
      "E0407",
      fmt::format("NCCL is left no algorithm and protocol for {} of {} ranks on {} nodes, with "
                  "system.nccl.algorithms \"{}\" and protocols \"{}\" ({})",
                  name_of(call_.kind), placement_.ranks, placement_.nodes, selection_.algorithms(),
                  selection_.protocols(), reasons),
      "add ring with Simple, which serve everything, or allow more to single functions, as in "
      "\"ring;allreduce:tree\"");
}

NcclOption NcclTuning::choice(std::int64_t bytes, NcclAllowed allowed) const {
  NcclOption best;
  bool found = false;
  for (const NcclOption& option : options_) {
    if (!is_open(option, allowed)) continue;
    const NcclOption priced = at_size(option, bytes);
    if (!found || priced.cost_us < best.cost_us) best = priced;
    found = true;
  }
  if (!found) refuse();
  return best;
}

}  // namespace shardsim
