#include "reports/trace_writers.hpp"

#include <array>
#include <iterator>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "reports/proto_writer.hpp"
#include "reports/terminal_text.hpp"

namespace shardsim {
namespace {

// Field numbers, each of the file of that name under protos/perfetto/trace in the sources of
// Perfetto (https://github.com/google/perfetto).
namespace trace {  // trace.proto, Trace
constexpr std::uint32_t kPacket = 1;
}
namespace packet {  // trace_packet.proto, TracePacket
constexpr std::uint32_t kTimestamp = 8;
constexpr std::uint32_t kTrustedPacketSequenceId = 10;
constexpr std::uint32_t kTrackEvent = 11;
constexpr std::uint32_t kInternedData = 12;
constexpr std::uint32_t kSequenceFlags = 13;
constexpr std::uint32_t kTrackDescriptor = 60;
constexpr std::uint32_t kFirstPacketOnSequence = 87;
constexpr std::uint64_t kIncrementalStateCleared = 1;  // SequenceFlags
constexpr std::uint64_t kNeedsIncrementalState = 2;
}  // namespace packet
namespace event {  // track_event/track_event.proto, TrackEvent
constexpr std::uint32_t kCategoryIids = 3;
constexpr std::uint32_t kDebugAnnotations = 4;
constexpr std::uint32_t kType = 9;
constexpr std::uint32_t kNameIid = 10;
constexpr std::uint32_t kTrackUuid = 11;
constexpr std::uint32_t kCounterValue = 30;
constexpr std::uint64_t kSliceBegin = 1;  // Type
constexpr std::uint64_t kSliceEnd = 2;
constexpr std::uint64_t kCounter = 4;
}  // namespace event
namespace track {  // track_event/track_descriptor.proto, TrackDescriptor
constexpr std::uint32_t kUuid = 1;
constexpr std::uint32_t kName = 2;
constexpr std::uint32_t kProcess = 3;
constexpr std::uint32_t kThread = 4;
constexpr std::uint32_t kParentUuid = 5;
constexpr std::uint32_t kCounter = 8;
}  // namespace track
namespace process {  // track_event/process_descriptor.proto, ProcessDescriptor
constexpr std::uint32_t kPid = 1;
constexpr std::uint32_t kProcessName = 6;
}  // namespace process
namespace thread {  // track_event/thread_descriptor.proto, ThreadDescriptor
constexpr std::uint32_t kPid = 1;
constexpr std::uint32_t kTid = 2;
constexpr std::uint32_t kThreadName = 5;
}  // namespace thread
namespace counter {  // track_event/counter_descriptor.proto, CounterDescriptor
constexpr std::uint32_t kUnit = 3;
constexpr std::uint64_t kSizeBytes = 3;  // Unit
}  // namespace counter
namespace annotation {  // track_event/debug_annotation.proto, DebugAnnotation
constexpr std::uint32_t kNameIid = 1;
constexpr std::uint32_t kIntValue = 4;
constexpr std::uint32_t kStringValue = 6;
}  // namespace annotation
namespace interned {  // interned_data/interned_data.proto, InternedData; entries are (iid, name)
constexpr std::uint32_t kEventCategories = 1;
constexpr std::uint32_t kEventNames = 2;
constexpr std::uint32_t kDebugAnnotationNames = 3;
constexpr std::uint32_t kIid = 1;
constexpr std::uint32_t kName = 2;
}  // namespace interned

/// Strings of one kind that were already written on a packet sequence.
class InternTable {
 public:
  explicit InternTable(std::uint32_t field) : field_(field) {}

  /// The id of `text`; the first time it is defined in `data`, which belongs in the same packet.
  std::uint64_t id_of(std::string_view text, ProtoWriter& data) {
    const auto [entry, added] = ids_.try_emplace(std::string(text), ids_.size() + 1);
    if (added) {
      data.add_message(field_, ProtoWriter()
                                   .add_uint(interned::kIid, entry->second)
                                   .add_string(interned::kName, escape_untrusted(text)));
    }
    return entry->second;
  }

 private:
  std::uint32_t field_;
  std::map<std::string, std::uint64_t> ids_;
};

/// The packets of one rank, a packet sequence of its own.
class RankWriter {
 public:
  RankWriter(const RankTrace& rank, ProtoWriter& out) : rank_(rank), out_(&out) {}

  void write() {
    describe_process();
    for (std::size_t stream = 0; stream < rank_.tracks.size(); ++stream) {
      describe_thread(stream);
      for (const TraceSlice& slice : rank_.tracks[stream].slices) write_slice(stream, slice);
    }
    write_memory();
  }

 private:
  // Ids of tracks are unique in the trace and never 0. The upper bits are the process. In the lower
  // bits, 0 is the process itself; its threads and then its counters follow.
  static constexpr std::uint64_t kFirstCounter = 0x8000;

  [[nodiscard]] std::uint64_t process_uuid() const {
    return static_cast<std::uint64_t>(process_of(rank_.rank)) << 16U;
  }
  [[nodiscard]] std::uint64_t thread_uuid(std::size_t stream) const {
    return process_uuid() + 1 + stream;
  }
  [[nodiscard]] std::uint64_t counter_uuid(MemoryCategory category) const {
    return process_uuid() + kFirstCounter + static_cast<std::uint64_t>(category);
  }

  /// Completes a packet with what every packet of the sequence has.
  void send(ProtoWriter packet) {
    packet.add_uint(packet::kTrustedPacketSequenceId,
                    static_cast<std::uint64_t>(process_of(rank_.rank)));
    packet.add_uint(packet::kSequenceFlags,
                    first_ ? packet::kIncrementalStateCleared : packet::kNeedsIncrementalState);
    if (first_) packet.add_uint(packet::kFirstPacketOnSequence, 1);
    first_ = false;
    out_->add_message(trace::kPacket, packet);
  }

  void send_descriptor(const ProtoWriter& descriptor) {
    send(ProtoWriter().add_message(packet::kTrackDescriptor, descriptor));
  }

  void send_event(Time time, const ProtoWriter& event, const ProtoWriter& interned) {
    ProtoWriter packet;
    packet.add_int(packet::kTimestamp, to_nanoseconds(time));
    if (!interned.empty()) packet.add_message(packet::kInternedData, interned);
    packet.add_message(packet::kTrackEvent, event);
    send(std::move(packet));
  }

  void describe_process() {
    ProtoWriter process;
    process.add_int(process::kPid, process_of(rank_.rank))
        .add_string(process::kProcessName, escape_untrusted(rank_.name));
    send_descriptor(
        ProtoWriter().add_uint(track::kUuid, process_uuid()).add_message(track::kProcess, process));
  }

  void describe_thread(std::size_t stream) {
    const std::string name = escape_untrusted(rank_.tracks[stream].name);
    ProtoWriter thread;
    thread.add_int(thread::kPid, process_of(rank_.rank))
        .add_int(thread::kTid, thread_of(rank_.rank, stream))
        .add_string(thread::kThreadName, name);
    describe_track(thread_uuid(stream), name, track::kThread, thread);
  }

  /// A track of the process; `what` is its field `field`.
  void describe_track(std::uint64_t uuid, std::string_view name, std::uint32_t field,
                      const ProtoWriter& what) {
    send_descriptor(ProtoWriter()
                        .add_uint(track::kUuid, uuid)
                        .add_uint(track::kParentUuid, process_uuid())
                        .add_string(track::kName, name)
                        .add_message(field, what));
  }

  static ProtoWriter event_of(std::uint64_t type, std::uint64_t track) {
    return ProtoWriter().add_uint(event::kType, type).add_uint(event::kTrackUuid, track);
  }

  void write_slice(std::size_t stream, const TraceSlice& slice) {
    ProtoWriter interned;
    ProtoWriter begin = event_of(event::kSliceBegin, thread_uuid(stream));
    begin.add_uint(event::kCategoryIids, categories_.id_of(rank_.tracks[stream].name, interned));
    begin.add_uint(event::kNameIid, names_.id_of(slice.name, interned));
    const auto annotate = [&](std::string_view name, const auto& set_value) {
      ProtoWriter annotation;
      annotation.add_uint(annotation::kNameIid, annotations_.id_of(name, interned));
      set_value(annotation);
      begin.add_message(event::kDebugAnnotations, annotation);
    };
    if (slice.bytes != 0) {
      annotate("bytes", [&](ProtoWriter& w) { w.add_int(annotation::kIntValue, slice.bytes); });
    }
    if (!slice.label.empty()) {
      annotate("label", [&](ProtoWriter& w) {
        w.add_string(annotation::kStringValue, escape_untrusted(slice.label));
      });
    }
    if (slice.operation >= 0) {
      annotate("operation",
               [&](ProtoWriter& w) { w.add_int(annotation::kIntValue, slice.operation); });
    }
    send_event(slice.begin, begin, interned);
    send_event(slice.end, event_of(event::kSliceEnd, thread_uuid(stream)), {});
  }

  void write_memory() {
    std::array<bool, kNumMemoryCategories> described{};
    for (const MemoryPoint& point : rank_.memory) {
      bool& known = described.at(static_cast<std::size_t>(point.category));
      if (!known) describe_counter(point.category);
      known = true;
      ProtoWriter event = event_of(event::kCounter, counter_uuid(point.category));
      event.add_int(event::kCounterValue, point.bytes);
      send_event(point.time, event, {});
    }
  }

  void describe_counter(MemoryCategory category) {
    describe_track(counter_uuid(category), "memory " + std::string(name_of(category)),
                   track::kCounter, ProtoWriter().add_uint(counter::kUnit, counter::kSizeBytes));
  }

  const RankTrace& rank_;
  ProtoWriter* out_;
  bool first_ = true;
  InternTable categories_{interned::kEventCategories};
  InternTable names_{interned::kEventNames};
  InternTable annotations_{interned::kDebugAnnotationNames};
};

/// Between quotes. Control characters are gone after the escape, so only these two are left.
std::string json_quoted(std::string_view text) {
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
  if (!slice.label.empty()) add("label", json_quoted(slice.label));
  if (slice.operation >= 0) add("operation", std::to_string(slice.operation));
  return text;
}

void write_track(const RankTrace& rank, std::size_t stream, EventList& events) {
  const TraceTrack& track = rank.tracks[stream];
  const int pid = process_of(rank.rank);
  const int tid = thread_of(rank.rank, stream);
  const std::string category = json_quoted(track.name);
  events.add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", pid,
             tid, category);
  for (const TraceSlice& slice : track.slices) {
    events.add(R"({{"ph":"B","pid":{},"tid":{},"ts":{},"name":{},"cat":{},"args":{{{}}}}})", pid,
               tid, timestamp(slice.begin), json_quoted(slice.name), category, arguments_of(slice));
    events.add(R"({{"ph":"E","pid":{},"tid":{},"ts":{}}})", pid, tid, timestamp(slice.end));
  }
}

}  // namespace

std::string to_perfetto(const std::vector<RankTrace>& traces) {
  ProtoWriter out;
  for (const RankTrace& rank : traces) RankWriter(rank, out).write();
  return out.bytes();
}

std::string to_chrome_json(const std::vector<RankTrace>& traces) {
  EventList events;
  for (const RankTrace& rank : traces) {
    const int pid = process_of(rank.rank);
    events.add(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", pid,
               json_quoted(rank.name));
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
