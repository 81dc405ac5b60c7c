#include "backends/message/process_rank.hpp"

#include <algorithm>
#include <exception>

#include <fmt/format.h>

#include "sim/hardware/collective_rows.hpp"

namespace shardsim {

// --- Operations --------------------------------------------------------------------------------

void ProcessOperation::set_options(const CallOptions& options, int group_size) {
  if (options.after != nullptr) {
    after_ = static_cast<ProcessOperation*>(options.after->operation())->shared_from_this();
  }
  padding_at_.assign(options.padding_at.begin(), options.padding_at.end());
  // It stands at the end unless the call says where.
  if (record_.padding != 0 && padding_at_.empty()) {
    padding_at_.push_back({record_.count - record_.padding, record_.count});
  }
  if (record_.reduces && record_.reduce == ReduceOp::avg) divisor_ = group_size;
}

void ProcessOperation::set_halves(std::span<const P2pOp> halves) {
  for (const P2pOp& half : halves) {
    halves_.push_back({.sends = half.kind == P2pOp::Kind::send,
                       .peer = half.peer,
                       .dtype = half.buffer.dtype(),
                       .count = half.buffer.numel()});
  }
}

void ProcessOperation::count(int self, const MessagePlan& plan, std::int64_t width) {
  for (const MessageRound& round : plan.rounds) {
    for (const MessageStep& message : round.messages) count(self, message, width);
  }
}

void ProcessOperation::count(int self, const MessageStep& message, std::int64_t width) {
  if (message.peer == self) return;  // Nothing travels.
  const std::int64_t first = message.slice.begin;
  const std::int64_t padding = overlap(padding_at_, first, first + message.slice.count) * width;
  const std::int64_t real = message.slice.count * width - padding;
  const bool scalar = record_.traffic == TrafficClass::scalar;
  const bool sends = message.kind == MessageStep::Kind::send;
  if (sends) {
    ++moved_.messages;
    if (scalar) ++moved_.scalar_messages;
    (scalar ? moved_.scalar_sent : moved_.payload_sent) += real;
    if (!scalar) moved_.padding_sent += padding;
  } else {
    (scalar ? moved_.scalar_received : moved_.payload_received) += real;
  }
  if (scalar) return;
  LinkCounts& link = sends ? links_[{self, message.peer}] : links_[{message.peer, self}];
  (sends ? link.sent : link.received) += real;
  if (sends) ++link.messages;
}

MessagePlan plan_transfer(std::span<const P2pOp> halves) {
  MessageRound round;
  for (const P2pOp& half : halves) {
    round.messages.push_back({.kind = half.kind == P2pOp::Kind::send ? MessageStep::Kind::send
                                                                     : MessageStep::Kind::receive,
                              .peer = half.peer,
                              .slice = {0, half.buffer.num_bytes()},
                              .buffer = static_cast<int>(round.messages.size())});
  }
  MessagePlan plan;
  plan.rounds.push_back(std::move(round));
  return plan;
}

// --- The process -------------------------------------------------------------------------------

void ProcessRank::tell(void (CallWatch::*event)(const CallWatch::Call&),
                       const ProcessStream& stream, const ProcessOperation& operation) const {
  if (waiting().watch == nullptr) return;
  (waiting().watch->*event)({.group = stream.name,
                             .members = stream.members,
                             .instance = stream.instance,
                             .member = stream.member,
                             .sequence = operation.sequence(),
                             .record = operation.record(),
                             .halves = operation.halves()});
}

Diagnosis ProcessRank::report(const char* code, const ProcessStream& stream,
                              const ProcessOperation& operation) const {
  return {.code = code,
          .group = stream.name,
          .members = ascending(stream.members),
          .sequence = operation.sequence(),
          .last_matched = stream.last_ended};
}

Diagnosis ProcessRank::time_out_report(const ProcessStream& stream, const ProcessOperation& stuck,
                                       const ProcessOperation& operation,
                                       std::vector<int> silent) const {
  Diagnosis diagnosis = report("TIMEOUT", stream, stuck);
  diagnosis.summary = fmt::format("rank {} has waited {} s for {}, and nothing moves", rank(),
                                  waiting().deadline_s, operation.record().describe());
  diagnosis.sides = {{.ranks = {rank()},
                      .action = "waits in " + stuck.record().describe(),
                      .site = stuck.record().site}};
  if (!silent.empty()) {
    diagnosis.sides.push_back({.ranks = std::move(silent), .action = "did not answer it"});
  }
  return diagnosis;
}

// --- Communicators -----------------------------------------------------------------------------

ProcessCommunicator::ProcessCommunicator(ProcessRank& process, ProcessStream& stream)
    : process_(process), stream_(stream) {
  traffic_.name = stream.name;
  traffic_.members = stream.members;
}

MessagePlan ProcessCommunicator::plan_of(const Call& call) {
  const CollectiveRow& row = row_of(call.collective);
  if (row.path == CollectivePath::pairs) {
    return plan_pairwise_messages(rank(), call.send_counts, call.recv_counts);
  }
  offsets_ = chunk_offsets(row, call.record.count, call.options->counts, size());
  return plan_messages({.kind = call.collective,
                        .size = size(),
                        .member = rank(),
                        .root = call.record.root,
                        .offsets = offsets_});
}

Work ProcessCommunicator::hand_out(std::shared_ptr<ProcessOperation> operation) {
  unwaited_.push_back(std::move(operation));
  return {*this, unwaited_.back().get()};
}

void ProcessRank::go_on_once(const std::function<bool()>& advance,
                             const std::function<void()>& time_out) {
  const WaitOptions& options = waiting();
  const double begin = options.clock();
  if (advance()) {
    idle_s_ = 0.0;
    return;
  }
  if (options.watch != nullptr) options.watch->poll();
  options.idle();
  idle_s_ += options.clock() - begin;
  if (idle_s_ > options.deadline_s) time_out();
}

void ProcessCommunicator::wait(void* token) {
  const auto is_it = [token](const auto& each) { return each.get() == token; };
  const std::shared_ptr<ProcessOperation> operation =
      *std::find_if(unwaited_.begin(), unwaited_.end(), is_it);
  await(*operation);
  process_.note_progress();
  std::erase(unwaited_, operation);
  add_call(*operation);
}

bool ProcessCommunicator::has_ended(void* token) {
  return poll(*static_cast<const ProcessOperation*>(token));
}

std::size_t ProcessCommunicator::first_ended(std::span<void* const> tokens) {
  // Groups of one process go on together, whichever of them is asked.
  while (true) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (static_cast<const ProcessOperation*>(tokens[i])->ended()) return i;
    }
    poll(*static_cast<const ProcessOperation*>(tokens.front()));
  }
}

void ProcessCommunicator::add_call(const ProcessOperation& operation) {
  const CallRecord& call = operation.record();
  const TrafficCounters& moved = operation.moved();
  traffic_.counters += moved;
  ++(call.traffic == TrafficClass::scalar ? traffic_.counters.scalar_calls
                                          : traffic_.counters.calls);
  if (moved.payload_sent > 0) {
    traffic_.by_operation[operation.halves().empty() ? call.name : "send"] += moved.payload_sent;
  }
  for (const auto& [ends, counts] : operation.links()) traffic_.links[ends] += counts;
}

void ProcessCommunicator::abandon(void* token) noexcept {
  if (std::uncaught_exceptions() > 0) return;  // That is reported instead.
  const auto& operation = *static_cast<ProcessOperation*>(token);
  Diagnosis diagnosis = diagnosis_of(operation.record().describe(), operation.record().site);
  diagnosis.code = "REQ_LEAK";
  diagnosis.summary = "rank " + std::to_string(process_.rank()) + " dropped the handle of " +
                      operation.record().describe() + " without waiting for it";
  diagnosis.sequence = operation.sequence();
  diagnosis.hint = "keep the Work that the call returns, and call its wait()";
  process_.fail(std::move(diagnosis));
}

Diagnosis ProcessCommunicator::diagnosis_of(const std::string& action, CallSite site) const {
  return {.group = stream_.name,
          .members = ascending(stream_.members),
          .sides = {{.ranks = {process_.rank()}, .action = action, .site = site}}};
}

}  // namespace shardsim
