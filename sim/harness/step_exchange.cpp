#include "sim/harness/step_exchange.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace shardsim {

namespace {

constexpr std::size_t kChunkBytes = std::size_t{128} << 10U;
// The values are there already.
constexpr double kAnswerSeconds = 60.0;

std::string state_key(int rank) { return fmt::format("steps {}", rank); }
std::string chunk_key(int rank, std::int64_t chunk) {
  return fmt::format("steps {} {}", rank, chunk);
}

}  // namespace

void StepSender::begin(int program) {
  program_ = program;
  num_chunks_ = 0;
  num_bytes_ = 0;
  chunk_.clear();
  send("", ProgramState::running);
}

void StepSender::set_chunk() { client_.set(chunk_key(rank_, num_chunks_), chunk_); }

void StepSender::send(const std::string& steps, ProgramState state) {
  num_bytes_ += steps.size();
  const bool fits = num_bytes_ <= most_bytes_;
  for (std::size_t at = 0; fits && at < steps.size();) {
    const std::size_t more = std::min(steps.size() - at, kChunkBytes - chunk_.size());
    chunk_ += steps.substr(at, more);
    at += more;
    set_chunk();
    if (chunk_.size() < kChunkBytes) continue;
    ++num_chunks_;
    chunk_.clear();
  }
  StepWriter told;
  told(program_);
  told(state);
  told(++version_);
  told(!fits ? -1 : num_chunks_ + (chunk_.empty() ? 0 : 1));
  client_.set(state_key(rank_), told.take());
}

void StepCollector::look(int program, double now_s) {
  const std::vector<std::int64_t> before = versions_;
  states_.assign(static_cast<std::size_t>(world_size_), ProgramState::running);
  versions_.assign(states_.size(), 0);
  num_chunks_.assign(states_.size(), 0);
  for (std::size_t rank = 0; rank < states_.size(); ++rank) {
    const std::string told = client_.get(state_key(static_cast<int>(rank)), kAnswerSeconds);
    StepReader reader(told);
    int of_program = 0;
    ProgramState state{};
    reader(of_program);
    reader(state);
    reader(versions_[rank]);
    reader(num_chunks_[rank]);
    if (of_program == program) states_[rank] = state;
  }
  looked_s_ = now_s;
  const bool is_running = std::ranges::count(states_, ProgramState::running) > 0;
  if (is_running || before != versions_) rest_since_s_ = now_s;
}

bool StepCollector::all_ended() const {
  return std::ranges::all_of(states_,
                             [](ProgramState state) { return state == ProgramState::ended; });
}

std::vector<RankLog> StepCollector::logs() {
  std::vector<RankLog> logs;
  for (std::size_t rank = 0; rank < states_.size(); ++rank) {
    if (num_chunks_[rank] < 0) return {};
    std::string steps;
    for (std::int64_t chunk = 0; chunk < num_chunks_[rank]; ++chunk) {
      steps += client_.get(chunk_key(static_cast<int>(rank), chunk), kAnswerSeconds);
    }
    logs.push_back(rank_log_of(steps, states_[rank] == ProgramState::ended));
  }
  return logs;
}

}  // namespace shardsim
