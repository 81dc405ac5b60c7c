#pragma once

#include <memory>
#include <vector>

#include "backends/message/transport.hpp"
#include "backends/mpi/mpi_library.hpp"

namespace shardsim {

/// Messages between the processes of an MPI job, which outlives it.
class MpiTransport final : public Transport {
 public:
  /// All processes.
  explicit MpiTransport(const MpiJob& job) : MpiTransport(job, 0) {}
  ~MpiTransport() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(world_ranks_.size()); }
  [[nodiscard]] const std::vector<int>& world_ranks() const override { return world_ranks_; }

  Request send(int peer, const std::byte* data, std::int64_t bytes, bool rendezvous) override;
  Request receive(int peer, std::byte* data, std::int64_t bytes) override;
  Request barrier() override;
  [[nodiscard]] bool has_collectives() const override { return true; }
  Request collective(const NativeCall& call) override;
  [[nodiscard]] bool done(Request request) override;
  [[nodiscard]] std::unique_ptr<Transport> split(int color, int key) override;

 private:
  MpiTransport(const MpiJob& job, std::int32_t group);
  // Throws what the module reports.
  void check(std::int32_t status) const;

  const MpiJob& job_;
  std::int32_t group_;
  int rank_;
  std::vector<int> world_ranks_;
};

}  // namespace shardsim
