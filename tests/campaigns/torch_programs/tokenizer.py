"""Writes a tokenizer of Llama 3's size for tiktoken: 128,000 entries, whatever they are.

usage: tokenizer.py FILE
"""

import base64
import itertools
import sys


def write(path):
    entries = [bytes([byte]) for byte in range(256)]
    for length in (2, 3, 4):
        entries += map(bytes, itertools.islice(
            itertools.product(b"etaoinshrdlucmfwypvbgkqjxz", repeat=length), 128000 - len(entries)))
    with open(path, "w", encoding="ascii") as file:
        for number, entry in enumerate(entries):
            file.write(f"{base64.b64encode(entry).decode()} {number}\n")


if __name__ == "__main__":
    write(sys.argv[1])
