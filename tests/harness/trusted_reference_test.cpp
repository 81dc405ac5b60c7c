#include "sim/harness/trusted_reference.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "reports/diagnosis_json.hpp"

#include "sim/harness/shown_state.hpp"

// Mistakes that a program makes on one rank, too: nobody sees them but another program.
namespace shardsim {
namespace {

constexpr std::int64_t kSamples = 12;
constexpr std::int64_t kInputs = 3;
const std::string kItself = "the program itself on 1 rank - a mistake that it shares is not seen";

// y = w x with w = 0 and whole numbers: the gradient of the mean loss is -sum(y x) / 12.
double input(std::int64_t sample, std::int64_t i) {
  return static_cast<double>((sample * (i + 2)) % 5) - 2.0;
}
double target(std::int64_t sample) { return static_cast<double>(sample % 7) - 3.0; }

// Each rank takes its part of the samples. `scale` is on the loss.
Program least_squares(double scale) {
  return [scale](RankContext& context) {
    const std::int64_t first = kSamples * context.rank() / context.size();
    const std::int64_t last = kSamples * (context.rank() + 1) / context.size();
    double loss = 0.0;
    for (std::int64_t s = first; s < last; ++s) loss += target(s) * target(s) / (2.0 * kSamples);
    const Tensor sums = context.tensor(kInputs + 1, [&](std::int64_t i) {
      if (i == kInputs) return loss;
      double sum = 0.0;
      for (std::int64_t s = first; s < last; ++s) sum -= target(s) * input(s, i) / kSamples;
      return scale * sum;
    });
    context.world().all_reduce(sums, ReduceOp::sum).wait();
    context.show(Shown::output, "loss", sums.get(kInputs));
    context.show(Shown::gradient, "w",
                 context.tensor(kInputs, [&](std::int64_t i) { return sums.get(i); }));
  };
}

// A file as another program would write it.
std::string golden(const std::string& name, const std::string& tensor,
                   const std::vector<double>& values) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("shardsim-" + name + ".safetensors")).string();
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"},\"" + tensor +
                       "\":{\"dtype\":\"F64\",\"shape\":[" + std::to_string(values.size()) +
                       "],\"data_offsets\":[0," + std::to_string(8 * values.size()) + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << header;
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(8 * values.size()));
  return path;
}

// -sum(y x) / 12, added up by hand.
std::string golden_gradient(const std::string& name) {
  return golden(name, "model.w.grad", {4.0 / 12, -4.0 / 12, -2.0 / 12});
}

std::optional<ShownName> grad_of_w(const std::string& tensor) {
  if (tensor != "model.w.grad") return std::nullopt;
  return ShownName{Shown::gradient, "w"};
}

CheckOptions with(TrustedReference trusted, std::vector<int> ranks = {1, 2, 4}) {
  CheckOptions options{.ranks = std::move(ranks)};
  options.trusted = std::move(trusted);
  return options;
}

// tests/reference/gpt2.json, whose five steps PyTorch has made, too.
TrainingStrategy small_gpt2(const std::string& optimizer) {
  TrainingStrategy strategy;
  strategy.model = {.family = "gpt2",
                    .num_layers = 2,
                    .hidden_size = 8,
                    .ffn_hidden_size = 6,
                    .num_attention_heads = 2,
                    .num_query_groups = 2,
                    .vocab_size = 11,
                    .seq_len = 6,
                    .max_position_embeddings = 6,
                    .tied_embeddings = true};
  strategy.optimizer = optimizer;
  strategy.optimizer_options = {.learning_rate = 0.01, .epsilon = 1e-3, .weight_decay = 0.1};
  strategy.global_microbatches = 2;
  strategy.ignore_fraction = 0.2;
  return strategy;
}

// Shows what PyTorch's file has: the losses of all steps, and the last parameters by their names.
Program as_pytorch(const TrainingStrategy& strategy) {
  return [train = training_program(strategy)](RankContext& context) {
    ShownState shown;
    const RankContext::Setting setting = {.steps = context.steps(),
                                          .seed = context.seed(),
                                          .precision = context.precision(),
                                          .layout = context.layout()};
    RankContext inner(context.runtime(), context.world(), context.messages(), setting, shown);
    train(inner);
    std::vector<double> losses;
    std::map<std::string, std::vector<double>> parameters;
    for (const ShownState::Piece& piece : shown.pieces()) {
      if (piece.name == "loss") losses.push_back(piece.values.front());
      const bool is_last = piece.step == context.steps() - 1;
      if (piece.what == Shown::parameter && is_last) parameters[piece.name] = piece.values;
    }
    std::vector<double> flat;
    for (const auto& [_, values] : parameters)
      flat.insert(flat.end(), values.begin(), values.end());
    const auto show = [&](Shown what, const std::string& name, const std::vector<double>& values) {
      const auto value = [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
      context.show(what, name, context.tensor(std::ssize(values), value));
    };
    show(Shown::output, "losses", losses);
    show(Shown::parameter, "parameters", flat);
  };
}

}  // namespace

TEST_CASE("PyTorch's numbers are a reference, and find a mistake that all numbers of ranks share") {
  for (const char* const optimizer : {"sgd", "adamw"}) {
    const std::string before = std::string("gpt2/") + optimizer + "/free/";
    const auto names = [&](const std::string& tensor) -> std::optional<ShownName> {
      if (tensor == before + "losses") return ShownName{Shown::output, "losses"};
      if (tensor == before + "parameters") return ShownName{Shown::parameter, "parameters"};
      return std::nullopt;
    };
    CheckOptions options =
        with(golden_files({"tests/reference/golden.safetensors"}, names), {1, 2});
    options.steps = 5;
    options.seeds = {71};
    TrainingStrategy strategy = small_gpt2(optimizer);
    const CheckReport right = check(as_pytorch(strategy), options);
    INFO(right.to_text());
    CHECK(right.passed());
    CHECK(right.compared_with == "tests/reference/golden.safetensors");
    strategy.optimizer_options.weight_decay = 0.0;
    const CheckReport wrong = check(as_pytorch(strategy), options);
    REQUIRE(wrong.failure);
    CHECK(wrong.token->ranks == 1);
    options.trusted.reset();
    CHECK(check(as_pytorch(strategy), options).passed());
  }
}

TEST_CASE("a report says loudly that the program is its own reference") {
  const CheckReport report = check(least_squares(1.0 / 4096), {.ranks = {2, 4}});
  REQUIRE(report.passed());
  CHECK(report.to_text() ==
        "program: right on 2, 4 ranks, in 12 runs\n  compared with: " + kItself + "\n");
  const CheckReport wrong =
      check([](RankContext& context) { context.show(Shown::output, "x", 1.0 + context.size()); },
            {.ranks = {2}});
  REQUIRE(wrong.failure);
  CHECK(wrong.to_text().find("\n  compared with: " + kItself + "\n") != std::string::npos);
  CHECK(to_json(*wrong.failure).find("\"compared_with\": \"" + kItself) != std::string::npos);
}

TEST_CASE("a report of a program that shows nothing says that no numbers were compared") {
  const CheckReport report =
      check([](RankContext& context) { context.world().barrier().wait(); }, {.ranks = {2}});
  CHECK(report.compared_with == "nothing - the program shows no numbers");
}

TEST_CASE("a file of another program finds a scale that one rank has, too") {
  const std::string path = golden_gradient("scale");
  const CheckReport right = check(least_squares(1.0), with(golden_files({path}, grad_of_w)));
  INFO(right.to_text());
  CHECK(right.passed());
  CHECK(right.compared_with == path + " (1 of 2 tensors); the others with " + kItself);
  for (const int ranks : {1, 2, 4}) {
    const CheckReport wrong =
        check(least_squares(1.0 / 4096), with(golden_files({path}, grad_of_w), {ranks}));
    REQUIRE(wrong.failure);
    INFO(wrong.to_text());
    CHECK(wrong.failure->code == "GRAD_SCALE");
    CHECK(wrong.failure->summary.find("is 0.000244140625 times") != std::string::npos);
    CHECK(to_json(*wrong.failure).find(path) != std::string::npos);
  }
}

TEST_CASE("a tensor of a golden file has to be shown") {
  const auto other = [](const std::string&) { return ShownName{Shown::gradient, "v"}; };
  const CheckReport report =
      check(least_squares(1.0), with(golden_files({golden_gradient("other")}, other)));
  REQUIRE(report.failure);
  CHECK(report.failure->code == "SHOW_MISMATCH");
  CHECK(report.failure->summary.find("gradient of v") != std::string::npos);
}

TEST_CASE("golden files that are none, or name nothing, are refused") {
  CHECK_THROWS_AS(golden_files({"/nowhere/step-000001.safetensors"}), UsageError);
  const std::string text =
      (std::filesystem::temp_directory_path() / "shardsim-text.safetensors").string();
  std::ofstream(text) << "no header, though it is long enough";
  CHECK_THROWS_AS(golden_files({text}), UsageError);
  CHECK_THROWS_AS(golden_files({golden_gradient("unnamed")}), UsageError);
}

TEST_CASE("the library's one-device model finds a step that is too long everywhere") {
  TrainingStrategy own{.zero_stage = 1};
  own.optimizer_options.learning_rate = 0.02;
  const CheckReport alone = check(training_program(own), {.ranks = {1, 2, 3}});
  CHECK(alone.passed());
  CHECK(alone.compared_with == kItself);
  const CheckReport report = check(training_program(own), with(library_model({}), {1, 2, 3}));
  REQUIRE(report.failure);
  INFO(report.to_text());
  CHECK(report.failure->code == "STATE_DIFF");
  CHECK(report.token->ranks == 1);
  CHECK(report.failure->compared_with == "the library's one-device model (mlp)");
  own.optimizer_options.learning_rate = TrainingStrategy{}.optimizer_options.learning_rate;
  const CheckReport right = check(training_program(own), with(library_model({}), {1, 2, 3}));
  INFO(right.to_text());
  CHECK(right.passed());
}

TEST_CASE("the library's model has the names and precisions that the program asks for") {
  for (const DType precision : {DType::fp64, DType::fp32, DType::bf16}) {
    for (const char* const optimizer : {"sgd", "adamw"}) {
      TrainingStrategy strategy{.zero_stage = 2};
      strategy.optimizer = optimizer;
      CheckOptions options = with(library_model(strategy), {1, 2});
      options.precision = precision;
      const CheckReport report = check(training_program(strategy), options);
      INFO(optimizer << " in " << name_of(precision) << ": " << report.to_text());
      CHECK(report.passed());
      CHECK(report.compared_with == "the library's one-device model (mlp)");
    }
  }
}

}  // namespace shardsim
