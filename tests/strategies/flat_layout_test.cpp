#include "strategies/gradient_sync/flat_layout.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/model_fixture.hpp"

namespace shardsim::test {

namespace {

std::int64_t bytes_of(const FlatChunk& chunk) { return chunk.numel * size_of(DType::bf16); }

FlatLayout buckets_of(const Model& model, std::int64_t cap, std::int64_t first_cap, int shards) {
  return FlatLayout::buckets(model, gradient_ready_order(model, DType::bf16), cap, first_cap,
                             DType::bf16, shards);
}

// Every parameter lies in exactly one chunk, behind its predecessor, and padding is less than one
// element per shard.
void check_cover(const FlatLayout& layout, const Model& model) {
  std::vector<int> seen;
  std::int64_t offset = 0;
  for (int index = 0; index < static_cast<int>(layout.chunks().size()); ++index) {
    const FlatChunk& chunk = layout.chunk(index);
    CHECK(chunk.offset == offset);
    CHECK(chunk.padded % layout.num_shards() == 0);
    CHECK(chunk.padded >= chunk.numel);
    CHECK(chunk.padded - chunk.numel < layout.num_shards());
    offset += chunk.padded;
    std::int64_t place = 0;
    for (const int parameter : chunk.parameters) {
      CHECK(layout.place(parameter).chunk == index);
      CHECK(layout.place(parameter).offset == place);
      place += layout.shape(parameter).numel();
      seen.push_back(parameter);
    }
    CHECK(place == chunk.numel);
  }
  CHECK(layout.padded() == offset);
  CHECK(layout.numel() == num_parameters(model));
  std::sort(seen.begin(), seen.end());
  std::vector<int> all(model.parameters().size());
  std::iota(all.begin(), all.end(), 0);
  CHECK(seen == all);
}

// Element by element.
void check_padding(const FlatLayout& layout, const Model& model, int index, int part) {
  const FlatChunk& chunk = layout.chunk(index);
  std::vector<int> real(static_cast<std::size_t>(chunk.padded), 0);
  for (const int parameter : chunk.parameters) {
    const ParameterSpec& spec = model.parameters()[static_cast<std::size_t>(parameter)];
    for_each_whole_run(spec, part, 0, spec.shape.numel(), [&](const WholeRun& run) {
      const auto first = real.begin() + layout.place(parameter).offset + run.at;
      std::fill(first, first + run.count, 1);
    });
  }
  const auto expected = [&](std::int64_t begin, std::int64_t end) {
    return std::count(real.begin() + begin, real.begin() + end, 0);
  };
  const std::int64_t shard = chunk.padded / layout.num_shards();
  for (std::int64_t begin = 0; begin < chunk.padded; begin += shard) {
    CHECK(chunk.padding(part, begin, begin + shard) == expected(begin, begin + shard));
  }
  const CallOptions options = chunk.call_options(part);
  CHECK(options.label == chunk.label);
  CHECK(options.padding == expected(0, chunk.padded));
  std::int64_t at = options.padding_at.empty() ? options.padding : 0;  // At the end, else.
  for (const ElementRange& range : options.padding_at) {
    CHECK(expected(range.begin, range.end) == range.end - range.begin);
    at += range.end - range.begin;
  }
  CHECK(at == options.padding);
  if (options.padding_at.empty()) {
    CHECK(expected(chunk.padded - options.padding, chunk.padded) == options.padding);
  }
}

}  // namespace

TEST_CASE("chunks cover all parameters once, padded to the shards") {
  for (const char* name : kSmallModels) {
    const std::unique_ptr<Model> model = make_model(small_model(name));
    for (const int shards : {1, 2, 7, 64, 1000}) {
      INFO(name << ", " << shards << " shards");
      check_cover(FlatLayout::units(*model, shards), *model);
      for (const std::int64_t cap : {1, 50, 400, 100000}) {
        check_cover(buckets_of(*model, cap, cap / 2, shards), *model);
      }
    }
  }
}

TEST_CASE("a bucket stays within its cap unless it is one larger parameter") {
  for (const char* name : kSmallModels) {
    const std::unique_ptr<Model> model = make_model(small_model(name));
    for (std::int64_t cap = 1; cap < 4000; cap += 37) {
      const std::int64_t first_cap = cap / 3 + 1;
      const FlatLayout layout = buckets_of(*model, cap, first_cap, 4);
      INFO(name << ", cap " << cap);
      for (std::size_t index = 0; index < layout.chunks().size(); ++index) {
        const FlatChunk& chunk = layout.chunks()[index];
        const bool fits = bytes_of(chunk) <= (index == 0 ? first_cap : cap);
        CHECK((fits || chunk.parameters.size() == 1));
      }
    }
  }
}

TEST_CASE("buckets are full: the next parameters would not have fitted in") {
  const std::unique_ptr<Model> model = make_model(small_model("llama"));  // All report one by one.
  const std::int64_t cap = 500;
  const FlatLayout layout = buckets_of(*model, cap, cap, 1);
  REQUIRE(layout.chunks().size() > 3);
  for (std::size_t index = 0; index + 1 < layout.chunks().size(); ++index) {
    const int next = layout.chunks()[index + 1].parameters.front();
    CHECK(bytes_of(layout.chunks()[index]) + layout.shape(next).numel() * 2 > cap);
  }
}

TEST_CASE("buckets are filled in the order in which backward reports gradients") {
  for (const char* name : kSmallModels) {
    const std::unique_ptr<Model> model = make_model(small_model(name));
    std::vector<int> in_buckets;
    const FlatLayout layout = buckets_of(*model, 300, 100, 3);
    for (const FlatChunk& chunk : layout.chunks()) {
      in_buckets.insert(in_buckets.end(), chunk.parameters.begin(), chunk.parameters.end());
    }
    // The order that a real backward reports.
    LocalRuntime runtime;
    WholeParameters parameters(*model, runtime, 1, DType::fp64, DType::fp64);
    std::vector<Saved> saved;
    const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
    run_forward(*model, runtime, parameters, batch, saved);
    run_backward(*model, runtime, parameters, batch, saved);
    INFO(name);
    CHECK(in_buckets == parameters.ready());
  }
}

TEST_CASE("weight and bias of a layer norm are reported together, and share a bucket") {
  const std::unique_ptr<Model> model = make_model(small_model("gpt2"));
  const auto index_of = [&](std::string_view name) {
    for (int i = 0; i < static_cast<int>(model->parameters().size()); ++i) {
      if (model->parameters()[static_cast<std::size_t>(i)].name == name) return i;
    }
    return -1;
  };
  const int weight = index_of("blocks.0.norm2.weight");
  const int bias = index_of("blocks.0.norm2.bias");
  REQUIRE(weight >= 0);
  const ReadyOrder order = gradient_ready_order(*model, DType::fp32);
  CHECK(std::find(order.begin(), order.end(), std::vector<int>{bias, weight}) != order.end());
  for (std::int64_t cap = 32; cap < 2000; cap += 2) {  // 32 bytes hold both.
    const FlatLayout layout = buckets_of(*model, cap, cap, 1);
    CHECK(layout.place(weight).chunk == layout.place(bias).chunk);
  }
}

TEST_CASE("units are those of the model, in its order") {
  const std::unique_ptr<Model> model = make_model(small_model("gpt2"));
  const FlatLayout layout = FlatLayout::units(*model, 3);
  REQUIRE(layout.chunks().size() == model->units().size());
  for (std::size_t i = 0; i < model->units().size(); ++i) {
    CHECK(layout.chunks()[i].label == model->units()[i].name);
    CHECK(layout.chunks()[i].parameters.front() == model->units()[i].first);
  }
}

// With 5 rows the last of four ranks has none of its own, and the one before it has one of two.
TEST_CASE("a chunk's padding is all that is none of the model's, on each tensor-parallel rank") {
  for (const char* name : {"untied gpt2", "llama", "tied llama"}) {
    for (const std::int64_t vocab_size : {5, 8}) {
      ModelOptions options = small_model(name);
      options.num_attention_heads = options.num_query_groups = 4;
      options.hidden_size = options.ffn_hidden_size = 8;
      options.vocab_size = vocab_size;
      options.tensor_parallel = 4;
      const std::unique_ptr<Model> model = make_model(options);
      for (const int shards : {1, 3, 7}) {
        for (const FlatLayout& layout :
             {FlatLayout::units(*model, shards), buckets_of(*model, 1 << 20, 1 << 20, shards)}) {
          for (int index = 0; index < static_cast<int>(layout.chunks().size()); ++index) {
            INFO(name << ", vocabulary of " << vocab_size << ", " << shards << " shards, chunk "
                      << index);
            for (int part = 0; part < 4; ++part) check_padding(layout, *model, index, part);
          }
        }
      }
    }
  }
}

TEST_CASE("pieces of a range name each parameter's part, and pass over padding") {
  ModelOptions options = small_model("mlp");
  options.num_layers = 1;
  options.hidden_size = options.ffn_hidden_size = options.vocab_size = 3;  // 9 + 3 elements.
  const std::unique_ptr<Model> model = make_model(options);
  const FlatLayout layout = FlatLayout::units(*model, 5);
  CHECK(layout.chunk(0).padded == 15);
  struct Piece {
    int parameter;
    std::int64_t first, count, at;
    bool operator==(const Piece&) const = default;
  };
  const auto pieces = [&](std::int64_t begin, std::int64_t end) {
    std::vector<Piece> found;
    layout.for_each_piece(
        0, begin, end, [&](int parameter, std::int64_t first, std::int64_t count, std::int64_t at) {
          found.push_back({parameter, first, count, at});
        });
    return found;
  };
  CHECK(pieces(0, 3) == std::vector<Piece>{{0, 0, 3, 0}});
  CHECK(pieces(7, 12) == std::vector<Piece>{{0, 7, 2, 0}, {1, 0, 3, 2}});
  CHECK(pieces(11, 15) == std::vector<Piece>{{1, 2, 1, 0}});
  CHECK(pieces(12, 15).empty());
  CHECK(pieces(9, 9).empty());
}

}  // namespace shardsim::test
