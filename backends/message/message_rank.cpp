#include "backends/message/message_rank.hpp"

#include <utility>

#include <fmt/format.h>

namespace shardsim {

MessageRank::MessageRank(std::unique_ptr<Transport> transport, MessageOptions options)
    : first_(std::move(transport)),
      options_(std::move(options)),
      network_(make_network_model(options_.cluster)),
      rank_(first_->rank()) {}

std::unique_ptr<Communicator> MessageRank::world() {
  return std::make_unique<MessageCommunicator>(*this, open(std::move(first_), "world"));
}

MessageStream& MessageRank::open(std::unique_ptr<Transport> transport, const std::string& name) {
  auto stream = std::make_unique<MessageStream>();
  stream->transport = std::move(transport);
  stream->name = name;
  stream->members = stream->transport->world_ranks();
  stream->member = stream->transport->rank();
  stream->instance = num_opened_[{name, stream->members}]++;
  streams_.push_back(std::move(stream));
  return *streams_.back();
}

void MessageRank::close(MessageStream& stream, GroupTraffic traffic) {
  traffic_.push_back(std::move(traffic));
  std::erase_if(streams_, [&](const auto& each) { return each.get() == &stream; });
}

Algorithm MessageRank::choose(const GroupLayout& layout, const DoubleTree& tree, std::int64_t bytes,
                              std::int64_t largest_chunk) {
  const CollectiveRequest request{.kind = collective::kAllReduce,
                                  .layout = &layout,
                                  .tree = &tree,
                                  .algorithm = options_.all_reduce_algorithm,
                                  .bytes = bytes,
                                  .largest_chunk = largest_chunk};
  return network_->collective(request, Time()).algorithm;
}

void MessageRank::post(MessageStream& stream, const std::shared_ptr<MessageOperation>& operation) {
  tell(&CallWatch::posted, stream, *operation);
  stream.queue.push_back(operation);
}

bool MessageRank::advance(MessageStream& stream, MessageOperation& operation) {
  if (!operation.begun()) tell(&CallWatch::started, stream, operation);
  bool moved = false;
  try {
    moved = operation.advance(*stream.transport);
  } catch (const WrongSize& error) {
    wrong_size(stream, operation, error);
  }
  if (operation.ended()) tell(&CallWatch::ended, stream, operation);
  return moved;
}

bool MessageRank::advance_all() {
  bool moved = messages_ && messages_();
  for (const auto& stream : streams_) {
    while (!stream->queue.empty() && stream->queue.front()->ready()) {
      MessageOperation& operation = *stream->queue.front();
      moved |= advance(*stream, operation);
      if (!operation.ended()) break;
      stream->last_ended = operation.record().describe();
      stream->queue.pop_front();
    }
  }
  return moved;
}

void MessageRank::wait(MessageStream& stream, const MessageOperation& operation) {
  go_on_until([&] { return operation.ended(); }, [&] { time_out(stream, operation); });
}

void MessageRank::go_on_until(const std::function<bool()>& has_ended,
                              const std::function<void()>& time_out) {
  if (failure_) throw CommunicationError(*failure_);
  double last_move = options_.clock();
  while (!has_ended()) {
    if (advance_all()) {
      last_move = options_.clock();
    } else if (options_.clock() - last_move > options_.deadline_s) {
      time_out();
    } else {
      if (options_.watch != nullptr) options_.watch->poll();
      options_.idle();
    }
  }
}

void MessageRank::look(const std::function<void()>& time_out) {
  if (failure_) throw CommunicationError(*failure_);
  go_on_once([this] { return advance_all(); }, time_out);
}

bool MessageRank::poll(const MessageStream& stream, const MessageOperation& operation) {
  if (!operation.ended() || failure_) look([&] { time_out(stream, operation); });
  return operation.ended();
}

std::vector<int> MessageRank::awaited(const MessageStream& stream,
                                      const MessageOperation& operation) {
  std::vector<int> ranks = operation.awaited_peers();
  for (int& rank : ranks) rank = stream.members[static_cast<std::size_t>(rank)];
  return ascending(std::move(ranks));
}

void MessageRank::wrong_size(const MessageStream& stream, const MessageOperation& operation,
                             const WrongSize& error) const {
  Diagnosis diagnosis =
      report(operation.halves().empty() ? "COLL_COUNT" : "P2P_MISMATCH", stream, operation);
  diagnosis.summary =
      fmt::format("rank {} in {}: {}", rank_, operation.record().describe(), error.what());
  diagnosis.sides = {operation.record().side_of({rank_})};
  if (error.peer() >= 0) {
    const auto peer = static_cast<std::size_t>(error.peer());
    diagnosis.sides.push_back({.ranks = {stream.members[peer]}, .action = "sent something else"});
  }
  diagnosis.hint =
      "members call with different sizes; --check=fingerprint shows both calls, and so does the "
      "simulation (without --backend)";
  throw CommunicationError(std::move(diagnosis));
}

void MessageRank::time_out(const MessageStream& stream, const MessageOperation& operation) const {
  // The running operation of this group, if the awaited one is queued behind it.
  const MessageOperation& stuck = stream.queue.empty() ? operation : *stream.queue.front();
  Diagnosis diagnosis = time_out_report(stream, stuck, operation, awaited(stream, stuck));
  diagnosis.hint =
      "run the scenario without --backend: the simulation shows who waits for whom; or check that "
      "the silent ranks are alive; longer computations need a larger --timeout";
  throw CommunicationError(std::move(diagnosis));
}

void MessageRank::finish() {
  if (failure_) throw CommunicationError(*failure_);
}

}  // namespace shardsim
