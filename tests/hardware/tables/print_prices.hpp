#pragma once

#include <istream>
#include <ostream>

namespace shardsim::test {

/// Prints what each system of `presets` asks for one operation of each kernel family, under each
/// row of software and none, and for each collective, one line each. `presets` has a line for each
/// field, "preset dgx-h100" before those of that system: "device.peak_tflops.bf16 989", as
/// compare_tables.py writes them. Throws std::runtime_error for a field that it does not know.
void print_prices(std::istream& presets, std::ostream& out);

}  // namespace shardsim::test
