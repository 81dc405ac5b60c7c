#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/units.hpp"
#include "scenarios/source_text.hpp"

#include "sim/programs/kernel_report.hpp"
#include "sim/programs/program_replay.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kShownName = 200;

std::string machine_text(const Cluster& cluster) {
  return fmt::format("{} x {} {}", cluster.num_nodes, cluster.gpus_per_node,
                     printable(cluster.name, kShownName));
}

std::string row(const char* name, Time time) {
  return fmt::format("  {:<24}{:>10}  {} ps\n", name, format_seconds(time.seconds()),
                     time.picoseconds());
}

nlohmann::ordered_json kernels_json(const KernelReport& report) {
  using Json = nlohmann::ordered_json;
  const auto with = [](Json row, const KernelTime& sum) {
    row["kernels"] = sum.kernels;
    row["moved_bytes"] = sum.bytes;
    row["time_ps"] = sum.time.picoseconds();
    return row;
  };
  Json json = with({{"rank", report.rank}}, report.all);
  json["by_bytes_ps"] = report.by_bytes.picoseconds();
  json["slower_ps"] = report.slower.picoseconds();
  json["operators"] = Json::array();
  for (const KernelsOfOperator& row : report.operators) {
    json["operators"].push_back(
        with({{"operator", row.name}, {"priced_by", name_of(row.price)}}, row.sum));
  }
  json["modules"] = Json::array();
  for (const KernelsOfLayers& row : layers_of(report)) {
    json["modules"].push_back(with(
        {{"module", row.path}, {"phase", name_of(row.phase)}, {"modules", row.modules}}, row.sum));
  }
  json["streams"] = Json::array();
  for (std::size_t stream = 0; stream < report.streams.size(); ++stream) {
    json["streams"].push_back(with({{"stream", stream}}, report.streams[stream]));
  }
  return json;
}

}  // namespace

std::string replay_text(const ProgramSet& set, const Cluster& cluster, const ProgramReplay& replay,
                        const KernelReport& kernels) {
  std::string text = fmt::format(
      "{}: {} of {} ranks on {}\n", printable(set.name.empty() ? "programs" : set.name, kShownName),
      set.programs.programs.size() == 1 ? std::string("1 program")
                                        : fmt::format("{} programs", set.programs.programs.size()),
      set.programs.of_rank.size(), machine_text(cluster));
  text += row(replay.has_steps ? "step time" : "time", replay.step);
  text += row("  computing", replay.split.compute);
  text += row("  waiting for the host", replay.split.host);
  text += row("  exposed communication", replay.split.exposed_comm);
  text += row("  waiting for others", replay.split.bubble);
  text += row("from start to end", replay.whole);
  text += fmt::format("  {:<24}{:>10}\n", "sent", format_traffic(replay.sent_bytes));
  if (replay.peak_memory_bytes > 0) {
    text += fmt::format("  {:<24}{:>10}\n", "memory of tensors",
                        format_memory(replay.peak_memory_bytes));
  }
  const double computed = replay.priced_s + replay.taken_over_s;
  if (computed > 0.0) {
    const double priced = 100.0 * replay.priced_s / computed;
    text += fmt::format("  computing is {:.1f} % priced by the machine, {:.1f} % as recorded\n",
                        priced, 100.0 * replay.taken_over_s / computed);
  }
  text += kernels_text(kernels);
  for (const std::string& note : set.notes) {
    text += fmt::format("  note: {}\n", printable(note, 2 * kShownName));
  }
  return text;
}

std::string replay_json(const ProgramSet& set, const Cluster& cluster, const ProgramReplay& replay,
                        const KernelReport& kernels) {
  const nlohmann::ordered_json json = {{"name", set.name},
                                       {"machine", cluster.name},
                                       {"nodes", cluster.num_nodes},
                                       {"ranks", set.programs.of_rank.size()},
                                       {"programs", set.programs.programs.size()},
                                       {"marks_steps", replay.has_steps},
                                       {"step_time_ps", replay.step.picoseconds()},
                                       {"whole_ps", replay.whole.picoseconds()},
                                       {"last_rank", replay.last_rank},
                                       {"compute_ps", replay.split.compute.picoseconds()},
                                       {"host_ps", replay.split.host.picoseconds()},
                                       {"exposed_comm_ps", replay.split.exposed_comm.picoseconds()},
                                       {"bubble_ps", replay.split.bubble.picoseconds()},
                                       {"sent_bytes", replay.sent_bytes},
                                       {"memory_peak_bytes", replay.peak_memory_bytes},
                                       {"compute_priced_s", replay.priced_s},
                                       {"compute_as_recorded_s", replay.taken_over_s},
                                       {"kernels", kernels_json(kernels)},
                                       {"notes", set.notes}};
  constexpr int kIndent = 2;
  return json.dump(kIndent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace shardsim
