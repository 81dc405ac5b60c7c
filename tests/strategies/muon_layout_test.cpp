#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/gradient_sync/matrix_update.hpp"
#include "strategies/model/make_model.hpp"

#include "tests/strategies/model_fixture.hpp"

// Which matrices Muon takes, and where they lie.
namespace shardsim::test {

namespace {

using Rows = std::vector<std::int64_t>;

std::map<std::string, Rows> rows_by_name(const ModelOptions& options) {
  std::map<std::string, Rows> rows;
  const std::unique_ptr<Model> model = make_model(options);
  for (const ParameterSpec& spec : model->parameters()) {
    rows[spec.name] = spec.matrix_rows;
  }
  return rows;
}

FlatLayout layout_of_muon(const Model& model, int shards, MatrixBuckets matrices,
                          std::int64_t cap) {
  return FlatLayout::buckets(model, gradient_ready_order(model, DType::bf16), cap, cap, DType::bf16,
                             shards, 0, matrices);
}

// Elements of a chunk that are some parameter's.
std::vector<int> owners_of(const FlatLayout& layout, int chunk) {
  std::vector<int> owners(static_cast<std::size_t>(layout.chunk(chunk).padded), -1);
  layout.for_each_piece(chunk, 0, layout.chunk(chunk).padded,
                        [&](int parameter, std::int64_t, std::int64_t count, std::int64_t at) {
                          for (std::int64_t i = at; i < at + count; ++i) {
                            REQUIRE(owners[to_size(i)] == -1);
                            owners[to_size(i)] = parameter;
                          }
                        });
  return owners;
}

}  // namespace

TEST_CASE("muon takes the matrices of blocks, apart where one tensor holds several") {
  ModelOptions options = small_model("untied gpt2");
  std::map<std::string, Rows> rows = rows_by_name(options);
  CHECK(rows.at("blocks.0.attention.qkv.weight") == Rows{8, 8, 8});
  CHECK(rows.at("blocks.0.mlp.up.weight") == Rows{12});
  for (const char* name : {"embedding.tokens", "embedding.positions", "head", "final_norm.weight",
                           "blocks.0.attention.qkv.bias", "blocks.0.mlp.up.bias"}) {
    INFO(name);
    CHECK(rows.at(name).empty());
  }
  options.tensor_parallel = 2;
  rows = rows_by_name(options);
  CHECK(rows.at("blocks.1.attention.qkv.weight") == Rows{4, 4, 4});
  CHECK(rows.at("blocks.1.mlp.down.weight") == Rows{8});

  options = small_model("tied llama");
  rows = rows_by_name(options);
  CHECK(rows.at("embedding.tokens").empty());
  CHECK(rows.at("final_norm").empty());
  CHECK(rows.at("blocks.0.attention.wk") == Rows{4});
  CHECK(rows.at("blocks.0.mlp.gate") == Rows{12});
  options.moe.num_experts = 4;
  options.moe.experts_per_token = 2;
  options.moe.ffn_hidden_size = 6;
  rows = rows_by_name(options);
  CHECK(rows.at("blocks.0.experts.up") == Rows{6, 6, 6, 6});
  CHECK(rows.at("blocks.0.experts.down") == Rows{8, 8, 8, 8});
  options.moe.expert_parallel = 2;
  CHECK(rows_by_name(options).at("blocks.0.experts.up") == Rows{6, 6});
}

TEST_CASE("a bucket has matrices alone or none, and every parameter once") {
  for (const char* name : {"gpt2", "llama", "mlp"}) {
    const std::unique_ptr<Model> model = make_model(small_model(name));
    for (const MatrixBuckets matrices : {MatrixBuckets::apart, MatrixBuckets::whole}) {
      for (const std::int64_t cap : {1, 300, 1 << 20}) {
        for (const int shards : {1, 2, 3, 8}) {
          const FlatLayout layout = layout_of_muon(*model, shards, matrices, cap);
          INFO(name << ", cap " << cap << ", " << shards << " shards");
          std::vector<int> seen(model->parameters().size(), 0);
          std::int64_t of_matrices = 0;
          std::int64_t of_rest = 0;
          for (int chunk = 0; chunk < static_cast<int>(layout.chunks().size()); ++chunk) {
            const FlatChunk& flat = layout.chunk(chunk);
            std::int64_t& of_rule = flat.matrices ? of_matrices : of_rest;
            CHECK(flat.state_offset == of_rule);
            of_rule += flat.padded;
            const std::vector<int> owners = owners_of(layout, chunk);
            std::int64_t gaps = std::count(owners.begin(), owners.end(), -1);
            CHECK(flat.padding(0, 0, flat.padded) == gaps);
            CHECK(gaps == flat.padded - flat.numel);
            const std::int64_t shard = flat.padded / shards;
            for (const int parameter : flat.parameters) {
              ++seen[to_size(parameter)];
              CHECK(spec_of(*model, parameter).has_matrices() == flat.matrices);
              const std::int64_t first = layout.place(parameter).offset;
              const std::int64_t last = first + layout.shape(parameter).numel() - 1;
              const bool is_whole = flat.matrices && matrices == MatrixBuckets::whole;
              if (is_whole) CHECK(first / shard == last / shard);
              CHECK(owners[to_size(first)] == parameter);
              CHECK(owners[to_size(last)] == parameter);
            }
          }
          CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
          CHECK(layout.padded_of(true) == of_matrices);
          CHECK(layout.padded_of(false) == of_rest);
        }
      }
    }
  }
}

TEST_CASE("whole matrices are dealt out by work, within 1.3 of the mean of elements") {
  ModelOptions options = small_model("llama");
  options.num_layers = 8;
  const std::unique_ptr<Model> model = make_model(options);
  const FlatLayout layout = layout_of_muon(*model, 4, MatrixBuckets::whole, 1 << 20);
  std::vector<std::int64_t> work(4, 0);
  std::int64_t most = 0;
  for (int chunk = 0; chunk < static_cast<int>(layout.chunks().size()); ++chunk) {
    const FlatChunk& flat = layout.chunk(chunk);
    if (!flat.matrices) continue;
    CHECK(static_cast<double>(flat.padded) <= 1.3 * static_cast<double>(flat.numel));
    for (int shard = 0; shard < 4; ++shard) {
      const std::int64_t size = flat.padded / 4;
      for_each_matrix(*model, layout, chunk, shard * size, (shard + 1) * size,
                      [&](const ChunkMatrix& matrix) {
                        const std::int64_t m = std::min(matrix.part.rows, matrix.part.columns);
                        const std::int64_t n = std::max(matrix.part.rows, matrix.part.columns);
                        work[to_size(shard)] += n * m * m;
                        most = std::max(most, n * m * m);
                      });
    }
  }
  const auto [least, largest] = std::minmax_element(work.begin(), work.end());
  CHECK(*least > 0);
  CHECK(*largest - *least <= most);
}

TEST_CASE("a matrix has its place in a chunk, and says how it is cut") {
  ModelOptions options = small_model("untied gpt2");
  options.tensor_parallel = 2;
  const std::unique_ptr<Model> model = make_model(options);
  const FlatLayout layout = layout_of_muon(*model, 2, MatrixBuckets::apart, 1 << 20);
  std::vector<MatrixPart> parts;
  std::int64_t behind = 0;
  for (int chunk = 0; chunk < static_cast<int>(layout.chunks().size()); ++chunk) {
    if (!layout.chunk(chunk).matrices) continue;
    behind = 0;
    for_each_matrix(*model, layout, chunk, 0, layout.chunk(chunk).padded,
                    [&](const ChunkMatrix& matrix) {
                      CHECK(matrix.first == behind);
                      behind = matrix.first + matrix.part.numel();
                      parts.push_back(matrix.part);
                    });
  }
  // Two blocks of q, k, v, o, up and down.
  REQUIRE(parts.size() == 12);
  for (const MatrixPart& part : parts) {
    CHECK(part.parts == 2);
    CHECK(std::max(part.out(), part.in()) == (part.out() + part.in() == 16 ? 8 : 12));
  }
}

}  // namespace shardsim::test
