#include <algorithm>

#include "strategies/pipeline/schedule_table.hpp"

// Interleaved 1F1B (Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU
// Clusters Using Megatron-LM"): 1F1B over V chunks per rank, in rounds of p microbatches: p of them
// through chunk 0, the same p through chunk 1, and so on; backwards through the chunks in reverse.
//
// Order: counting a rank's V M forwards with k, round k / (pV), chunk (k % (pV)) / p, microbatch
// k % p of the round. The k-th backward mirrors the chunk. A rank at place r runs the first
// backward of the last chunk 2(p-1-r) forwards after it could at the earliest: the way to the last
// rank and back, at one forward and one backward per step; the V-1 chunks before it take (V-1) p
// forwards. Hence 2(p-1-r) + (V-1) p forwards of warm-up.
//
// Idle: as 1F1B with chunks of 1/V of the time: (p-1)(F+B)/V. Memory: warm-up and one more chunk
// forward, [(V-1)p + 2(p-1-r) + 1] / V microbatches, at most M. Cross-rank boundaries: pV-1, so V
// times the messages of 1F1B and one around from the last rank to the first. V = 1 has the idle
// time of 1F1B, but still begins 2(p-1-r) forwards ahead: more memory for nothing.
namespace shardsim {

std::vector<Action> interleaved(const PipelineShape& shape, int rank) {
  const int total = shape.num_microbatches * shape.num_chunks;
  const int warm_up =
      std::min(total, 2 * (shape.num_ranks - 1 - rank) + (shape.num_chunks - 1) * shape.num_ranks);
  const auto chunk_of = [&](int k) { return k / shape.num_ranks % shape.num_chunks; };
  RowBuilder row(shape);
  const auto backward_number = [&](int k) { row.backward(shape.num_chunks - 1 - chunk_of(k)); };
  for (int k = 0; k < warm_up; ++k) row.forward(chunk_of(k));
  for (int k = warm_up; k < total; ++k) {
    row.forward(chunk_of(k));
    backward_number(k - warm_up);
  }
  for (int k = total - warm_up; k < total; ++k) backward_number(k);
  return row.take();
}

}  // namespace shardsim
