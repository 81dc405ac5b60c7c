#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "sim/accuracy/nccl_tests_table.hpp"

namespace shardsim {
namespace {

// A table of `ranks` ranks that lines before it name, with one row of so much busbw / algbw.
NcclTestsTable table_of(int ranks, const std::string& reduction, int root, double bus_share) {
  NcclTestsTable table;
  table.source = std::make_shared<const SourceText>(SourceText{"log.txt", "# size"});
  table.place = {table.source.get(), 0, 6};
  table.ranks = ranks;
  table.nodes = 1;
  table.highest_rank = ranks - 1;
  table.reduction = reduction;
  table.root = root;
  table.rows.push_back({.size = 1 << 30, .time_us = 1000, .bus_share = bus_share});
  return table;
}

std::string refusal(const NcclTestsTable& table, const TestedLayoutOptions& options = {}) {
  try {
    (void)tested_layout_of(table, options);
  } catch (const Error& error) {
    CHECK_FALSE(error.fix().empty());
    return error.code();
  }
  return "";
}

}  // namespace

TEST_CASE("an operation is told by its columns where only one has them") {
  const auto operation = [](const char* reduction, int root, double bus_share) {
    return tested_layout_of(table_of(8, reduction, root, bus_share), {}).operation;
  };
  CHECK(operation("sum", -1, 1.75) == TestedOperation::all_reduce);
  CHECK(operation("sum", -1, 0.875) == TestedOperation::reduce_scatter);
  CHECK(operation("sum", 0, 1) == TestedOperation::reduce);
  CHECK(operation("none", -1, 1) == TestedOperation::sendrecv);
  CHECK(operation("none", 0, 1) == TestedOperation::broadcast);
}

TEST_CASE("an operation that the columns do not tell is asked for") {
  const NcclTestsTable two = table_of(8, "none", -1, 0.875);  // all_gather and all_to_all
  CHECK(refusal(two) == "E0946");
  CHECK(tested_layout_of(two, {.operation = "all_to_all"}).operation ==
        TestedOperation::all_to_all);
  CHECK(refusal(two, {.operation = "sendrecv"}) == "E0947");
  CHECK(refusal(two, {.operation = "allgather"}) == "E1084");
  CHECK(refusal(table_of(8, "sum", -1, 0)) == "E0946");  // Too small to tell.
  CHECK(refusal(table_of(8, "sum", -1, 0.5)) == "E0946");
  NcclTestsTable named = two;
  named.operation = TestedOperation::all_gather;
  CHECK(tested_layout_of(named, {}).operation == TestedOperation::all_gather);
  CHECK(refusal(named, {.operation = "all_to_all"}) == "E0946");
}

TEST_CASE("an operation that is named has the columns of the table") {
  const auto named = [](NcclTestsTable table, TestedOperation operation) {
    table.operation = operation;
    return table;
  };
  const NcclTestsTable reduce_scatter = table_of(8, "sum", -1, 0.875);
  CHECK(refusal(reduce_scatter, {.operation = "all_gather"}) == "E0946");
  CHECK(refusal(reduce_scatter, {.operation = "reduce_scatter"}).empty());
  CHECK(refusal(named(reduce_scatter, TestedOperation::all_to_all)) == "E0946");
  CHECK(refusal(named(table_of(8, "none", -1, 0.875), TestedOperation::reduce_scatter)) == "E0946");
  // A root where there is none, and none where there is one.
  CHECK(refusal(table_of(8, "none", 0, 0.875), {.operation = "all_gather"}) == "E0946");
  CHECK(refusal(table_of(8, "none", -1, 0.875), {.operation = "scatter"}) == "E0946");
  CHECK(refusal(named(table_of(8, "sum", -1, 1), TestedOperation::reduce)) == "E0946");
  NcclTestsTable old = table_of(8, "none", -1, 0.875);
  old.root.reset();  // Its release does not print one.
  CHECK(refusal(old, {.operation = "scatter"}).empty());
  try {
    (void)tested_layout_of(reduce_scatter, {.operation = "all_gather"});
    FAIL("it is accepted");
  } catch (const Error& error) {
    CHECK(std::string(error.what())
              .find("redop is sum in this table, and all_gather does not "
                    "reduce") != std::string::npos);
    CHECK(error.fix() == "name the operation of this table by --op");
  }
}

TEST_CASE("sendrecv, which reduces nothing, is known with the redop that it was run with") {
  for (const char* reduction : {"sum", "none"}) {
    const NcclTestsTable table = table_of(8, reduction, -1, 1);
    CHECK(tested_layout_of(table, {}).operation == TestedOperation::sendrecv);
    CHECK(refusal(table, {.operation = "sendrecv"}).empty());
  }
  CHECK(refusal(table_of(2, "sum", -1, 1)) == "E0946");  // As all_reduce on two ranks.
}

TEST_CASE("ranks are those of the lines that name them, or else of the options") {
  const TestedLayout whole = tested_layout_of(table_of(8, "sum", -1, 1.75), {});
  CHECK(whole.ranks == 8);
  CHECK(whole.nodes == 1);
  CHECK(refusal(table_of(8, "sum", -1, 1.75), {.ranks = 16}) == "E0945");
  CHECK(refusal(table_of(8, "sum", -1, 1.75), {.nodes = 2}) == "E0945");
  NcclTestsTable part = table_of(2, "sum", -1, 1.75);
  part.highest_rank = 7;  // Lines of ranks 0 and 7 alone.
  CHECK(refusal(part) == "E0945");
  CHECK(refusal(part, {.ranks = 7}) == "E0945");
  const TestedLayout told = tested_layout_of(part, {.ranks = 8, .nodes = 2});
  CHECK(told.ranks == 8);
  CHECK(told.nodes == 2);
  NcclTestsTable none = table_of(0, "sum", -1, 1.75);
  CHECK(refusal(none) == "E0945");
  CHECK(tested_layout_of(none, {.ranks = 8}).nodes == 0);
  CHECK(refusal(table_of(1, "sum", -1, 0)) == "E0945");
  CHECK(refusal(table_of(20000, "sum", -1, 2)) == "E0945");
}

TEST_CASE("busbw tells ranks that are not those of the table") {
  CHECK(refusal(table_of(0, "sum", -1, 1.875), {.operation = "all_reduce", .ranks = 8}) == "E0947");
  CHECK(refusal(table_of(0, "sum", -1, 1.875), {.operation = "all_reduce", .ranks = 16}).empty());
}

}  // namespace shardsim
