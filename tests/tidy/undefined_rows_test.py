#!/usr/bin/env python3
"""The check of the tables of undefined tensors, tested: it sees a call without a row, and a row without
a call."""

import unittest

import undefined_rows as check

HEADER = """
class Some {
  virtual ~Some() = default;
  [[nodiscard]] virtual int rank() const = 0;
  // virtual Work old(const Tensor& buffer) = 0;
  Work reduce(const Tensor& buffer, int root,
                      CallSite site = CallSite::here()) = 0;
  Work barrier(CallSite site = CallSite::here()) = 0;
  [[nodiscard]] virtual Work batch(std::span<const P2pOp> operations) = 0;
};
"""
TEST = """
const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {"reduce", "buffer", false, [](C& w) { w.other({"x", "y"}); }},
      {"batch", "buffer", false,
       [](C& w) { }},
  };
  return kRows;
}
"""


class UndefinedRowsTest(unittest.TestCase):
    def problems(self, test=TEST, header=HEADER):
        return check.problems(test, {"Row": header})

    def test_calls_that_take_a_tensor_are_read(self):
        self.assertEqual(check.calls_of(HEADER), {"reduce", "batch"})
        self.assertEqual(self.problems(), [])

    def test_a_call_without_a_row_is_a_problem(self):
        header = HEADER.replace("};", "virtual Work scan(const Tensor& buffer) = 0;\n};")
        self.assertEqual(self.problems(header=header), ["scan of backends/communicator.hpp has no Row"])
        self.assertEqual(len(self.problems(test="")), 2)

    def test_a_row_without_a_call_is_a_problem(self):
        self.assertEqual(self.problems(test=TEST.replace('"batch"', '"send"')),
                         ["batch of backends/communicator.hpp has no Row",
                          "no call of backends/communicator.hpp with a tensor is send"])

    def test_a_header_without_calls_is_a_problem(self):
        self.assertEqual(self.problems(test="", header=""),
                         ["backends/communicator.hpp has no call that takes a tensor"])


if __name__ == "__main__":
    unittest.main()
