#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "log.hpp"

// Which communication comes before what a stream does next, as works and events say it. So a buffer
// that is used while a communication still reads or writes it is found, whatever the timing.
namespace shardsim_torch {

class Order {
 public:
  static Order& get();

  /// A work of `group_stream` begins behind all that `stream` has seen.
  void post(std::int64_t work, StreamNumber stream, StreamNumber group_stream,
            const std::vector<at::Tensor>& sent, const std::vector<at::Tensor>& results,
            const std::string& call);
  /// A wait for a work or an event, or an event's record.
  void see(const Entry& entry);
  /// Throws c10::Error if an unfinished communication has the tensor's memory, and one of both
  /// writes.
  void touch(const at::Tensor& tensor, bool writes, StreamNumber stream);
  /// The memory goes.
  void forget(const void* address);

 private:
  // By group's stream, the number of its works that have ended for sure.
  using Reached = std::map<StreamNumber, std::int64_t>;
  struct Use {
    StreamNumber group_stream = 0;
    std::int64_t place = 0;
    bool writes = false;
    std::string call;
  };

  static void merge(Reached& into, const Reached& from);
  [[nodiscard]] bool has_ended(const Use& use, StreamNumber stream);
  void check(const void* address, bool writes, StreamNumber stream);

  std::mutex mutex_;
  Reached host_;  // All that is launched from now on is behind it.
  std::map<StreamNumber, Reached> streams_;
  std::map<std::int64_t, Reached> works_;
  std::map<std::int64_t, Reached> events_;
  std::map<StreamNumber, std::int64_t> posted_;  // By group's stream.
  std::map<const void*, std::vector<Use>> uses_;
};

}  // namespace shardsim_torch
