"""Writes the page of `shardsim serve`, its script and its style as C++.

usage: embed.py PAGE OUTPUT.cpp --script FILE... --style FILE...

Files of one kind are put together in their order.
"""
import argparse
import pathlib

DELIMITER = "shardsim"
# The standard asks compilers for 65,536 characters of a literal at least.
LONGEST = 16_000


def function(name, paths):
    text = "".join(pathlib.Path(path).read_text(encoding="ascii") for path in paths)
    if f"){DELIMITER}\"" in text:
        raise SystemExit("embed.py: the text cannot stand in a raw string literal")
    parts = [text[start:start + LONGEST] for start in range(0, len(text), LONGEST)]
    literals = ",\n".join(f'R"{DELIMITER}({part}){DELIMITER}"' for part in parts)
    return f"""std::string {name}() {{
  static constexpr const char* kParts[] = {{
{literals}
  }};
  std::string text;
  text.reserve({len(text)});
  for (const char* part : kParts) text += part;
  return text;
}}
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page")
    parser.add_argument("output")
    parser.add_argument("--script", nargs="+", required=True)
    parser.add_argument("--style", nargs="+", required=True)
    given = parser.parse_args()
    pathlib.Path(given.output).write_text(f"""// Made by sim/serve/embed.py; do not edit.
#include "sim/serve/page.hpp"

namespace shardsim {{

{function("serve_page", [given.page])}
{function("serve_script", given.script)}
{function("serve_style", given.style)}
}}  // namespace shardsim
""", encoding="ascii")


if __name__ == "__main__":
    main()
