#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "sim/kernel/error.hpp"

#include "reports/html/parts.hpp"

#include "tests/reports/sample_details.hpp"

namespace shardsim {
namespace {

using Json = nlohmann::json;

TEST_CASE("Charts get every number of the detail") {
  const RunDetail detail = samples::small_page().detail;
  const Json json = Json::parse(html::detail_json(detail, 80e9));
  CHECK(json["device_memory_bytes"] == 80e9);
  REQUIRE(json["stages"].size() == 4);
  CHECK(json["stages"][2]["compute_s"] == detail.stages[2].compute_s);
  CHECK(json["stages"][2]["at_peak"] == detail.stages[2].at_peak);
  CHECK(json["axes"][1]["hidden_s"] == 0.09375);
  CHECK(json["memory"][3]["time_ns"].size() == detail.memory[3].points.size());
  CHECK(json["memory"][3]["bytes"][2][7] == detail.memory[3].points[7].bytes[2]);
  CHECK(json["traffic"]["bytes"] == detail.traffic.bytes);
  CHECK(json["links"][1]["busiest_share"] == 0.40625);
  CHECK(json["roofline"]["points"][0]["name"] == "matmul");
  CHECK(json["cost"]["usd"] == 105'945);
}

TEST_CASE("Bars that touch go on touching in whole nanoseconds") {
  RunDetail detail;
  detail.schedule.names = {"forward"};
  detail.schedule.rows = {{0,
                           0,
                           "compute",
                           {{.microbatch = 0, .begin_s = 0.4e-9, .end_s = 1.4e-9},
                            {.chunk = 1, .microbatch = 1, .begin_s = 1.4e-9, .end_s = 3.6e-9}}}};
  const Json row = Json::parse(html::detail_json(detail, 0))["schedule"]["rows"][0];
  CHECK(row["begin_ns"] == std::vector<int>{0, 1});
  CHECK(row["duration_ns"] == std::vector<int>{1, 3});
  CHECK(row["microbatch"] == std::vector<int>{0, 1});
  CHECK(row["chunk"] == std::vector<int>{0, 1});
}

TEST_CASE("A scenario that is no JSON object is a bug of ours") {
  CHECK(html::pretty_json(R"({"a":1})") == "{\n  \"a\": 1\n}");
  CHECK_THROWS_AS(html::pretty_json("[1]"), Error);
}

std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6U | static_cast<unsigned>(digits.find(c));
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> static_cast<unsigned>(count) & 255U);
    }
  }
  return bytes;
}

std::string unpacked(std::string packed, std::size_t size) {
  std::string text(size + 1, '\0');
  z_stream stream{};
  REQUIRE(inflateInit2(&stream, 15 + 16) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  REQUIRE(inflate(&stream, Z_FINISH) == Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

TEST_CASE("What is packed reads back, whatever its length") {
  const std::string long_text = html::detail_json(samples::small_page().detail, 80e9);
  for (const std::string& text : {std::string(), std::string("a"), std::string("ab"),
                                  std::string("abc"), std::string("\0\xff", 2), long_text}) {
    const std::string packed = html::gzip_base64(text);
    CHECK(packed.size() % 4 == 0);
    CHECK(unpacked(from_base64(packed), text.size()) == text);
    CHECK(packed == html::gzip_base64(text));
  }
}

}  // namespace
}  // namespace shardsim
