#include "sim/programs/recognised_model.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace shardsim {

namespace {

// Up to `most` products in front of an event, the nearest last.
std::vector<KernelShape> products_before(const StepFacts& facts, std::size_t at, std::size_t most) {
  std::vector<KernelShape> found;
  for (std::size_t i = at; i-- > 0 && found.size() < most;) {
    if (facts.events[i].kind == StepEventKind::product)
      found.insert(found.begin(), facts.events[i].shape);
  }
  return found;
}

std::vector<KernelShape> products_after(const StepFacts& facts, std::size_t at, std::size_t most) {
  std::vector<KernelShape> found;
  for (std::size_t i = at + 1; i < facts.events.size() && found.size() < most; ++i) {
    if (facts.events[i].kind == StepEventKind::product) found.push_back(facts.events[i].shape);
  }
  return found;
}

// Queries, keys and values are three products of one input, or one.
void read_projections(const std::vector<KernelShape>& before, RecognisedBlock& block) {
  const std::int64_t columns = block.heads * block.head_size;
  const KernelShape& last = before.back();
  block.hidden = last.k;
  const bool are_three = before.size() == 3 && before[0].n == columns && before[0].k == last.k &&
                         before[1].n == last.n && before[1].k == last.k;
  const std::int64_t both = are_three ? 2 * last.n : last.n - columns;
  if (both <= 0 || both % (2 * block.head_size) != 0) {
    throw no_such_training(fmt::format(
        "in front of attention of {} heads of {} stands a product of {} columns, which are not "
        "queries, keys and values",
        block.heads, block.head_size, last.n));
  }
  block.groups = both / 2 / block.head_size;
}

// Behind attention: its output, then two products of one input and one of their result, or one and
// one.
void read_feed_forward(const std::vector<KernelShape>& after, RecognisedBlock& block) {
  constexpr std::size_t kGated = 4;
  const auto leads = [&](const KernelShape& in, const KernelShape& out) {
    return in.k == block.hidden && out.k == in.n && out.n == block.hidden;
  };
  const bool goes_out =
      !after.empty() && after[0].k == block.heads * block.head_size && after[0].n == block.hidden;
  if (goes_out && after.size() == kGated && leads(after[1], after[3]) &&
      leads(after[2], after[3])) {
    block.is_gated = true;
  } else if (!goes_out || after.size() < 3 || !leads(after[1], after[2])) {
    throw no_such_training(
        "behind attention stand no products of its output and of a feed-forward part, as every "
        "block here has them (experts, for instance, are not recognised)");
  }
  block.ffn = after[1].n;
}

// Sizes that no training has would overflow products of them.
void require_sizes(const KernelShape& attention, const std::vector<KernelShape>& before,
                   const std::vector<KernelShape>& after) {
  constexpr std::int64_t kMostColumns = std::int64_t{1} << 24;
  constexpr std::int64_t kMostRows = std::int64_t{1} << 31;
  bool fits = attention.k > 0 && attention.k <= kMostColumns && attention.batch <= kMostRows &&
              attention.n <= kMostRows;
  for (const auto* products : {&before, &after}) {
    for (const KernelShape& shape : *products) {
      fits = fits && shape.m <= kMostRows && shape.n <= kMostRows && shape.k <= kMostRows;
    }
  }
  if (!fits || (!before.empty() && std::max(before.back().n, before.back().k) > kMostColumns)) {
    throw no_such_training(
        "its first attention, or a product beside it, has sizes that no "
        "scenario can have");
  }
}

}  // namespace

UsageError no_such_training(const std::string& what) {
  return {"E1390", "this training is none that a scenario says: " + what,
          "price it as it is: shardsim replay; or write the nearest scenario yourself"};
}

RecognisedBlock recognise_block(const StepFacts& facts) {
  const std::size_t at = facts.next(StepEventKind::attention, 0);
  if (at == facts.events.size()) {
    throw no_such_training(
        fmt::format("rank {} computes no attention in its last step", facts.rank));
  }
  const KernelShape& attention = facts.events[at].shape;
  const std::vector<KernelShape> before = products_before(facts, at, 3);
  const std::vector<KernelShape> after = products_after(facts, at, 4);
  RecognisedBlock block{.head_size = attention.k, .seq_len = attention.n};
  if (attention.m != attention.n) {
    throw no_such_training(
        fmt::format("attention of {} queries and {} keys: context parallelism "
                    "is not recognised",
                    attention.m, attention.n));
  }
  require_sizes(attention, before, after);
  const std::int64_t tokens = before.empty() ? 0 : before.back().m;
  if (tokens == 0 || block.seq_len == 0 || tokens % block.seq_len != 0 ||
      attention.batch % (tokens / block.seq_len) != 0) {
    throw no_such_training(
        fmt::format("attention over {} tokens follows a product of {} rows, which are not whole "
                    "sequences",
                    block.seq_len, tokens));
  }
  block.tokens = tokens;
  block.heads = attention.batch / (tokens / block.seq_len);
  read_projections(before, block);
  read_feed_forward(after, block);
  return block;
}

std::int64_t recognise_vocabulary(const StepFacts& facts, const RecognisedBlock& block) {
  const std::int64_t queries = block.heads * block.head_size;
  const std::int64_t keys = block.groups * block.head_size;
  for (const StepEvent& event : facts.events) {
    const KernelShape& shape = event.shape;
    if (event.kind != StepEventKind::product || shape.m != block.tokens || shape.k != block.hidden)
      continue;
    const bool is_of_block = shape.n == queries || shape.n == keys || shape.n == block.ffn ||
                             shape.n == queries + 2 * keys || shape.n == block.hidden;
    if (!is_of_block) return shape.n;
  }
  return 0;
}

}  // namespace shardsim
