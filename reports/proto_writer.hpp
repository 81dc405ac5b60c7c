#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// The protobuf wire format, as much of it as a trace needs: varints and length-delimited fields
// (https://protobuf.dev/programming-guides/encoding/). Written by hand because the library would be
// our heaviest dependency, and pins its generated code to one version.
namespace shardsim {

/// One message under construction: fields are appended in the order of the calls, which chain.
class ProtoWriter {
 public:
  /// uint32, uint64, bool and enum fields; int32 and int64 fields that are not negative.
  ProtoWriter& add_uint(std::uint32_t field, std::uint64_t value) {
    add_varint((field << 3U) | kVarint);
    add_varint(value);
    return *this;
  }
  /// int32 and int64 fields: two's complement in 64 bits, ten bytes if negative.
  ProtoWriter& add_int(std::uint32_t field, std::int64_t value) {
    return add_uint(field, static_cast<std::uint64_t>(value));
  }
  /// string and bytes fields. REQUIRES for string fields: valid UTF-8.
  ProtoWriter& add_string(std::uint32_t field, std::string_view value) {
    add_varint((field << 3U) | kLengthDelimited);
    add_varint(value.size());
    bytes_ += value;
    return *this;
  }
  /// A nested message.
  ProtoWriter& add_message(std::uint32_t field, const ProtoWriter& message) {
    return add_string(field, message.bytes_);
  }

  /// A number without a field: in a packed list, or a length before a message.
  void add_varint(std::uint64_t value) {
    // Seven bits a byte, least significant first; the top bit says that more follow.
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
    bytes_ += static_cast<char>(value);
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }

 private:
  // Wire types.
  static constexpr std::uint32_t kVarint = 0;
  static constexpr std::uint32_t kLengthDelimited = 2;

  std::string bytes_;
};

}  // namespace shardsim
