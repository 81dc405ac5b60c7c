#include <catch2/catch.hpp>

#include "backends/rendezvous/rendezvous_message.hpp"

namespace shardsim {

TEST_CASE("frames come out as they went in, whatever the pieces") {
  std::string stream = encode_frame(1, "one") + encode_frame(2, "") +
                       encode_frame(255, std::string(70000, '\xff')) + encode_frame(3, "last");
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{3}, std::size_t{4096}, stream.size()}) {
    FrameDecoder decoder;
    std::vector<Frame> frames;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      CHECK(decoder.feed(std::string_view(stream).substr(at, piece)));
      while (std::optional<Frame> frame = decoder.next()) frames.push_back(*frame);
    }
    REQUIRE(frames.size() == 4);
    CHECK(frames[0].type == 1);
    CHECK(frames[0].payload == "one");
    CHECK(frames[1].payload.empty());
    CHECK(frames[2].type == 255);
    CHECK(frames[2].payload == std::string(70000, '\xff'));
    CHECK(frames[3].payload == "last");
    CHECK(!decoder.broken());
  }
}

TEST_CASE("a frame that is too long or empty breaks the stream at its length") {
  const auto breaks = [](std::string_view bytes, std::size_t most) {
    FrameDecoder decoder(most);
    decoder.feed(bytes);
    CHECK(!decoder.next());
    return decoder.broken();
  };
  using std::string_view_literals::operator""sv;
  CHECK(breaks("\x00\x10\x00\x01"sv, kMaxFrameBytes));  // One byte above 1 MiB.
  CHECK(!breaks("\x00\x10\x00\x00"sv, kMaxFrameBytes));
  CHECK(breaks("\xff\xff\xff\xff"sv, kMaxFrameBytes));
  CHECK(breaks("\x00\x00\x00\x00"sv, kMaxFrameBytes));
  CHECK(breaks("\x00\x00\x10\x01"sv, 4096));
  FrameDecoder decoder;
  decoder.feed("\xff\xff\xff\xff"sv);
  CHECK(!decoder.next());
  CHECK(!decoder.feed(encode_frame(1, "later")));
  CHECK(!decoder.next());
}

}  // namespace shardsim
