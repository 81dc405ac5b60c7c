#include "tests/backends/message_fixture.hpp"

#include <exception>
#include <numeric>
#include <thread>

#include <boost/fiber/fiber.hpp>
#include <boost/fiber/operations.hpp>

#include "backends/process_backend.hpp"

#include "tests/backends/memory_transport.hpp"

namespace shardsim {

namespace {

// Ends ranks that wait for one which has failed.
struct Lost {};

class Ranks {
 public:
  Ranks(int ranks, const ProcessBody& body, const MessageCase& test)
      : ranks_(ranks), body_(body), test_(test) {
    room_.idle = [this] { idle(); };
  }

  std::exception_ptr run() {
    std::vector<boost::fibers::fiber> fibers;
    for (int rank = 0; rank < ranks_; ++rank) {
      fibers.emplace_back([this, rank] { run_rank(rank); });
    }
    for (boost::fibers::fiber& fiber : fibers) fiber.join();
    return failure_;
  }

 private:
  void run_rank(int rank) {
    try {
      std::vector<int> everyone(static_cast<std::size_t>(ranks_));
      std::iota(everyone.begin(), everyone.end(), 0);
      MessageOptions options;
      options.cluster = test_.cluster ? *test_.cluster : test_cluster(ranks_, test_.gpus_per_node);
      options.all_reduce_algorithm = test_.all_reduce_algorithm;
      options.buffered_sends = test_.buffered_sends;
      options.watch = test_.watch ? test_.watch(rank) : nullptr;
      options.idle = room_.idle;
      options.clock = [this] { return static_cast<double>(num_idle_); };
      options.deadline_s = 1000.0 * ranks_;
      MessageRank process(std::make_unique<MemoryTransport>(room_, 0, rank, std::move(everyone)),
                          std::move(options));
      body_(process);
      if (test_.inspect) test_.inspect(process);
    } catch (const Lost&) {
      // The rank that failed says why.
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
  }

  void idle() {
    if (failure_) throw Lost();
    ++num_idle_;
    boost::this_fiber::yield();
  }

  int ranks_;
  const ProcessBody& body_;
  const MessageCase& test_;
  Mailroom room_;
  std::int64_t num_idle_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

void run_message_ranks(int ranks, const FiberWorld::RankBody& body, const MessageCase& test) {
  run_message_processes(
      ranks,
      [&](MessageRank& process) {
        ProcessRuntime runtime(process.rank());
        body(runtime, *process.world());
        process.finish();
      },
      test);
}

void run_message_processes(int ranks, const ProcessBody& body, const MessageCase& test) {
  std::exception_ptr failure;
  // A thread of its own: the simulation's scheduler has taken over this one.
  std::thread thread([&] { failure = Ranks(ranks, body, test).run(); });
  thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace shardsim
