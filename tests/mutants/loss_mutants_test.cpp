#include <string>

#include <catch2/catch.hpp>

#include "sim/run/run.hpp"

#include "tests/mutants/finding.hpp"
#include "tests/mutants/wrong_numbers.hpp"

// P56 for the loss that ranks tell. All gradients are right here, so the loss alone can show these.
namespace shardsim::test {
namespace {

// Losses of stages, of parts of samples, scaled ones, and several that count together.
const Names kLosses = {"gpt-pp2-fsdp4", "llama-cp2-ring", "llama-cp2-tp2-dp2",
                       "gpt-tp2-pp2-dp2-fp16", "llama-mtp-zero3"};

void check_loss(const std::string& name, const Finding& finding) {
  INFO(name << ": " << finding.kind << " of " << finding.tensor << " times " << finding.factor);
  CHECK(finding.step == 0);
  CHECK(finding.kind == "loss");
}

}  // namespace

TEST_CASE("P56: a loss of the rank's own samples is found as the loss") {
  for (const Names& names : {kAll, kLosses}) {
    for (const std::string& name : names) {
      const Finding finding = found(name, local_loss());
      check_loss(name, finding);
      CHECK(finding.factor < 0.75);
    }
  }
}

TEST_CASE("P56: a loss that is summed twice is found as the loss") {
  for (const Names& names : {kAll, kLosses}) {
    for (const std::string& name : names) {
      const Finding finding = found(name, loss_summed_twice());
      check_loss(name, finding);
      CHECK(finding.factor > 1.5);
    }
  }
}

// Eight ranks of data parallelism sum it.
TEST_CASE("P56: a loss that is summed twice is as many times too large as ranks sum it") {
  for (const std::string& name : kAll) {
    CHECK(found(name, loss_summed_twice()).factor == Approx(8.0).epsilon(1e-9));
  }
}

}  // namespace shardsim::test
