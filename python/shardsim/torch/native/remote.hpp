#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/ATen.h>

// The way of a rank that trains with data to `shardsim torch --verify`, which performs the calls of
// all ranks. Lines of JSON with bytes behind them go there over a Unix socket, results come back.
namespace shardsim_torch {

/// One for a process. Threads of autograd call it, too.
class Remote {
 public:
  /// Null: ranks are recorded, and their tensors mostly have no data.
  static Remote* get();
  /// To be called before the first tensor of the device is made.
  static void connect(const std::string& path);
  /// Comes before all others, when the script begins.
  void say_rank(int rank);

  /// World ranks in the group's order. `name`: the same on all members, and no other group's.
  void form(const std::string& group, const std::vector<int>& members);
  /// `call`: a row of a program file. `sent`: what this rank gives. Returns the call's number.
  std::int64_t post(const std::string& call, const std::vector<at::Tensor>& sent);
  /// Returns when the call has ended on all members, and fills what this rank gets.
  void wait(std::int64_t number, const std::vector<at::Tensor>& results);
  /// The last line. `json`: more of its fields, without braces.
  void end(const std::string& json);

 private:
  explicit Remote(int socket);
  void send(const std::string& fields, const std::vector<at::Tensor>& payload);
  void write_all(const void* data, std::size_t bytes);
  void read_all(void* data, std::size_t bytes);

  std::mutex mutex_;
  int socket_;
  std::int64_t next_ = 1;
};

/// Whether tensors have data.
[[nodiscard]] bool with_data();

}  // namespace shardsim_torch
