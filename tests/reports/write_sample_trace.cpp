#include <cstdio>
#include <fstream>
#include <string>

#include "reports/trace_writers.hpp"

#include "tests/reports/sample_traces.hpp"

// Writes the sample trace for readers that are not ours: `write_sample_trace FILE.pftrace` or
// FILE.json.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: write_sample_trace FILE.pftrace|FILE.json\n", stderr);
    return 2;
  }
  const std::string path = argv[1];
  const auto traces = shardsim::samples::two_ranks();
  std::ofstream file(path, std::ios::binary);
  file << (path.ends_with(".json") ? shardsim::to_chrome_json(traces)
                                   : shardsim::to_perfetto(traces));
  file.close();
  return file ? 0 : 1;
}
