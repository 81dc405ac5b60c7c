#include "sim/collective/collective_setting.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/presets.hpp"
#include "scenarios/suggest.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

namespace {

// In the order of TestedOperation.
constexpr std::array<const CollectiveRow*, 9> kTested = {&collective::kAllReduce,
                                                         &collective::kReduceScatter,
                                                         &collective::kAllGather,
                                                         &collective::kBroadcast,
                                                         &collective::kReduce,
                                                         &collective::kAllToAll,
                                                         nullptr,
                                                         &collective::kGather,
                                                         &collective::kScatter};

// A value and its name in nccl-tests.
template <class Value>
struct Named {
  const char* nccl;
  Value value;
};

// Without fp8, which has no arithmetic here.
constexpr Named<DType> kDTypes[] = {
    {"int8", DType::int8},     {"int32", DType::int32}, {"int64", DType::int64},
    {"half", DType::fp16},     {"float", DType::fp32},  {"double", DType::fp64},
    {"bfloat16", DType::bf16},
};

constexpr Named<ReduceOp> kReductions[] = {
    {"sum", ReduceOp::sum}, {"prod", ReduceOp::product}, {"max", ReduceOp::max},
    {"min", ReduceOp::min}, {"avg", ReduceOp::avg},
};

UsageError unknown_word(const char* code, const char* what, const std::string& name,
                        const std::vector<std::string>& names) {
  const std::string near = nearest(name, names);
  return {code, fmt::format("there is no {} \"{}\"", what, name),
          (near.empty() ? "" : "write \"" + near + "\"; ") + "there are " + one_of_list(names)};
}

// The entry called `name`, or E1085 with the nearest.
template <class Entry, std::size_t N>
const Entry& entry_of(const Entry (&entries)[N], const std::string& name, const char* what) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    if (name == entry.nccl) return entry;
    names.emplace_back(entry.nccl);
  }
  throw unknown_word("E1085", what, name, names);
}

void require(bool good, const char* code, const std::string& message, const std::string& fix) {
  if (!good) throw UsageError(code, message, fix);
}

// 0: no unit.
double unit_of(const std::string& text) {
  if (text.empty()) return 1.0;
  if (text == "K" || text == "k") return 1024.0;
  if (text == "M" || text == "m") return 1024.0 * 1024.0;
  if (text == "G" || text == "g") return 1024.0 * 1024.0 * 1024.0;
  return 0.0;
}

// "8", "64K", "1.5M", "2 g": bytes as nccl-tests reads them, powers of 1024. Unlike nccl-tests, it
// refuses other letters after the first and a fraction of a byte. `option`: for the message.
// Throws UsageError (E1080).
std::int64_t byte_size_of(const std::string& text, const std::string& option) {
  constexpr double kMost = 1e15;
  double number = 0.0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  std::string rest(stop, end);
  rest.erase(0, rest.find_first_not_of(' '));
  const double bytes = number * unit_of(rest);
  const bool good = error == std::errc() && unit_of(rest) > 0 && std::isfinite(bytes) &&
                    bytes >= 0 && bytes <= kMost && bytes == std::floor(bytes);
  if (!good) {
    throw UsageError(
        "E1080", "\"" + text + "\" is no size for " + option,
        "write whole bytes, or a number with K, M or G (powers of 1024): 8, 64K, 256M");
  }
  return static_cast<std::int64_t>(bytes);
}

std::int64_t factor_of(const std::string& text) {
  const std::int64_t factor = byte_size_of(text, "-f");
  require(factor >= 2, "E1082", fmt::format("sizes times {} never grow", text),
          "use -f with 2 or more, or -i for a fixed step");
  return factor;
}

void set_sizes(const CollectiveArguments& arguments, CollectiveSetting& setting) {
  const std::int64_t first = byte_size_of(arguments.min_bytes, "-b");
  const std::int64_t last = byte_size_of(arguments.max_bytes, "-e");
  require(first <= last, "E1081", fmt::format("-b {} is more than -e {}", first, last),
          "give both, the smaller with -b; the default of each is 32M");
  require(arguments.factor.empty() || arguments.step_bytes.empty(), "E1083",
          "sizes cannot grow by a factor (-f) and by a step (-i)", "leave one of them out");
  const bool by_factor = !arguments.factor.empty();
  const std::string& step_text = arguments.step_bytes;
  const std::int64_t step = by_factor           ? factor_of(arguments.factor)
                            : step_text.empty() ? std::int64_t{1} << 20
                                                : byte_size_of(step_text, "-i");
  require(step > 0, "E1082", "sizes plus 0 never grow",
          "use -i with 1 or more, or -f for a factor");
  require(!by_factor || first > 0, "E1082", "0 bytes times a factor never grow",
          "start at 1 or more with -b, or use -i");
  constexpr std::size_t kMostRows = 10000;
  for (std::int64_t size = first; size <= last; size = by_factor ? size * step : size + step) {
    setting.sizes.push_back(size);
    require(setting.sizes.size() <= kMostRows, "E1083",
            fmt::format("there are more than {} sizes", kMostRows), "take a larger step");
  }
  setting.sizes_text = fmt::format("minBytes {} maxBytes {} step: {}({})", first, last, step,
                                   by_factor ? "factor" : "bytes");
}

void set_reduction(const CollectiveArguments& arguments, CollectiveSetting& setting) {
  const Named<DType>& dtype = entry_of(kDTypes, arguments.dtype, "datatype");
  const Named<ReduceOp>& reduction = entry_of(kReductions, arguments.reduction, "reduction");
  setting.dtype = dtype.value;
  setting.dtype_name = dtype.nccl;
  setting.reduction = reduction.value;
  setting.reduction_name = reduces(setting.operation) ? reduction.nccl : "none";
}

int ranks_of(const CollectiveArguments& arguments, int launched_ranks) {
  if (arguments.ranks > 0) return arguments.ranks;
  if (launched_ranks > 0) return launched_ranks;
  return arguments.process.on_processes() ? 2 : 8;
}

}  // namespace

const CollectiveRow* collective_of(TestedOperation operation) {
  return kTested[static_cast<std::size_t>(operation)];
}

std::string_view name_of(TestedOperation operation) {
  const CollectiveRow* const row = collective_of(operation);
  return row == nullptr ? "sendrecv" : row->name;
}

std::string test_program_of(TestedOperation operation) {
  const CollectiveRow* const row = collective_of(operation);
  const bool pairs = row != nullptr && row->path == CollectivePath::pairs;
  return std::string(pairs ? "alltoall" : name_of(operation)) + "_perf";
}

std::vector<std::string> tested_operation_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kTested.size(); ++i) {
    names.emplace_back(name_of(static_cast<TestedOperation>(i)));
  }
  return names;
}

TestedOperation tested_operation_of(const std::string& name) {
  const std::vector<std::string> names = tested_operation_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<TestedOperation>(found - names.begin());
  if (name.empty()) {
    throw UsageError("E1084", "no operation is given", "name one: " + one_of_list(names));
  }
  throw unknown_word("E1084", "operation", name, names);
}

bool reduces(TestedOperation operation) {
  const CollectiveRow* const row = collective_of(operation);
  return row != nullptr && row->reduces;
}

bool has_root(TestedOperation operation) {
  const CollectiveRow* const row = collective_of(operation);
  return row != nullptr && row->root != RootRole::none;
}

ElementCounts CollectiveSetting::counts(std::int64_t size) const {
  constexpr std::int64_t kChunkBytes = 16;
  const std::int64_t elements = size / size_of(dtype);
  const std::int64_t chunk = elements / ranks() & -(kChunkBytes / size_of(dtype));
  const std::int64_t full = chunk * ranks();
  const CollectiveRow* const row = collective_of(operation);
  if (row == nullptr || row->in_place()) return {elements, elements, elements};
  return {row->input == BufferPart::chunk ? chunk : full,
          row->output == BufferPart::chunk ? chunk : full, chunk};
}

double bus_factor(TestedOperation operation, int ranks) {
  const CollectiveRow* const row = collective_of(operation);
  return row == nullptr ? 1.0 : bus_factor(*row, ranks);
}

std::string nccl_type_name(DType dtype) {
  const auto* const found = std::ranges::find(kDTypes, dtype, &Named<DType>::value);
  return found == std::end(kDTypes) ? "float" : found->nccl;
}

CollectiveSetting collective_setting_of(const CollectiveArguments& arguments, int launched_ranks) {
  CollectiveSetting setting;
  setting.operation = tested_operation_of(arguments.operation);
  set_sizes(arguments, setting);
  set_reduction(arguments, setting);
  setting.iterations = arguments.iterations;
  setting.warmup = arguments.warmup;
  setting.checks = arguments.checks;
  setting.system = arguments.system;
  setting.cluster = cluster_of_ranks(arguments.system, ranks_of(arguments, launched_ranks),
                                     arguments.nodes, arguments.overrides);
  require(arguments.root < setting.ranks(), "E1088",
          fmt::format("rank {} of {} cannot be the root", arguments.root, setting.ranks()),
          fmt::format("use -r with 0 to {}", setting.ranks() - 1));
  setting.root = has_root(setting.operation) ? arguments.root : -1;
  return setting;
}

Cluster cluster_of_ranks(const std::string& system, int ranks, int nodes,
                         const std::vector<std::string>& overrides) {
  Cluster cluster = compile(scenario_of_system(system, overrides)).cluster();
  if (nodes == 0) nodes = (ranks + cluster.gpus_per_node - 1) / cluster.gpus_per_node;
  if (ranks % nodes != 0 || ranks / nodes > cluster.gpus_per_node) {
    throw no_such_machine(
        fmt::format("{} ranks do not lie evenly on {} nodes of {} with {} GPUs each", ranks, nodes,
                    cluster.name, cluster.gpus_per_node),
        "change --ranks or --nodes, so that every node has equally many");
  }
  cluster.num_nodes = nodes;
  // Fewer GPUs come with their own network cards only.
  if (cluster.nics_per_node > 0) {
    cluster.nics_per_node =
        std::max(1, cluster.nics_per_node * (ranks / nodes) / cluster.gpus_per_node);
  }
  cluster.gpus_per_node = ranks / nodes;
  return cluster;
}

}  // namespace shardsim
