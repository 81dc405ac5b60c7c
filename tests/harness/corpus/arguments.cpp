#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// Calls that are wrong whatever the others do.
namespace shardsim::corpus {

namespace {

void root_out_of_range(RankContext& context, const Plant& plant) {
  const Tensor buffer = context.tensor(1);
  const int root = plant.in(context) && is_last(context) ? context.size() : 0;
  if (is_last(context)) plant.next_line();
  context.world().broadcast(buffer, root).wait();
}

// The last rank sends to rank 0.
void peer_out_of_range(RankContext& context, const Plant& plant) {
  if (context.size() < 2) return;
  const Tensor buffer = context.tensor(1);
  if (context.rank() == 0) context.world().recv(buffer, context.size() - 1).wait();
  if (!is_last(context)) return;
  const int peer = plant.in(context) ? -1 : 0;
  plant.next_line();
  context.world().send(buffer, peer).wait();
}

void tag_out_of_range(RankContext& context, const Plant& plant) {
  constexpr int kNoTag = -5;
  if (context.size() < 2) return;
  const Tensor buffer = context.tensor(1);
  if (context.rank() == 0) context.messages().recv(buffer, context.size() - 1, 0).wait();
  if (!is_last(context)) return;
  const int tag = plant.in(context) ? kNoTag : 0;
  plant.next_line();
  context.messages().send(buffer, 0, tag).wait();
}

}  // namespace

std::vector<Row> argument_rows() {
  return in_file({
      {"C08", "root is the number of ranks", root_out_of_range, "ARG_RANGE", last(), Who::first,
       "8"},
      {"C08", "peer is -1", peer_out_of_range, "ARG_RANGE", last(), Who::first, "-1"},
      {"C08", "tag is -5", tag_out_of_range, "ARG_RANGE", last(), Who::first, "-5"},
  });
}

}  // namespace shardsim::corpus
