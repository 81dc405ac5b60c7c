#pragma once

#include <istream>
#include <ostream>

namespace shardsim::test {

/// Prints prices for each system of `presets`, one line each. It asks for one operation of each
/// kernel family, under each row of software and none, and for each collective. `presets` has one
/// line per field, such as "device.peak_tflops.bf16 989"; "preset dgx-h100" precedes the fields of
/// a system. compare_tables.py writes them. Throws std::runtime_error for an unknown field.
void print_prices(std::istream& presets, std::ostream& out);

}  // namespace shardsim::test
