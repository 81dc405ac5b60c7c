#include <cstdio>
#include <fstream>
#include <string>

#include "reports/pages.hpp"

#include "tests/reports/sample_details.hpp"

// Writes a sample page for readers that are not ours: `write_sample_page small|large|hostile|bare
// FILE.html`.
int main(int argc, char** argv) {
  const std::string name = argc == 3 ? argv[1] : "";
  shardsim::samples::Page page;
  if (name == "small") page = shardsim::samples::small_page();
  if (name == "large") page = shardsim::samples::large_page();
  if (name == "hostile") page = shardsim::samples::hostile_page();
  if (name == "bare") page = shardsim::samples::bare_page();
  if (page.sample.result.metrics.empty()) {
    std::fputs("usage: write_sample_page small|large|hostile|bare FILE.html\n", stderr);
    return 2;
  }
  std::ofstream file(argv[2], std::ios::binary);
  file << shardsim::to_html(page.sample.result, page.sample.headline, page.detail);
  file.close();
  return file ? 0 : 1;
}
