#include <catch2/catch.hpp>

#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Programs become scenarios: records of PyTorch's own strategies (cut by
// tests/torch/cut_records.py), and programs of scenarios, which must come back.
namespace shardsim::test {

namespace {

const std::string kRecords = "tests/programs/data/torch/";

Imported import_records(const std::string& name) {
  std::vector<std::string> words = {"torch", kRecords + name + ".0.jsonl"};
  if (name == "1f1b") {
    for (const char* rank : {".1.jsonl", ".2.jsonl", ".3.jsonl"})
      words.push_back(kRecords + name + rank);
  }
  return import_file(words);
}

// The program of a plan with these sections, imported again.
Imported there_and_back(const std::string& parallelism, const std::string& training,
                        const std::string& model = "", int gpus = 8) {
  const TemporaryFolder folder;
  write(folder / "plan.json",
        R"({"schema_version": 1, "model": {"family": "llama", "num_layers": 8, "hidden_size": 128,
        "ffn_hidden_size": 352, "num_attention_heads": 8, "num_query_groups": 4, "vocab_size": 320,
        "seq_len": 64)" +
            model + R"(}, "system": {"preset": "dgx-h100", "nodes": 1, "gpus_per_node": )" +
            std::to_string(gpus) + R"(}, "parallelism": {)" + parallelism + R"(}, "training": {)" +
            training + "}}");
  const Printed exported =
      shardsim({"export", "program", folder / "plan.json", "-o", folder / "plan.jsonl", "-q"});
  INFO(exported.err);
  REQUIRE(exported.exit_code == 0);
  return import_file({"torch", folder / "plan.jsonl"});
}

}  // namespace

TEST_CASE("Records of PyTorch's strategies become scenarios of the same strategy", "[exchange]") {
  struct Expected {
    const char* name;
    int zero_stage, dp_shard, dp_replicate, tp, pp;
    bool sequence_parallel;
  };
  const Expected expected[] = {
      {"ddp", 0, 8, 1, 1, 1, false},  {"fsdp2", 3, 8, 1, 1, 1, false},
      {"hsdp", 3, 4, 2, 1, 1, false}, {"tp", 0, 1, 1, 4, 1, false},
      {"tp_sp", 0, 1, 1, 4, 1, true}, {"1f1b", 0, 1, 1, 1, 4, false},
  };
  for (const Expected& e : expected) {
    INFO(e.name);
    const Scenario s = import_records(e.name).scenario;
    CHECK(s.parallelism.zero_stage == e.zero_stage);
    CHECK(s.parallelism.dp_shard == e.dp_shard);
    CHECK(s.parallelism.dp_replicate == e.dp_replicate);
    CHECK(s.parallelism.tp == e.tp);
    CHECK(s.parallelism.pp == e.pp);
    CHECK(s.parallelism.sequence_parallel == e.sequence_parallel);
    CHECK(s.model.num_layers == (e.pp == 4 ? 4 : 2));
    CHECK(s.model.hidden_size == 256);
    CHECK(s.model.ffn_hidden_size == 688);
    CHECK(s.model.num_attention_heads == 4);
    CHECK(s.model.vocab_size == 512);
    CHECK(s.model.seq_len == 128);
    CHECK(s.training.micro_batch_size * s.training.num_microbatches == 4);
    CHECK(s.training.precision == Precision::bf16);
  }
}

TEST_CASE("What was recognised and what was assumed stands in the table", "[exchange]") {
  const Imported sharded = import_records("fsdp2");
  CHECK(contains(sharded.printed.err, "FSDP over 8"));
  CHECK(contains(sharded.printed.err, "max_grad_norm = 1.0 assumed"));
  CHECK(sharded.scenario.training.grad_reduce_dtype == DType::fp32);
  CHECK(contains(sharded.printed.out, "\"reshard_after_forward\": true"));
  const Imported pipeline = import_records("1f1b");
  CHECK(contains(pipeline.printed.out, "\"schedule\": \"1f1b\""));
  CHECK(contains(pipeline.printed.err, "training.optimizer = \"adamw\" assumed"));
  CHECK_FALSE(contains(pipeline.printed.err, "max_grad_norm"));
}

TEST_CASE("A plan's program becomes its scenario again", "[exchange]") {
  SECTION("sharded, in microbatches, with tensor parallelism between") {
    const Scenario s = there_and_back(R"("tp": 2, "zero_stage": 3, "dp_shard": 4,
        "reshard_after_forward": false, "sync_every_microbatch": false)",
                                      R"("global_batch_size": 8, "micro_batch_size": 1)")
                           .scenario;
    CHECK(s.parallelism.tp == 2);
    CHECK(s.parallelism.zero_stage == 3);
    CHECK(s.parallelism.dp_shard == 4);
    CHECK_FALSE(s.parallelism.reshard_after_forward);
    CHECK_FALSE(s.parallelism.sync_every_microbatch);
    CHECK(s.training.num_microbatches == 2);
    CHECK(s.model.num_query_groups == 4);
    CHECK(s.model.ffn_hidden_size == 352);
    CHECK(s.model.vocab_size == 320);
  }
  SECTION("ZeRO-1 with all activations recomputed") {
    const Scenario s =
        there_and_back(R"("zero_stage": 1)", R"("global_batch_size": 8, "recompute": "full")")
            .scenario;
    CHECK(s.parallelism.zero_stage == 1);
    CHECK(s.training.recompute == Recompute::full);
    CHECK(s.model.num_layers == 8);
  }
  SECTION("tied embeddings") {
    const std::string tied = ", \"tied_embeddings\": true";
    const std::string batch = R"("global_batch_size": 16)";
    for (const char* zero_stage : {"0", "1", "3"}) {
      const std::string split = std::string("\"zero_stage\": ") + zero_stage;
      INFO(split);
      CHECK(there_and_back(split, batch, tied).scenario.model.tied_embeddings);
      CHECK_FALSE(there_and_back(split, batch).scenario.model.tied_embeddings);
    }
  }
  SECTION("each schedule with a name") {
    const std::pair<const char*, int> schedules[] = {
        {"gpipe", 1}, {"1f1b", 1}, {"interleaved_1f1b", 2}, {"looped_bfs", 2}, {"zb_h1", 1},
        {"zb_h2", 1}, {"zb_v", 2}, {"v_half", 2},           {"v_min", 2},      {"dualpipe_v", 2}};
    for (const auto& [schedule, chunks] : schedules) {
      INFO(schedule);
      const Scenario s = there_and_back(std::string(R"("pp": 4, "dp_shard": 2, "schedule": ")") +
                                            schedule + R"(", "vpp": )" + std::to_string(chunks),
                                        R"("global_batch_size": 16)")
                             .scenario;
      CHECK(s.parallelism.schedule == schedule);
      CHECK(s.parallelism.vpp == chunks);
      CHECK(s.parallelism.pp == 4);
      CHECK(s.parallelism.dp_shard == 2);
      CHECK(s.model.num_layers == 8);
      CHECK(s.training.num_microbatches == 8);
    }
  }
}

TEST_CASE("A program that no scenario says is refused with the reason", "[exchange]") {
  const Printed experts = shardsim({"import", "torch", kRecords + "experts.0.jsonl"});
  CHECK(experts.exit_code == 2);
  CHECK(experts.out.empty());
  CHECK(contains(experts.err, "E1390"));
  CHECK(contains(experts.err, "rank 0 computes no attention"));
  CHECK(contains(experts.err, "shardsim replay"));

  const TemporaryFolder folder;
  std::string text = content_of(kRecords + "ddp.0.jsonl");
  const std::string kind = "\"kind\": \"all_reduce\"";
  for (std::size_t at = text.find(kind); at != std::string::npos; at = text.find(kind, at)) {
    text.replace(at, kind.size(), "\"kind\": \"broadcast\", \"root\": 0");
    text.erase(text.find(", \"reduction\"", at), std::string(", \"reduction\": \"sum\"").size());
  }
  write(folder / "rank-0.jsonl", text);
  const Printed odd = shardsim({"import", "torch", folder / "rank-0.jsonl"});
  CHECK(odd.exit_code == 2);
  CHECK(contains(odd.err, "broadcast of"));
  CHECK(contains(odd.err, "is of no strategy here"));
}

}  // namespace shardsim::test
