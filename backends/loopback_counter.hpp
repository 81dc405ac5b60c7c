#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backends/probe.hpp"

namespace shardsim {

/// Bytes that the loopback interface has received since the machine started, all programs together:
/// bracket what is to be measured, outside of it. Nothing where the counter cannot be read.
/// `file`: where it stands.
[[nodiscard]] std::optional<std::int64_t> read_loopback_bytes(
    const std::string& file = "/sys/class/net/lo/statistics/rx_bytes");

/// Sends `bytes` through a socket of the loopback interface and looks whether the counter saw them:
/// some kernels do not count. Other programs' traffic can only add to it, so it may be up to a
/// tenth and 64 KiB more.
[[nodiscard]] ProbeRow probe_loopback_counter(
    std::int64_t bytes = 1 << 20,
    const std::string& file = "/sys/class/net/lo/statistics/rx_bytes");

}  // namespace shardsim
