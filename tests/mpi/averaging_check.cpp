#include <csignal>
#include <string>

#include <shardsim/check_on_mpi.hpp>
#include <unistd.h>

// The program of docs/guide/check.md: right with any number of processes. A first argument plants
// something: rank 1 leaves the reduction out ("absent"), or the last of many ("late"), ends by a
// signal ("killed"), or lives and never calls ("endless"); or an option asks for watched buffers
// ("watched"), or for 8 ranks ("eight"). With "sized" the check gives it a size, and it sends
// itself a message through the communicator of all.
namespace {

void average(shardsim::RankContext& context, const std::string& planted) {
  const auto weights =
      context.tensor(4, [&](std::int64_t i) { return context.draw("weights", i); });
  if (planted == "sized") {
    const auto size = context.tensor(context.extent("size"));
    const auto messages = context.world().tagged_messages();
    shardsim::Work sent = messages->send(size, context.rank(), 1);
    messages->recv(size, context.rank(), 1).wait();
    sent.wait();
    context.show(shardsim::Shown::output, "size", static_cast<double>(size.numel()));
  }
  const bool here = context.rank() == 1;
  if (here && planted == "killed") std::raise(SIGKILL);
  while (here && planted == "endless") pause();
  constexpr int kMany = 3000;
  for (int i = 0; planted == "late" && i < kMany; ++i) {
    context.world().all_reduce(weights, shardsim::ReduceOp::avg).wait();
  }
  if (!here || (planted != "absent" && planted != "late")) {
    context.world().all_reduce(weights, shardsim::ReduceOp::avg).wait();
  }
  context.show(shardsim::Shown::parameter, "weights", weights);
}

}  // namespace

int main(int argc, char** argv) {
  const bool plants = argc > 1 && argv[1][0] != '-';
  const std::string planted = plants ? argv[1] : "";
  shardsim::CheckOptions options = shardsim::options_for_mpi();
  options.name = "average";
  options.watch_buffers = planted == "watched";
  if (planted == "eight") options.ranks = {8};
  if (planted == "sized") options.extents = {{"size", 6}};
  return shardsim::check_main(
      plants ? argc - 1 : argc, plants ? argv + 1 : argv,
      [=](shardsim::RankContext& context) { average(context, planted); }, options);
}
