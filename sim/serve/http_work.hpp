#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "sim/serve/http_server.hpp"

// A request between its connection and a worker. The connection's thread makes it and hears of it;
// a worker does it.
namespace shardsim {

/// The status of an answer that ends a stream.
inline constexpr int kEndOfStream = 0;

/// REQUIRES: `answered` and `sent` are called by the connections' thread alone.
struct HttpWork {
  explicit HttpWork(HttpRequest asked) : request(std::move(asked)) {}

  HttpRequest request;
  std::function<void(HttpAnswer answer)> answered;     ///< Once. A stream's has no body.
  std::function<void(const std::string& event)> sent;  ///< For each event of a stream.
  std::function<void()> begun;                         ///< When a worker takes it.
  std::function<void()> set_back;                      ///< It was begun, and waits once more.

  /// Only the first end counts.
  void end(WorkEnd why) {
    WorkEnd none = WorkEnd::none;
    ended_.compare_exchange_strong(none, why);
  }
  [[nodiscard]] WorkEnd ended() const { return ended_; }

 private:
  std::atomic<WorkEnd> ended_ = WorkEnd::none;
};
using HeldWork = std::shared_ptr<HttpWork>;

}  // namespace shardsim
