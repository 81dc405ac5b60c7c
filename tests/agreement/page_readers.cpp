#include "tests/agreement/page_readers.hpp"

#include <map>
#include <regex>
#include <sstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace shardsim::test {

namespace {

// Texts among the metrics are no numbers.
bool is_text(const std::string& metric) {
  return metric == "trace_hash" || metric == "memory.peak_allocation";
}

// Behind a metric's name: the centre of its error band.
const std::string kCentre = ".centre";

// A number with its unit, as pages for people have it.
const std::string kNumber =
    R"(([\d.,]+(?:e[+-]\d+)? ?(?:[pnum]?s|%|[KMGTP]iB|[kMGTP]?B|[kMT])?)(?![\w]))";

struct Place {
  const char* metric;
  std::string pattern;  // With one group: the number.
};

// Each pattern that was tried, and whether it ever matched.
std::map<std::string, bool>& pattern_matches() {
  static std::map<std::string, bool> matches;
  return matches;
}

void find(const std::string& page, const std::vector<Place>& places, ShownNumbers& numbers) {
  for (const Place& place : places) {
    std::smatch match;
    bool& has_matched = pattern_matches()[place.pattern];
    if (!std::regex_search(page, match, std::regex(place.pattern))) continue;
    has_matched = true;
    std::string text = match[1].str();
    while (!text.empty() && (text.back() == ' ' || text.back() == ',')) text.pop_back();
    numbers.push_back(rounded(place.metric, text));
  }
}

std::string without_escapes(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(\\(.))"), "$1");
}

}  // namespace

std::string patterns_without_match() {
  std::string patterns;
  for (const auto& [pattern, has_matched] : pattern_matches()) {
    if (!has_matched) patterns += pattern + "\n";
  }
  return patterns;
}

ShownNumbers read_json(const std::string& text) {
  ShownNumbers numbers;
  const nlohmann::json result = nlohmann::json::parse(text);
  for (const auto& [name, value] : result["metrics"].items()) {
    if (value.is_boolean()) numbers.push_back({name, value.get<bool>() ? 1.0 : 0.0, 0});
    if (value.is_number()) numbers.push_back({name, value.get<double>(), 0});
  }
  const nlohmann::json& metrics = result["metrics"];
  for (const nlohmann::json& band : result.value("error_bands", nlohmann::json::array())) {
    const auto metric = band["metric"].get<std::string>();
    for (const char* part : {"centre", "high"}) {
      numbers.push_back({metric + "." + part, band[part].get<double>(), 0});
    }
    if (metric != "step_time_s") continue;
    // Days and cost are in proportion to the step.
    for (const char* cost : {"cost.days", "cost.gpu_hours", "cost.usd"}) {
      if (!metrics.contains(cost)) continue;
      const double factor = band["centre"].get<double>() / metrics[metric].get<double>();
      numbers.push_back({cost + kCentre, metrics[cost].get<double>() * factor, 0});
    }
  }
  return numbers;
}

ShownNumbers read_screen(const std::string& lines) {
  // Rows that go on below their label.
  const std::string text = std::regex_replace(lines, std::regex("\n {16}(?=\\S)"), " ");
  const std::string row = R"(\b[^\n]*% +)" + kNumber;
  const std::string bar = "(?:^|\n) +";
  ShownNumbers numbers;
  find(text,
       {{"step_time_s", "\n  (?:by the model|step) " + kNumber},
        {"step_time_s.centre", "\n  step about " + kNumber},
        {"step_time_s.high", "\n  step about [^\n]*% of runs [^\n(]* to " + kNumber},
        {"memory.device_bytes.max.centre", "on device about " + kNumber},
        {"memory.device_bytes.max", "on device about [^\n]*; by the model " + kNumber},
        {"mfu", "MFU " + kNumber},
        {"tokens_per_s_per_gpu", kNumber + " tokens/s/GPU"},
        {"model_tflops_per_gpu", kNumber + " TFLOP/s/GPU"},
        {"time.compute_s", bar + "compute" + row},
        {"time.exposed_comm_s", bar + "exposed comm" + row},
        {"time.hidden_comm_s", "hidden comm " + kNumber},
        {"time.bubble_s", bar + "bubble" + row},
        {"time.host_s", bar + "host" + row},
        {"memory.peak_bytes.max", bar + "memory peak" + row},
        {"memory.params_bytes.max", bar + "params" + row},
        {"memory.grads_bytes.max", bar + "grads" + row},
        {"memory.optimizer_bytes.max", bar + "optimizer" + row},
        {"memory.activations_bytes.max", bar + "activations" + row},
        {"memory.comm_bytes.max", bar + "comm" + row},
        {"comm.bytes_sent.total", bar + "traffic +" + kNumber},
        {"comm.bytes_sent.max_rank", "busiest rank " + kNumber},
        {"comm.bytes_sent.by_axis.dp", R"(sent \([^)]*\bdp )" + kNumber},
        {"comm.bytes_sent.by_axis.tp", R"(sent \([^)]*\btp )" + kNumber},
        {"comm.bytes_sent.by_axis.pp", R"(sent \([^)]*\bpp )" + kNumber},
        {"goodput.fraction", "goodput +" + kNumber},
        {"cost.days", "tokens: " + kNumber + " days"},
        {"cost.days", R"(tokens: about [^\n]*by the model )" + kNumber + R"(\))"},
        {"cost.days.centre", "tokens: about " + kNumber + " days"},
        {"cost.gpu_hours", R"(tokens: [\d.,]+ days, )" + kNumber + " GPU hours"},
        {"cost.gpu_hours.centre", R"(by the model [\d.,]+\), )" + kNumber + " GPU hours"},
        {"cost.usd", R"(tokens: [\d.,]+ days, [^\n]*hours, \$)" + kNumber},
        {"cost.usd.centre", R"(tokens: about [^\n]*hours, \$)" + kNumber}},
       numbers);
  return numbers;
}

ShownNumbers read_markdown(const std::string& text) {
  const std::string cell = R"( \| )" + kNumber;
  ShownNumbers numbers;
  find(text,
       {{"step_time_s", R"(\| (?:step|by the model) \| )" + kNumber},
        {"step_time_s.centre", R"(\| step \| about )" + kNumber},
        {"mfu", R"(\| MFU)" + cell},
        {"tokens_per_s", R"(\| tokens/s)" + cell},
        {"tokens_per_s_per_gpu", R"(\| tokens/s/GPU)" + cell},
        {"model_tflops_per_gpu", R"(\| TFLOP/s/GPU)" + cell},
        {"memory.peak_bytes.max", R"(\| memory, fullest rank)" + cell},
        {"comm.bytes_sent.total", R"(\| sent per step)" + cell},
        {"goodput.fraction", R"(\| goodput)" + cell},
        {"goodput.fraction_low", R"(\| goodput, failures as [a-z ]+)" + cell},
        {"goodput.fraction_high", R"(\| goodput, as rare)" + cell},
        {"time.compute_s", R"(\| compute)" + cell},
        {"time.exposed_comm_s", R"(\| exposed comm)" + cell},
        {"time.bubble_s", R"(\| bubble)" + cell},
        {"time.host_s", R"(\| host)" + cell},
        {"time.hidden_comm_s", "behind computing: " + kNumber},
        {"cost.days", "tokens: (?:about [^\n]*by the model )?" + kNumber},
        {"cost.days.centre", "tokens: about " + kNumber},
        {"cost.gpu_hours", R"(tokens: [\d.,]+ days, )" + kNumber},
        {"cost.gpu_hours.centre", R"(tokens: about [^\n]*\), )" + kNumber},
        {"cost.usd", R"(tokens: [\d.,]+ days, [^\n]*hours, \$)" + kNumber},
        {"cost.usd.centre", R"(tokens: about [^\n]*hours, \$)" + kNumber},
        {"comm.bytes_sent.by_axis.dp", R"(\| dp \|[^\n]*\|)" + cell.substr(3) + R"( \|\n)"},
        {"comm.bytes_sent.by_axis.tp", R"(\| tp \|[^\n]*\|)" + cell.substr(3) + R"( \|\n)"},
        {"comm.bytes_sent.by_axis.pp", R"(\| pp \|[^\n]*\|)" + cell.substr(3) + R"( \|\n)"}},
       numbers);
  const std::regex metric(R"(\| `([\w.]+)` \| ([^|]+) \|)");
  for (std::sregex_iterator row(text.begin(), text.end(), metric), end; row != end; ++row) {
    const std::string name = (*row)[1].str();
    const std::string value = without_escapes((*row)[2].str());
    if (is_text(name)) continue;
    numbers.push_back(exact(name, value == "true" ? "1" : value == "false" ? "0" : value));
  }
  return numbers;
}

ShownNumbers read_html(const std::string& page) {
  const std::string text = std::regex_replace(page, std::regex("&nbsp;"), " ");
  const auto tile = [](const std::string& name) {
    return "<dt>" + name + "</dt><dd class=\"value\">\\$?" + kNumber;
  };
  // Without a band the value, with one what stands below it.
  const auto by_the_model = [](const std::string& name) {
    return "<dt>" + name +
           "</dt><dd class=\"value\">(?:about [^<]*<span class=\"model\">by the model )?\\$?" +
           kNumber;
  };
  const auto centre = [](const std::string& name) {
    return "<dt>" + name + "</dt><dd class=\"value\">about \\$?" + kNumber;
  };
  const auto bar = [](const std::string& name) {
    return "<span class=\"name\">" + name + "</span><span class=\"amount\">" + kNumber;
  };
  const std::string mfu = R"(Model FLOPs utilization \(MFU\))";
  ShownNumbers numbers;
  find(text,
       {{"step_time_s", by_the_model("Step time")},
        {"step_time_s", bar("whole step")},
        {"step_time_s.centre", centre("Step time")},
        {"mfu", by_the_model(mfu)},
        {"tokens_per_s_per_gpu", by_the_model("Tokens/s/GPU")},
        {"model_tflops_per_gpu", "by the model " + kNumber + " TFLOP/s/GPU"},
        {"time.compute_s", bar("computing")},
        {"memory.peak_bytes.max", bar("all tensors")},
        {"memory.device_bytes.max", by_the_model("Memory on the fullest GPU")},
        {"memory.device_bytes.max", bar("in use")},
        {"memory.device_bytes.max.centre", centre("Memory on the fullest GPU")},
        {"goodput.fraction", tile("Goodput")},
        {"cost.days", by_the_model("Time to train")},
        {"cost.days.centre", centre("Time to train")},
        {"cost.usd", by_the_model("Cost")},
        {"cost.usd.centre", centre("Cost")}},
       numbers);
  const std::regex metric(
      R"(<code>([\w.]+)</code></th><td class="[^"]*">[^<]*</td><td class="[^"]*"><code>([^<]+)</code>)");
  for (std::sregex_iterator row(text.begin(), text.end(), metric), end; row != end; ++row) {
    const std::string name = (*row)[1].str();
    const std::string value = (*row)[2].str();
    if (is_text(name)) continue;
    numbers.push_back(exact(name, value == "true" ? "1" : value == "false" ? "0" : value));
  }
  const std::string opening = R"(<script type="application/json" id="result">)";
  const std::size_t data = text.find(opening) + opening.size();
  for (const ShownNumber& number :
       read_json(text.substr(data, text.find("</script>", data) - data))) {
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::vector<std::string>> csv_rows(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row;
  std::string cell;
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (is_quoted) {
      if (letter != '"') {
        cell += letter;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        cell += text[++i];
      } else {
        is_quoted = false;
      }
    } else if (letter == '"') {
      is_quoted = true;
    } else if (letter == ',' || letter == '\n') {
      row.push_back(std::exchange(cell, {}));
      if (letter == '\n') rows.push_back(std::exchange(row, {}));
    } else {
      cell += letter;
    }
  }
  REQUIRE(cell.empty());
  return rows;
}

ShownNumbers read_csv(const std::string& text) {
  ShownNumbers numbers;
  const std::vector<std::vector<std::string>> rows = csv_rows(text);
  REQUIRE(rows.front() == std::vector<std::string>{"name", "value"});
  for (std::size_t i = 1; i < rows.size(); ++i) {
    REQUIRE(rows[i].size() == 2);
    const std::string& value = rows[i][1];
    if (is_text(rows[i][0])) continue;
    numbers.push_back(exact(rows[i][0], value == "true" ? "1" : value == "false" ? "0" : value));
  }
  return numbers;
}

}  // namespace shardsim::test
