#include "sim/serve/plan_request.hpp"

#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

namespace shardsim {
namespace {

std::string code_of_request(const std::string& text) {
  try {
    (void)read_plan_request(text);
  } catch (const Error& error) {
    return error.code();
  }
  return "";
}

}  // namespace

TEST_CASE("A search has its model, machine and figures", "[serve]") {
  const SearchRequest request = read_plan_request(
      R"({"model": "llama3-70b", "gpu": "h100", "gpus": 64, "seq_len": 4096,
          "global_batch_size": 256, "precision": "fp8", "tokens": 1e12, "usd_per_gpu_hour": 2.5})");
  CHECK(request.model == "llama3-70b");
  CHECK(request.gpu == "h100");
  CHECK(request.num_gpus == 64);
  CHECK(request.seq_len == 4096);
  CHECK(request.global_batch_size == 256);
  CHECK(request.precision == "fp8");
  CHECK(request.tokens == 1e12);
  CHECK(request.usd_per_gpu_hour == 2.5);
  CHECK(request.overrides.empty());
}

TEST_CASE("A search of a page reads no file: its model and machine are presets", "[serve]") {
  for (const char* model : {"/etc/passwd", "scenarios/quickstart.json", "../llama3-70b", ""}) {
    CAPTURE(model);
    CHECK(code_of_request(std::string(R"({"gpu": "h100", "gpus": 8, "model": ")") + model +
                          "\"}") == "E0366");
  }
  CHECK(code_of_request(R"({"model": "llama3-70b", "gpus": 8,
                           "gpu": "scenarios/quickstart.json"})") == "E0366");
}

TEST_CASE("Values of a search that make no sense are refused", "[serve]") {
  const auto with_gpus = [](const std::string& gpus) {
    return code_of_request(R"({"model": "llama3-70b", "gpu": "h100", "gpus": )" + gpus + "}");
  };
  CHECK(with_gpus("8").empty());
  for (const char* gpus : {"0", "-1", "1.5", "1e9", "\"8\"", "null", "[]", "true"}) {
    CAPTURE(gpus);
    CHECK(with_gpus(gpus) == "E0366");
  }
  CHECK(code_of_request("[]") == "E0366");
  CHECK(code_of_request("{}") == "E0366");
  CHECK(code_of_request("{") == "E0002");
}

}  // namespace shardsim
