#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/program/program.hpp"

// A rank in a process of its own asks shardsim to do things, over a Unix socket: lines of JSON,
// each with bytes behind it. Its other end: python/shardsim/torch/native/remote.cpp.
namespace shardsim {

struct RemoteMessage {
  enum class Kind : std::uint8_t {
    hello,  ///< The first one: `number` is the rank.
    form,   ///< A member forms group `name` of `members`, ranks of the world in order.
    post,   ///< `call` as number `number`, in group `name`; the payload is what the rank gives.
    wait,   ///< For call `number`. The only message that is answered: with what the rank gets.
    end,    ///< The last one; `name`: why the rank failed, or empty.
  };
  Kind kind = Kind::hello;
  std::int64_t number = 0;
  std::string name;
  std::vector<int> members;
  std::string site;  ///< "train.py:12", or empty.
  ProgramCall call;
  std::vector<std::byte> payload;
};

/// One end of a socket, which it closes.
class RankConnection {
 public:
  explicit RankConnection(int socket) : socket_(socket) {}
  ~RankConnection();
  RankConnection(const RankConnection&) = delete;
  RankConnection& operator=(const RankConnection&) = delete;

  [[nodiscard]] int socket() const { return socket_; }
  /// Takes all that has come. False: the other end is gone, and nothing will come any more.
  bool read();
  /// Whether a whole message has come.
  [[nodiscard]] bool has_message() const;
  /// Nothing: it has not come whole. Throws UsageError E1378 where it is no message.
  [[nodiscard]] std::optional<RemoteMessage> take();
  /// Blocks until the other end has room for it. An end that is gone is found by read().
  void answer(std::span<const std::byte> bytes);

 private:
  struct Line {
    std::size_t length = 0;  // With its end.
    std::size_t payload = 0;
  };
  [[nodiscard]] std::optional<Line> first_line() const;

  int socket_;
  std::vector<char> received_;
};

}  // namespace shardsim
