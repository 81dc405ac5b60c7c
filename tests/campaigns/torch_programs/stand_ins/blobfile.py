"""Stands in for blobfile, by which tiktoken reads the tokenizer's file."""

BlobFile = open
