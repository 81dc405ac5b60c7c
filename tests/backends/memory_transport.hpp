#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/message/transport.hpp"

namespace shardsim {

/// Where messages of all members lie until they are asked for. One thread.
struct Mailroom {
  struct Letter {
    std::vector<std::byte> bytes;
    bool taken = false;
  };
  using Route = std::tuple<int, int, int>;  // Group, sender and receiver.
  std::map<Route, std::deque<std::shared_ptr<Letter>>> letters;
  struct TaggedLetter {
    int source;
    int tag;
    std::shared_ptr<Letter> letter;
  };
  std::map<std::pair<int, int>, std::deque<TaggedLetter>> tagged;  // By group and receiver.
  std::map<std::pair<int, int>, int> at_barrier;  // By group and number of the barrier.
  struct Seat {
    int color;
    int key;
    int rank;
    int world_rank;
  };
  std::map<std::pair<int, int>, std::vector<Seat>> splits;  // By group and number of the split.
  std::map<std::tuple<int, int, int>, int> groups;          // And the color.
  int num_groups = 1;
  std::function<void()> idle;  ///< Lets others run; throws when the run is lost.
};

/// A transport through a Mailroom: rendezvous and order as on a network, and no time passes.
class MemoryTransport final : public Transport {
 public:
  MemoryTransport(Mailroom& room, int group, int rank, std::vector<int> world_ranks)
      : room_(room), group_(group), rank_(rank), world_ranks_(std::move(world_ranks)) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(world_ranks_.size()); }
  [[nodiscard]] const std::vector<int>& world_ranks() const override { return world_ranks_; }

  Request send(int peer, const std::byte* data, std::int64_t bytes, bool rendezvous) override;
  Request receive(int peer, std::byte* data, std::int64_t bytes) override;
  [[nodiscard]] bool has_tags() const override { return true; }
  Request send_tagged(int peer, int tag, const std::byte* data, std::int64_t bytes,
                      bool rendezvous) override;
  Request receive_tagged(int source, int tag, std::byte* data, std::int64_t bytes) override;
  [[nodiscard]] std::optional<TakenMessage> probe_tagged(int source, int tag) override;
  [[nodiscard]] TakenMessage taken() const override { return taken_; }
  Request barrier() override;
  [[nodiscard]] bool done(Request request) override;
  [[nodiscard]] std::unique_ptr<Transport> split(int color, int key) override;

 private:
  struct Pending {
    std::shared_ptr<Mailroom::Letter> letter;  // Sent.
    int from = -1;                             // Or to be received.
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    int barrier = -1;  // Or its number.
  };
  struct OpenReceive {
    Request request;
    int source;
    int tag;
    std::byte* data;
    std::int64_t bytes;
  };
  void match_tagged();
  Request keep(Pending pending);

  Mailroom& room_;
  int group_;
  int rank_;
  std::vector<int> world_ranks_;
  int num_barriers_ = 0;
  int num_splits_ = 0;
  Request next_ = 0;
  std::map<Request, Pending> pending_;
  std::map<int, std::deque<Request>> receives_;  // By sender, in order.
  std::deque<OpenReceive> open_;                 // As posted.
  std::map<Request, TakenMessage> matched_;
  TakenMessage taken_;
};

}  // namespace shardsim
