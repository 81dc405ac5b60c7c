#pragma once

// Stands in for Catch2 version 2's only header where the distribution packages version 3 (Ubuntu
// 24.04). The tests are written against version 2, so this gives its names to version 3's parts.
// On the include path only where tests/meson.build finds version 3.
#include <string>

#include <catch2/catch_all.hpp>

using Catch::Approx;

namespace Catch::Matchers {

// Version 3 keeps the name Contains for ranges; in version 2 it is about strings.
inline auto Contains(const char* part) { return ContainsSubstring(part); }
inline auto Contains(const std::string& part) { return ContainsSubstring(part); }

}  // namespace Catch::Matchers

namespace Catch {
using namespace Matchers;
}  // namespace Catch
