#include <catch2/catch.hpp>

#include "sim/diff/comparison.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/diff/diff_fixture.hpp"

// The one sentence that a comparison comes to.
namespace shardsim::test {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000'000;
constexpr std::int64_t kGib = std::int64_t{1} << 30;

std::string sentence(const RunSide& a, const RunSide& b) { return sentence_of(compare(a, b)); }

}  // namespace

TEST_CASE("a sentence says how much, why, and at which price", "[diff]") {
  RunSide a = made_side(7 * kSecond, {{"compute", 5 * kSecond}, {"exposed comm", 2 * kSecond}});
  RunSide b = made_side(61 * kSecond / 10,
                        {{"compute", 49 * kSecond / 10}, {"exposed comm", 12 * kSecond / 10}});
  CHECK(sentence(a, b) ==
        "B is 1.15 times faster (6.10 s instead of 7.00 s), mostly because it waits less for "
        "communication (-800 ms).");
  a.peak_bytes = 40 * kGib;
  b.peak_bytes = 44 * kGib;
  a.memory = {{"params", 10 * kGib}, {"activations", 30 * kGib}};
  b.memory = {{"params", 10 * kGib}, {"activations", 34 * kGib}};
  CHECK(sentence(a, b) ==
        "B is 1.15 times faster (6.10 s instead of 7.00 s), mostly because it waits less for "
        "communication (-800 ms); it needs 4.00 GiB more memory, mostly activations (+4.00 GiB).");
  CHECK(sentence(b, a) ==
        "B is 1.15 times slower (7.00 s instead of 6.10 s), mostly because it waits more for "
        "communication (+800 ms); it needs 4.00 GiB less memory, mostly activations (-4.00 GiB).");
}

TEST_CASE("an axis that no longer waits is named", "[diff]") {
  RunSide a = made_side(7 * kSecond, {{"compute", 6 * kSecond}, {"exposed comm", kSecond}});
  RunSide b = made_side(6 * kSecond, {{"compute", 6 * kSecond}});
  add_axes(a, {{.axis = "tp", .exposed_s = 1.0}});
  b.time.push_back({"exposed dp", 0});  // It tells axes, and none waits.
  CHECK(sentence(a, b) ==
        "B is 1.17 times faster (6.00 s instead of 7.00 s), mostly because tp no longer waits "
        "(-1.00 s).");
}

TEST_CASE("computing is compared with all communication, whose largest axis is named", "[diff]") {
  const RunSide a = made_side(7 * kSecond, {{"compute", 6 * kSecond}, {"exposed dp", kSecond}});
  const RunSide b = made_side(
      14 * kSecond,
      {{"compute", 9 * kSecond}, {"exposed dp", 3 * kSecond}, {"exposed tp", 2 * kSecond}});
  CHECK(sentence(a, b) ==
        "B is 2.00 times slower (14.0 s instead of 7.00 s), mostly because it waits more for "
        "communication (+4.00 s), most of it dp (+2.00 s).");
}

TEST_CASE("a log of another layout is not judged by the band", "[diff]") {
  RunSide a = made_side(2 * kSecond, {});
  a.fields = {{"model.num_layers", "32"},
              {"model.hidden_size", "4096"},
              {"system.ranks", "64"},
              {"parallelism.tp", "1"},
              {"parallelism.pp", "2"}};
  a.band = StepBand{1.0, 4.0};
  RunSide b = made_side(3 * kSecond, {});
  b.kind = SideKind::megatron_log;
  b.fields = a.fields;
  CHECK(contains(sentence(a, b), "within the prediction's error band"));
  b.fields["parallelism.tp"] = "2";
  b.fields.erase("parallelism.pp");
  const std::string said = sentence(a, b);
  CHECK(contains(said, ", but it is not the same layout: tp 2 instead of 1."));
  CHECK_FALSE(contains(said, "band"));
}

TEST_CASE("members of elastic data parallelism differ only where it is elastic", "[diff]") {
  RunSide a = made_side(kSecond, {});
  a.fields = {{"parallelism.data_parallel", "synchronous"}, {"parallelism.elastic_members", "[8]"}};
  RunSide b = a;
  b.fields["parallelism.elastic_members"] = "[4]";
  CHECK(compare(a, b).fields.empty());
  a.fields["parallelism.data_parallel"] = b.fields["parallelism.data_parallel"] = "elastic";
  CHECK(compare(a, b).fields.size() == 1);
}

TEST_CASE("every part has its words", "[diff]") {
  const std::pair<const char*, const char*> kWords[] = {{"compute", "it computes more"},
                                                        {"bubble", "its pipeline idles more"},
                                                        {"host", "it waits more for the host"},
                                                        {"copies", "it copies more"},
                                                        {"idle", "it idles more"},
                                                        {"exposed dp", "dp waits more"}};
  for (const auto& [part, words] : kWords) {
    const std::string said = sentence(made_side(2 * kSecond, {{part, 2 * kSecond}}),
                                      made_side(3 * kSecond, {{part, 3 * kSecond}}));
    CHECK(said ==
          std::string("B is 1.50 times slower (3.00 s instead of 2.00 s), mostly because ") +
              words + " (+1.00 s).");
  }
}

TEST_CASE("small and no differences are told as such", "[diff]") {
  CHECK(sentence(made_side(kSecond, {}), made_side(kSecond, {})) ==
        "A and B take the same time (1.00 s).");
  CHECK(sentence(made_side(1000 * kSecond, {}), made_side(1002 * kSecond, {})) ==
        "B is 0.20 % slower (1,000 s instead of 1,000 s).");
}

TEST_CASE("bands are part of the sentence", "[diff]") {
  RunSide a = made_side(10 * kSecond, {});
  RunSide b = made_side(11 * kSecond, {});
  a.band = {8.0, 12.0};
  b.band = {9.0, 13.0};
  CHECK(
      sentence(a, b) ==
      "B is 1.10 times slower (11.0 s instead of 10.0 s); the times are within each other's error "
      "band, so a measurement may not tell them apart.");
  b.kind = SideKind::megatron_log;
  CHECK(sentence(a, b) ==
        "The measured run is 1.10 times slower (11.0 s instead of 10.0 s), but it is unknown "
        "whether it was the same model on as many GPUs.");
  a.fields = {{"model.num_layers", "2"}, {"model.hidden_size", "64"}, {"system.ranks", "8"}};
  b.fields = a.fields;
  CHECK(sentence(a, b) ==
        "The measured run is 1.10 times slower (11.0 s instead of 10.0 s), within the prediction's "
        "error band (8.00 s to 12.0 s).");
  a.band = {8.0, 10.5};
  CHECK(sentence(a, b) ==
        "The measured run is 1.10 times slower (11.0 s instead of 10.0 s), outside the "
        "prediction's error band (8.00 s to 10.5 s).");
  // Shifted by a known bias, it may leave out the prediction itself.
  a.band = {10.5, 12.0};
  CHECK(sentence(a, b) ==
        "The measured run is 1.10 times slower (11.0 s instead of 10.0 s), within the range of "
        "measured runs like it: 10.5 s to 12.0 s.");
}

TEST_CASE("a log is no measurement of another model, of other GPUs, of another batch", "[diff]") {
  RunSide a = made_side(10 * kSecond, {});
  RunSide b = made_side(11 * kSecond, {});
  a.band = {8.0, 12.0};
  b.kind = SideKind::megatron_log;
  a.fields = {{"model.num_layers", "2"}, {"model.hidden_size", "64"}, {"system.ranks", "8"}};
  const auto with = [&](const std::string& path, const std::string& value) {
    b.fields = a.fields;
    b.fields[path] = value;
    const std::string said = sentence(a, b);
    return said.substr(said.find(')') + 1);
  };
  CHECK(with("model.num_layers", "3") == ", but it is not the same model: 3 layers instead of 2.");
  CHECK(with("system.ranks", "16") == ", but it is not on as many GPUs: 16 instead of 8.");
  CHECK(with("model.num_experts", "4") ==
        ", but it is not the same model: 4 experts instead of none.");
  CHECK(with("system.ranks", "") == ", but it is unknown whether it ran on as many GPUs.");
  a.fields["training.global_batch_size"] = "32";
  CHECK(with("training.global_batch_size", "64") ==
        ", but it is not the same batch: 64 sequences instead of 32.");
}

}  // namespace shardsim::test
