#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

// Reads protobuf's wire format field by field; the counterpart of reports/proto_writer.hpp
// (https://protobuf.dev/programming-guides/encoding/).
namespace shardsim {

/// One message. It keeps a view of the bytes.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : left_(bytes) {}

  struct Field {
    std::uint32_t number = 0;
    bool is_bytes = false;        ///< Else it is a number.
    std::uint64_t value = 0;      ///< Varints and fixed numbers.
    std::string_view bytes = {};  ///< Texts, messages and packed lists.
  };

  /// The next field; none at the end, or where the bytes are no message: is_good() tells.
  [[nodiscard]] std::optional<Field> next();
  /// The next number of a packed list, or a length before a message; none as above.
  [[nodiscard]] std::optional<std::uint64_t> next_varint();
  /// So many bytes from here; none if there are fewer.
  [[nodiscard]] std::optional<std::string_view> take(std::uint64_t count);

  [[nodiscard]] bool at_end() const { return left_.empty(); }
  [[nodiscard]] bool is_good() const { return is_good_; }

 private:
  std::nullopt_t fail() {
    is_good_ = false;
    left_ = {};
    return std::nullopt;
  }
  std::string_view left_;
  bool is_good_ = true;
};

}  // namespace shardsim
