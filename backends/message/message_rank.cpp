#include "backends/message/message_rank.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "backends/message/message_communicator.hpp"

namespace shardsim {

MessageRank::MessageRank(std::unique_ptr<Transport> transport, MessageOptions options)
    : first_(std::move(transport)),
      options_(std::move(options)),
      network_(make_alpha_beta_model(options_.cluster)),
      rank_(first_->rank()) {}

MessageRank::~MessageRank() = default;

std::unique_ptr<Communicator> MessageRank::world() {
  return std::make_unique<MessageCommunicator>(*this, open(std::move(first_), "world"));
}

MessageStream& MessageRank::open(std::unique_ptr<Transport> transport, const std::string& name) {
  auto stream = std::make_unique<MessageStream>();
  stream->transport = std::move(transport);
  stream->name = name;
  streams_.push_back(std::move(stream));
  return *streams_.back();
}

void MessageRank::close(MessageStream& stream, GroupTraffic traffic) {
  traffic_.push_back(std::move(traffic));
  const auto it = std::find_if(streams_.begin(), streams_.end(),
                               [&](const auto& each) { return each.get() == &stream; });
  streams_.erase(it);
}

Algorithm MessageRank::choose(const GroupLayout& layout, const DoubleTree& tree, std::int64_t bytes,
                              std::int64_t largest_chunk) {
  CollectiveRequest request;
  request.kind = CollectiveKind::all_reduce;
  request.layout = &layout;
  request.tree = &tree;
  request.algorithm = options_.all_reduce_algorithm;
  request.bytes = bytes;
  request.largest_chunk = largest_chunk;
  return network_->collective(request, Time()).algorithm;
}

bool MessageRank::advance_all() {
  bool moved = false;
  for (const auto& stream : streams_) {
    while (!stream->queue.empty() && stream->queue.front()->ready()) {
      MessageOperation& operation = *stream->queue.front();
      moved |= operation.advance(*stream->transport);
      if (!operation.ended()) break;
      stream->last_ended = operation.record().describe();
      stream->queue.pop_front();
    }
  }
  return moved;
}

void MessageRank::wait(MessageStream& stream, const MessageOperation& operation) {
  if (failure_) throw CommunicationError(*failure_);
  double last_move = options_.clock();
  while (!operation.ended()) {
    if (advance_all()) {
      last_move = options_.clock();
    } else if (options_.clock() - last_move > options_.deadline_s) {
      time_out(stream, operation);
    } else {
      options_.idle();
    }
  }
}

void MessageRank::time_out(const MessageStream& stream, const MessageOperation& operation) const {
  // What is under way on this group, if what is waited for stands behind it.
  const MessageOperation& stuck = stream.queue.empty() ? operation : *stream.queue.front();
  const std::vector<int>& world = stream.transport->world_ranks();
  Diagnosis diagnosis;
  diagnosis.code = "TIMEOUT";
  diagnosis.summary = fmt::format("rank {} has waited {} s for {}, and nothing moves", rank_,
                                  options_.deadline_s, operation.record().describe());
  diagnosis.group = stream.name;
  diagnosis.members = world;
  std::sort(diagnosis.members.begin(), diagnosis.members.end());
  diagnosis.sequence = stuck.sequence();
  diagnosis.sides = {{.ranks = {rank_},
                      .action = "waits in " + stuck.record().describe(),
                      .site = stuck.record().site}};
  std::vector<int> silent;
  for (const int peer : stuck.awaited_peers()) {
    silent.push_back(world[static_cast<std::size_t>(peer)]);
  }
  std::sort(silent.begin(), silent.end());
  if (!silent.empty()) {
    diagnosis.sides.push_back({.ranks = silent, .action = "did not answer it", .site = {}});
  }
  diagnosis.last_matched = stream.last_ended;
  diagnosis.hint =
      "run the scenario without --backend: the simulation says at once who waits for whom; or look "
      "whether the silent ranks are alive";
  throw CommunicationError(std::move(diagnosis));
}

void MessageRank::fail(Diagnosis diagnosis) {
  if (!failure_) failure_ = std::move(diagnosis);
}

void MessageRank::finish() {
  if (failure_) throw CommunicationError(*failure_);
}

}  // namespace shardsim
