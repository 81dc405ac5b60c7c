#pragma once

#include <deque>
#include <memory>

#include "backends/communicator.hpp"
#include "backends/group_traffic.hpp"

namespace shardsim {

/// One process's end of a run on real processes: the backend as seen by the code that composes a
/// run. Everything happens on the caller's thread.
class ProcessBackend {
 public:
  virtual ~ProcessBackend() = default;
  ProcessBackend() = default;
  ProcessBackend(const ProcessBackend&) = delete;
  ProcessBackend& operator=(const ProcessBackend&) = delete;

  [[nodiscard]] virtual int rank() const = 0;
  /// The communicator of all processes, named "world" as everywhere; to be asked for once. It and
  /// what is split from it must not outlive this.
  [[nodiscard]] virtual std::unique_ptr<Communicator> world() = 0;
  /// Throws what went wrong without anyone waiting for it: a Work that was dropped.
  virtual void finish() = 0;
  /// Traffic of communicators that are gone, in the order in which they went.
  [[nodiscard]] virtual const std::deque<GroupTraffic>& traffic() const = 0;
};

}  // namespace shardsim
