#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <stdexcept>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/engine.hpp"

#include "tests/property/check_property.hpp"
#include "tests/units.hpp"

// A rank that waits may do the maestro's work. Then ranks run in the same order as without it: also
// where an arbiter decides, and where the run fails.
namespace shardsim {
namespace {

using test::ps;

constexpr int kRanks = 5;

// Events in order: a rank went on, an operation was launched, the arbiter decided.
using Events = std::vector<std::int64_t>;

class LoggedOperation final : public Operation {
 public:
  LoggedOperation(Events& events, int number, int members) : events_(events), number_(number) {
    expect(members);
  }

 protected:
  Time launch(Time start) override {
    events_.push_back(1000 + number_);
    if (number_ == 13) throw std::runtime_error("a price out of range");
    return start + ps(number_ % 7);
  }

 private:
  Events& events_;
  std::int64_t number_;
};

// Settles the held operations one by one, the latest held first.
class HoldingArbiter final : public Arbiter {
 public:
  explicit HoldingArbiter(Events& events) : events_(events) {}
  void hold(Operation& operation) {
    held_.push_back(&operation);
    ++num_choices_;
  }
  void set_engine(Engine& engine) { engine_ = &engine; }
  bool decide(std::optional<Time> next, std::optional<Time> /*look*/) override {
    events_.push_back(next ? 2000 + next->picoseconds() : 2999);
    if (held_.size() % 2 == 1 && next) return false;
    held_.back()->settle(*engine_, ps(1));
    held_.pop_back();
    --num_choices_;
    return true;
  }

 private:
  Events& events_;
  Engine* engine_ = nullptr;
  std::vector<Operation*> held_;
};

// Step by step, what a rank does: it takes part in an operation of its own pair, of all, or in one
// that the arbiter holds; and it waits at once, or later.
struct Step {
  int kind = 0;
  bool waits = false;
};
using Programs = std::array<std::vector<Step>, kRanks>;

Events events_of(const Programs& programs, bool ranks_advance, LaunchOrder order) {
  Events events;
  HoldingArbiter arbiter(events);
  Engine engine({.num_ranks = kRanks, .launch_order = order, .ranks_advance = ranks_advance});
  arbiter.set_engine(engine);
  engine.set_arbiter(&arbiter);
  std::deque<LoggedOperation> all;
  std::vector<LoggedOperation*> meetings;
  const auto make = [&](int members) -> LoggedOperation& {
    return all.emplace_back(events, static_cast<int>(all.size()), members);
  };
  try {
    engine.run([&](RankState& rank) {
      std::vector<LoggedOperation*> posted;
      std::size_t met = 0;
      for (const Step& step : programs[static_cast<std::size_t>(rank.index())]) {
        events.push_back(rank.index());
        rank.compute("work", ps(rank.index()));
        if (step.kind == 0) {
          if (met == meetings.size()) meetings.push_back(&make(kRanks));
          posted.push_back(meetings[met++]);
          posted.back()->settle(engine, rank.now());
        } else {
          posted.push_back(&make(1));
          if (step.kind == 1) posted.back()->settle(engine, rank.now());
          if (step.kind == 2) arbiter.hold(*posted.back());
        }
        while (step.waits && !posted.empty()) {
          engine.wait(rank, *posted.back());
          posted.pop_back();
          events.push_back(100 + rank.index());
        }
      }
    });
  } catch (const CommunicationError&) {
    events.push_back(-1);
  } catch (const std::runtime_error&) {
    events.push_back(-2);
  }
  events.push_back(static_cast<std::int64_t>(engine.trace_hash()));
  return events;
}

}  // namespace

TEST_CASE("a rank that does the maestro's work keeps the order of everything") {
  std::size_t longest = 0;
  test::check_property(200, [&] {
    const auto below = [](int end) { return *rc::gen::resize(100, rc::gen::inRange(0, end)); };
    Programs programs;
    for (std::vector<Step>& program : programs) {
      for (int i = below(12); i > 0; --i) program.push_back({below(3), below(2) == 0});
    }
    for (const LaunchOrder order : {LaunchOrder::newest_first, LaunchOrder::earliest_start}) {
      const Events events = events_of(programs, false, order);
      RC_ASSERT(events == events_of(programs, true, order));
      longest = std::max(longest, events.size());
    }
  });
  CHECK(longest > 60);
}

}  // namespace shardsim
