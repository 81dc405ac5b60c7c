"""Reads safetensors files with the standard library alone, and checks the rules of their definition.

Written from the format's description (the README of github.com/huggingface/safetensors), not from a
writer: 8 bytes of length, a JSON header, the bytes of the tensors.
"""

import json
import math
import struct

# Bytes of an element, and how struct reads it; bfloat16 is the upper half of a float32.
FORMATS = {"F64": (8, "d"), "F32": (4, "f"), "F16": (2, "e"), "BF16": (2, None), "I64": (8, "q"),
           "I32": (4, "i"), "I8": (1, "b")}
LARGEST_HEADER = 100_000_000


class FormatError(Exception):
    pass


class Tensor:
    def __init__(self, dtype, shape, data):
        self.dtype = dtype
        self.shape = tuple(shape)
        self.data = data  # The bytes.

    def values(self):
        """All elements, row by row."""
        size, letter = FORMATS[self.dtype]
        count = len(self.data) // size
        if letter is not None:
            return list(struct.unpack(f"<{count}{letter}", self.data))
        halves = struct.unpack(f"<{count}H", self.data)
        return [struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in halves]

    def item(self):
        if self.shape != ():
            raise FormatError(f"not a scalar but {self.shape}")
        return self.values()[0]


def require(condition, why):
    if not condition:
        raise FormatError(why)


def unique(pairs):
    names = [name for name, _ in pairs]
    require(len(names) == len(set(names)), f"a name occurs twice: {names}")
    return dict(pairs)


def parse(content):
    """(tensors by name, metadata) of the bytes of a file. Throws FormatError."""
    require(len(content) >= 8, "shorter than the length of its header")
    (length,) = struct.unpack("<Q", content[:8])
    require(length <= LARGEST_HEADER and 8 + length <= len(content), "the header is cut off")
    require(length % 8 == 0, "the data are not aligned")
    text = content[8:8 + length]
    require(text[:1] == b"{", "the header does not begin with a brace")
    require(text.rstrip(b" ")[-1:] == b"}", "something but spaces fills the header up")
    header = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    metadata = header.pop("__metadata__", {})
    require(all(isinstance(each, str) for each in metadata.values()), "metadata are not texts")
    data = content[8 + length:]
    tensors = {}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        require(set(entry) == {"dtype", "shape", "data_offsets"}, f"{name} has other keys")
        first, last = entry["data_offsets"]
        size, _ = FORMATS[entry["dtype"]]
        require(first == end, f"{name} leaves a gap, or overlaps")
        require(last - first == size * math.prod(entry["shape"]), f"{name} has not its shape's size")
        require(first % size == 0, f"{name} is not aligned")
        tensors[name] = Tensor(entry["dtype"], entry["shape"], data[first:last])
        end = last
    require(end == len(data), "the tensors do not fill the file")
    return tensors, metadata


def read(path):
    with open(path, "rb") as file:
        return parse(file.read())
