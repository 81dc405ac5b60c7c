#include "sim/remote/rank_connection.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "sim/programs/program_rows.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 16U;
constexpr std::string_view kPayloadKey = "\"bytes\":";  // The last key of each line.
constexpr const char* kPlace = "a message of a rank";

std::vector<int> whole_numbers(ProgramFields& fields, const char* key) {
  std::vector<int> list;
  for (const std::int64_t number : fields.numbers(key, kMostProgramSize)) {
    list.push_back(static_cast<int>(number));
  }
  return list;
}

ProgramCall call_of(const ProgramJson& json, std::string& group) {
  ProgramFields fields(json, kPlace);
  group = fields.text("group");
  std::string label;  // PyTorch's calls have none.
  ProgramCall call = program_call_of(fields, label);
  call.record.label = "";
  fields.end();
  return call;
}

RemoteMessage message_of(ProgramFields& fields) {
  using Kind = RemoteMessage::Kind;
  RemoteMessage message;
  if (fields.has("site")) message.site = fields.text("site");
  if (fields.has("rank")) {
    message.number = fields.number("rank", 0, kMostProgramRanks);
  } else if (fields.has("form")) {
    message.kind = Kind::form;
    message.name = fields.text("form");
    message.members = whole_numbers(fields, "members");
  } else if (fields.has("post")) {
    message.kind = Kind::post;
    message.number = fields.number("post", 1, kMostProgramWork);
    message.call = call_of(fields.at("call"), message.name);
  } else if (fields.has("wait")) {
    message.kind = Kind::wait;
    message.number = fields.number("wait", 1, kMostProgramWork);
  } else {
    message.kind = Kind::end;
    message.name = fields.text("end");
  }
  return message;
}

}  // namespace

RankConnection::~RankConnection() { close(socket_); }

bool RankConnection::read() {
  while (true) {
    const std::size_t before = received_.size();
    received_.resize(before + kReadBytes);
    const ssize_t got = recv(socket_, received_.data() + before, kReadBytes, MSG_DONTWAIT);
    received_.resize(before + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got > 0) continue;
    return got < 0 && (errno == EAGAIN || errno == EINTR);
  }
}

std::optional<RankConnection::Line> RankConnection::first_line() const {
  const auto end = std::find(received_.begin(), received_.end(), '\n');
  if (end == received_.end()) return std::nullopt;
  const std::string_view text(received_.data(), static_cast<std::size_t>(end - received_.begin()));
  const std::size_t key = text.rfind(kPayloadKey);
  const std::string_view digits =
      key == std::string_view::npos ? "" : text.substr(key + kPayloadKey.size());
  const std::optional<std::size_t> payload =
      parse_number<std::size_t>(digits.substr(0, digits.find('}')));
  if (!payload) {
    throw UsageError("E1378", concat(kPlace, " does not say how many bytes are behind it"),
                     "use the package python/shardsim of this version");
  }
  return Line{text.size() + 1, *payload};
}

bool RankConnection::has_message() const {
  const std::optional<Line> line = first_line();
  return line && received_.size() >= line->length + line->payload;
}

std::optional<RemoteMessage> RankConnection::take() {
  if (!has_message()) return std::nullopt;
  const Line line = *first_line();
  const auto payload = received_.begin() + static_cast<std::ptrdiff_t>(line.length);
  const ProgramJson json =
      ProgramJson::parse(received_.begin(), payload, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw UsageError("E1378", concat(kPlace, " is no JSON"), "");
  ProgramFields fields(json, kPlace);
  RemoteMessage message = message_of(fields);
  message.payload.resize(line.payload);
  if (line.payload > 0) std::memcpy(message.payload.data(), &*payload, line.payload);
  received_.erase(received_.begin(), payload + static_cast<std::ptrdiff_t>(line.payload));
  return message;
}

void RankConnection::answer(std::span<const std::byte> bytes) {
  const auto write = [this](const void* data, std::size_t left) {
    const auto* at = static_cast<const char*>(data);
    while (left > 0) {
      const ssize_t written = send(socket_, at, left, MSG_NOSIGNAL);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;
      at += written;
      left -= static_cast<std::size_t>(written);
    }
  };
  const std::uint64_t size = bytes.size();
  write(&size, sizeof(size));
  write(bytes.data(), bytes.size());
}

}  // namespace shardsim
