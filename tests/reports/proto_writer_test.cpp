#include "reports/proto_writer.hpp"

#include <catch2/catch.hpp>

namespace shardsim {
namespace {

// The examples of https://protobuf.dev/programming-guides/encoding/.
TEST_CASE("varints, strings and nested messages have the documented bytes") {
  ProtoWriter varint;
  varint.add_uint(1, 150);
  REQUIRE(varint.bytes() == "\x08\x96\x01");
  ProtoWriter text;
  text.add_string(2, "testing");
  REQUIRE(text.bytes() == "\x12\x07testing");
  ProtoWriter outer;
  outer.add_message(3, varint);
  REQUIRE(outer.bytes() == "\x1a\x03\x08\x96\x01");
  ProtoWriter negative;
  negative.add_int(1, -2);
  REQUIRE(negative.bytes() == "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST_CASE("field numbers above 15 and zero values are written") {
  ProtoWriter writer;
  writer.add_uint(60, 0);
  REQUIRE(writer.bytes() == std::string("\xe0\x03\x00", 3));
  REQUIRE_FALSE(writer.empty());
  REQUIRE(ProtoWriter().empty());
}

}  // namespace
}  // namespace shardsim
