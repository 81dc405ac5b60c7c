#include <limits>

#include <catch2/catch.hpp>

#include "tests/rendezvous/sample_messages.hpp"

namespace shardsim {
namespace {

Frame frame_of(const std::string& bytes) {
  FrameDecoder decoder;
  decoder.feed(bytes);
  std::optional<Frame> frame = decoder.next();
  REQUIRE(frame);
  return *frame;
}

// Through the wire and back to the wire: the same bytes.
RendezvousMessage through_wire(const RendezvousMessage& message) {
  const std::string bytes = encode_message(message);
  std::optional<RendezvousMessage> decoded = decode_message(frame_of(bytes));
  INFO(bytes.substr(5));
  REQUIRE(decoded);
  CHECK(decoded->index() == message.index());
  CHECK(encode_message(*decoded) == bytes);
  return *decoded;
}

bool accepted(std::uint8_t type, const std::string& payload) {
  return decode_message({type, payload}).has_value();
}

}  // namespace

TEST_CASE("every message comes out of the wire as it went in") {
  for (const RendezvousMessage& message : test::sample_messages()) {
    CAPTURE(message.index());
    through_wire(message);
  }
}

TEST_CASE("values may be any bytes, texts need not be text, and too long ones are cut") {
  std::string binary(kMaxValueBytes, '\0');
  for (std::size_t i = 0; i < binary.size(); ++i) binary[i] = static_cast<char>(i * 7);
  StoreRequest request;
  request.value = binary;
  CHECK(std::get<StoreRequest>(through_wire(request)).value == binary);
  Beat beat;
  beat.last_posted =
      "a\xff"
      "b";
  beat.last_ended = std::string(5000, '\xfe');
  const std::string bytes = encode_message(beat);
  const auto decoded = decode_message(frame_of(bytes));
  REQUIRE(decoded);
  CHECK(std::get<Beat>(*decoded).last_posted ==
        "a\xef\xbf\xbd"
        "b");
  CHECK(std::get<Beat>(*decoded).last_ended.size() == 3 * 1024);
}

TEST_CASE("a diagnosis travels with the places of its calls") {
  Abort abort;
  for (const RendezvousMessage& message : test::sample_messages()) {
    if (const auto* found = std::get_if<Abort>(&message)) abort = *found;
  }
  REQUIRE(abort.failure.diagnosis);
  const RunFailure decoded = std::get<Abort>(through_wire(abort)).failure;
  CHECK(decoded.to_text() == abort.failure.to_text());
  CHECK_THAT(decoded.to_text(), Catch::Contains(" at strategies/sync.cpp:17"));
  CHECK_THROWS_AS(decoded.raise(), CommunicationError);
}

TEST_CASE("a flight record that is too long for a frame loses its oldest calls") {
  FlightNote note;
  for (int i = 0; i < 256; ++i) {
    FlightEntry entry;
    entry.sequence = i;
    entry.call = std::string(1000, '\x01');  // Six characters each in JSON.
    note.flight.push_back(entry);
  }
  const std::string bytes = encode_message(note);
  CHECK(bytes.size() <= kMaxFrameBytes);
  const auto decoded = decode_message(frame_of(bytes));
  REQUIRE(decoded);
  const FlightRecord& flight = std::get<FlightNote>(*decoded).flight;
  CHECK(flight.size() == 128);
  CHECK(flight.back().sequence == 255);
}

TEST_CASE("what is no message is refused") {
  constexpr std::uint8_t kAdd = 3;
  const auto request = [](const std::string& id, const std::string& kind, const std::string& rest) {
    return R"({"id":)" + id + R"(,"kind":)" + kind + R"(,"key":"k","value":"","delta":0,)" + rest;
  };
  const std::string good = request("1", "2", R"("timeout_s":1})");
  CHECK(accepted(kAdd, good));
  CHECK(!accepted(kAdd + 1, good));  // Another type.
  CHECK(!accepted(200, good));
  CHECK(!accepted(kAdd, ""));
  CHECK(!accepted(kAdd, "null"));
  CHECK(!accepted(kAdd, "[]"));
  CHECK(!accepted(kAdd, good.substr(0, good.size() - 1)));
  CHECK(!accepted(kAdd, good + "x"));
  CHECK(!accepted(kAdd, request("1.5", "2", R"("timeout_s":1})")));
  CHECK(!accepted(kAdd, request("18446744073709551615", "2", R"("timeout_s":1})")));
  CHECK(!accepted(kAdd, request("1", "4", R"("timeout_s":1})")));
  CHECK(!accepted(kAdd, request("1", "-1", R"("timeout_s":1})")));
  CHECK(!accepted(kAdd, request("1", "\"set\"", R"("timeout_s":1})")));
  CHECK(!accepted(kAdd, request("1", "2", R"("timeout_s":-1})")));
  CHECK(!accepted(kAdd, request("1", "2", R"("timeout_s":1e99})")));
  CHECK(!accepted(kAdd, request("1", "2", R"("timeout_s":null})")));
  CHECK(!accepted(kAdd, request("1", "2", R"("timeout":1})")));
  CHECK(!accepted(kAdd, request("1", "2", R"("timeout_s":1,"more":1})")));
  const std::string hex = R"({"id":1,"kind":0,"key":"k","delta":0,"timeout_s":0,"value":)";
  CHECK(accepted(kAdd, hex + R"("00ff"})"));
  CHECK(!accepted(kAdd, hex + R"("00f"})"));
  CHECK(!accepted(kAdd, hex + R"("00fg"})"));
  CHECK(!accepted(kAdd, std::string(1 << 20, '[')));
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += "{\"a\":";
  CHECK(!accepted(kAdd, nested));
}

}  // namespace shardsim
