#include "tests/harness/corpus/hidden_bugs.hpp"

#include "tests/harness/corpus/program.hpp"

namespace shardsim::corpus {

namespace {

// Takes so long that in the first schedule all others are through.
void dawdle_long(RankContext& context) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 40;
  context.runtime().compute({"slow", ComputeKind::memory_bound, DType::fp64, 0, kBytes}, [] {});
}

void send(RankContext& context, int to, int tag) {
  context.messages().send(context.tensor(1), to, tag).wait();
}

MessageStatus take(RankContext& context, int from = kAnySource, int tag = kAnyTag) {
  MessageStatus status;
  context.messages().recv(context.tensor(1), from, tag, &status).wait();
  return status;
}

// Rank 0 keeps weights of which each update comes in two halves, from ranks 1 and 2 by turns; the
// last rank beats its heart a few times and then asks for a checkpoint. One that is taken between
// two halves is torn, which shows for one update of rank 1 only.
void torn_checkpoint(RankContext& context) {
  constexpr int kUpdates = 6;
  constexpr int kBeats = 4;
  constexpr int kChanged = 3;  // The update that changes both halves.
  constexpr int kAsk = 2 * kUpdates;
  const int size = context.size();
  if (size < 4) return;
  const int rank = context.rank();
  if (rank == 1 || rank == 2) {
    for (int half = 0; half < 2 * kUpdates; ++half) send(context, 0, half);
  }
  if (is_last(context)) {
    dawdle_long(context);
    for (int beat = 0; beat < kBeats; ++beat) send(context, 0, kAsk + 1);
    send(context, 0, kAsk);
  }
  if (rank != 0) return;
  bool torn = false;
  for (int message = 0; message < 4 * kUpdates + kBeats + 1; ++message) {
    const MessageStatus status = take(context);
    if (status.source == 1 && status.tag == 2 * kChanged) torn = true;
    if (status.source == 1 && status.tag == 2 * kChanged + 1) torn = false;
    context.require(status.tag != kAsk || !torn, "the checkpoint has whole updates");
  }
}

// Ranks 0 and 1 keep a lock each. All others take both locks a few times, in the same order; but
// the last rank's last time is the other way round.
void lock_order(RankContext& context) {
  constexpr int kRounds = 3;
  constexpr int kAcquire = 0;
  constexpr int kGrant = 1;
  constexpr int kRelease = 2;
  const int size = context.size();
  if (size < 4) return;
  if (context.rank() < 2) {
    for (int turn = 0; turn < kRounds * (size - 2); ++turn) {
      const int holder = take(context, kAnySource, kAcquire).source;
      send(context, holder, kGrant);
      take(context, holder, kRelease);
    }
    return;
  }
  const auto acquire = [&](int lock) {
    send(context, lock, kAcquire);
    take(context, lock, kGrant);
  };
  for (int round = 0; round < kRounds; ++round) {
    const bool reversed = is_last(context) && round == kRounds - 1;
    if (reversed) dawdle_long(context);
    acquire(reversed ? 1 : 0);
    acquire(reversed ? 0 : 1);
    send(context, 0, kRelease);
    send(context, 1, kRelease);
  }
}

// Rank 0 adds up the gradients of all others, scaled as the last rank says, which says it once. A
// gradient that rank 1 sends in two buckets is scaled by one factor and unscaled by another if the
// word comes between them.
void scale_changes(RankContext& context) {
  constexpr int kBuckets = 8;
  constexpr int kSplit = 5;  // Buckets 5 and 6 belong together.
  constexpr int kScale = kBuckets;
  const int size = context.size();
  const int rank = context.rank();
  double sum = 2.0;
  if (size >= 3 && rank > 0) {
    if (is_last(context)) dawdle_long(context);
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      send(context, 0, is_last(context) && bucket == kBuckets / 2 ? kScale : bucket);
    }
  }
  if (size >= 3 && rank == 0) {
    double scale = 1.0;
    sum = 0.0;
    for (int message = 0; message < kBuckets * (size - 1); ++message) {
      const MessageStatus status = take(context);
      if (status.tag == kScale) scale = 2.0;
      if (status.source != 1) continue;
      if (status.tag == kSplit) sum += scale;
      if (status.tag == kSplit + 1) sum = 1.0 + sum / scale;
    }
  }
  if (rank == 0) context.show(Shown::output, "sum", sum);
}

// Each rank but 0 sends so many messages to rank 0. Two neighbours of rank 1 are the halves of an
// update; two of the last rank begin and end a snapshot, which must not have one half alone. At
// depth 2 that shows as soon as it begins between them, at depth 3 if it does not end there, too.
void snapshot(RankContext& context, int calls, int depth) {
  if (context.size() < 4) return;
  const int update = calls * 3 / 5;
  const int begin = calls * 2 / 5;
  if (context.rank() > 0) {
    if (is_last(context)) dawdle_long(context);
    for (int call = 0; call < calls; ++call) send(context, 0, call);
    return;
  }
  bool is_half = false;
  bool is_open = false;
  for (int message = 0; message < calls * (context.size() - 1); ++message) {
    const MessageStatus status = take(context);
    if (status.source == context.size() - 1) {
      if (status.tag == begin) is_open = is_half;
      if (status.tag == begin + 1) is_open = false;
      context.require(depth > 2 || !is_open, "a snapshot begins with whole updates");
    }
    if (status.source != 1) continue;
    if (status.tag == update) is_half = true;
    if (status.tag != update + 1) continue;
    context.require(!is_open, "a snapshot has whole updates");
    is_half = false;
  }
}

}  // namespace

std::vector<HiddenBug> deeper_bugs() {
  return {
      {"snapshot within an update, 8 x 50", [](RankContext& context) { snapshot(context, 50, 2); },
       8, "SCHEDULE_DEPENDS", 2},
      {"snapshot across an update, 4 x 25", [](RankContext& context) { snapshot(context, 25, 3); },
       4, "SCHEDULE_DEPENDS", 3},
  };
}

std::vector<HiddenBug> hidden_bugs() {
  return {
      {"torn checkpoint", torn_checkpoint, 4, "SCHEDULE_DEPENDS"},
      {"lock order", lock_order, 8, "MSG_RACE"},
      {"scale changes between buckets", scale_changes, 6, "SCHEDULE_DEPENDS"},
  };
}

void twelve_operations(RankContext& context) {
  constexpr int kRanks = 3;
  constexpr int kMessages = 6;
  if (context.size() != kRanks) return;
  for (int i = 0; i < kMessages; ++i) {
    const Tensor out = context.tensor(1);
    const Tensor in = context.tensor(1);
    const int to = (context.rank() + 1 + i % 2) % kRanks;
    Work sent = context.messages().send(out, to, i);
    context.messages().recv(in, kAnySource, kAnyTag).wait();
    sent.wait();
  }
}

}  // namespace shardsim::corpus
