#include "sim/programs/kineto_reader.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"
#include "sim/kernel/time.hpp"

#include "scenarios/source_text.hpp"

#include "sim/programs/kineto_words.hpp"
#include "sim/programs/program_rows.hpp"

namespace shardsim {

namespace {

using Kind = TraceNode::Kind;

constexpr double kKinetoPicoseconds = 1e6;
constexpr double kMostMicroseconds = 1e12;  // Twelve days.

UsageError bad_kineto(const std::string& place, const std::string& cause) {
  return {"E1384", place + ": " + cause,
          "give what torch.profiler's export_chrome_trace writes, unpacked"};
}

// --- Events ------------------------------------------------------------------------------------

struct KinetoEvent {
  std::string name;
  std::int64_t begin_ps = 0;
  std::int64_t end_ps = 0;
  const ProgramJson* arguments = nullptr;
  bool communicates = false;
};

std::int64_t whole_number(const ProgramJson& json, const char* key, std::int64_t otherwise) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) return otherwise;
  return found->get<std::int64_t>();
}

std::string text_at(const ProgramJson& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || !found->is_string() ? std::string() : found->get<std::string>();
}

// A list of ranks, or its text; none where it is cut short.
std::optional<std::vector<int>> ranks_at(const ProgramJson& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return std::nullopt;
  const ProgramJson list =
      found->is_string() ? ProgramJson::parse(found->get<std::string>(), nullptr, false) : *found;
  if (!list.is_array() || list.empty()) return std::nullopt;
  std::vector<int> ranks;
  for (const ProgramJson& rank : list) {
    if (!rank.is_number_integer() || rank < 0 || rank >= kMostProgramRanks) return std::nullopt;
    ranks.push_back(rank.get<int>());
  }
  return ranks;
}

bool is_of_device(const std::string& category) {
  return category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset";
}

// Events of the device in the order in which they begin.
std::vector<KinetoEvent> events_of(const ProgramJson& document, const std::string& place) {
  static const ProgramJson kNothing = ProgramJson::object();
  std::vector<KinetoEvent> events;
  for (const ProgramJson& event : document["traceEvents"]) {
    if (!event.is_object() || text_at(event, "ph") != "X" || !is_of_device(text_at(event, "cat"))) {
      continue;
    }
    const auto time = [&](const char* key) {
      const auto found = event.find(key);
      const double value = found != event.end() && found->is_number() ? found->get<double>() : -1.0;
      if (!(value >= 0.0 && value < 1e18)) throw bad_kineto(place, "an event has no time");
      return value;
    };
    KinetoEvent made;
    made.name = text_at(event, "name");
    // Times since 1970 in microseconds: fractions of nanoseconds are lost, as they are in the file.
    const double begin_us = time("ts");
    const double duration_us = time("dur");
    if (duration_us > kMostMicroseconds) throw bad_kineto(place, "an event takes too long");
    made.begin_ps = std::llround(begin_us * 1e3);  // Nanoseconds until the first is known.
    made.end_ps = std::llround(duration_us * kKinetoPicoseconds);
    const auto arguments = event.find("args");
    made.arguments = arguments != event.end() && arguments->is_object() ? &*arguments : &kNothing;
    made.communicates =
        made.name.starts_with("nccl") || made.arguments->contains("Collective name");
    events.push_back(std::move(made));
  }
  std::ranges::stable_sort(events, {}, &KinetoEvent::begin_ps);
  const std::int64_t first = events.empty() ? 0 : events.front().begin_ps;
  for (KinetoEvent& event : events) {
    constexpr std::int64_t kPicosecondsPerNanosecond = 1000;
    if (event.begin_ps - first > std::int64_t{1} << 50)
      throw bad_kineto(place, "it takes too long");
    event.begin_ps = (event.begin_ps - first) * kPicosecondsPerNanosecond;
    event.end_ps += event.begin_ps;
  }
  return events;
}

// --- Ranks -------------------------------------------------------------------------------------

struct KinetoTotals {
  double computed_s = 0.0;    // Taken over,
  double priced_s = 0.0;      // priced,
  double unpriced_s = 0.0;    // and neither.
  double idle_s = 0.0;        // Gaps that become the host's time.
  double overlapped_s = 0.0;  // Computing beside other computing.
  std::int64_t unpriced = 0;
  std::int64_t uneven = 0;  // With sizes for each member.
};

class KinetoRankReader {
 public:
  KinetoRankReader(const ProgramJson& document, std::string place, TraceSet& traces,
                   KinetoTotals& totals)
      : document_(document), traces_(traces), totals_(totals) {
    trace_.place = std::move(place);
  }

  // `num_ranks`: of the world; 0: not known.
  TraceRank read(int rank, int num_ranks) {
    num_ranks_ = num_ranks;
    trace_.rank = rank;
    std::vector<KinetoEvent> events = events_of(document_, trace_.place);
    // Communication stands before computing that has not ended when it begins.
    std::vector<const KinetoEvent*> computing;
    std::vector<const KinetoEvent*> communication;
    for (const KinetoEvent& event : events) {
      (event.communicates ? communication : computing).push_back(&event);
    }
    auto next = communication.begin();
    for (const KinetoEvent* event : computing) {
      while (next != communication.end() && (*next)->begin_ps < event->end_ps)
        communicate(**next++, event->begin_ps);
      compute(*event);
    }
    while (next != communication.end()) communicate(**next++, kNever);
    return std::move(trace_);
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  static double seconds(std::int64_t ps) { return Time::from_picoseconds(ps).seconds(); }

  void compute(const KinetoEvent& event) {
    totals_.computed_s += seconds(event.end_ps - event.begin_ps);
    if (event.begin_ps < busy_until_) {
      totals_.overlapped_s += seconds(std::min(busy_until_, event.end_ps) - event.begin_ps);
    } else if (event.begin_ps > busy_until_ || !open_.empty()) {
      fill_gap(event.begin_ps);
    }
    TraceNode node{.kind = Kind::device, .name = event.name, .after = std::move(waited_)};
    node.device_ps = event.end_ps - event.begin_ps;
    waited_.clear();
    busy_until_ = std::max(busy_until_, event.end_ps);
    last_ = trace_.nodes.size();
    trace_.nodes.push_back(std::move(node));
  }

  // The device does nothing until `begin`: it waits for what ends until then, and then for its
  // host.
  void fill_gap(std::int64_t begin) {
    std::int64_t from = busy_until_;
    std::erase_if(open_, [&](const std::pair<std::int64_t, std::size_t>& each) {
      if (each.first > begin) return false;
      // The device did not wait for those that had ended before the gap.
      if (each.first > busy_until_) {
        waited_.push_back(each.second);
        from = std::max(from, each.first);
      }
      return true;
    });
    busy_until_ = begin;
    if (from == begin) return;
    totals_.idle_s += seconds(begin - from);
    TraceNode idle{.kind = Kind::host, .name = "idle", .after = std::exchange(waited_, {})};
    if (last_) idle.after.push_back(*last_);
    idle.host_ps = begin - from;
    trace_.nodes.push_back(std::move(idle));
  }

  // `computing`: when the next computing begins.
  void communicate(const KinetoEvent& event, std::int64_t computing) {
    const double time = seconds(event.end_ps - event.begin_ps);
    TraceNode node{.kind = Kind::none, .name = event.name, .after = {}};
    if (!describe(*event.arguments, node)) {
      totals_.unpriced_s += time;
      ++totals_.unpriced;
      return;  // Where the device waits for it, the gap is taken over.
    }
    const bool is_alone =
        std::ranges::none_of(open_, [&](const auto& each) { return each.first > event.begin_ps; });
    if (is_alone && event.begin_ps > busy_until_ && event.begin_ps < computing) {
      fill_gap(event.begin_ps);
    }
    totals_.priced_s += time;
    if (last_) node.after.push_back(*last_);
    open_.emplace_back(event.end_ps, trace_.nodes.size());
    trace_.nodes.push_back(std::move(node));
  }

  // Says what NCCL's kernel moves, and for whom. False: the trace does not say it.
  bool describe(const ProgramJson& arguments, TraceNode& node) {
    const std::string name = text_at(arguments, "Collective name");
    const auto* const row = std::ranges::find(kKinetoCollectives, name, &KinetoCollective::c10d);
    const std::string type = text_at(arguments, "dtype");
    const auto* const dtype = std::ranges::find(kKinetoTypes, type, &KinetoType::torch);
    const std::int64_t elements = whole_number(arguments, "In msg nelems", -1);
    constexpr std::int64_t kMostElements = std::int64_t{1} << 50;
    if (row == kKinetoCollectives.end() || dtype == kKinetoTypes.end() || elements < 0 ||
        elements > kMostElements || !describe_group(arguments, node)) {
      return false;
    }
    node.bytes = elements * size_of(dtype->dtype);
    for (const char* key : {"In split size", "Out split size"}) {
      if (const std::string split = text_at(arguments, key); !split.empty() && split != "[]") {
        ++totals_.uneven;
        break;
      }
    }
    for (const CollectiveRow& each : kCollectiveRows) {
      if (row->name != each.name) continue;
      node.kind = Kind::collective;
      node.collective = each.kind;
      return true;
    }
    const std::int64_t to = whole_number(arguments, "Dst Rank", -1);
    const std::int64_t from = whole_number(arguments, "Src Rank", -1);
    const bool sends = row->name == "send";
    const std::int64_t peer = sends ? to : from;
    if ((!sends && row->name != "recv") || peer == trace_.rank) return false;
    const std::vector<int>& members = traces_.groups.at(node.group);
    if (std::ranges::find(members, peer) == members.end()) return false;
    if (!sends) {  // It counts what it puts out.
      const std::int64_t received = whole_number(arguments, "Out msg nelems", elements);
      node.bytes = std::clamp<std::int64_t>(received, 0, kMostElements) * size_of(dtype->dtype);
    }
    node.kind = sends ? Kind::send : Kind::recv;
    node.peer = static_cast<int>(peer);
    return true;
  }

  bool describe_group(const ProgramJson& arguments, TraceNode& node) {
    const std::string name = text_at(arguments, "Process Group Name");
    std::optional<std::vector<int>> ranks = ranks_at(arguments, "Process Group Ranks");
    if (!ranks) ranks = configured_ranks(name);
    const std::int64_t size = whole_number(arguments, "Group size", -1);
    if (!ranks && num_ranks_ > 0 && size == num_ranks_) {
      ranks.emplace();
      for (int rank = 0; rank < num_ranks_; ++rank) ranks->push_back(rank);
    }
    if (!ranks || std::ranges::find(*ranks, trace_.rank) == ranks->end()) return false;
    node.group = name_of_group(name, *ranks);
    traces_.groups[node.group] = std::move(*ranks);
    return true;
  }

  // From distributedInfo, where long lists are whole.
  [[nodiscard]] std::optional<std::vector<int>> configured_ranks(const std::string& name) const {
    const auto info = document_.find("distributedInfo");
    if (info == document_.end() || !info->is_object() || !info->contains("pg_config")) {
      return std::nullopt;
    }
    for (const ProgramJson& group : (*info)["pg_config"]) {
      if (group.is_object() && text_at(group, "pg_name") == name) return ranks_at(group, "ranks");
    }
    return std::nullopt;
  }

  const ProgramJson& document_;
  TraceSet& traces_;
  KinetoTotals& totals_;
  int num_ranks_ = 0;
  TraceRank trace_;
  std::int64_t busy_until_ = 0;
  std::optional<std::size_t> last_;                         // Computing.
  std::vector<std::size_t> waited_;                         // By the next node.
  std::vector<std::pair<std::int64_t, std::size_t>> open_;  // Ends and nodes of communication.
};

void add_notes(const KinetoTotals& totals, TraceSet& traces) {
  const double all = totals.computed_s + totals.priced_s + totals.unpriced_s;
  if (all > 0.0) {
    traces.notes.push_back(fmt::format(
        "{:.1f} % of the recorded {:.6g} s of kernels: {:.1f} % priced by the machine, {:.1f} % "
        "taken over as recorded",
        100.0 * (totals.computed_s + totals.priced_s) / all, all, 100.0 * totals.priced_s / all,
        100.0 * totals.computed_s / all));
  }
  if (totals.idle_s > 0.0) {
    traces.notes.push_back(fmt::format(
        "gaps of {:.6g} s, in which nothing ended that is known, are taken over as the host's time",
        totals.idle_s));
  }
  if (totals.unpriced > 0) {
    traces.notes.push_back(fmt::format(
        "{} communications of {:.6g} s do not say what they move, or for whom: where the device "
        "waited for them, the gap is taken over",
        totals.unpriced, totals.unpriced_s));
  }
  if (totals.uneven > 0) {
    traces.notes.push_back(fmt::format(
        "{} communications have a size for each member: all are taken to be equal", totals.uneven));
  }
  if (totals.overlapped_s > 0.0) {
    traces.notes.push_back(
        fmt::format("{:.6g} s of computing ran beside other computing: here they come one after "
                    "another",
                    totals.overlapped_s));
  }
  traces.notes.emplace_back(
      "the clocks of ranks are not compared: each begins with its first kernel; dependencies are "
      "taken from times, and memory is not in the traces");
}

}  // namespace

bool looks_like_kineto(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' &&
         text.find("\"traceEvents\"") != std::string_view::npos;
}

TraceSet read_kineto(const std::vector<TraceFile>& files, int& num_ranks) {
  TraceSet traces;
  traces.name = files.front().path;
  traces.settings = kMeasuredSettings;
  traces.lists_all_groups = false;
  KinetoTotals totals;
  num_ranks = 0;
  for (const TraceFile& file : files) {
    const std::string place = printable(file.path, 200);
    const ProgramJson document =
        ProgramJson::parse(file.bytes, nullptr, /*allow_exceptions=*/false);
    if (!document.is_object() || !document.contains("traceEvents") ||
        !document["traceEvents"].is_array()) {
      throw bad_kineto(place, "it has no list \"traceEvents\"");
    }
    int rank = file.rank;
    if (const auto info = document.find("distributedInfo");
        info != document.end() && info->is_object()) {
      const auto bounded = [&](const char* key, std::int64_t otherwise) {
        return static_cast<int>(
            std::clamp<std::int64_t>(whole_number(*info, key, otherwise), 0, kMostProgramRanks));
      };
      rank = bounded("rank", rank);
      num_ranks = std::max(num_ranks, bounded("world_size", 0));
    }
    traces.ranks.push_back(KinetoRankReader(document, place, traces, totals).read(rank, num_ranks));
  }
  add_notes(totals, traces);
  return traces;
}

}  // namespace shardsim
