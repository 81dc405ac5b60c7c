#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// Receives that leave open whose message they take. All goes well when messages are taken in the
// order in which they are mostly sent.
namespace shardsim::corpus {

namespace {

constexpr std::int64_t kOpenMessageCount = 4;
constexpr int kThree = 3;
constexpr int kFour = 4;

// Takes so long that what this rank sends next comes last.
void dawdle(RankContext& context) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 30;
  context.runtime().compute({"slow", ComputeKind::memory_bound, DType::fp64, 0, kBytes}, [] {});
}

// Ranks 0 and 1 send a microbatch each to the last rank but one, which forwards them in the order
// in which they arrive. The last rank wants microbatch 0 first; with one tag it cannot say so.
void one_tag(RankContext& context, const Plant& plant) {
  static constexpr const char* kLabels[] = {"microbatch 0", "microbatch 1"};
  const int size = context.size();
  if (size < kFour) return;
  const int rank = context.rank();
  TaggedMessages& messages = context.messages();
  const auto tag = [&](int microbatch) { return plant.in(context) ? 0 : microbatch; };
  const Tensor first = context.tensor(kOpenMessageCount);
  const Tensor second = context.tensor(kOpenMessageCount);
  if (rank == 1) dawdle(context);
  if (rank < 2) messages.send(first, size - 2, 0).wait();
  if (rank == size - 2) {
    MessageStatus from;
    const Tensor* buffers[] = {&first, &second};
    Work forwarded[2];
    for (int i = 0; i < 2; ++i) {
      messages.recv(*buffers[i], kAnySource, kAnyTag, &from).wait();
      const CallOptions options = {.label = kLabels[from.source]};
      plant.next_line();
      forwarded[i] = messages.send(*buffers[i], size - 1, tag(from.source), options);
    }
    for (Work& work : forwarded) work.wait();
  }
  if (rank == size - 1) {
    plant.next_line();
    messages.recv(first, size - 2, tag(0), nullptr, {.label = kLabels[0]}).wait();
    plant.next_line();
    messages.recv(second, size - 2, tag(1), nullptr, {.label = kLabels[1]}).wait();
  }
}

// Rank 0 takes a message of anybody and then one of the last rank: there may be none left.
void race(RankContext& context, const Plant& plant) {
  const int size = context.size();
  if (size < kThree) return;
  const int rank = context.rank();
  const Tensor buffer = context.tensor(kOpenMessageCount);
  if (is_last(context)) dawdle(context);
  if (rank == 1 || is_last(context)) context.messages().send(buffer, 0, 0).wait();
  if (rank != 0) return;
  const int first = plant.in(context) ? kAnySource : 1;
  plant.next_line();
  context.messages().recv(buffer, first, 0).wait();
  context.messages().recv(buffer, size - 1, 0).wait();
}

// Rank 0 takes its update from rank 1 and the word to go from the last rank, in whatever order they
// come, and then shows everybody what it holds. The bug: the gather does not wait for the update.
void overlap(RankContext& context, const Plant& plant) {
  constexpr double kUpdate = 3.0;
  constexpr int kUpdateTag = 1;
  constexpr int kGoTag = 2;
  const int size = context.size();
  const int rank = context.rank();
  const Tensor shard = context.tensor(kOpenMessageCount);
  const Tensor full = context.tensor(kOpenMessageCount * size);
  if (size < kThree) return;
  if (is_last(context)) dawdle(context);
  if (rank == 1) {
    const Tensor update = context.tensor(kOpenMessageCount, [](std::int64_t) { return kUpdate; });
    context.messages().send(update, 0, kUpdateTag).wait();
  }
  if (is_last(context)) context.messages().send(shard, 0, kGoTag).wait();
  if (rank != 0) {
    context.world().all_gather(full, shard).wait();
    return;
  }
  Work gather;
  bool gone = false;
  bool updated = false;
  for (int message = 0; message < 2; ++message) {
    const Tensor taken = context.tensor(kOpenMessageCount);
    MessageStatus status;
    context.messages().recv(taken, kAnySource, kAnyTag, &status).wait();
    if (status.tag == kUpdateTag) {
      updated = true;
      for (std::int64_t i = 0; i < kOpenMessageCount; ++i) {
        plant.next_line();
        shard.set(i, taken.get(i));
      }
    }
    gone |= status.tag == kGoTag;
    if (!gone || gather.pending() || (!updated && !plant.in(context))) continue;
    gather = context.world().all_gather(full, shard);
  }
  gather.wait();
}

}  // namespace

std::vector<Row> open_message_rows() {
  const auto last_two = [](int size) { return std::vector<int>{size - 2, size - 1}; };
  std::vector<Row> rows = {
      {"C20", "one tag for two microbatches", one_tag, "P2P_AMBIGUOUS", last_two, Who::every,
       "microbatch"},
      {"C21", "any source, then a named one", race, "MSG_RACE", only(0)},
      {"S18", "gather starts before the update is written", overlap, "BUF_WRITE", only(0)},
  };
  for (Row& row : rows) {
    row.explored = true;
    row.fewest_ranks = row.id == "C20" ? kFour : kThree;
  }
  return in_file(std::move(rows));
}

}  // namespace shardsim::corpus
