#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "tests/strategies/tensor_parallel_fixture.hpp"

// The traffic of tensor parallelism and its times; shapes alone tell both.
namespace shardsim::test {
namespace {

constexpr std::int64_t kSamples = 3;
constexpr int kRanks = 4;

struct Calls {
  std::map<std::string, int> by_label;  ///< "all_reduce row output": of one rank.
  std::int64_t calls = 0;               ///< Calls of all ranks.
  std::int64_t bytes = 0;
};

ModelCase traffic_case(const char* name, std::int64_t layers, bool sequence_parallel) {
  ModelCase c{.options = divisible_model(name, 12), .samples = kSamples, .size = kRanks};
  c.options.num_layers = layers;
  c.options.dtype = DType::bf16;
  c.sequence_parallel = sequence_parallel;
  return c;
}

FiberOptions world_options(bool has_data) {
  return {.cluster = test_cluster(kRanks), .has_data = has_data, .traced_ranks = {0}};
}

// `later`: the gradients of the weights are left for later.
void run_case(const ModelCase& c, FiberWorld& world, bool later = false) {
  const auto model = make_model(c.of_part());
  world.run([&](Runtime& runtime, Communicator& everyone) {
    PartRun part(c, *model, runtime, everyone, nullptr);
    WeightGradientQueue queue;
    if (later) part.context.later = &queue;
    part.run();
    part.context.later = nullptr;
    queue.run(part.context);
  });
}

Calls calls_of(const ModelCase& c, bool later = false) {
  FiberWorld world(world_options(false));
  run_case(c, world, later);
  Calls found;
  const RankTrace& trace = *world.engine().rank(0).trace();
  for (std::size_t track = 1; track < trace.tracks.size(); ++track) {
    for (const TraceSlice& slice : trace.tracks[track].slices) {
      ++found.by_label[std::string(slice.name) + " " + slice.label];
    }
  }
  found.calls = world.traffic().at("world").calls;
  found.bytes = world.traffic().at("world").payload_sent;
  CHECK(world.traffic().at("world").padding_sent == 0);
  CHECK(world.traffic().at("world").payload_received == found.bytes);
  return found;
}

// All ranks together send n (t - 1) bytes in a gather or scatter of n, and twice that in an
// all_reduce, whatever the algorithm.
std::int64_t half_of_all_reduce(const ModelCase& c) {
  const std::int64_t n = c.samples * c.options.seq_len * c.options.hidden_size * 2;
  return n * (kRanks - 1);
}

}  // namespace

TEST_CASE(
    "a layer sends four all_reduces, or with token shards four gathers, four scatters, two "
    "more gathers") {
  for (const char* name : {"gpt2", "llama"}) {
    for (const bool later : {false, true}) {
      CAPTURE(name, later);
      for (const bool sequence_parallel : {false, true}) {
        const ModelCase two = traffic_case(name, 2, sequence_parallel);
        const Calls few = calls_of(traffic_case(name, 1, sequence_parallel), later);
        const Calls more = calls_of(two, later);
        const int per_layer = sequence_parallel ? 10 : 4;
        CHECK(more.calls - few.calls == kRanks * per_layer);
        CHECK(more.bytes - few.bytes == (sequence_parallel ? 10 : 8) * half_of_all_reduce(two));
        std::map<std::string, int> difference;
        for (const auto& [label, count] : more.by_label) {
          const auto before = few.by_label.find(label);
          REQUIRE(before != few.by_label.end());
          if (count != before->second) difference[label] = count - before->second;
        }
        if (sequence_parallel) {
          CHECK(difference ==
                std::map<std::string, int>{{"all_gather column input", 2},
                                           {"reduce_scatter row output", 2},
                                           {"all_gather row output gradient", 2},
                                           {"reduce_scatter column input gradient", 2},
                                           {"all_gather column input again", 2}});
        } else {
          CHECK(difference == std::map<std::string, int>{{"all_reduce row output", 2},
                                                         {"all_reduce column input gradient", 2}});
        }
      }
    }
  }
}

TEST_CASE("a layer whose branches share a region sends half of these messages") {
  for (const char* name : {"command", "gpt-j"}) {
    for (const bool sequence_parallel : {false, true}) {
      CAPTURE(name, sequence_parallel);
      const Calls few = calls_of(traffic_case(name, 1, sequence_parallel));
      const ModelCase two = traffic_case(name, 2, sequence_parallel);
      const Calls more = calls_of(two);
      CHECK(more.calls - few.calls == kRanks * (sequence_parallel ? 5 : 2));
      CHECK(more.bytes - few.bytes == (sequence_parallel ? 5 : 4) * half_of_all_reduce(two));
      for (const char* label : {"all_reduce row output", "all_reduce column input gradient"}) {
        if (sequence_parallel) continue;
        CHECK(more.by_label.at(label) - few.by_label.at(label) == 1);
      }
    }
  }
}

TEST_CASE("outside of the layers: the embedding, the head, and three numbers per token") {
  for (const bool sequence_parallel : {false, true}) {
    const ModelCase one = traffic_case("llama", 1, sequence_parallel);
    const Calls all = calls_of(one);
    const Calls two = calls_of(traffic_case("llama", 2, sequence_parallel));
    const std::int64_t tokens = one.samples * one.options.seq_len;
    const std::int64_t loss =
        3 * 2 * (kRanks - 1) * tokens * 4;  // fp32, although the rest is bf16.
    // Whole: embedding and the head's input gradient. Shards: both of either, and the head's input
    // once more.
    const std::int64_t outer = (sequence_parallel ? 5 : 4) * half_of_all_reduce(one);
    CHECK(all.bytes - (two.bytes - all.bytes) == outer + loss);
    for (const char* label : {"all_reduce largest logit", "all_reduce target logit",
                              "all_reduce sum of exponentials"}) {
      CHECK(all.by_label.at(label) == 1);
    }
    CHECK(all.by_label.count("all_gather embedding gradient") == (sequence_parallel ? 1 : 0));
  }
  // In fp64 the loss is, too.
  ModelCase wide = traffic_case("llama", 1, false);
  const std::int64_t narrow_bytes = calls_of(wide).bytes;
  wide.options.dtype = DType::fp64;
  const std::int64_t loss = 3 * 2 * (kRanks - 1) * wide.samples * wide.options.seq_len * 4;
  CHECK(calls_of(wide).bytes == 4 * (narrow_bytes - loss) + 2 * loss);
}

TEST_CASE("forward that runs again sends its messages again, norms that do send none") {
  for (const char* name : {"gpt2", "llama"}) {
    for (const bool sequence_parallel : {false, true}) {
      const ModelCase none = traffic_case(name, 2, sequence_parallel);
      ModelCase selective = none;
      selective.options.recompute = Recompute::selective;
      ModelCase full = none;
      full.options.recompute = Recompute::full;
      const Calls calls = calls_of(none);
      const Calls again = calls_of(full);
      CAPTURE(name, sequence_parallel);
      CHECK(calls_of(selective).by_label == calls.by_label);
      CHECK(calls_of(selective).bytes == calls.bytes);
      // Two layers, two branches: an all_reduce each, or a gather and a scatter.
      CHECK(again.calls - calls.calls == kRanks * (sequence_parallel ? 8 : 4));
      CHECK(again.bytes - calls.bytes == 8 * half_of_all_reduce(none));
      CHECK(again.by_label.at(sequence_parallel ? "reduce_scatter row output"
                                                : "all_reduce row output") ==
            calls.by_label.at(sequence_parallel ? "reduce_scatter row output"
                                                : "all_reduce row output") +
                4);
    }
  }
}

TEST_CASE("the first layers of a perceptron reduce no gradient of the data") {
  ModelCase c{.options = small_model("mlp"), .samples = 2, .size = kRanks};
  c.options.num_layers = 3;  // Two pairs.
  const Calls calls = calls_of(c);
  CHECK(calls.by_label == std::map<std::string, int>{{"all_reduce row output", 2},
                                                     {"all_reduce column input gradient", 1}});
  const std::int64_t hidden = 2 * 12 * 8;  // Samples, ffn_hidden_size, fp64.
  CHECK(calls.bytes == 2 * (kRanks - 1) * (hidden + 2 * 11 * 8 + hidden));
}

TEST_CASE("with and without data a rank does the same at the same times, in the same memory") {
  for (const char* name : kDivisibleModels) {
    for (const bool sequence_parallel : {false, true}) {
      for (const bool later : {false, true}) {
        FiberWorld real(world_options(true));
        FiberWorld meta(world_options(false));
        for (FiberWorld* world : {&real, &meta}) {
          ModelCase c = traffic_case(name, 2, sequence_parallel);
          c.options.hidden_dropout = 0.1;
          c.options.recompute = later ? Recompute::full : Recompute::selective;
          run_case(c, *world, later);
        }
        CAPTURE(name, sequence_parallel, later);
        CHECK(real.engine().trace_hash() == meta.engine().trace_hash());
      }
    }
  }
}

namespace {

const TraceSlice& first_slice(const RankTrace& trace, bool compute, std::string_view name,
                              std::string_view label, std::size_t nth = 0) {
  for (std::size_t track = compute ? 0 : 1; track < (compute ? 1 : trace.tracks.size()); ++track) {
    for (const TraceSlice& slice : trace.tracks[track].slices) {
      if (slice.name == name && slice.label == label && nth-- == 0) return slice;
    }
  }
  static const TraceSlice none;
  FAIL("no slice " << name << " " << label);
  return none;
}

}  // namespace

TEST_CASE("the sum of the input's gradient travels while weight gradients are computed") {
  // The head's, first in backward: it has the stream to itself.
  for (const bool sequence_parallel : {false, true}) {
    FiberWorld world(world_options(false));
    run_case(traffic_case("llama", 1, sequence_parallel), world);
    const RankTrace& trace = *world.engine().rank(0).trace();
    const TraceSlice& sum = first_slice(
        trace, false, sequence_parallel ? "reduce_scatter" : "all_reduce", "column input gradient");
    const TraceSlice& input = first_slice(trace, true, "linear_backward_input", "");
    const TraceSlice& weight = first_slice(trace, true, "linear_backward_weight", "");
    CHECK(sum.begin >= input.end);
    CHECK(weight.begin < sum.end);
    if (sequence_parallel) {
      const TraceSlice& again = first_slice(trace, false, "all_gather", "column input again");
      CHECK(again.begin == input.begin);
      CHECK(weight.begin == max(again.end, input.end));
    } else {
      CHECK(sum.begin == input.end);
      CHECK(weight.begin == sum.begin);
    }
    // The norm before the head waits for it.
    CHECK(first_slice(trace, true, "rms_norm_backward", "").begin == max(sum.end, weight.end));
  }
}

// The bytes that forward leaves for backward on a rank.
std::int64_t held_bytes(const ModelCase& c) {
  const auto model = make_model(c.of_part());
  std::int64_t bytes = 0;
  FiberOptions options;
  options.has_data = false;
  options.cluster = test_cluster(c.size);
  FiberWorld world(options);
  world.run([&](Runtime& runtime, Communicator& everyone) {
    PartRun part(c, *model, runtime, everyone, nullptr);
    const std::int64_t before = runtime.ledger()->now(MemoryCategory::activations);
    part.forward([](int, const Tensor&) {});
    bytes = runtime.ledger()->now(MemoryCategory::activations) - before;
    CHECK(runtime.ledger()->now(MemoryCategory::comm) == 0);
    part.backward([](int, const Tensor&) {});
    CHECK(runtime.ledger()->now(MemoryCategory::activations) == before);
    CHECK(runtime.ledger()->now(MemoryCategory::comm) == 0);
  });
  return bytes;
}

TEST_CASE(
    "a rank holds 1/t of activations inside regions, and with token shards of those outside") {
  const auto held = [](int size, bool sequence_parallel) {
    ModelCase c = traffic_case("llama", 2, sequence_parallel);
    c.size = size;
    return held_bytes(c);
  };
  const std::int64_t n = kSamples * 4 * 2;  // Tokens, bf16.
  const std::int64_t tokens = kSamples * 4;
  // Per layer: input, two norms and the middle of width 16; their statistics; inside, q and the
  // attention's output 16, k and v 8 each, gate, up and product 12, log-sum-exps of 8 heads.
  const std::int64_t outside = 4 * 16 * n + 2 * 4 * tokens;
  const std::int64_t inside = (2 * 16 + 2 * 8 + 3 * 12) * n + 8 * 4 * tokens;
  // Head: input, norm, statistics; logits of 12 classes; one log-sum-exp per token.
  const std::int64_t head_outside = 2 * 16 * n + 4 * tokens;
  const std::int64_t head_inside = 12 * n;
  const std::int64_t log_sum_exp = 4 * tokens;
  for (const int size : {1, 2, 4}) {
    CHECK(held(size, false) ==
          2 * (outside + inside / size) + head_outside + head_inside / size + log_sum_exp);
    if (size == 1) continue;
    CHECK(held(size, true) ==
          (2 * (outside + inside) + head_outside + head_inside) / size + log_sum_exp);
  }
}

// Korthikanti et al. 2022, section 4: a layer of a framework that stores scores keeps 5 a s^2 b of
// them (softmax 2, dropout's result 2 and mask 1), and 2 s b h of masks of hidden dropout.
TEST_CASE("what a framework keeps is held from forward to backward, cut as its layers are") {
  for (const char* name : {"gpt2", "llama"}) {
    for (const bool sequence_parallel : {false, true}) {
      for (const int size : {1, 2, 4}) {
        if (size == 1 && sequence_parallel) continue;
        INFO(name << ", " << size << " ranks, " << sequence_parallel);
        ModelCase c = traffic_case(name, 2, sequence_parallel);
        c.size = size;
        c.options.hidden_dropout = 0.1;
        const std::int64_t ideal = held_bytes(c);
        c.options.memory = {.score_bytes = 5,
                            .mask_bytes = 1,
                            .loss_kept_bytes = 2,
                            .loss_forward_bytes = 6,
                            .loss_backward_bytes = 8};
        const std::int64_t scores = 5 * c.options.num_attention_heads / size * 4 * 4 * kSamples;
        const std::int64_t masks = 2 * 16 * 4 * kSamples / (sequence_parallel ? size : 1);
        const std::int64_t logits = 12 * 4 * kSamples / size;
        CHECK(held_bytes(c) - ideal == 2 * (scores + masks) + 2 * logits);
        // Full recomputation keeps nothing of layers.
        c.options.recompute = Recompute::full;
        const std::int64_t kept = held_bytes(c);
        c.options.memory = {};
        CHECK(kept - held_bytes(c) == 2 * logits);
      }
    }
  }
}

}  // namespace shardsim::test
