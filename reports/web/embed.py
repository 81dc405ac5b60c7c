"""Writes the built scripts and the style of pages as C++.

usage: embed.py REPORT_SCRIPT PAGE_SCRIPT STYLE OUTPUT.cpp
"""
import base64
import hashlib
import pathlib
import sys

DELIMITER = "shardsim"
# The standard asks compilers for 65,536 characters of a literal at least.
LONGEST = 16_000


def literals(text):
    """The text as an array's raw string literals."""
    if f"){DELIMITER}\"" in text or not text.isascii():
        sys.exit("embed.py: the text cannot stand in a raw string literal")
    parts = [text[start:start + LONGEST] for start in range(0, len(text), LONGEST)]
    return ",\n".join(f'R"{DELIMITER}({part}){DELIMITER}"' for part in parts)


# Plain pointers: Clang counts the length of a constexpr view byte by byte, and gives up on long ones.
def function(name, text):
    return f"""std::string {name}() {{
  static constexpr const char* kParts[] = {{
{literals(text)}
  }};
  std::string text;
  text.reserve({len(text)});
  for (const char* part : kParts) text += part;
  return text;
}}
"""


def script_functions(name, path):
    """The script, and its hash as a Content-Security-Policy has it."""
    script = pathlib.Path(path).read_text(encoding="ascii")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"""{function(name, script)}
std::string {name}_hash() {{ return "{digest}"; }}
"""


def main(report_path, page_path, style_path, output):
    style = pathlib.Path(style_path).read_text(encoding="ascii")
    pathlib.Path(output).write_text(f"""// Made by reports/web/embed.py; do not edit.
#include <string>

#include "reports/html/markup.hpp"

namespace shardsim::html {{

{script_functions("report_script", report_path)}
{script_functions("page_script", page_path)}
{function("report_style", style)}
}}  // namespace shardsim::html
""", encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
