"""Operators as rows of a program file: flops, bytes, and the family and shape of their kernel.

Products and attention are counted by their shapes. Everything else is one kernel that reads its
inputs and writes its outputs once; families of such kernels have prices of their own, others are
priced by their bytes alone.
"""

import math
import re
import typing

TYPES = {"Double": "fp64", "Float": "fp32", "BFloat16": "bf16", "Half": "fp16",
         "Float8_e4m3fn": "fp8_e4m3", "Long": "int64", "Int": "int32"}
SIZES = {"Double": 8, "Float": 4, "BFloat16": 2, "Half": 2, "Long": 8, "Int": 4, "Short": 2,
         "Char": 1, "Byte": 1, "Bool": 1, "Float8_e4m3fn": 1, "Float8_e5m2": 1,
         "ComplexFloat": 8, "ComplexDouble": 16, "UInt32": 4, "UInt64": 8, "UInt16": 2}
FUSED_OPTIMIZERS = {"_fused_adam", "_fused_adamw", "_fused_sgd", "_fused_adagrad"}
REPLACES = {"copy", "fill", "zero", "uniform", "normal", "_foreach_copy", "_foreach_zero"}
TENSOR = re.compile(r"([ico]):(\w+)\[([-\d,]*);([-\d,]*)\](h?)")


class Tensor(typing.NamedTuple):
    role: str  # i: read, c: changed, o: made.
    dtype: str
    sizes: tuple
    strides: tuple
    on_host: bool

    @property
    def elements(self):
        return math.prod(self.sizes)

    @property
    def bytes(self):
        """In memory: an axis without stride is there once."""
        stored = math.prod(size for size, stride in zip(self.sizes, self.strides) if stride != 0)
        return (stored if self.elements else 0) * SIZES.get(self.dtype, 4)


class Operator(typing.NamedTuple):
    name: str
    tensors: list
    arguments: dict

    @property
    def inputs(self):
        return [tensor for tensor in self.tensors if tensor.role != "o"]

    @property
    def outputs(self):
        return [tensor for tensor in self.tensors if tensor.role != "i"]

    @property
    def bytes(self):
        """Read and written; what is changed is both, but for values that are replaced."""
        times = 1 if self.base_name in REPLACES else 2
        moved = sum(tensor.bytes * (times if tensor.role == "c" else 1) for tensor in self.tensors)
        if self.base_name in FUSED_OPTIMIZERS:  # Its second list is gradients, which it reads.
            moved -= sum(tensor.bytes for tensor in self.gradients())
        return moved

    def gradients(self):
        """Of a fused optimizer, whose lists are parameters, gradients and states."""
        count = self.arguments["self#"]
        return [tensor for tensor in self.tensors if tensor.role == "c"][count:2 * count]

    @property
    def base_name(self):
        return self.name.removeprefix("aten::").split(".")[0].rstrip("_")


def numbers(text):
    return tuple(int(number) for number in text.split(",") if number)


def parse(signature):
    """The operator of a signature as the recorder writes it (native/signature.hpp)."""
    name, _, rest = signature.partition(" ")
    tensors = [Tensor(match[1], match[2], numbers(match[3]), numbers(match[4]), match[5] == "h")
               for match in TENSOR.finditer(rest)]
    arguments = dict(word.split("=") for word in TENSOR.sub("", rest).split() if "=" in word)
    return Operator(name, tensors, {key: int(value) for key, value in arguments.items()})


# --- Products ------------------------------------------------------------------------------------


def product_row(op, m, n, k, batch=1):
    floats = [tensor for tensor in op.tensors if tensor.dtype in TYPES]
    dtype = min(floats, key=lambda tensor: SIZES[tensor.dtype]).dtype if floats else "Float"
    return {"kind": "matmul", "dtype": TYPES[dtype], "flops": 2 * m * n * k * batch,
            "bytes": op.bytes, "family": "matrix_product", "shape": [m, n, k, batch]}


def mm(op):
    a, b = op.inputs[0], op.inputs[1]
    return product_row(op, a.sizes[0], b.sizes[1], a.sizes[1])


def addmm(op):
    a, b = op.inputs[1], op.inputs[2]
    return product_row(op, a.sizes[0], b.sizes[1], a.sizes[1])


def bmm(op):
    a, b = op.inputs[-2], op.inputs[-1]
    return product_row(op, a.sizes[1], b.sizes[2], a.sizes[2], a.sizes[0])


def convolution_row(op, data, result, weight):
    """As a product: each element of the result takes a part of the weights; transposed, each element
    of the data does."""
    many = data if op.arguments.get("transposed") else result
    inner = weight.elements // weight.sizes[0]
    return product_row(op, many.elements // many.sizes[1], weight.sizes[0], inner)


def convolution(op):
    return convolution_row(op, op.inputs[0], op.outputs[0], op.inputs[1])


def convolution_backward(op):
    gradient, data, weight = op.inputs[:3]
    row = convolution_row(op, data, gradient, weight)
    # Of the input, if it needs one, and of the weight; that of the bias is no product.
    row["flops"] *= sum(len(output.sizes) > 1 for output in op.outputs)
    return row


def attention_pairs(op, queries, keys):
    """Of a query and a key that a causal mask leaves."""
    if op.arguments.get("is_causal"):
        return queries * keys - queries * (queries - 1) // 2 if keys >= queries else queries * keys
    return queries * keys


def attention(op, backward):
    # Backward's first input is the gradient.
    query, key = op.inputs[1:3] if backward else op.inputs[0:2]
    batch, heads, queries, width = query.sizes
    keys = key.sizes[2]
    pairs = attention_pairs(op, queries, keys) * batch * heads
    # Two products forward; backward computes the scores again, and has four more.
    flops = 2 * width * pairs * (5 if backward else 2)
    return {"kind": "matmul", "dtype": TYPES[query.dtype], "flops": flops, "bytes": op.bytes,
            "family": "attention_backward" if backward else "attention_forward",
            "shape": [queries, keys, width, batch * heads]}


PRODUCTS = {
    "mm": mm, "_scaled_mm": mm, "addmm": addmm, "bmm": bmm, "baddbmm": bmm,
    "convolution": convolution, "convolution_backward": convolution_backward,
    "_scaled_dot_product_flash_attention": lambda op: attention(op, False),
    "_scaled_dot_product_flash_attention_backward": lambda op: attention(op, True),
    "_scaled_dot_product_efficient_attention": lambda op: attention(op, False),
    "_scaled_dot_product_efficient_attention_backward": lambda op: attention(op, True),
}

# --- Kernels that move bytes ---------------------------------------------------------------------

# Those whose price is more than their bytes at full rate.
FAMILIES = {
    "embedding": "permutation", "embedding_dense_backward": "permutation",
    "index": "permutation", "_index_put_impl": "permutation", "index_select": "permutation",
    "index_add": "permutation", "gather": "permutation", "scatter_add": "permutation",
    "scatter": "permutation",
    "_log_softmax": "cross_entropy", "nll_loss_forward": "cross_entropy",
    "_log_softmax_backward_data": "cross_entropy_backward",
    "nll_loss_backward": "cross_entropy_backward",
}


def moved_bytes(op):
    """Of rows that an index names, only those move."""
    name = op.base_name
    if name in ("embedding", "index", "index_select", "gather"):
        return sum(tensor.bytes for tensor in op.tensors[1:]) + op.outputs[0].bytes
    if name in ("_index_put_impl", "index_add", "scatter_add") and op.tensors[0].role == "c":
        values = max(op.tensors[1:], key=lambda tensor: tensor.bytes)
        return sum(tensor.bytes for tensor in op.tensors[1:]) + 2 * values.bytes
    if name == "nll_loss_forward":  # One of each row.
        return op.bytes - op.inputs[0].bytes + op.inputs[1].elements * SIZES[op.inputs[0].dtype]
    if name == "nll_loss_backward":  # It only looks at the shape of the second.
        return op.bytes - op.inputs[1].bytes
    return op.bytes


def memory_row(op):
    hosts = [tensor for tensor in op.tensors if tensor.on_host and tensor.elements > 1]
    if op.base_name == "copy" and hosts:
        return {"kind": "host_transfer", "dtype": "int8", "flops": 0,
                "bytes": max(tensor.bytes for tensor in op.tensors)}
    dtypes = [TYPES[tensor.dtype] for tensor in op.tensors if tensor.dtype in TYPES]
    row = {"kind": "memory_bound", "dtype": dtypes[0] if dtypes else "int8", "flops": 0,
           "bytes": moved_bytes(op)}
    family = FAMILIES.get(op.base_name)
    if family is not None:
        row |= {"family": family, "shape": [0, 0, 0, 1]}
    return row


def row_of(signature):
    """The row of a program file, with its name."""
    op = parse(signature)
    make = PRODUCTS.get(op.base_name, memory_row)
    return {"name": op.base_name} | make(op)
