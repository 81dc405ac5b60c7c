#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backends/call_record.hpp"

namespace shardsim {

/// A real backend reports the progress of each call here, and asks whether the run is still alive.
/// Flight recorders, fingerprints and the notice of another rank's failure use it. All calls come
/// from the communicating thread.
class CallWatch {
 public:
  /// One send or receive of a point-to-point call.
  struct Half {
    bool sends = false;
    int peer = 0;  ///< Rank in the communicator.
    DType dtype = DType::fp32;
    std::int64_t count = 0;
  };
  struct Call {
    const std::string& group;      ///< Name of the communicator.
    std::span<const int> members;  ///< Its world ranks, by rank in it.
    int instance = 0;              ///< Index among communicators with that name and those members.
    int member = 0;                ///< This process's rank in it.
    std::int64_t sequence = 0;     ///< Index of the call in that communicator.
    const CallRecord& record;
    std::span<const Half> halves;  ///< Empty: a collective.
  };

  virtual ~CallWatch() = default;
  CallWatch() = default;
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  virtual void posted(const Call& call) = 0;
  virtual void started(const Call& call) = 0;
  virtual void ended(const Call& call) = 0;
  /// Asked now and then while a call is waited for. Throws CommunicationError or Error if the run
  /// has been given up elsewhere.
  virtual void poll() = 0;
};

}  // namespace shardsim
