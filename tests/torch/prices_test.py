"""Operators as rows of a program file. No PyTorch is needed: signatures are texts."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from shardsim.torch import prices  # noqa: E402


class PricesTest(unittest.TestCase):
    def test_a_product_has_its_flops_bytes_and_shape(self):
        row = prices.row_of("aten::mm i:BFloat16[8,4;4,1] i:BFloat16[4,16;1,4] o:BFloat16[8,16;16,1]")
        self.assertEqual(row, {
            "name": "mm", "kind": "matmul", "dtype": "bf16", "flops": 2 * 8 * 4 * 16,
            "bytes": 2 * (8 * 4 + 4 * 16 + 8 * 16), "family": "matrix_product",
            "shape": [8, 16, 4, 1]})

    def test_products_of_many_matrices_and_of_a_bias(self):
        batched = prices.row_of("aten::bmm i:Float[3,8,4;32,4,1] i:Float[3,4,5;20,5,1] "
                                "o:Float[3,8,5;40,5,1]")
        self.assertEqual(batched["shape"], [8, 5, 4, 3])
        self.assertEqual(batched["flops"], 2 * 3 * 8 * 4 * 5)
        biased = prices.row_of("aten::addmm i:Float[5;1] i:Float[8,4;4,1] i:Float[4,5;5,1] "
                               "o:Float[8,5;5,1]")
        self.assertEqual(biased["shape"], [8, 5, 4, 1])

    def test_causal_attention_counts_half_of_the_pairs_and_the_diagonal(self):
        tensors = ("i:BFloat16[2,3,16,8;384,128,8,1] i:BFloat16[2,3,16,8;384,128,8,1] "
                   "i:BFloat16[2,3,16,8;384,128,8,1] o:BFloat16[2,3,16,8;384,128,8,1]")
        whole = prices.row_of(f"aten::_scaled_dot_product_flash_attention {tensors}")
        causal = prices.row_of(f"aten::_scaled_dot_product_flash_attention {tensors} is_causal=1")
        self.assertEqual(whole["flops"], 4 * 8 * 6 * 16 * 16)
        self.assertEqual(causal["flops"], 4 * 8 * 6 * (16 * 17 // 2))
        self.assertEqual(causal["shape"], [16, 16, 8, 6])

    def test_backward_of_attention_has_five_products_where_forward_has_two(self):
        four = "i:BFloat16[1,1,4,8;32,32,8,1] " * 4
        row = prices.row_of(f"aten::_scaled_dot_product_flash_attention_backward {four}"
                            "o:BFloat16[1,1,4,8;32,32,8,1]")
        self.assertEqual(row["family"], "attention_backward")
        self.assertEqual(row["flops"], 5 * 2 * 8 * 4 * 4)

    def test_an_expanded_tensor_is_read_once(self):
        row = prices.row_of("aten::mul.Tensor i:Float[4,8;8,1] i:Float[4,8;0,1] o:Float[4,8;8,1]")
        self.assertEqual(row["bytes"], 4 * (32 + 8 + 32))

    def test_what_is_changed_is_read_and_written_and_what_is_replaced_only_written(self):
        self.assertEqual(prices.row_of("aten::add_.Tensor c:Float[4;1] i:Float[4;1]")["bytes"], 48)
        self.assertEqual(prices.row_of("aten::_foreach_copy_ c:Float[4;1] i:Half[4;1]")["bytes"], 24)

    def test_rows_that_an_index_names_are_all_that_moves(self):
        row = prices.row_of("aten::index_select i:BFloat16[32000,64;64,1] i:Long[16;1] "
                            "o:BFloat16[16,64;64,1] dim=0")
        self.assertEqual(row["bytes"], 2 * 2 * 16 * 64 + 8 * 16)
        self.assertEqual(row["family"], "permutation")

    def test_copies_to_and_from_the_host_go_over_its_link(self):
        row = prices.row_of("aten::copy_ i:Float[256;1]h o:Float[256;1] from_host=1")
        self.assertEqual((row["kind"], row["bytes"]), ("host_transfer", 1024))

    def test_a_convolution_is_a_product_and_its_backward_one_or_two(self):
        data, weight, out = ("Float[2,3,8,8;192,64,8,1]", "Float[5,3,3,3;27,9,3,1]",
                             "Float[2,5,8,8;320,64,8,1]")
        forward = prices.row_of(f"aten::convolution i:{data} i:{weight} o:{out}")
        self.assertEqual(forward["flops"], 2 * 2 * 8 * 8 * 5 * 27)
        backward = f"aten::convolution_backward i:{out} i:{data} i:{weight}"
        self.assertEqual(prices.row_of(f"{backward} o:{weight} o:Float[5;1]")["flops"],
                         forward["flops"])
        self.assertEqual(prices.row_of(f"{backward} o:{data} o:{weight}")["flops"],
                         2 * forward["flops"])

    def test_a_loss_reads_one_logit_of_each_row(self):
        forward = prices.row_of("aten::nll_loss_forward i:Float[16,1000;1000,1] i:Long[16;1] "
                                "o:Float[;] o:Float[;]")
        self.assertEqual(forward["bytes"], 16 * 4 + 16 * 8 + 2 * 4)

    def test_a_fused_optimizer_only_reads_gradients(self):
        row = prices.row_of("aten::_fused_adamw_ c:Float[4;1] c:Float[8;1] c:Float[4;1] c:Float[8;1] "
                            "c:Float[4;1] c:Float[8;1] c:Float[4;1] c:Float[8;1] "
                            "self#=2 grads#=2 exp_avgs#=2 exp_avg_sqs#=2")
        self.assertEqual(row["bytes"], 7 * 4 * 12)

    def test_an_empty_tensor_moves_nothing(self):
        self.assertEqual(prices.row_of("aten::relu i:Float[0,8;8,1] o:Float[0,8;8,1]")["bytes"], 0)


if __name__ == "__main__":
    unittest.main()
