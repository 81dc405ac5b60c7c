"""Reads checkpoints with nothing but the published formats, and writes one for the product to read.

usage: interop_test.py CHECKPOINT_SAMPLE

The safetensors files are taken apart as the README of github.com/huggingface/safetensors says, the
manifest as docs/guide/checkpoint-format.md says, the checksums by XXH64 as its specification says.
None of it shares a line with the product.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

MASK = (1 << 64) - 1
PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
          0x27D4EB2F165667C5)
ELEMENT_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "I8": 1, "I32": 4, "I64": 8}
PAYLOAD_NAMES = {"fp64": "F64", "fp32": "F32", "bf16": "BF16", "fp16": "F16", "fp8_e4m3": "F8_E4M3",
                 "int8": "I8", "int32": "I32", "int64": "I64"}
SAMPLE = ""


def rotate(value, bits):
    return (value << bits | value >> (64 - bits)) & MASK


def xxh64(data):
    """XXH64 with seed 0, after "XXH64 algorithm description" in xxHash's doc/xxhash_spec.md."""
    p1, p2, p3, p4, p5 = PRIMES

    def mix(lane, value):
        return rotate((lane + value * p2) & MASK, 31) * p1 & MASK

    at, length = 0, len(data)
    if length < 32:
        result = p5
    else:
        lanes = [p1 + p2 & MASK, p2, 0, -p1 & MASK]
        while at + 32 <= length:
            lanes = [mix(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at))]
            at += 32
        result = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            result = ((result ^ mix(0, lane)) * p1 + p4) & MASK
    result = (result + length) & MASK
    while at + 8 <= length:
        word = mix(0, struct.unpack_from("<Q", data, at)[0])
        result = (rotate(result ^ word, 27) * p1 + p4) & MASK
        at += 8
    if at + 4 <= length:
        word = struct.unpack_from("<I", data, at)[0] * p1 & MASK
        result = (rotate(result ^ word, 23) * p2 + p3) & MASK
        at += 4
    for byte in data[at:]:
        result = rotate(result ^ (byte * p5 & MASK), 11) * p1 & MASK
    result = (result ^ result >> 33) * p2 & MASK
    result = (result ^ result >> 29) * p3 & MASK
    return result ^ result >> 32


def product(shape):
    result = 1
    for dim in shape:
        result *= dim
    return result


def without_twins(pairs):
    assert len({key for key, _ in pairs}) == len(pairs), "a key stands twice"
    return dict(pairs)


def read_safetensors(data):
    """({name: (dtype, shape, bytes)}, metadata) of a file that must keep every rule."""
    (length,) = struct.unpack_from("<Q", data)
    header_bytes = data[8:8 + length]
    assert len(header_bytes) == length and header_bytes.startswith(b"{")
    assert (8 + length) % 8 == 0, "the tensors are not aligned"
    header = json.loads(header_bytes.decode("utf-8"), object_pairs_hook=without_twins)
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(value, str) for value in metadata.values())
    body, at, tensors = data[8 + length:], 0, {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        assert set(entry) == {"dtype", "shape", "data_offsets"}
        begin, end = entry["data_offsets"]
        size = ELEMENT_BYTES[entry["dtype"]]
        assert begin == at and end - begin == product(entry["shape"]) * size
        assert begin % size == 0, "a tensor is not aligned"
        tensors[name] = (entry["dtype"], entry["shape"], body[begin:end])
        at = end
    assert at == len(body), "bytes that belong to no tensor"
    return tensors, metadata


def read_manifest(folder):
    data = (folder / "manifest.json").read_bytes()
    manifest = json.loads(data, object_pairs_hook=without_twins)
    body, _, tail = data.rpartition(b',\n"xxh64":"')
    assert tail == b'%016x"}\n' % xxh64(body), "the manifest's checksum is wrong"
    assert (manifest["format"], manifest["version"]) == ("shardsim-checkpoint", 1)
    return manifest


def assemble(folder):
    """{name: (dtype, shape, bytes)} of all tensors of a checkpoint, each element written once."""
    manifest = read_manifest(folder)
    whole = {}
    for tensor in manifest["tensors"]:
        size = ELEMENT_BYTES[PAYLOAD_NAMES[tensor["dtype"]]]
        whole[tensor["name"]] = [None] * product(tensor["shape"]), size
    for file in manifest["files"]:
        data = (folder / f"rank-{file['rank']:04}-{file['xxh64']}.safetensors").read_bytes()
        assert len(data) == file["bytes"] and f"{xxh64(data):016x}" == file["xxh64"]
        tensors, _ = read_safetensors(data)
        assert set(tensors) == {chunk["entry"] for chunk in file["chunks"]}
        for chunk in file["chunks"]:
            tensor = manifest["tensors"][chunk["tensor"]]
            dtype, shape, content = tensors[chunk["entry"]]
            assert dtype == PAYLOAD_NAMES[tensor["dtype"]]
            is_whole = chunk["entry"] == tensor["name"]
            assert shape == (tensor["shape"] if is_whole else [len(content) // ELEMENT_BYTES[dtype]])
            elements, size = whole[tensor["name"]]
            at = 0
            for first, count, stride, repeats in (run if len(run) == 4 else [*run, 0, 1]
                                                  for run in chunk["runs"]):
                for i in range(repeats):
                    for element in range(first + i * stride, first + i * stride + count):
                        assert elements[element] is None, "an element is written twice"
                        elements[element] = content[at:at + size]
                        at += size
            assert at == len(content)
    return {tensor["name"]: (PAYLOAD_NAMES[tensor["dtype"]], tensor["shape"],
                             b"".join(whole[tensor["name"]][0])) for tensor in manifest["tensors"]}


def write_checkpoint(folder, tensors, scalars, step):
    """A checkpoint of one rank in a hand of its own: other spacing, order, entry names."""
    header, body = {}, b""
    for index, (name, (dtype, shape, content)) in enumerate(reversed(tensors.items())):
        header[f"t{index}"] = {"data_offsets": [len(body), len(body) + len(content)],
                               "shape": [product(shape)], "dtype": dtype}
        body += content
    text = json.dumps(header, indent=2).encode()
    data = struct.pack("<Q", len(text)) + text + body
    ours = {payload: name for name, payload in PAYLOAD_NAMES.items()}
    names = sorted(tensors)
    chunks = [{"runs": [[0, product(tensors[name][1])]], "entry": f"t{index}",
               "tensor": names.index(name), "comment": "unknown members are passed over"}
              for index, name in enumerate(reversed(tensors))]
    manifest = {
        "files": [{"rank": 0, "bytes": len(data), "xxh64": f"{xxh64(data):016x}", "chunks": chunks}],
        "tensors": [{"name": name, "dtype": ours[tensors[name][0]], "shape": tensors[name][1]}
                    for name in names],
        "scalars": scalars, "step": step, "version": 1, "format": "shardsim-checkpoint"}
    manifest_body = json.dumps(manifest, indent=4).removesuffix("\n}").encode()
    folder.mkdir()
    (folder / f"rank-0000-{xxh64(data):016x}.safetensors").write_bytes(data)
    (folder / "manifest.json").write_bytes(
        manifest_body + b',\n"xxh64":"%016x"}\n' % xxh64(manifest_body))


class InteropTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        subprocess.run([SAMPLE, "write", self.root], check=True)

    def holds(self, step):
        return subprocess.run([SAMPLE, "holds", self.root, str(step)], check=False).returncode

    def test_the_checksum_here_is_the_published_one(self):
        # Source: the test vectors that implementations share (xxhash-wasm, twox-hash).
        self.assertEqual(xxh64(b""), 0xEF46DB3751D8E999)
        self.assertEqual(xxh64(b"a"), 0xD24EC4F1A98C6E5B)
        self.assertEqual(xxh64(b"asdf"), 0x415872F599CEA71E)
        self.assertEqual(
            xxh64(b"Call me Ishmael. Some years ago--never mind how long precisely-"),
            0x02A2E85470D6FD96)

    def test_files_are_what_the_formats_say(self):
        sharded = assemble(self.root / "step-00000012")
        self.assertEqual(sorted(sharded), ["count", "exp_avg/w", "parameter/b", "parameter/w"])
        self.assertEqual(sharded["exp_avg/w"][:2], ("F64", [2, 3]))
        # A checkpoint of whole tensors is an ordinary safetensors file of them.
        (file,) = (self.root / "step-00000013").glob("*.safetensors")
        whole, metadata = read_safetensors(file.read_bytes())
        self.assertEqual(whole, sharded)
        self.assertEqual(metadata["format"], "shardsim-checkpoint")
        self.assertEqual(assemble(self.root / "step-00000013"), sharded)

    def test_scalars_keep_their_bits(self):
        scalars = read_manifest(self.root / "step-00000012")["scalars"]
        self.assertEqual(scalars["step"], {"type": "int64", "value": 12})
        bits = int(scalars["loss_scale"]["value"], 16)
        self.assertEqual(struct.unpack("<d", struct.pack("<Q", bits))[0], 65536.0 / 12)

    def test_what_others_write_is_read(self):
        tensors = assemble(self.root / "step-00000012")
        scalars = read_manifest(self.root / "step-00000012")["scalars"]
        write_checkpoint(self.root / "step-00000014", tensors, scalars, 14)
        self.assertEqual(self.holds(14), 0)
        dtype, shape, content = tensors["parameter/w"]
        tensors["parameter/w"] = dtype, shape, content[:-1] + bytes([content[-1] ^ 1])
        write_checkpoint(self.root / "step-00000015", tensors, scalars, 15)
        self.assertEqual(self.holds(15), 1)

    def test_our_own_is_read(self):
        self.assertEqual([self.holds(step) for step in (12, 13, 14)], [0, 0, 2])


if __name__ == "__main__":
    SAMPLE = sys.argv.pop(1)
    unittest.main(verbosity=2)
