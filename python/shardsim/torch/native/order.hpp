#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "exchange.hpp"
#include "log.hpp"

// Which communication comes before what a stream does next, as works and events say it. So a buffer
// that is used while a communication still reads or writes it is found, whatever the timing.
namespace shardsim_torch {

class Order {
 public:
  static Order& get();

  /// A work of `group_stream` begins behind all that `stream` has seen. `fetch` brings its results
  /// when they are first waited for, after those of the group's earlier works; null: it has none.
  void post(std::int64_t work, StreamNumber stream, StreamNumber group_stream,
            const std::vector<at::Tensor>& sent, const std::vector<at::Tensor>& results,
            const std::string& call, Fetch fetch);
  /// To be called before a call of `group_stream` reads these: earlier works of the same group may
  /// still have to write them.
  void fetch_for(const std::vector<at::Tensor>& tensors, StreamNumber group_stream);
  /// A wait for a work or an event, or an event's record.
  void see(const Entry& entry);
  /// The host knows that the work has ended.
  void finish(std::int64_t work);
  void finish_all();
  /// Brings the results of a work, and of those before it. Nobody has waited for it.
  void fetch_work(std::int64_t work);
  /// Throws c10::Error if an unfinished communication has the tensor's memory, and one of both
  /// writes.
  void touch(const at::Tensor& tensor, bool writes, StreamNumber stream);
  /// The memory goes.
  void forget(const void* address);

 private:
  // By group's stream, the number of its works that have ended for sure.
  using Reached = std::map<StreamNumber, std::int64_t>;
  struct Range {
    const char* begin = nullptr;
    const char* end = nullptr;
  };
  struct Pending {
    StreamNumber group_stream = 0;
    std::int64_t place = 0;
    Fetch fetch;
  };
  struct Use {
    Range range;
    StreamNumber group_stream = 0;
    std::int64_t place = 0;
    bool writes = false;
    std::string call;
  };

  static void merge(Reached& into, const Reached& from);
  [[nodiscard]] static Range range_of(const at::Tensor& tensor);
  [[nodiscard]] static bool reaches(const Reached& reached, StreamNumber stream,
                                    std::int64_t place);
  [[nodiscard]] bool has_ended(const Use& use, StreamNumber stream);
  void check(const at::Tensor& tensor, bool writes, StreamNumber stream, StreamNumber group_stream);
  void fetch(const Reached& reached);

  std::mutex mutex_;
  Reached host_;  // All that is launched from now on is behind it.
  std::map<StreamNumber, Reached> streams_;
  std::map<std::int64_t, Reached> works_;
  std::map<std::int64_t, Reached> events_;
  std::map<StreamNumber, std::int64_t> posted_;   // By group's stream.
  std::map<const void*, std::vector<Use>> uses_;  // By storage.
  std::vector<Pending> pending_;                  // In the order of their posts.
};

}  // namespace shardsim_torch
