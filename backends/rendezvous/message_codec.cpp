// Messages as JSON. describe_fields() names the fields of each and their limits once, for both
// directions: an archive writes or reads each field. FieldWriter and FieldReader are the archives.

#include <cmath>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "backends/hex.hpp"
#include "backends/rendezvous/rendezvous_message.hpp"

namespace shardsim {

namespace {

using PlainJson = nlohmann::json;

constexpr int kMostNested = 8;

// --- Fields ------------------------------------------------------------------------------------

template <class Integer>
struct FieldRange {
  Integer least = std::numeric_limits<Integer>::min();
  Integer most = std::numeric_limits<Integer>::max();
};

constexpr std::size_t kMostTextBytes = 1024;  // Length of a label, a path, a sentence.
constexpr std::size_t kMostSides = 32;
constexpr int kMostRank = kMaxRendezvousRanks - 1;

void describe_fields(auto& archive, Hello& hello) {
  archive.text("token", hello.token, kMaxKeyBytes);
  archive.integer("rank", hello.rank);  // The rendezvous says what is wrong with it.
  archive.integer("world_size", hello.world_size);
  archive.integer("pid", hello.pid);
  archive.text("host", hello.host, kMaxKeyBytes);
}

void describe_fields(auto&, Welcome&) {}

void describe_fields(auto& archive, Refused& refused) { archive.text("reason", refused.reason); }

void describe_fields(auto& archive, StoreRequest& request) {
  archive.integer("id", request.id);
  archive.choice("kind", request.kind, StoreRequest::Kind::barrier);
  archive.text("key", request.key, kMaxKeyBytes);
  archive.bytes("value", request.value, kMaxValueBytes);
  archive.integer("delta", request.delta);
  archive.number("timeout_s", request.timeout_s, 0.0, kMaxTimeoutSeconds);
}

void describe_fields(auto& archive, CallSite& site) {
  std::string file = site.file;
  std::string function = site.function;
  archive.text("file", file);
  archive.integer("line", site.line);
  archive.text("function", function);
  site.file = lasting_text(file);
  site.function = lasting_text(function);
}

void describe_fields(auto& archive, DiagnosisSide& side) {
  archive.ranks("ranks", side.ranks);
  archive.text("action", side.action);
  archive.part("site", side.site);
}

void describe_fields(auto& archive, Diagnosis& diagnosis) {
  archive.text("code", diagnosis.code, kMaxKeyBytes);
  archive.text("summary", diagnosis.summary);
  archive.text("group", diagnosis.group);
  archive.ranks("members", diagnosis.members);
  archive.integer("sequence", diagnosis.sequence);
  std::int64_t time = diagnosis.time.picoseconds();
  archive.integer("time_ps", time);
  diagnosis.time = Time::from_picoseconds(time);
  archive.list("sides", diagnosis.sides, kMostSides);
  archive.texts("cycle", diagnosis.cycle, kMostSides);
  archive.text("last_matched", diagnosis.last_matched);
  archive.text("hint", diagnosis.hint);
}

void describe_fields(auto& archive, RunFailure& failure) {
  int exit_code = static_cast<int>(failure.exit_code);
  archive.integer("exit_code", exit_code, {0, 255});
  failure.exit_code = static_cast<ExitCode>(exit_code);
  archive.text("code", failure.code, kMaxKeyBytes);
  archive.text("message", failure.message, 4 * kMostTextBytes);
  archive.text("fix", failure.fix);
  archive.maybe("diagnosis", failure.diagnosis);
}

void describe_fields(auto& archive, StoreReply& reply) {
  archive.integer("id", reply.id);
  archive.bytes("value", reply.value, kMaxValueBytes);
  archive.integer("number", reply.number);
  archive.maybe("failure", reply.failure);
}

void describe_fields(auto& archive, Beat& beat) {
  archive.text("last_posted", beat.last_posted);
  archive.text("last_ended", beat.last_ended);
}

void describe_fields(auto& archive, CallFingerprint& call) {
  archive.text("group", call.group);
  archive.ranks("members", call.members);
  archive.integer("instance", call.instance);
  archive.integer("member", call.member, {0, kMostRank});
  archive.flag("is_message", call.is_message);
  archive.flag("sends", call.sends);
  archive.text("name", call.name, kMaxKeyBytes);
  archive.text("label", call.label);
  archive.choice("reduce", call.reduce, ReduceOp::product);
  archive.flag("reduces", call.reduces);
  archive.choice("dtype", call.dtype, DType::int64);
  archive.integer("root", call.root, {-1, kMostRank});
  archive.integer("count", call.count);
  archive.word("counts_hash", call.counts_hash);
  archive.integer("padding", call.padding);
  archive.choice("traffic", call.traffic, TrafficClass::scalar);
  archive.text("file", call.file);
  archive.integer("line", call.line);
  archive.text("function", call.function);
}

void describe_fields(auto& archive, FlightEntry& entry) {
  archive.text("group", entry.group, kMaxKeyBytes);
  archive.integer("instance", entry.instance);
  archive.integer("sequence", entry.sequence);
  archive.text("call", entry.call);
  archive.text("site", entry.site);
  archive.choice("state", entry.state, FlightState::ended);
  archive.number("posted_s", entry.posted_s, -1.0, 1e12);
  archive.number("started_s", entry.started_s, -1.0, 1e12);
  archive.number("ended_s", entry.ended_s, -1.0, 1e12);
}

void describe_fields(auto& archive, FailureReport& report) {
  archive.part("failure", report.failure);
  archive.list("flight", report.flight, FlightRecorder::kSize);
}

void describe_fields(auto& archive, FlightNote& note) {
  archive.list("flight", note.flight, FlightRecorder::kSize);
}

void describe_fields(auto&, End&) {}

void describe_fields(auto& archive, Abort& abort) { archive.part("failure", abort.failure); }

// --- Archives ----------------------------------------------------------------------------------

class FieldWriter {
 public:
  void text(const char* name, const std::string& value, std::size_t most = kMostTextBytes) {
    json_[name] = value.substr(0, most);
  }
  void bytes(const char* name, const std::string& value, std::size_t) {
    json_[name] = to_hex(value);
  }
  template <class Integer>
  void integer(const char* name, const Integer& value, FieldRange<Integer> = {}) {
    json_[name] = value;
  }
  void word(const char* name, const std::uint64_t& value) { json_[name] = value; }
  void flag(const char* name, const bool& value) { json_[name] = value; }
  void number(const char* name, const double& value, double, double) { json_[name] = value; }
  template <class Enum>
  void choice(const char* name, const Enum& value, Enum) {
    json_[name] = static_cast<int>(value);
  }
  void ranks(const char* name, const std::vector<int>& value) { json_[name] = value; }
  void texts(const char* name, const std::vector<std::string>& value, std::size_t most) {
    PlainJson list = PlainJson::array();
    for (std::size_t i = 0; i < value.size() && i < most; ++i)
      list.push_back(value[i].substr(0, kMostTextBytes));
    json_[name] = std::move(list);
  }
  template <class Part>
  void part(const char* name, const Part& value) {
    json_[name] = write(value);
  }
  template <class Part>
  void maybe(const char* name, const std::optional<Part>& value) {
    json_[name] = value ? write(*value) : PlainJson();
  }
  template <class Part>
  void list(const char* name, const std::vector<Part>& value, std::size_t most) {
    PlainJson items = PlainJson::array();
    for (std::size_t i = 0; i < value.size() && i < most; ++i) items.push_back(write(value[i]));
    json_[name] = std::move(items);
  }

  template <class Part>
  static PlainJson write(const Part& value) {
    FieldWriter writer;
    writer.json_ = PlainJson::object();
    // The description is the same for both directions; this one changes nothing.
    describe_fields(writer, const_cast<Part&>(value));
    return std::move(writer.json_);
  }

 private:
  PlainJson json_;
};

class FieldReader {
 public:
  void text(const char* name, std::string& value, std::size_t most = kMostTextBytes) {
    const std::string* const found = string_at(name);
    // A byte that is no text was replaced by a character of three.
    if (found != nullptr && expect(found->size() <= 3 * most)) value = *found;
  }
  void bytes(const char* name, std::string& value, std::size_t most) {
    const std::string* const hex = string_at(name);
    if (hex == nullptr || !expect(hex->size() <= 2 * most)) return;
    std::optional<std::string> read = from_hex(*hex);
    if (expect(read.has_value())) value = *std::move(read);
  }
  template <class Integer>
  void integer(const char* name, Integer& value, FieldRange<Integer> range = {}) {
    if (const PlainJson* const found = at(name)) value = integer_in(*found, range);
  }
  void word(const char* name, std::uint64_t& value) {
    const PlainJson* const found = at(name);
    if (found != nullptr && expect(found->is_number_unsigned())) {
      value = *found->get_ptr<const PlainJson::number_unsigned_t*>();
    }
  }
  void flag(const char* name, bool& value) {
    const PlainJson* const found = at(name);
    if (found != nullptr && expect(found->is_boolean())) {
      value = *found->get_ptr<const PlainJson::boolean_t*>();
    }
  }
  void number(const char* name, double& value, double least, double most) {
    const PlainJson* const found = at(name);
    if (found == nullptr || !expect(found->is_number())) return;
    const double read = found->get<double>();
    if (expect(std::isfinite(read) && read >= least && read <= most)) value = read;
  }
  template <class Enum>
  void choice(const char* name, Enum& value, Enum last) {
    int number = 0;
    integer(name, number, {0, static_cast<int>(last)});
    value = static_cast<Enum>(number);
  }
  void ranks(const char* name, std::vector<int>& value) {
    for (const PlainJson& item : items_at(name, kMaxRendezvousRanks))
      value.push_back(integer_in(item, FieldRange<int>{0, kMostRank}));
  }
  void texts(const char* name, std::vector<std::string>& value, std::size_t most) {
    for (const PlainJson& item : items_at(name, most)) {
      const auto* const text = item.get_ptr<const PlainJson::string_t*>();
      if (expect(text != nullptr && text->size() <= 3 * kMostTextBytes)) value.push_back(*text);
    }
  }
  template <class Part>
  void part(const char* name, Part& value) {
    if (const PlainJson* const found = at(name)) expect(read(*found, value));
  }
  template <class Part>
  void maybe(const char* name, std::optional<Part>& value) {
    const PlainJson* const found = at(name);
    if (found == nullptr || found->is_null()) return;
    expect(read(*found, value.emplace()));
  }
  template <class Part>
  void list(const char* name, std::vector<Part>& value, std::size_t most) {
    for (const PlainJson& item : items_at(name, most)) {
      if (!expect(read(item, value.emplace_back()))) return;
    }
  }

  template <class Part>
  static bool read(const PlainJson& json, Part& value) {
    if (!json.is_object()) return false;
    FieldReader reader(json);
    describe_fields(reader, value);
    return reader.ok_ && reader.num_read_ == json.size();
  }

 private:
  explicit FieldReader(const PlainJson& json) : json_(json) {}

  bool expect(bool condition) {
    ok_ = ok_ && condition;
    return ok_;
  }
  const PlainJson* at(const char* name) {
    const auto found = json_.find(name);
    if (!expect(found != json_.end())) return nullptr;
    ++num_read_;
    return &*found;
  }
  const std::string* string_at(const char* name) {
    const PlainJson* const found = at(name);
    if (found == nullptr || !expect(found->is_string())) return nullptr;
    return found->get_ptr<const PlainJson::string_t*>();
  }
  // Those of an array; none if the field is no array, or too long.
  const PlainJson::array_t& items_at(const char* name, std::size_t most) {
    static const PlainJson::array_t kNone;
    const PlainJson* const found = at(name);
    const bool fits = found != nullptr && expect(found->is_array() && found->size() <= most);
    return fits ? *found->get_ptr<const PlainJson::array_t*>() : kNone;
  }
  template <class Integer>
  Integer integer_in(const PlainJson& json, FieldRange<Integer> range) {
    if (!expect(json.is_number_integer())) return {};
    // JSON keeps integers beyond signed 64 bits as unsigned.
    if (json.is_number_unsigned() &&
        !expect(*json.get_ptr<const PlainJson::number_unsigned_t*>() <=
                static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))) {
      return {};
    }
    const auto value = json.get<std::int64_t>();
    if (!expect(value >= range.least && value <= range.most)) return {};
    return static_cast<Integer>(value);
  }
  const PlainJson& json_;
  std::size_t num_read_ = 0;
  bool ok_ = true;
};

// --- Frames ------------------------------------------------------------------------------------

template <class Part>
std::string payload_of(const Part& part) {
  // Bytes that are no text are replaced, not refused.
  return FieldWriter::write(part).dump(-1, ' ', false, PlainJson::error_handler_t::replace);
}

// Only a flight record can be too long for a frame: of texts that JSON has to escape. Then its
// older half is left out.
template <class Part>
std::string bounded_payload(Part part) {
  std::string payload = payload_of(part);
  while (payload.size() >= kMaxFrameBytes && !part.flight.empty()) {
    const auto half = static_cast<std::ptrdiff_t>((part.flight.size() + 1) / 2);
    part.flight.erase(part.flight.begin(), part.flight.begin() + half);
    payload = payload_of(part);
  }
  return payload;
}

template <std::size_t kIndex = 0>
std::optional<RendezvousMessage> decode_as(std::uint8_t type, const PlainJson& json) {
  if constexpr (kIndex < std::variant_size_v<RendezvousMessage>) {
    if (type != kIndex) return decode_as<kIndex + 1>(type, json);
    std::variant_alternative_t<kIndex, RendezvousMessage> part;
    if (!FieldReader::read(json, part)) return std::nullopt;
    return RendezvousMessage(std::move(part));
  }
  return std::nullopt;
}

}  // namespace

std::string encode_message(const RendezvousMessage& message) {
  const std::string payload = std::visit(
      [](const auto& part) {
        if constexpr (requires { part.flight; }) {
          return bounded_payload(part);
        } else {
          return payload_of(part);
        }
      },
      message);
  return encode_frame(static_cast<std::uint8_t>(message.index()), payload);
}

std::optional<RendezvousMessage> decode_message(const Frame& frame) {
  // Nothing we say is nested deeper; what is would only cost memory.
  bool too_deep = false;
  const auto bound_depth = [&](int depth, PlainJson::parse_event_t, PlainJson&) {
    too_deep = too_deep || depth > kMostNested;
    return !too_deep;
  };
  const PlainJson json = PlainJson::parse(frame.payload, bound_depth, false);
  if (too_deep || json.is_discarded()) return std::nullopt;
  return decode_as(frame.type, json);
}

}  // namespace shardsim
