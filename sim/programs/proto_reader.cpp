#include "sim/programs/proto_reader.hpp"

namespace shardsim {

namespace {

// Wire types.
constexpr std::uint64_t kVarintType = 0;
constexpr std::uint64_t kFixed64Type = 1;
constexpr std::uint64_t kBytesType = 2;
constexpr std::uint64_t kFixed32Type = 5;

}  // namespace

std::optional<std::uint64_t> ProtoReader::next_varint() {
  constexpr unsigned kLastShift = 63;
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift <= kLastShift; shift += 7U) {
    if (left_.empty()) return fail();
    const auto byte = static_cast<unsigned char>(left_.front());
    left_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80U) return value;
  }
  return fail();
}

std::optional<std::string_view> ProtoReader::take(std::uint64_t count) {
  if (count > left_.size()) return fail();
  const std::string_view taken = left_.substr(0, count);
  left_.remove_prefix(count);
  return taken;
}

std::optional<ProtoReader::Field> ProtoReader::next() {
  if (left_.empty()) return std::nullopt;
  const std::optional<std::uint64_t> tag = next_varint();
  if (!tag) return std::nullopt;
  Field field;
  field.number = static_cast<std::uint32_t>(*tag >> 3U);
  switch (*tag & 7U) {
    case kVarintType: {
      const std::optional<std::uint64_t> value = next_varint();
      if (!value) return std::nullopt;
      field.value = *value;
      return field;
    }
    case kBytesType: {
      const std::optional<std::uint64_t> length = next_varint();
      if (!length) return std::nullopt;
      const std::optional<std::string_view> bytes = take(*length);
      if (!bytes) return std::nullopt;
      field.is_bytes = true;
      field.bytes = *bytes;
      return field;
    }
    case kFixed64Type:
    case kFixed32Type: {
      const std::optional<std::string_view> bytes = take((*tag & 7U) == kFixed64Type ? 8 : 4);
      if (!bytes) return std::nullopt;
      for (std::size_t i = bytes->size(); i > 0; --i) {
        field.value = field.value << 8U | static_cast<unsigned char>((*bytes)[i - 1]);
      }
      return field;
    }
    default:
      return fail();
  }
}

}  // namespace shardsim
