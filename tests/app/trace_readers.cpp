#include "tests/app/trace_readers.hpp"

#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/protoc.hpp"

namespace shardsim::test {
namespace {

using nlohmann::json;

// One field as `protoc --decode_raw` prints it: its number, and a value or the fields of a message.
struct RawField {
  int number = 0;
  std::string value;
  std::vector<RawField> fields;

  // The first field with a number, or null.
  [[nodiscard]] const RawField* find(int wanted) const {
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [&](const RawField& field) { return field.number == wanted; });
    return found == fields.end() ? nullptr : &*found;
  }
  [[nodiscard]] std::int64_t integer(int wanted) const {
    const RawField* field = find(wanted);
    return field == nullptr ? 0 : std::stoll(field->value);
  }
  // REQUIRES: no name in question has the bytes of a message, which raw decoding takes it for.
  [[nodiscard]] std::string text(int wanted) const {
    const RawField* field = find(wanted);
    REQUIRE(field != nullptr);
    REQUIRE(field->value.size() >= 2);
    return field->value.substr(1, field->value.size() - 2);
  }
};

// Fields up to the closing brace or the end.
std::vector<RawField> parse_fields(std::istream& lines) {
  std::vector<RawField> fields;
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(' '));
    if (line == "}") break;
    const std::size_t end = line.find_first_of(": ");
    REQUIRE(end != std::string::npos);
    RawField field{std::stoi(line.substr(0, end)), "", {}};
    if (line[end] == ':') {
      field.value = line.substr(end + 2);
    } else {
      field.fields = parse_fields(lines);
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

// Field numbers as in tests/reports/perfetto/trace.proto, message by message.
namespace packet {
constexpr int kSequence = 10, kEvent = 11, kInterned = 12, kTrack = 60;
}
namespace track {
constexpr int kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParent = 5, kCounter = 8;
}
namespace event {
constexpr int kAnnotation = 4, kType = 9, kTrackUuid = 11, kCounterValue = 30;
constexpr int kSliceBegin = 1, kSliceEnd = 2, kCounter = 4;
}  // namespace event

class PerfettoReader {
 public:
  Processes read(const std::string& bytes) {
    std::istringstream lines(run_protoc("--decode_raw", bytes));
    for (const RawField& one : parse_fields(lines)) {
      if (const RawField* found = one.find(packet::kTrack)) read_track(*found);
      std::int64_t& bytes_id = bytes_ids_[one.integer(packet::kSequence)];
      if (const RawField* found = one.find(packet::kInterned))
        bytes_id = bytes_id_in(*found, bytes_id);
      if (const RawField* found = one.find(packet::kEvent)) read_event(*found, bytes_id);
    }
    return std::move(processes_);
  }

 private:
  struct Track {
    std::int64_t pid = 0;
    std::string name;
    bool is_counter = false;
  };

  void read_track(const RawField& found) {
    const auto [at, is_new] = tracks_.try_emplace(found.integer(track::kUuid));
    REQUIRE(is_new);
    Track& made = at->second;
    if (const RawField* process = found.find(track::kProcess)) {
      made.pid = process->integer(1);
      processes_[made.pid].name = process->text(6);
      return;
    }
    REQUIRE(tracks_.count(found.integer(track::kParent)) == 1);
    made = {tracks_[found.integer(track::kParent)].pid, found.text(track::kName),
            found.find(track::kCounter) != nullptr};
    if (const RawField* thread = found.find(track::kThread)) {
      REQUIRE(thread->integer(1) == made.pid);
      REQUIRE(threads_.insert(thread->integer(2)).second);
      processes_[made.pid].slices[made.name] = 0;
    }
  }

  // The id of the annotation "bytes", if it is told here.
  static std::int64_t bytes_id_in(const RawField& interned, std::int64_t before) {
    for (const RawField& name : interned.fields) {
      if (name.number == 3 && name.find(2)->value == "\"bytes\"") return name.integer(1);
    }
    return before;
  }

  void read_event(const RawField& found, std::int64_t bytes_id) {
    const auto at = tracks_.find(found.integer(event::kTrackUuid));
    REQUIRE(at != tracks_.end());
    const auto& [pid, name, is_counter] = at->second;
    const std::int64_t type = found.integer(event::kType);
    REQUIRE(is_counter == (type == event::kCounter));
    if (type == event::kCounter) {
      processes_[pid].count(name, found.integer(event::kCounterValue));
    } else if (type == event::kSliceBegin) {
      std::int64_t bytes = 0;
      for (const RawField& field : found.fields) {
        if (field.number == event::kAnnotation && field.integer(1) == bytes_id) {
          bytes = field.integer(4);
        }
      }
      processes_[pid].begin(name, bytes);
    } else {
      REQUIRE(type == event::kSliceEnd);
      processes_[pid].end(name);
    }
  }

  Processes processes_;
  std::map<std::int64_t, Track> tracks_;            // By uuid.
  std::set<std::int64_t> threads_;                  // Ids that are taken.
  std::map<std::int64_t, std::int64_t> bytes_ids_;  // Ids of the annotation's name, by sequence.
};

}  // namespace

Processes read_perfetto(const std::string& bytes) { return PerfettoReader().read(bytes); }

Processes read_chrome(const std::string& text) {
  Processes processes;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> streams;
  const json trace = json::parse(text);
  for (const json& one : trace["traceEvents"]) {
    const std::string phase = one["ph"];
    Process& process = processes[one["pid"]];
    if (phase == "M" && one["name"] == "process_name") {
      process.name = one["args"]["name"];
    } else if (phase == "M") {
      const std::string stream = one["args"]["name"];
      REQUIRE(streams.emplace(std::pair(one["pid"], one["tid"]), stream).second);
      process.slices[stream] = 0;
    } else if (phase == "C") {
      process.count(one["name"], one["args"]["bytes"]);
    } else {
      const std::string& stream = streams.at({one["pid"], one["tid"]});
      if (phase == "B") {
        process.begin(stream, one["args"].value("bytes", std::int64_t{0}));
      } else {
        REQUIRE(phase == "E");
        process.end(stream);
      }
    }
  }
  return processes;
}

}  // namespace shardsim::test
