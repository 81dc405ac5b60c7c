#include "tests/backends/memory_transport.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace shardsim {

Transport::Request MemoryTransport::keep(Pending pending) {
  pending_[next_] = std::move(pending);
  return next_++;
}

Transport::Request MemoryTransport::send(int peer, const std::byte* data, std::int64_t bytes,
                                         bool rendezvous) {
  auto letter = std::make_shared<Mailroom::Letter>();
  letter->bytes.assign(data, data + bytes);
  room_.letters[{group_, rank_, peer}].push_back(letter);
  Pending pending;
  if (rendezvous) pending.letter = std::move(letter);
  return keep(std::move(pending));
}

Transport::Request MemoryTransport::receive(int peer, std::byte* data, std::int64_t bytes) {
  const Request request = keep({.letter = {}, .from = peer, .data = data, .bytes = bytes});
  receives_[peer].push_back(request);
  return request;
}

Transport::Request MemoryTransport::send_tagged(int peer, int tag, const std::byte* data,
                                                std::int64_t bytes, bool rendezvous) {
  auto letter = std::make_shared<Mailroom::Letter>();
  letter->bytes.assign(data, data + bytes);
  room_.tagged[{group_, peer}].push_back({rank_, tag, letter});
  Pending pending;
  if (rendezvous) pending.letter = std::move(letter);
  return keep(std::move(pending));
}

Transport::Request MemoryTransport::receive_tagged(int source, int tag, std::byte* data,
                                                   std::int64_t bytes) {
  open_.push_back({next_, source, tag, data, bytes});
  return next_++;
}

// Each receive takes the first message that fits, the oldest receive first.
void MemoryTransport::match_tagged() {
  auto& letters = room_.tagged[{group_, rank_}];
  for (auto receive = open_.begin(); receive != open_.end();) {
    const auto fits = [&](const Mailroom::TaggedLetter& each) {
      return (receive->source < 0 || receive->source == each.source) &&
             (receive->tag < 0 || receive->tag == each.tag);
    };
    const auto found = std::find_if(letters.begin(), letters.end(), fits);
    if (found == letters.end()) {
      ++receive;
      continue;
    }
    const std::vector<std::byte>& bytes = found->letter->bytes;
    const auto most = std::min<std::size_t>(bytes.size(), static_cast<std::size_t>(receive->bytes));
    if (most > 0) std::memcpy(receive->data, bytes.data(), most);
    found->letter->taken = true;
    matched_[receive->request] = {found->source, found->tag, std::ssize(bytes)};
    if (std::ssize(bytes) > receive->bytes) {
      taken_ = matched_[receive->request];
      throw WrongSize("a message is longer");
    }
    letters.erase(found);
    receive = open_.erase(receive);
  }
}

std::optional<TakenMessage> MemoryTransport::probe_tagged(int source, int tag) {
  match_tagged();
  for (const Mailroom::TaggedLetter& each : room_.tagged[{group_, rank_}]) {
    if (source >= 0 && source != each.source) continue;
    if (tag >= 0 && tag != each.tag) continue;
    return TakenMessage{each.source, each.tag, std::ssize(each.letter->bytes)};
  }
  return std::nullopt;
}

Transport::Request MemoryTransport::barrier() {
  ++room_.at_barrier[{group_, num_barriers_}];
  Pending pending;
  pending.barrier = num_barriers_++;
  return keep(std::move(pending));
}

bool MemoryTransport::done(Request request) {
  match_tagged();
  if (const auto found = matched_.find(request); found != matched_.end()) {
    taken_ = found->second;
    matched_.erase(found);
    return true;
  }
  const auto is_open = [&](const OpenReceive& receive) { return receive.request == request; };
  if (std::any_of(open_.begin(), open_.end(), is_open)) return false;
  Pending& pending = pending_.at(request);  // Throws for one that was done already.
  if (pending.barrier >= 0 && room_.at_barrier[{group_, pending.barrier}] < size()) return false;
  if (pending.letter && !pending.letter->taken) return false;
  if (pending.from >= 0) {
    std::deque<Request>& order = receives_[pending.from];
    auto& letters = room_.letters[{group_, pending.from, rank_}];
    if (order.front() != request || letters.empty()) return false;
    Mailroom::Letter& letter = *letters.front();
    if (static_cast<std::int64_t>(letter.bytes.size()) != pending.bytes) {
      throw std::logic_error("a message of another size");
    }
    if (pending.bytes > 0) std::memcpy(pending.data, letter.bytes.data(), letter.bytes.size());
    letter.taken = true;
    letters.pop_front();
    order.pop_front();
  }
  pending_.erase(request);
  return true;
}

std::unique_ptr<Transport> MemoryTransport::split(int color, int key) {
  const std::pair<int, int> number{group_, num_splits_++};
  std::vector<Mailroom::Seat>& seats = room_.splits[number];
  seats.push_back({color, key, rank_, world_ranks_[static_cast<std::size_t>(rank_)]});
  while (static_cast<int>(room_.splits[number].size()) < size()) room_.idle();
  if (color == kNoColor) return nullptr;
  std::vector<Mailroom::Seat> mine;
  for (const Mailroom::Seat& seat : seats) {
    if (seat.color == color) mine.push_back(seat);
  }
  std::sort(mine.begin(), mine.end(), [](const auto& a, const auto& b) {
    return std::pair(a.key, a.rank) < std::pair(b.key, b.rank);
  });
  std::vector<int> members;
  int self = 0;
  for (const Mailroom::Seat& seat : mine) {
    if (seat.rank == rank_) self = static_cast<int>(members.size());
    members.push_back(seat.world_rank);
  }
  const auto [it, is_new] =
      room_.groups.try_emplace({number.first, number.second, color}, room_.num_groups);
  if (is_new) ++room_.num_groups;
  return std::make_unique<MemoryTransport>(room_, it->second, self, std::move(members));
}

}  // namespace shardsim
