#include <cstdio>
#include <fstream>
#include <string>

#include "reports/pages.hpp"

#include "tests/html/sample_pages.hpp"
#include "tests/reports/sample_details.hpp"

namespace {

std::string page_named(const std::string& name) {
  if (name == "layouts") return shardsim::to_html(shardsim::samples::search_of_layouts());
  if (name == "compared") return shardsim::to_html(shardsim::samples::four_sides());
  if (name == "question") return shardsim::to_html(shardsim::samples::six_machines());
  shardsim::samples::Page page;
  if (name == "small") page = shardsim::samples::small_page();
  if (name == "large") page = shardsim::samples::large_page();
  if (name == "hostile") page = shardsim::samples::hostile_page();
  if (name == "bare") page = shardsim::samples::bare_page();
  if (name == "sensitive") page = shardsim::samples::sensitive_page();
  if (page.sample.result.metrics.empty()) return {};
  return shardsim::to_html(page.sample.result, page.sample.headline, page.detail);
}

}  // namespace

// Writes a sample page for readers that are not ours: `write_sample_page NAME FILE.html`.
int main(int argc, char** argv) {
  const std::string text = argc == 3 ? page_named(argv[1]) : "";
  if (text.empty()) {
    std::fputs(
        "usage: write_sample_page small|large|hostile|bare|sensitive|layouts|compared|question "
        "FILE.html\n",
        stderr);
    return 2;
  }
  std::ofstream file(argv[2], std::ios::binary);
  file << text;
  file.close();
  return file ? 0 : 1;
}
