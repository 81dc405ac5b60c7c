#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/scenario_error.hpp"
#include "sim/accuracy/kernel_measurement.hpp"

#include "tests/calibration/calibrate_fixture.hpp"

// Tables of kernels, as `shardsim calibrate kernels` reads them.
namespace shardsim::test {
namespace {

KernelTable table_of(const std::string& text, const KernelTableOptions& options = {}) {
  return parse_kernel_table(text, "kernels.csv", options);
}

std::vector<Problem> problems_in(const std::string& text, const KernelTableOptions& options = {}) {
  try {
    (void)table_of(text, options);
  } catch (const ScenarioError& error) {
    return error.problems();
  }
  FAIL("nothing was refused");
  return {};
}

Problem problem_in(const std::string& text, const KernelTableOptions& options = {}) {
  const std::vector<Problem> problems = problems_in(text, options);
  CHECK(problems.size() == 1);
  return problems.front();
}

}  // namespace

TEST_CASE("rows become the operations that they are, whatever the order of columns") {
  const KernelTable table = table_of(
      "seq,microseconds,operation,dtype,batch,m,n,k,out_dtype,accumulate,heads,kv_heads,head_dim,"
      "causal,bytes,gpu,library\n"
      ",10,matmul,bf16,,64,32,16,,,,,,,,a,\n"
      ",10,matmul,fp8_block,4,64,32,16,fp32,yes,,,,,,a,\n"
      "128,20,attention_forward,fp16,2,,,,,,8,2,64,yes,,a,flash3\n"
      "128,20,attention_backward,BFloat16,2,,,,,,8,,64,,,a,\n"
      ",2.5,quantize,bf16,,,,,,,,,,,4096,a,\n");
  REQUIRE(table.rows.size() == 5);
  CHECK(table.unread == std::vector<std::string>{"gpu"});
  const ComputeOp& product = table.rows[0].work;
  CHECK(product.shape == KernelShape{KernelFamily::matrix_product, 64, 32, 16, 1});
  CHECK(product.flops == 2 * 64 * 32 * 16);
  CHECK(product.bytes == 2 * (64 * 16 + 16 * 32 + 64 * 32));
  CHECK(table.rows[0].seconds == 10 * 1e-6);
  const ComputeOp& added = table.rows[1].work;
  CHECK(added.dtype == DType::fp8_e4m3);
  CHECK(added.shape.has_block_scales);
  CHECK(added.shape.batch == 4);
  CHECK(added.bytes == 4 * (64 * 16 + 16 * 32 + 8 * 64 * 32));
  CHECK(table.rows[2].library == AttentionLibrary::flash3);
  CHECK(table.rows[3].library == std::nullopt);
  const ComputeOp& forward = table.rows[2].work;
  CHECK(forward.dtype == DType::fp16);
  CHECK(forward.shape == KernelShape{KernelFamily::attention_forward, 128, 128, 64, 16});
  CHECK(forward.flops == 2 * 16 * 128 * 128 * 64);  // Two products of half the pairs.
  CHECK(forward.bytes == 2 * 2 * (16 + 4) * 128 * 64);
  const ComputeOp& backward = table.rows[3].work;
  CHECK(backward.shape.family == KernelFamily::attention_backward);
  CHECK(backward.flops == 5 * 2 * 16 * 128 * 128 * 64);
  CHECK(backward.bytes == 2 * 4 * (16 + 16) * 128 * 64);
  CHECK(table.rows[4].work.shape.family == KernelFamily::quantize);
  CHECK(table.rows[4].work.bytes == 4096);
}

TEST_CASE("the time is told in one of four ways") {
  const auto seconds = [](const std::string& column, const std::string& cell) {
    return table_of("operation,dtype,m,n,k," + column + "\nmatmul,bf16,1000,1000,500," + cell)
        .rows.front()
        .seconds;
  };
  CHECK(seconds("time_us", "3") == 3 * 1e-6);
  CHECK(seconds("milliseconds", "3") == 3 * 1e-3);
  CHECK(seconds("s", "3") == 3);
  CHECK(seconds("tflops", "4") == 1e9 / 4e12);
  CHECK(problem_in("operation,dtype,m,n,k,us,ms\nmatmul,bf16,1,1,1,1,1").code == "E0957");
  CHECK(problem_in("operation,dtype,m,n,k,us,time_us\nmatmul,bf16,1,1,1,1,1").message ==
        "the columns \"us\" and \"time_us\" both tell microseconds");
  CHECK(problem_in("operation,dtype,m,n,k\nmatmul,bf16,1,1,1").message ==
        "no column tells microseconds, nor milliseconds, seconds or tflops");
  CHECK(problem_in("operation,dtype,bytes,tflops\namax,bf16,1,1").code == "E0959");
}

TEST_CASE("tables of other programs are read by names, values and conditions") {
  const std::string text = "gpu,M,n,k,groups,batch,t\nB200,64,32,16,4,1,10\nA100,64,32,16,4,1,20\n";
  const KernelTableOptions options{
      .columns = {{"m", "M"}, {"batch", "groups"}, {"microseconds", "t"}},
      .values = {{"operation", "matmul"}, {"dtype", "bf16"}},
      .where = {{"gpu", "A100"}}};
  const KernelTable table = table_of(text, options);
  REQUIRE(table.rows.size() == 1);
  CHECK(table.num_left_out == 1);
  CHECK(table.rows.front().work.shape.batch == 4);
  CHECK(table.rows.front().seconds == Approx(20e-6));
  CHECK(table.unread == std::vector<std::string>{"batch"});
  KernelTableOptions none = options;
  none.where = {{"gpu", "H100"}};
  CHECK(problem_in(text, none).code == "E0960");
  CHECK(problem_in(text, none).message == "no row is left: 2 are left out by --where");
  KernelTableOptions unnamed = options;
  unnamed.values.pop_back();
  const Problem missing = problem_in(text, unnamed);
  CHECK(missing.code == "E0957");
  CHECK(missing.message == "no column tells dtype, which decides the peak");
}

TEST_CASE("all unknown words are told at once, each with its first line") {
  const std::vector<Problem> problems = problems_in(
      "operation,dtype,m,n,k,us\n"
      "matmul,bf16,1,1,1,1\n"
      "matmull,bf16,1,1,1,1\n"
      "matmull,tf32,1,1,1,1\n"
      "conv,bf16,1,1,1,1\n");
  REQUIRE(problems.size() == 3);
  for (const Problem& problem : problems) CHECK(problem.code == "E0958");
  CHECK(problems[0].line == 3);
  CHECK(problems[0].message == "\"matmull\" is no operation here");
  CHECK(contains(problems[0].help, "did you mean \"matmul\"?"));
  CHECK(problems[1].line == 4);
  CHECK(problems[1].column == 9);
  CHECK(problems[1].message == "\"tf32\" is no dtype here");
  CHECK(problems[2].line == 5);
  CHECK(contains(problems[2].help, "\"attention_forward\""));
}

TEST_CASE("cells that are no such number are told with their line") {
  const auto cell = [](const std::string& row) {
    const Problem problem = problem_in(
        "operation,dtype,m,n,k,us,heads,seq,kv_seq,head_dim,causal,accumulate\n"
        "matmul,bf16,1,1,1,1,,,,,,\n" +
        row + "\n");
    CHECK(problem.code == "E0959");
    CHECK(problem.line == 3);
    return problem.message;
  };
  CHECK(cell("matmul,bf16,0,1,1,1,,,,,,") ==
        "m must be a whole number from 1 to 16777216, not \"0\"");
  CHECK(cell("matmul,bf16,1,1.5,1,1,,,,,,") ==
        "n must be a whole number from 1 to 16777216, not \"1.5\"");
  CHECK(cell("matmul,bf16,1,1,1,-3,,,,,,") == "microseconds must be a number above 0, not \"-3\"");
  CHECK(cell("matmul,bf16,1,1,1,nan,,,,,,") ==
        "microseconds must be a number above 0, not \"nan\"");
  CHECK(cell("matmul,bf16,1,1,1,1,,,,,,maybe") == "accumulate must be yes or no, not \"maybe\"");
  CHECK(cell("matmul,bf16,16777216,16777216,16777216,1,,,,,,") ==
        "the product has more operations than can be counted");
  CHECK(cell("attention_forward,bf16,,,,1,8,64,128,64,yes,") ==
        "causal attention has as many keys as queries here");
  CHECK(problem_in("operation,dtype,seq,head_dim,us\nattention_forward,bf16,1,1,1").help ==
        "give the column heads, or name it by --column heads=NAME");
  CHECK(problem_in("operation,dtype,m,n,k,us\nmatmul,bf16,1,1,1").code == "E0922");
}

}  // namespace shardsim::test
