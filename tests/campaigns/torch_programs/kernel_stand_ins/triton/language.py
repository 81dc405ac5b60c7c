"""The type of a Triton kernel's constants."""

constexpr = int
