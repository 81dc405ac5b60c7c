#include "tests/html/sample_pages.hpp"

#include <string>

namespace shardsim::samples {

namespace {

constexpr double kPageGib = 1024.0 * 1024.0 * 1024.0;

LayoutRow row_of(int i) {
  LayoutRow row;
  row.layout = "tp" + std::to_string(1 << i % 4) + " cp2 pp" + std::to_string(i % 16 + 1) +
               " dp8x" + std::to_string(i + 1) + " zero1 interleaved_1f1b vpp10 mb1 selective";
  row.step_s = 6.0 + 0.05 * i;
  row.mfu = 0.5 / row.step_s;
  row.tokens_per_s_per_gpu = 8000 / row.step_s;
  row.device_bytes = static_cast<std::int64_t>((76.0 - 0.5 * i - 0.01 * i * i) * kPageGib);
  return row;
}

LayoutRow full_row(int i) {
  LayoutRow row = row_of(i);
  const auto bytes = static_cast<double>(row.device_bytes);
  row.bands = {{.metric = "step_time_s",
                .low = row.step_s * 0.95,
                .centre = row.step_s * 1.1,
                .high = row.step_s * 1.3,
                .held_out_share = 0.8},
               {.metric = "memory.device_bytes.max",
                .low = bytes,
                .centre = bytes,
                .high = 1.2 * bytes,
                .held_out_share = 0.8}};
  row.usd_per_1t_tokens = 123456;
  row.days = 20.5 + i;
  row.usd = 1.05e6 + 1e4 * i;
  row.launches = {
      {"megatron", "--tensor-model-parallel-size 8 \\\n--pipeline-model-parallel-size 4"},
      {"torchtitan", "[parallelism]\ntensor_parallel_degree = 8"}};
  return row;
}

ComparedSide side_like(const std::string& letter, double factor) {
  ComparedSide side;
  side.letter = letter;
  side.file = "layouts/" + letter + ".json --set parallelism.pipeline_of_a_long_name=16";
  side.what = "gpt3-175b on 128 DGX-A100";
  side.layout = "tp 8, pp 8, dp_shard 16, zero 1, microbatch of 1";
  side.verdict = "fits";
  side.step_s = 19 * factor;
  side.numbers = {{"Step time", "about 20.2 s", "by the model 19.0 s; 80 % of runs: 17.9 to 26.0 s",
                   letter == "A" ? "" : "2.4 % more than A, by the model"},
                  {"Tokens/s/GPU", "about 152", "by the model 162; 118 to 172", ""},
                  {"Time to train", "about 22.3 days", "by the model 20.9 days", ""}};
  side.time = {{"compute", 14 * factor},
               {"exposed tp", 2 * factor},
               {"exposed dp", factor},
               {"bubble", 1.5 * factor},
               {"host", 0.5 * factor}};
  side.memory = {{"params", 5 * kPageGib},    {"grads", 5 * kPageGib},
                 {"optimizer", 2 * kPageGib}, {"activations", 20 * factor * kPageGib},
                 {"comm", 0.05 * kPageGib},   {"allocator, CUDA, NCCL", 2 * kPageGib}};
  side.device_bytes = 80 * kPageGib;
  side.bands = {{.metric = "step_time_s", .low = 17.9, .centre = 20.2, .high = 26.0}};
  return side;
}

}  // namespace

LayoutPage search_of_layouts() {
  LayoutPage page;
  page.title = "llama3-70b on 1,024 GPUs of NVIDIA DGX H100";
  page.facts = "bf16, 8,192 tokens per sequence, global batch 1,024";
  page.order = "fastest first";
  page.why = "The second: 0.8 % slower: 50 ms more exposed communication.";
  page.counts = "145,821 layouts: 172 simulated in full, 145,649 shown by bounds to be worse.";
  page.capacity_bytes = static_cast<std::int64_t>(79.6 * kPageGib);
  for (int i = 0; i < 10; ++i) page.ranked.push_back(full_row(i));
  for (int i = 0; i < 12; ++i) page.front.push_back(i < 10 ? page.ranked.at(i) : row_of(i));
  for (int i = 0; i < 150; ++i) {
    LayoutRow row = row_of(i % 12);
    row.tokens_per_s_per_gpu *= 1.0 - 0.002 * i;
    page.others.push_back(row);
  }
  page.assumptions = {"MFU counts 3 x forward's matrix products", "bf16, as nobody says otherwise"};
  return page;
}

ComparisonPage four_sides() {
  ComparisonPage page;
  page.title = "4 runs compared";
  page.sentences = {"B is 1.02 times slower (19.4 s instead of 19.0 s).", "C is faster.",
                    "The measured run is 1.10 times slower."};
  page.sides = {side_like("A", 1.0), side_like("B", 1.1), side_like("C", 0.9), side_like("D", 1.2)};
  page.sides[1].is_bad = true;
  page.sides[1].verdict = "does not fit";
  ComparedSide& measured = page.sides[3];
  measured.time = measured.memory = {};
  measured.bands = {};
  page.fields = {{"parallelism.stage_layers",
                  {"[12,12,12,12,12,12,12,12]", "[6,6,6,6,6,6,6,6,6,6,6,6,6,6,6,6]", "[96]", ""}},
                 {"parallelism.tp", {"8", "8", "4", ""}}};
  page.traffic = {{"dp", {"10.5 TB", "10.5 TB", "21.0 TB", ""}}};
  page.notes = {"D: median of 48 iterations"};
  return page;
}

QuestionPage six_machines() {
  QuestionPage page;
  page.title = "llama3-70b on 10 T tokens in 90.0 days for at most $6 M";
  page.facts = "bf16, 8,192 tokens per sequence, global batch 1,024";
  page.order = "cheapest first";
  page.deadline_days = 90;
  page.budget_usd = 6e6;
  for (int i = 0; i < 6; ++i) {
    QuestionRow row;
    row.machine = std::to_string(256 << i % 2) + (i < 3 ? " x b200" : " x h100");
    row.holds = i < 2;
    row.reason = i == 5 ? "no layout fits" : "late: 186 days (172 to 210) of 90.0";
    row.search = i % 2 == 0 ? "proven" : "gap 2.5 %";
    row.capacity_bytes = static_cast<std::int64_t>(79.6 * kPageGib);
    if (i < 5) {
      row.layout = "tp2 cp2 pp4 dp8 zero1 interleaved_1f1b vpp20 mb1 selective";
      row.device_bytes = static_cast<std::int64_t>(74.2 * kPageGib);
      const double factor = 1.0 + i;
      row.days = {40 * factor, 50 * factor, 62 * factor, 45 * factor};
      row.gpu_hours = {1e6 * factor, 1.2e6 * factor, 1.4e6 * factor, 1.1e6 * factor};
      row.usd = {4e6, 5e6 + 1e5 * i, 6.5e6, 4.8e6};
    }
    page.rows.push_back(row);
  }
  page.notes = {"downtime not included (--failures)",
                "b200: the range holds 80 % of runs (1,080 measured of dense models)"};
  page.assumptions = {"bf16, as nobody says otherwise"};
  return page;
}

}  // namespace shardsim::samples
