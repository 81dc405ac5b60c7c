#include "reports/proto_writer.hpp"

namespace shardsim {

namespace {

enum WireType : std::uint32_t { varint = 0, length_delimited = 2 };

}  // namespace

void ProtoWriter::add_uint(std::uint32_t field, std::uint64_t value) {
  add_varint((field << 3U) | WireType::varint);
  add_varint(value);
}

void ProtoWriter::add_string(std::uint32_t field, std::string_view value) {
  add_varint((field << 3U) | WireType::length_delimited);
  add_varint(value.size());
  bytes_ += value;
}

void ProtoWriter::add_varint(std::uint64_t value) {
  // Seven bits a byte, least significant first; the top bit says that more follow.
  for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
  bytes_ += static_cast<char>(value);
}

}  // namespace shardsim
