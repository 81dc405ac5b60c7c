#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/backends/fiber_fixture.hpp"
#include "tests/property/check_property.hpp"

// Receives that name neither sender nor tag, and the messages that they take. The mailbox keeps the
// first choice of each rank up to date; here it is compared with a look at all choices.
namespace shardsim {
namespace {

// One call of a rank's program.
struct Posted {
  bool sends = false;
  int peer = 0;
  int tag = 0;
  int computed = 0;  // Rounds of computing before it.
};
using RankPrograms = std::vector<std::vector<Posted>>;

// As many receives as there are messages, in another order, and some of them open. So a run mostly
// ends well; it may hang where an open receive takes the message of a named one.
RankPrograms drawn_programs() {
  const auto below = [](int end) { return *rc::gen::resize(100, rc::gen::inRange(0, end)); };
  const int ranks = 2 + below(5);
  RankPrograms programs(static_cast<std::size_t>(ranks));
  const auto add = [&](int rank, const Posted& call) {
    std::vector<Posted>& program = programs[static_cast<std::size_t>(rank)];
    program.insert(program.begin() + below(static_cast<int>(program.size()) + 1), call);
  };
  const int messages = 1 + below(24);
  for (int i = 0; i < messages; ++i) {
    const int source = below(ranks);
    const Posted send{true, below(ranks), below(3), below(4)};
    add(source, send);
    add(send.peer,
        {false, below(3) == 0 ? kAnySource : source, below(4) == 0 ? kAnyTag : send.tag, below(4)});
  }
  return programs;
}

// The message that each receive took, and how the run ended.
struct Outcome {
  std::vector<std::string> taken;
  std::string code = "NONE";

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

void compute(Runtime& runtime, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    runtime.compute({"wait", ComputeKind::memory_bound, DType::fp32, 0, 1 << 20}, [] {});
  }
}

void run_tagged_ranks(int ranks, const std::function<void(Runtime&, TaggedMessages&)>& body,
                      FiberOptions options = {}) {
  options.cluster = test_cluster(ranks);
  FiberWorld world(std::move(options));
  world.run([&](Runtime& runtime, Communicator& everyone) {
    body(runtime, *everyone.tagged_messages());
  });
}

// Every rank posts all its calls before it waits for any: then the time of each choice is known
// before the first is made.
Outcome outcome_of(const RankPrograms& programs, FiberOptions options) {
  Outcome outcome;
  std::vector<std::vector<MessageStatus>> statuses;
  for (const std::vector<Posted>& program : programs) statuses.emplace_back(program.size());
  try {
    run_tagged_ranks(
        static_cast<int>(programs.size()),
        [&](Runtime& runtime, TaggedMessages& messages) {
          const auto rank = static_cast<std::size_t>(messages.rank());
          std::vector<Tensor> buffers;
          std::vector<Work> works;
          for (std::size_t i = 0; i < programs[rank].size(); ++i) {
            const Posted& call = programs[rank][i];
            compute(runtime, call.computed);
            buffers.push_back(runtime.allocate(MemoryCategory::comm, {4}, DType::fp32));
            works.push_back(call.sends ? messages.send(buffers.back(), call.peer, call.tag)
                                       : messages.recv(buffers.back(), call.peer, call.tag,
                                                       &statuses[rank][i]));
          }
          for (Work& work : works) work.wait();
        },
        std::move(options));
  } catch (const CommunicationError& error) {
    outcome.code = error.diagnosis().code;
  }
  for (const std::vector<MessageStatus>& of_rank : statuses) {
    for (const MessageStatus& status : of_rank) {
      outcome.taken.push_back(std::to_string(status.source) + ":" + std::to_string(status.tag));
    }
  }
  return outcome;
}

// The first in virtual time, out of all; of equals, the first as listed.
class FirstInTime final : public MessageChooser {
 public:
  std::size_t choose(std::span<const MessageChoice> candidates) override {
    ++num_choices;
    const auto earlier = [](const MessageChoice& a, const MessageChoice& b) {
      return a.time < b.time;
    };
    return static_cast<std::size_t>(
        std::min_element(candidates.begin(), candidates.end(), earlier) - candidates.begin());
  }
  int num_choices = 0;
};

}  // namespace

TEST_CASE("open receives take what a look at all messages would give them") {
  int num_choices = 0;
  int num_ended = 0;
  int num_hanging = 0;
  test::check_property(300, [&] {
    const RankPrograms programs = drawn_programs();
    for (const bool buffered : {false, true}) {
      const Outcome found = outcome_of(programs, {.has_data = false, .buffered_sends = buffered});
      FirstInTime chooser;
      RC_ASSERT(found ==
                outcome_of(programs,
                           {.has_data = false, .buffered_sends = buffered, .chooser = &chooser}));
      num_choices += chooser.num_choices;
      ++(found.code == "NONE" ? num_ended : num_hanging);
    }
  });
  CHECK(num_choices > 1500);
  CHECK(num_ended > 200);
  CHECK(num_hanging > 20);
}

TEST_CASE("messages from many senders are taken in the order of their times") {
  constexpr int kRanks = 40;
  run_tagged_ranks(kRanks, [](Runtime& runtime, TaggedMessages& messages) {
    const Tensor buffer = runtime.allocate(MemoryCategory::comm, {4}, DType::fp32);
    if (messages.rank() == 0) {
      for (int i = 1; i < kRanks; ++i) {
        MessageStatus status;
        messages.recv(buffer, kAnySource, kAnyTag, &status).wait();
        CHECK(7 * status.source % kRanks == i);
      }
      return;
    }
    // Each number of rounds once: 7 and 40 have no common divisor.
    compute(runtime, 7 * messages.rank() % kRanks);
    messages.send(buffer, 0, messages.rank()).wait();
  });
}

}  // namespace shardsim
