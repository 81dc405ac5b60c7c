#include "scenarios/resolve.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include "sim/kernel/metric_table.hpp"
#include "sim/kernel/text.hpp"

#include "scenarios/suggest.hpp"

namespace shardsim {

namespace {

// One node's worth of ranks of the first replica, the ones that people compare first.
void resolve_trace_ranks(Reading& r) {
  constexpr std::int64_t kEnough = 8;
  if (!r.good("system.ranks")) return;
  std::vector<std::int64_t> first(
      static_cast<std::size_t>(std::min(kEnough, r.scenario.system.ranks)));
  std::iota(first.begin(), first.end(), 0);
  derive(r, "output.trace_ranks", r.scenario.output.trace_ranks, first);
}

// A path that somebody types may lead anywhere; one in a scenario comes from another machine.
std::string option_for(const std::string& field) {
  for (const char* const name : {"report", "trace"}) {
    if (field == std::string("output.") + name) {
      return "; \"shardsim run --" + std::string(name) + " PATH\" takes any path";
    }
  }
  return "";
}

void check_path(Reading& r, const std::string& field, const std::string& path) {
  if (path.empty()) return;
  std::string fault;
  if (path.front() == '/' || path.front() == '~' ||
      path.find_first_of("\\:$") != std::string::npos) {
    fault = "must be relative, without drive, variable or address";
  }
  for (const std::string_view part : split_at(path, '/')) {
    if (!fault.empty()) break;
    if (part == "..") fault = "may not leave the output folder through \"..\"";
    if (part.empty() || part == ".") fault = "names no file";
  }
  if (!fault.empty()) {
    r.problem("E0110", field, "the path \"" + printable(path, 60) + "\" " + fault,
              "write a plain name such as \"result.json\"; the folder is that of --out" +
                  option_for(field));
  }
}

struct NamedFile {
  const char* field;
  const std::string& path;
};

void check_distinct(Reading& r, const std::vector<NamedFile>& files) {
  for (std::size_t later = 1; later < files.size(); ++later) {
    const std::string& path = files[later].path;
    if (path.empty()) continue;
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      if (files[earlier].path != path) continue;
      r.problem(
          "E0211", std::string("output.") + files[later].field,
          std::string(files[earlier].field) + " and " + files[later].field + " would be one file",
          "give them different names");
      break;
    }
  }
}

// Tables beside "run.csv" have names such as "run.stages.csv": no other file may have such a name.
void check_beside_tables(Reading& r, const std::vector<NamedFile>& files) {
  const std::string& table = r.scenario.output.csv;
  const std::string end = ".csv";
  if (table.size() <= end.size() || !table.ends_with(end)) return;
  const std::string stem = table.substr(0, table.size() - end.size()) + ".";
  for (const NamedFile& file : files) {
    const bool is_beside = file.path != table && file.path.starts_with(stem) &&
                           file.path.ends_with(end) &&
                           file.path.find('/', stem.size()) == std::string::npos;
    if (!is_beside) continue;
    r.problem("E0211", std::string("output.") + file.field,
              std::string(file.field) + " has a name that tables beside csv may have",
              "give it another name");
  }
}

// Browsers and spreadsheets need the extension, and the names of the tables are made from it.
void check_extension(Reading& r, const std::string& field, const std::string& path,
                     const std::string& extension) {
  if (path.empty()) return;
  if (path.size() > extension.size() && path.ends_with(extension)) return;
  r.problem("E1392", field, "the name \"" + printable(path, 60) + "\" does not end in " + extension,
            "write a name such as \"run" + extension + "\"");
}

}  // namespace

std::string divisors(std::int64_t number, std::int64_t limit) {
  std::string list;
  int found = 0;
  for (std::int64_t d = 1; d <= std::min<std::int64_t>({number, limit, 4096}) && found < 12; ++d) {
    if (number % d == 0) list += (found++ == 0 ? "" : ", ") + text_of(d);
  }
  return list;
}

void resolve(Reading& r) {
  resolve_model(r);
  resolve_system(r);
  resolve_kernel_constants(r);
  resolve_power(r);
  resolve_network(r);
  resolve_layout(r);
  resolve_sharding(r);
  resolve_offload(r);
  resolve_batch(r);
  resolve_tensor_parallel(r);
  resolve_context_parallel(r);
  resolve_linear_layout(r);
  resolve_layer_heads_layout(r);
  resolve_experts(r);
  resolve_blocks(r);
  resolve_graphs(r);
  resolve_schedule_file(r);
  resolve_chunks(r);
  resolve_stages(r);
  resolve_pipeline(r);
  check_schedule_file(r);
  resolve_training(r);
  resolve_data_parallel(r);
  resolve_faults(r);
  resolve_trace_ranks(r);
  check_expectations(r);
  check_outputs(r);
  check_limits(r);
  check_nccl_calls(r);
}

void check_expectations(Reading& r) {
  for (std::size_t i = 0; i < r.scenario.expect.size(); ++i) {
    const FieldState place = r.item("expect", i, "metric");
    Expectation& expectation = r.scenario.expect[i];
    const std::string& metric = expectation.metric;
    if (written_by_user(place) && !place.span.source->flag) {
      const Position position = position_of(place.span);
      expectation.line = position.line;
      expectation.column = position.column;
    }
    if (!place.good) continue;
    const std::vector<std::string>& names = metrics_to_expect();
    if (std::find(names.begin(), names.end(), metric) == names.end()) {
      const std::vector<std::string> family = names_of_family(metric, names);
      const std::string near = family.empty() ? nearest(metric, names) : "";
      r.problems.add("E0111", place.span, place.pointer,
                     "no metric is called \"" + printable(metric, 40) + "\"",
                     !family.empty() ? "write " + one_of_list(family)
                     : near.empty()  ? "the metrics are " + one_of_list(names)
                                     : "write \"" + near + "\"",
                     near_label(metric, names));
    } else if (is_oracle_metric(metric) && r.good("execution.tensors") &&
               r.scenario.execution.tensors == TensorMode::meta) {
      r.problems.add("E0112", place.span, place.pointer,
                     "\"" + metric + "\" exists only with real tensors",
                     "set execution.tensors to \"real\", or remove this expectation");
    }
  }
}

void check_outputs(Reading& r) {
  const OutputSpec& output = r.scenario.output;
  const std::vector<NamedFile> files = {{"report", output.report},
                                        {"markdown", output.markdown},
                                        {"csv", output.csv},
                                        {"trace", output.trace},
                                        {"result", output.result}};
  for (const NamedFile& file : files) check_path(r, std::string("output.") + file.field, file.path);
  check_distinct(r, files);
  check_beside_tables(r, files);
  check_extension(r, "output.report", output.report, ".html");
  check_extension(r, "output.csv", output.csv, ".csv");
  if (!r.all_good({"output.trace_ranks", "system.ranks"}) || output.trace_ranks.empty()) return;
  if (output.trace_ranks.back() >= r.scenario.system.ranks) {
    r.problem("E0209", "output.trace_ranks",
              "there is no rank " + text_of(output.trace_ranks.back()),
              "ranks go from 0 to " + text_of(r.scenario.system.ranks - 1));
  }
}

}  // namespace shardsim
