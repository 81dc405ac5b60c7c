#include <iterator>

#include <fmt/format.h>

#include "reports/terminal_text.hpp"
#include "reports/trace_writers.hpp"

namespace shardsim {

namespace {

/// Between quotes. Control characters are gone after the escape, so only these two are left.
std::string quoted(std::string_view text) {
  std::string json = "\"";
  for (const char c : escape_untrusted(text)) {
    if (c == '"' || c == '\\') json += '\\';
    json += c;
  }
  return json + "\"";
}

/// Microseconds with all digits of the nanoseconds.
std::string timestamp(Time time) {
  const std::int64_t nanoseconds = to_nanoseconds(time);
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

class EventList {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool first_ = true;
};

std::string arguments_of(const TraceSlice& slice) {
  std::string text;
  const auto add = [&text](const char* name, const std::string& value) {
    text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name, value);
  };
  if (slice.bytes != 0) add("bytes", std::to_string(slice.bytes));
  if (!slice.label.empty()) add("label", quoted(slice.label));
  if (slice.operation >= 0) add("operation", std::to_string(slice.operation));
  return text;
}

void write_track(const RankTrace& rank, std::size_t stream, EventList& events) {
  const TraceTrack& track = rank.tracks[stream];
  const int pid = process_of(rank.rank);
  const int tid = thread_of(rank.rank, stream);
  const std::string category = quoted(track.name);
  events.add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", pid,
             tid, category);
  for (const TraceSlice& slice : track.slices) {
    events.add(R"({{"ph":"B","pid":{},"tid":{},"ts":{},"name":{},"cat":{},"args":{{{}}}}})", pid,
               tid, timestamp(slice.begin), quoted(slice.name), category, arguments_of(slice));
    events.add(R"({{"ph":"E","pid":{},"tid":{},"ts":{}}})", pid, tid, timestamp(slice.end));
  }
}

}  // namespace

std::string to_chrome_json(const std::vector<RankTrace>& traces) {
  EventList events;
  for (const RankTrace& rank : traces) {
    const int pid = process_of(rank.rank);
    events.add(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", pid,
               quoted(rank.name));
    for (std::size_t i = 0; i < rank.tracks.size(); ++i) write_track(rank, i, events);
    for (const MemoryPoint& point : rank.memory) {
      events.add(R"({{"ph":"C","pid":{},"ts":{},"name":"memory {}","args":{{"bytes":{}}}}})", pid,
                 timestamp(point.time), name_of(point.category), point.bytes);
    }
  }
  // No displayTimeUnit: some readers take it for the unit of the timestamps.
  return R"({"traceEvents":[)" + events.text() + "\n]}\n";
}

}  // namespace shardsim
