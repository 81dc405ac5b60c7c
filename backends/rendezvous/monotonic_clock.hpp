#pragma once

// The one place where the rendezvous looks at a clock. Real processes fail in real time; nothing of
// it reaches a result.
namespace shardsim {

/// Seconds since some fixed moment; never goes back.
[[nodiscard]] double monotonic_seconds();

}  // namespace shardsim
