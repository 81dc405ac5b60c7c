#include "sim/hardware/workspaces.hpp"

#include <charconv>
#include <system_error>

#include "sim/hardware/architecture.hpp"
#include "sim/hardware/software.hpp"

namespace shardsim {

namespace {

constexpr std::int64_t kConfigUnit = 1024;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 56U;

// ":number" at the start, which is then taken off.
std::optional<std::int64_t> take_number(std::string_view& text) {
  if (text.empty() || text.front() != ':') return std::nullopt;
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data() + 1, end, number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(after - text.data()));
  return number;
}

}  // namespace

std::vector<std::int64_t> Workspaces::blocks() const {
  std::vector<std::int64_t> blocks;
  if (handle_bytes > 0) blocks.assign(static_cast<std::size_t>(handles), handle_bytes);
  if (engine_bytes > 0) blocks.push_back(engine_bytes);
  return blocks;
}

Workspaces workspaces_of(const Software* software, const Architecture& architecture,
                         std::optional<std::int64_t> config) {
  const ProductLibrary library =
      software == nullptr ? ProductLibrary::pytorch : software->product_library;
  if (library == ProductLibrary::outside_allocator) return {};
  Workspaces workspaces{.handles = kBlasHandles,
                        .handle_bytes = architecture.handle_workspace.bytes};
  if (workspaces.handle_bytes > 0) {
    workspaces.handle_bytes = config.value_or(workspaces.handle_bytes);
  }
  if (library == ProductLibrary::transformer_engine) {
    workspaces.engine_bytes = architecture.engine_workspace.bytes;
  }
  return workspaces;
}

std::optional<std::int64_t> parse_workspace_config(std::string_view config) {
  if (config.empty()) return std::nullopt;
  std::int64_t bytes = 0;
  while (!config.empty()) {
    const std::optional<std::int64_t> size = take_number(config);
    const std::optional<std::int64_t> count = size ? take_number(config) : std::nullopt;
    std::int64_t pair = 0;
    if (!count || *count > kMostBytes / kConfigUnit ||
        __builtin_mul_overflow(*size, *count * kConfigUnit, &pair) ||
        __builtin_add_overflow(bytes, pair, &bytes) || bytes > kMostBytes) {
      return std::nullopt;
    }
  }
  return bytes;
}

}  // namespace shardsim
