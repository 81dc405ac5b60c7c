#!/usr/bin/env python3
"""With PyTorch, golden_linear.safetensors is what golden_linear.py makes anew.

usage: golden_linear_test.py [TEST...]

Without PyTorch, only the file's form: input, parameters and their gradients are all there.
"""

import importlib.util
import unittest

import golden_linear
import golden_test
import safetensors


class GoldenLinearTest(unittest.TestCase):
    def test_each_input_has_a_gradient_of_its_size(self):
        tensors, _ = safetensors.read(golden_linear.GOLDEN)
        sizes = {name: len(tensor.values()) for name, tensor in tensors.items()}
        for layer in ("delta", "mamba"):
            of_layer = {name.split("/")[1]: size for name, size in sizes.items()
                        if name.startswith(f"{layer}/")}
            gradients = {name[2:]: size for name, size in of_layer.items() if name.startswith("d_")}
            self.assertEqual(of_layer.pop("y"), of_layer.pop("dy"))
            self.assertEqual(gradients, {name: size for name, size in of_layer.items()
                                         if not name.startswith("d_")})
            self.assertGreater(len(gradients), 4)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "there is no PyTorch here")
    def test_pytorch_makes_the_golden_file_again(self):
        import linear_layers  # pylint: disable=import-outside-toplevel
        tensors, _ = safetensors.read(golden_linear.GOLDEN)
        again = linear_layers.computed()
        self.assertEqual(set(again), set(tensors))
        for name, values in again.items():
            expected = tensors[name].values()
            self.assertEqual(len(values), len(expected), name)
            error, worst = golden_test.largest_error(values, expected)
            self.assertLessEqual(error, golden_test.BOUND, f"{name}: element {worst}")


if __name__ == "__main__":
    unittest.main()
