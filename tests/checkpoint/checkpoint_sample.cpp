#include <cstdio>
#include <exception>
#include <string>

#include "tests/checkpoint/sample_state.hpp"

// For interop_test.py: `write DIR` saves the sample state on three ranks as step 12 and whole on
// one rank as step 13, `holds DIR STEP` says whether a checkpoint on disk is the sample state.
namespace shardsim::test {
namespace {

int write(const std::string& directory) {
  const SampleState state = make_sample(12);
  RankChunks whole(1);
  for (const GlobalTensor& tensor : state.tensors) {
    whole[0].push_back(cut(tensor, flat_run(0, checked_numel(tensor.info.shape).value())));
  }
  raise_if_failed(save(posix_file_system(), {directory, 12}, state.ranks, state.scalars),
                  {directory, 12});
  raise_if_failed(save(posix_file_system(), {directory, 13}, whole, state.scalars),
                  {directory, 13});
  return 0;
}

int check(const std::string& directory, std::int64_t step) {
  CheckpointReader reader(posix_file_system(), {directory, step});
  reader.verify();
  return holds(reader, make_sample(12)) ? 0 : 1;
}

}  // namespace
}  // namespace shardsim::test

int main(int argc, char** argv) {
  try {
    const std::string verb = argc > 2 ? argv[1] : "";
    if (verb == "write") return shardsim::test::write(argv[2]);
    if (verb == "holds" && argc > 3) return shardsim::test::check(argv[2], std::stoll(argv[3]));
    std::fputs("usage: checkpoint_sample write DIR | holds DIR STEP\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 2;
}
