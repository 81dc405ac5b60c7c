#pragma once

#include <cstdint>
#include <string>

namespace shardsim {

/// "8", "64K", "1.5M", "2 g": bytes as nccl-tests reads them, powers of 1024. Unlike nccl-tests, it
/// refuses other letters after the first and a fraction of a byte. `option`: for the message.
/// Throws UsageError (E1080).
[[nodiscard]] std::int64_t byte_size_of(const std::string& text, const std::string& option);

}  // namespace shardsim
