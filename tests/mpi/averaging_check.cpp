#include <shardsim/check_on_mpi.hpp>

// The program of docs/guide/check.md: right with any number of processes. With a first argument
// "wrong" rank 1 leaves the reduction out, with "watched" an option asks for watched buffers.
namespace {

void average(shardsim::RankContext& context, bool wrong) {
  const auto weights =
      context.tensor(4, [&](std::int64_t i) { return context.draw("weights", i); });
  if (!wrong || context.rank() != 1) {
    context.world().all_reduce(weights, shardsim::ReduceOp::avg).wait();
  }
  context.show(shardsim::Shown::parameter, "weights", weights);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  const bool chosen = word == "wrong" || word == "watched";
  shardsim::CheckOptions options = shardsim::options_for_mpi();
  options.name = "average";
  options.watch_buffers = word == "watched";
  return shardsim::check_main(
      argc - (chosen ? 1 : 0), argv + (chosen ? 1 : 0),
      [=](shardsim::RankContext& context) { average(context, word == "wrong"); }, options);
}
