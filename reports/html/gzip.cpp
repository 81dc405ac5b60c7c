#include "reports/html/gzip.hpp"

#include <cstddef>

#include <zlib.h>

#include "sim/kernel/error.hpp"

namespace shardsim::html {

namespace {

constexpr int kGzipWindow = 15 + 16;  // The largest window; 16 asks for gzip's frame.
constexpr int kMemoryLevel = 9;

std::string gzip(std::string_view text) {
  z_stream stream{};
  const auto require = [&stream](bool is_good) {
    if (is_good) return;
    deflateEnd(&stream);
    throw Error(ExitCode::internal, "E1402", "zlib could not pack the data of the report");
  };
  require(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                       Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  // zlib's interface has no const; it does not write there.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast,cppcoreguidelines-pro-type-reinterpret-cast)
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());  // NOLINT(*-reinterpret-cast)
  stream.avail_out = static_cast<uInt>(packed.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      const unsigned digit = group >> (18 - 6 * k) & 63U;
      text += i + k <= bytes.size() ? kDigits[digit] : '=';
    }
  }
  return text;
}

}  // namespace

std::string gzip_base64(std::string_view text) { return base64(gzip(text)); }

}  // namespace shardsim::html
