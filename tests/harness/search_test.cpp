#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/harness/check.hpp"
#include "sim/harness/checker.hpp"

// The exhaustive search sees every way in which messages can be taken. Held against counting by
// hand, and against random schedules, which must not find a way that it has not.
namespace shardsim {
namespace {

// Which sender's message each receive has taken, on all ranks.
using Way = std::vector<std::pair<int, int>>;

struct Ways {
  std::set<Way> seen;
  std::int64_t runs = 0;
  bool all = false;
};

// `program` writes what its receives have taken to the way it is given.
using Told = std::function<void(RankContext&, Way&)>;

Program telling(const Told& program, Way& way) {
  return [&](RankContext& context) { program(context, way); };
}

void note(Way& way, const RankContext& context, const MessageStatus& status) {
  way.emplace_back(context.rank(), status.source);
}

// The receives of each rank in order, whatever order ranks ran in.
Way sorted(Way way) {
  std::stable_sort(way.begin(), way.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return way;
}

Ways search(int ranks, SendMode sends, const Told& program) {
  Ways ways;
  ReducedSearch reduced;
  ways.all = reduced.search(
      [&](ListChooser& chooser) {
        Way way;
        const ProgramRun run =
            run_program(telling(program, way), {.ranks = ranks}, {.sends = sends}, chooser);
        CHECK(!run.failure);
        ways.seen.insert(sorted(way));
        ++ways.runs;
        return true;
      },
      100000);
  return ways;
}

// Ways that random priorities find.
std::set<Way> draw(int ranks, SendMode sends, const Told& program, int schedules) {
  std::set<Way> seen;
  for (int seed = 1; seed <= schedules; ++seed) {
    Way way;
    PriorityChooser chooser(ranks, 3, 8, static_cast<std::uint64_t>(seed));
    const ProgramRun run =
        run_program(telling(program, way), {.ranks = ranks},
                    {.sends = sends, .seed = 2U * static_cast<unsigned>(seed)}, chooser);
    CHECK(!run.failure);
    seen.insert(sorted(way));
  }
  return seen;
}

void receive_any(RankContext& context, int messages, Way& way) {
  const Tensor in = context.tensor(1);
  for (int i = 0; i < messages; ++i) {
    MessageStatus status;
    context.messages().recv(in, kAnySource, kAnyTag, &status).wait();
    note(way, context, status);
  }
}

// Ranks 1 and up send `each` messages to rank 0.
void gather(RankContext& context, int each, Way& way) {
  if (context.rank() == 0) return receive_any(context, each * (context.size() - 1), way);
  const Tensor out = context.tensor(1);
  for (int i = 0; i < each; ++i) context.messages().send(out, 0, i).wait();
}

// Every rank sends `each` messages to every other, and takes them as they come.
void exchange(RankContext& context, int each, Way& way) {
  const Tensor out = context.tensor(1);
  std::vector<Work> works;
  for (int i = 0; i < each; ++i) {
    for (int peer = 0; peer < context.size(); ++peer) {
      if (peer != context.rank()) works.push_back(context.messages().send(out, peer, 0));
    }
  }
  receive_any(context, each * (context.size() - 1), way);
  for (Work& work : works) work.wait();
}

// Rank 2's second message to rank 1 comes only after rank 0 has taken its first: what one receiver
// does brings another a message.
void relay(RankContext& context, Way& way) {
  const Tensor buffer = context.tensor(1);
  if (context.rank() == 0) {
    receive_any(context, 2, way);
  } else if (context.rank() == 1) {
    context.messages().send(buffer, 0, 0).wait();
    receive_any(context, 2, way);
  } else if (context.rank() == 2) {
    context.messages().send(buffer, 0, 0).wait();
    context.messages().send(buffer, 1, 0).wait();
  } else {
    context.messages().send(buffer, 1, 0).wait();
  }
}

// Rank 0 has two open receives at once, and waits for the later one first. That its first receive
// has been decided already says nothing to rank 3, whose last message may be what it takes.
void two_open(RankContext& context, Way& way) {
  TaggedMessages& messages = context.messages();
  const auto buffer = [&] { return context.tensor(1); };
  if (context.rank() == 0) {
    const Tensor in = buffer();
    const Tensor reply = buffer();
    MessageStatus taken;
    Work first = messages.recv(in, kAnySource, 1, &taken);
    Work second = messages.recv(reply, kAnySource, 2);
    second.wait();
    messages.send(buffer(), 3, 3).wait();
    first.wait();
    note(way, context, taken);
    messages.recv(buffer(), kAnySource, 1).wait();
  } else if (context.rank() == 1) {
    messages.send(buffer(), 3, 0).wait();
  } else if (context.rank() == 2) {
    messages.send(buffer(), 0, 1).wait();
  } else {
    messages.recv(buffer(), kAnySource, 0).wait();
    messages.send(buffer(), 0, 2).wait();
    messages.recv(buffer(), 0, 3).wait();
    messages.send(buffer(), 0, 1).wait();
  }
}

}  // namespace

TEST_CASE("a receive that was decided early may yet take what comes late") {
  for (const SendMode sends : {SendMode::rendezvous, SendMode::buffered}) {
    const Ways ways = search(4, sends, two_open);
    CHECK(ways.all);
    CHECK(ways.seen == std::set<Way>{{{0, 2}}, {{0, 3}}});
  }
}

TEST_CASE("two senders of three messages each come in 20 orders, and each is run once") {
  for (const SendMode sends : {SendMode::rendezvous, SendMode::buffered}) {
    const Ways ways =
        search(3, sends, [](RankContext& context, Way& way) { gather(context, 3, way); });
    CHECK(ways.all);
    CHECK(ways.seen.size() == 20);  // 6 over 3.
    CHECK(ways.runs == 20);
  }
}

TEST_CASE("three senders of two messages each come in 90 orders") {
  const Ways ways = search(4, SendMode::rendezvous,
                           [](RankContext& context, Way& way) { gather(context, 2, way); });
  CHECK(ways.all);
  CHECK(ways.seen.size() == 90);  // 6! / (2! 2! 2!).
}

TEST_CASE("receivers that have nothing to do with each other multiply") {
  const Ways ways = search(3, SendMode::rendezvous,
                           [](RankContext& context, Way& way) { exchange(context, 1, way); });
  CHECK(ways.all);
  CHECK(ways.seen.size() == 8);
}

TEST_CASE("a message that another receiver's choice brings is seen as well") {
  for (const SendMode sends : {SendMode::rendezvous, SendMode::buffered}) {
    const Ways ways = search(4, sends, relay);
    CHECK(ways.all);
    CHECK(ways.seen.size() == 4);  // Either first at rank 0, either first at rank 1.
    for (const Way& way : draw(4, sends, relay, 200)) CHECK(ways.seen.contains(way));
  }
}

TEST_CASE("random schedules find no way that the search has not seen, and find all of few") {
  const Told program = [](RankContext& context, Way& way) { exchange(context, 2, way); };
  const Ways ways = search(3, SendMode::buffered, program);
  CHECK(ways.all);
  CHECK(ways.seen.size() == 216);  // (4 over 2) cubed.
  for (const Way& way : draw(3, SendMode::buffered, program, 300)) CHECK(ways.seen.contains(way));
  const Told few = [](RankContext& context, Way& way) { gather(context, 1, way); };
  CHECK(draw(3, SendMode::buffered, few, 50).size() == 2);
}

TEST_CASE("a check says that it has seen all schedules, or that it has not") {
  const Program program = [](RankContext& context) {
    Way way;
    gather(context, 3, way);
  };
  CheckOptions options{.ranks = {3}, .explore = {.mode = ExploreMode::dpor, .schedules = 1000}};
  CHECK(check(program, options).exhausted);
  options.explore.schedules = 19;
  CHECK(!check(program, options).exhausted);
}

}  // namespace shardsim
