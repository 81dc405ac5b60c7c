#include <string>

#include <catch2/catch.hpp>

#include "scenarios/formats/emit.hpp"
#include "scenarios/load.hpp"

#include "tests/app/command_fixture.hpp"

// CUDA graphs as flags of Megatron-LM, both ways.
namespace shardsim::test {

TEST_CASE("CUDA graphs are flags of Megatron-LM, and are read back") {
  const auto round_trip = [](const std::string& model, const std::string& graphs) {
    const Scenario planned = load_scenario_text(
        R"({"schema_version": 1, "model": ")" + model +
            R"(", "system": {"preset": "dgx-b200", "nodes": 1, "software": "megatron-core-2025",
            "cuda_graphs": ")" +
            graphs + R"("}, "training": {"global_batch_size": 16}})",
        "test.json");
    for (const char* other : {"torchtitan", "deepspeed"}) {
      const bool is_told =
          emit_for(other, planned).text.find("system.cuda_graphs") != std::string::npos;
      CHECK(is_told == (graphs != "none"));
    }
    const TemporaryFolder folder;
    const std::string flags = emit_megatron(planned).text;
    INFO(flags);
    write(folder / "run.sh", flags);
    const Printed printed = shardsim({"import", "megatron", folder / "run.sh", "--gpu", "b200"});
    INFO(printed.err);
    REQUIRE(printed.exit_code == 0);
    CHECK(load_scenario_text(printed.out, "imported.json").system.cuda_graphs == graphs);
    return flags;
  };
  CHECK(round_trip("llama3-8b", "full_iteration").find("--cuda-graph-impl full_iteration") !=
        std::string::npos);
  CHECK(
      round_trip("mixtral-8x7b", "attn,moe_router").find("--cuda-graph-modules attn moe_router") !=
      std::string::npos);
  CHECK(round_trip("llama3-8b", "full_iteration").find("--no-check-for-nan-in-loss-and-grad") !=
        std::string::npos);
  CHECK(round_trip("llama3-8b", "none").find("cuda-graph") == std::string::npos);
}

TEST_CASE("names of CUDA graphs in older releases are read, and modules that are none here told") {
  const auto imported = [](const std::string& flags) {
    const TemporaryFolder folder;
    write(
        folder / "run.sh",
        "pretrain_gpt.py --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 "
        "--max-position-embeddings 128 --micro-batch-size 1 --global-batch-size 8 --bf16 " +
            flags);
    return shardsim({"import", "megatron", folder / "run.sh", "--gpus", "8", "--gpu", "h100"});
  };
  const auto graphs_of = [&](const std::string& flags) {
    const Printed printed = imported(flags);
    INFO(printed.err);
    REQUIRE(printed.exit_code == 0);
    return load_scenario_text(printed.out, "imported.json").system.cuda_graphs;
  };
  CHECK(graphs_of("") == "none");
  CHECK(graphs_of("--enable-cuda-graph") == "attn,mlp");
  CHECK(graphs_of("--external-cuda-graph --cuda-graph-scope attn") == "attn");
  CHECK(graphs_of("--cuda-graph-impl local --cuda-graph-scope full_iteration") == "full_iteration");
  CHECK(
      graphs_of("--cuda-graph-impl full_iteration --num-experts 4 --swiglu --normalization RMSNorm "
                "--position-embedding-type rope --disable-bias-linear "
                "--untie-embeddings-and-output-weights") == "none");
  CHECK(graphs_of("--cuda-graph-impl transformer_engine --cuda-graph-modules "
                  "'[<CudaGraphModule.attn: 1>, <CudaGraphModule.mlp: 2>]'") == "attn,mlp");
  CHECK(graphs_of("--cuda-graph-impl none --cuda-graph-scope attn") == "none");
  const Printed others =
      imported("--cuda-graph-impl transformer_engine --cuda-graph-modules mlp moe_preprocess");
  CHECK(others.err.find("moe_preprocess") != std::string::npos);
  CHECK(load_scenario_text(others.out, "imported.json").system.cuda_graphs == "mlp");
}

}  // namespace shardsim::test
