#include "scenarios/field.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/kernel/metric_rows.hpp"

#include "scenarios/field_table.hpp"

namespace shardsim {

std::vector<Field> joined(std::initializer_list<std::vector<Field>> parts) {
  std::vector<Field> all;
  for (const std::vector<Field>& rows : parts) all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

const std::vector<Field>& field_table() {
  static const std::vector<Field> kTable =
      joined({document_fields(), model_fields(), linear_fields(), block_shape_fields(),
              layer_fields(), prediction_fields(), system_fields(), network_fields(),
              parallelism_fields(), data_parallel_fields(), training_fields(), execution_fields(),
              cost_fields(), fault_fields(), output_fields()});
  return kTable;
}

namespace {

// The expectations, as a list of the table.
Section expect_section() {
  return list_section(
      "expect", "Conditions on the result. One that does not hold ends the run with exit code 1.",
      [](auto& s) -> auto& { return s.expect; }, "an expectation",
      R"({"metric": ")" + std::string(metric::kMfu.name) + R"(", "op": ">=", "value": 0.4})");
}

std::vector<Section> all_sections() {
  std::vector<Section> table = {
      {"", "A scenario: what to train, on which machine, split how, and what to expect of it."},
      {"model", "The network to train. A string is short for {\"preset\": ...}.", false, "models"},
      {"system", "The machine. A string is short for {\"preset\": ...}.", false, "systems"},
      {"system.intra_node", "Links between the GPUs of one node."},
      {"system.inter_node", "Links between nodes."},
      {"system.device", "One GPU."},
      {"system.device.peak_tflops",
       "Peak dense matrix rate per precision, without sparsity. The precision of the training must "
       "be there; leave out what the device cannot do."},
      {"system.nccl",
       "Replacements of NCCL's own choices and constants: its variables, a tuner plugin, or "
       "measurements of the machine (`shardsim calibrate`)."},
      {"system.nccl.intra_node", "Corrections within a node."},
      {"system.nccl.inter_node", "Corrections between nodes."},
      {"parallelism", "How the work is split over the ranks."},
      {"training", "Batch, precision and optimizer."},
      {"execution", "How the scenario is run here."},
      {"cost", "The price of the machine."},
  };
  table.insert(table.begin() + 2, layer_sections().front());
  for (Section& section : fault_sections()) table.push_back(std::move(section));
  const auto nccl = std::ranges::find(table, "system.nccl", &Section::path);
  table.insert(nccl, kernel_constant_section());
  table.push_back(expect_section());
  table.push_back(
      {"output", "Files to write. Paths are relative and may not leave the output folder."});
  return table;
}

}  // namespace

const std::vector<Section>& section_table() {
  static const std::vector<Section> kTable = all_sections();
  return kTable;
}

bool is_item_field(const Field& field) { return parent_path(field.path).ends_with("[]"); }

ReadMark mark_of(const Field& field) {
  return static_cast<ReadMark>(&field - field_table().data() + 1);
}

const Field& field_of(ReadMark mark) { return field_table().at(mark - std::size_t{1}); }

const Field* find_field(std::string_view path) {
  // Asked for every key of a file, of which a hostile one has thousands.
  static const auto kByPath = [] {
    std::map<std::string_view, const Field*> rows;
    for (const Field& field : field_table()) rows.emplace(field.path, &field);
    return rows;
  }();
  const auto row = kByPath.find(path);
  return row == kByPath.end() ? nullptr : row->second;
}

const Section* find_section(std::string_view path) {
  const auto& table = section_table();
  const auto row = std::find_if(table.begin(), table.end(),
                                [path](const Section& section) { return section.path == path; });
  return row == table.end() ? nullptr : &*row;
}

std::string parent_path(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return std::string(dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot));
}

std::string last_key(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return std::string(dot == std::string_view::npos ? path : path.substr(dot + 1));
}

}  // namespace shardsim
