#include "tests/nccl/nccl_fixture.hpp"

#include <exception>
#include <map>
#include <stdexcept>
#include <thread>

#include <boost/fiber/fiber.hpp>
#include <boost/fiber/operations.hpp>

#include "backends/process_backend.hpp"

namespace shardsim {

namespace {

// Ends ranks that wait for one which has failed.
struct RankLost {};

class NcclRanks {
 public:
  NcclRanks(int ranks, const FiberWorld::RankBody& body, const NcclCase& test)
      : ranks_(ranks), body_(body), test_(test) {}

  std::exception_ptr run() {
    cuda_ = std::make_shared<CudaLibrary>(stand_in::path());
    nccl_ = std::make_shared<NcclLibrary>(stand_in::path());
    std::vector<boost::fibers::fiber> fibers;
    for (int rank = 0; rank < ranks_; ++rank) {
      fibers.emplace_back([this, rank] { run_rank(rank); });
    }
    for (boost::fibers::fiber& fiber : fibers) fiber.join();
    return failure_;
  }

 private:
  NcclOptions options_of(int rank) {
    NcclOptions options;
    options.rank = rank;
    options.num_ranks = ranks_;
    options.device = device_of(rank, stand_in::script().num_devices);
    options.slab_bytes = 1 << 14;
    options.idle = [this] { idle(); };
    options.clock = [this] { return static_cast<double>(num_idle_); };
    options.deadline_s = 1000.0 * ranks_;
    options.watch = test_.watch ? test_.watch(rank) : nullptr;
    options.put = [this](const std::string& key, const std::string& value) { store_[key] = value; };
    options.get = [this](const std::string& key) {
      while (store_.count(key) == 0) idle();
      return store_[key];
    };
    return options;
  }

  void run_rank(int rank) {
    try {
      NcclBackend process(cuda_, nccl_, options_of(rank));
      ProcessRuntime runtime(rank);
      body_(runtime, *process.world());
      process.finish();
      if (test_.inspect) test_.inspect(process);
    } catch (const RankLost&) {
      // The rank that failed says why.
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
  }

  void idle() {
    if (failure_ && !test_.all_fail) throw RankLost();
    ++num_idle_;
    boost::this_fiber::yield();
  }

  int ranks_;
  const FiberWorld::RankBody& body_;
  const NcclCase& test_;
  std::shared_ptr<const CudaLibrary> cuda_;
  std::shared_ptr<const NcclLibrary> nccl_;
  std::map<std::string, std::string> store_;
  std::int64_t num_idle_ = 0;
  std::exception_ptr failure_;
};

void check_stand_in() {
  if (!stand_in::violations().empty()) throw std::logic_error(stand_in::violations().front());
  const stand_in::Live live = stand_in::live();
  if (live.allocations + live.streams + live.events + live.communicators != 0) {
    throw std::logic_error("a run that ended well left something on the device");
  }
}

}  // namespace

void run_nccl_ranks(int ranks, const FiberWorld::RankBody& body, const NcclCase& test) {
  stand_in::reset();
  if (test.prepare) test.prepare();
  std::exception_ptr failure;
  // A thread of its own: the simulation's scheduler has taken over this one.
  std::thread thread([&] { failure = NcclRanks(ranks, body, test).run(); });
  thread.join();
  if (!failure) check_stand_in();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace shardsim
