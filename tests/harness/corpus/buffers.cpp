#include <cstring>
#include <optional>

#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// Buffers that are touched, lost or shared while a communication uses them.
namespace shardsim::corpus {

namespace {

constexpr std::int64_t kBufferCount = 8;

// Rank 0 sends to the last rank and changes what it has sent before it has waited.
void write_input(RankContext& context, const Plant& plant) {
  if (context.size() < 2) return;
  const int to = context.size() - 1;
  const Tensor buffer = context.tensor(kBufferCount);
  if (context.rank() == 0) {
    Work work = context.world().send(buffer, to);
    plant.next_line();
    if (plant.in(context)) buffer.set(1, 1.0);
    work.wait();
    buffer.set(1, 1.0);
  }
  if (context.rank() == to) context.world().recv(buffer, 0).wait();
}

// The same by a pointer from before: only the bytes tell, and so the call is the place.
void write_by_pointer(RankContext& context, const Plant& plant) {
  if (context.size() < 2) return;
  const int to = context.size() - 1;
  const Tensor buffer = context.tensor(kBufferCount);
  if (context.rank() == 0) {
    std::byte* const data = buffer.data();
    plant.next_line();
    Work work = context.world().send(buffer, to);
    if (plant.in(context)) std::memset(data, 1, static_cast<std::size_t>(buffer.num_bytes()));
    work.wait();
  }
  if (context.rank() == to) context.world().recv(buffer, 0).wait();
}

// Clears what an all-gather is filling.
void write_output(RankContext& context, const Plant& plant) {
  const Tensor part = context.tensor(kBufferCount);
  const Tensor full = context.tensor(kBufferCount * context.size());
  std::byte* const data = full.data();
  if (context.rank() == 0) plant.next_line();
  Work work = context.world().all_gather(full, part);
  if (plant.in(context) && context.rank() == 0) {
    std::memset(data, 0, static_cast<std::size_t>(full.num_bytes()));
  }
  work.wait();
}

void clear_output(RankContext& context, const Plant& plant) {
  const Tensor part = context.tensor(kBufferCount);
  const Tensor full = context.tensor(kBufferCount * context.size());
  Work work = context.world().all_gather(full, part);
  if (plant.in(context) && context.rank() == 0) {
    plant.next_line();
    context.runtime().zero("clear", full);
  }
  work.wait();
}

void read_early(RankContext& context, const Plant& plant) {
  if (context.size() < 2) return;
  const Tensor buffer = context.tensor(kBufferCount);
  if (context.rank() == 0) context.world().send(buffer, context.size() - 1).wait();
  if (!is_last(context)) return;
  Work work = context.world().recv(buffer, 0);
  if (!plant.in(context)) work.wait();
  plant.next_line();
  context.require(buffer.get(0) == 0.0, "zeros were sent");
  work.wait();
}

void forgotten_wait(RankContext& context, const Plant& plant) {
  const Tensor buffer = context.tensor(kBufferCount);
  {
    if (is_last(context)) plant.next_line();
    Work work = context.world().all_reduce(buffer, ReduceOp::sum);
    if (!(plant.in(context) && is_last(context))) work.wait();
  }
  context.world().barrier().wait();
}

void freed(RankContext& context, const Plant& plant) {
  std::optional<Tensor> buffer = context.tensor(kBufferCount);
  if (is_last(context)) plant.next_line();
  Work work = context.world().all_reduce(*buffer, ReduceOp::sum);
  if (plant.in(context) && is_last(context)) buffer.reset();
  work.wait();
}

// In place means: at this rank's chunk. The last rank takes the first one's.
void wrong_offset(RankContext& context, const Plant& plant) {
  const Tensor full = context.tensor(kBufferCount * context.size());
  const int chunk = plant.in(context) && is_last(context) ? 0 : context.rank();
  const Tensor part = full.view(kBufferCount * chunk, Shape{kBufferCount});
  if (is_last(context)) plant.next_line();
  context.world().all_gather(full, part).wait();
}

// Two operations under way, of which one writes what the other reads.
void two_at_once(RankContext& context, const Plant& plant) {
  const auto other = context.world().split(0, context.rank(), "other");
  const Tensor buffer = context.tensor(kBufferCount);
  const Tensor full = context.tensor(kBufferCount * context.size());
  const bool wrong = plant.in(context) && is_last(context);
  if (is_last(context)) plant.next_line();
  Work reduce = context.world().all_reduce(buffer, ReduceOp::sum);
  if (!wrong) reduce.wait();
  if (is_last(context)) plant.next_line();
  Work gather = other->all_gather(full, buffer);
  gather.wait();
  reduce.wait();
}

}  // namespace

std::vector<Row> buffer_rows() {
  return in_file({
      {"C22", "write to a buffer being sent", write_input, "BUF_WRITE", only(0)},
      {"C22", "the same by a pointer from before", write_by_pointer, "BUF_WRITE", only(0)},
      {"C22", "write to a buffer being filled", write_output, "BUF_WRITE", only(0)},
      {"C22", "a kernel clears a buffer being filled", clear_output, "BUF_WRITE", only(0)},
      {"C23", "read before wait", read_early, "BUF_READ_EARLY", last()},
      {"C24", "forgotten wait", forgotten_wait, "REQ_LEAK", last()},
      {"C25", "buffer freed before completion", freed, "BUF_FREED", last()},
      {"C26", "in place at the wrong offset", wrong_offset, "BUF_OVERLAP", last()},
      {"C26", "two operations use one buffer", two_at_once, "BUF_OVERLAP", last()},
  });
}

}  // namespace shardsim::corpus
