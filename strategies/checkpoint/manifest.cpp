#include "strategies/checkpoint/manifest.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "strategies/checkpoint/names.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;  // Keys stay in the order of writing.

constexpr std::string_view kFormat = "shardsim-checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr std::string_view kManifestStart = "{\"format\":\"shardsim-checkpoint\",\"version\":";
// The checksum covers every byte before this line.
constexpr std::string_view kTailStart = ",\n\"xxh64\":\"";
constexpr std::string_view kTailEnd = "\"}\n";
constexpr std::size_t kTailBytes = kTailStart.size() + 16 + kTailEnd.size();

struct DTypeName {
  DType dtype;
  std::string_view payload;
};
// Source: the Dtype enumeration of safetensors/src/tensor.rs of the reference implementation.
constexpr std::array kDTypes = {
    DTypeName{DType::fp64, "F64"},         DTypeName{DType::fp32, "F32"},
    DTypeName{DType::bf16, "BF16"},        DTypeName{DType::fp16, "F16"},
    DTypeName{DType::fp8_e4m3, "F8_E4M3"}, DTypeName{DType::int8, "I8"},
    DTypeName{DType::int32, "I32"},        DTypeName{DType::int64, "I64"},
};

// --- reading -----------------------------------------------------------------------------------

// Refuses what a well-behaved writer never makes: keys twice (whose meaning depends on the parser)
// and nesting deeper than any of our texts.
Json parse_json(std::string_view text) {
  constexpr int kMaxDepth = 8;
  std::vector<std::set<std::string>> keys;
  const auto check = [&keys](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) throw FormatError("values are nested too deeply");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get_ref<const std::string&>()).second) {
      throw FormatError("a key stands twice in one object");
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& error) {
    throw FormatError(std::string("no JSON: ") + error.what());
  }
}

const Json& member(const Json& object, const char* key) {
  if (!object.is_object()) throw FormatError(std::string("no object that can hold ") + key);
  const auto found = object.find(key);
  if (found == object.end()) throw FormatError(std::string("\"") + key + "\" is missing");
  return *found;
}

std::int64_t integer(const Json& value, std::int64_t min, std::int64_t max) {
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max)
                        : value.is_number_integer();
  if (!fits || value.get<std::int64_t>() < min || value.get<std::int64_t>() > max) {
    throw FormatError(concat("a number is not an integer from ", min, " to ", max));
  }
  return value.get<std::int64_t>();
}

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxRank = (std::int64_t{1} << 24) - 1;

const std::string& text_in(const Json& value) {
  if (!value.is_string()) throw FormatError("a value is no text");
  return value.get_ref<const std::string&>();
}

const Json& list_in(const Json& value) {
  if (!value.is_array()) throw FormatError("a value is no list");
  return value;
}

std::uint64_t bits_in(const Json& value) {
  const auto bits = parse_hex(text_in(value));
  if (!bits) throw FormatError("a value is not sixteen lower-case hexadecimal digits");
  return *bits;
}

std::vector<std::int64_t> shape_in(const Json& value) {
  std::vector<std::int64_t> shape;
  for (const Json& dim : list_in(value)) shape.push_back(integer(dim, 0, kAny));
  return shape;
}

DType dtype_in(const Json& value, bool payload) {
  const std::string& name = text_in(value);
  for (const DTypeName& row : kDTypes) {
    if (name == (payload ? row.payload : name_of(row.dtype))) return row.dtype;
  }
  throw FormatError("a dtype is unknown");
}

ScalarValue scalar_in(const Json& value) {
  const std::string& type = text_in(member(value, "type"));
  const Json& content = member(value, "value");
  if (type == "bool" && content.is_boolean()) return content.get<bool>();
  if (type == "int64") return integer(content, std::numeric_limits<std::int64_t>::min(), kAny);
  if (type == "uint64" && content.is_number_unsigned()) return content.get<std::uint64_t>();
  if (type == "float64") return std::bit_cast<double>(bits_in(content));
  if (type == "text") return text_in(content);
  throw FormatError("a scalar has no known type, or a value of another");
}

Scalars scalars_in(const Json& object) {
  if (!object.is_object()) throw FormatError("\"scalars\" is not an object");
  Scalars scalars;
  for (const auto& [name, value] : object.items()) {
    ScalarValue scalar = scalar_in(value);
    if (auto problem = problem_of_scalar(name, scalar)) throw FormatError(*problem);
    scalars.emplace(name, std::move(scalar));
  }
  return scalars;
}

std::vector<TensorInfo> tensors_in(const Json& list) {
  std::vector<TensorInfo> tensors;
  for (const Json& value : list_in(list)) {
    TensorInfo tensor{.name = text_in(member(value, "name")),
                      .dtype = dtype_in(member(value, "dtype"), false),
                      .shape = shape_in(member(value, "shape"))};
    if (auto problem = problem_of(tensor)) throw FormatError(*problem);
    if (!tensors.empty() && tensor.name <= tensors.back().name) {
      throw FormatError("tensors are not sorted by name");
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

ElementRun run_in(const Json& value) {
  const std::size_t size = list_in(value).size();
  if (size != 2 && size != 4) throw FormatError("a run has two or four numbers");
  ElementRun run{.first = integer(value[0], 0, kAny), .count = integer(value[1], 1, kAny)};
  if (size == 4) {
    run.stride = integer(value[2], 1, kAny);
    run.repeats = integer(value[3], 2, kAny);
  }
  return run;
}

StoredFile file_in(const Json& value, const std::vector<TensorInfo>& tensors) {
  StoredFile file{.rank = static_cast<int>(integer(member(value, "rank"), 0, kMaxRank)),
                  .bytes = integer(member(value, "bytes"), 0, kAny),
                  .checksum = bits_in(member(value, "xxh64"))};
  std::int64_t left = file.bytes;
  for (const Json& item : list_in(member(value, "chunks"))) {
    const auto last = static_cast<std::int64_t>(tensors.size()) - 1;
    StoredChunk chunk{.tensor = static_cast<int>(integer(member(item, "tensor"), 0, last)),
                      .entry = text_in(member(item, "entry"))};
    for (const Json& run : list_in(member(item, "runs"))) chunk.elements.push_back(run_in(run));
    const TensorInfo& tensor = tensors[static_cast<std::size_t>(chunk.tensor)];
    if (auto problem = problem_of(chunk.elements, *checked_numel(tensor.shape))) {
      throw FormatError("\"" + tensor.name + "\": " + *problem);
    }
    // Bounds the work of loops over the elements.
    left -= num_elements(chunk.elements) * size_of(tensor.dtype);
    if (left < 0) throw FormatError("a file is too small for its chunks");
    file.chunks.push_back(std::move(chunk));
  }
  return file;
}

// --- writing -----------------------------------------------------------------------------------

Json json_of(const ScalarValue& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return {{"type", "bool"}, {"value", *truth}};
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    return {{"type", "int64"}, {"value", *number}};
  }
  if (const auto* number = std::get_if<std::uint64_t>(&value)) {
    return {{"type", "uint64"}, {"value", *number}};
  }
  if (const double* number = std::get_if<double>(&value)) {
    return {{"type", "float64"}, {"value", hex_of(std::bit_cast<std::uint64_t>(*number))}};
  }
  return {{"type", "text"}, {"value", std::get<std::string>(value)}};
}

Json json_of(const Scalars& scalars) {
  Json object = Json::object();
  for (const auto& [name, value] : scalars) object[name] = json_of(value);
  return object;
}

Json json_of(const TensorInfo& tensor) {
  return {{"name", tensor.name},
          {"dtype", std::string(name_of(tensor.dtype))},
          {"shape", Json(tensor.shape)}};
}

Json json_of(const StoredFile& file) {
  Json chunks = Json::array();
  for (const StoredChunk& chunk : file.chunks) {
    Json runs = Json::array();
    for (const ElementRun& run : chunk.elements) {
      if (run.repeats == 1) {
        runs.push_back(Json::array({run.first, run.count}));
      } else {
        runs.push_back(Json::array({run.first, run.count, run.stride, run.repeats}));
      }
    }
    chunks.push_back({{"tensor", chunk.tensor}, {"entry", chunk.entry}, {"runs", std::move(runs)}});
  }
  return {{"rank", file.rank},
          {"bytes", file.bytes},
          {"xxh64", hex_of(file.checksum)},
          {"chunks", std::move(chunks)}};
}

// A list with one item to a line, for people and for diff.
template <class Items>
std::string lines_of(const Items& items) {
  std::string text = "[";
  for (const auto& item : items) {
    text += text.size() == 1 ? "\n" : ",\n";
    text += json_of(item).dump();
  }
  return text + "]";
}

}  // namespace

std::string_view payload_name_of(DType dtype) {
  for (const DTypeName& row : kDTypes) {
    if (row.dtype == dtype) return row.payload;
  }
  return "?";
}

std::string to_text(const Manifest& manifest) {
  std::string text = concat(kManifestStart, kVersion, ",\n\"step\":", manifest.step,
                            ",\n\"scalars\":", json_of(manifest.scalars).dump(),
                            ",\n\"tensors\":", lines_of(manifest.tensors),
                            ",\n\"files\":", lines_of(manifest.files));
  const std::string checksum = hex_of(checksum_of(text));
  return text + std::string(kTailStart) + checksum + std::string(kTailEnd);
}

Manifest parse_manifest(std::string_view text) {
  // After a power failure, a file may be short, or end in zeros.
  const std::string_view written = text.substr(0, text.find_last_not_of('\0') + 1);
  const bool starts_well =
      written.starts_with(kManifestStart) || kManifestStart.starts_with(written);
  const std::string_view tail =
      text.size() < kTailBytes ? "" : text.substr(text.size() - kTailBytes);
  const bool ends_well = tail.starts_with(kTailStart) && tail.ends_with(kTailEnd);
  if (!starts_well && !ends_well) throw FormatError("this is not a manifest of shardsim", true);
  if (!ends_well) throw FormatError("the manifest is cut short or changed at its end");
  const std::string_view body = text.substr(0, text.size() - kTailBytes);
  if (parse_hex(tail.substr(kTailStart.size(), 16)) != checksum_of(body)) {
    throw FormatError("the manifest's checksum is not that of its text");
  }
  const Json json = parse_json(text);
  if (text_in(member(json, "format")) != kFormat) {
    throw FormatError("the manifest is of another format", true);
  }
  const std::int64_t version = integer(member(json, "version"), 0, kAny);
  if (version != kVersion) {
    throw FormatError(
        concat("the manifest has version ", version, ", this shardsim reads ", kVersion), true);
  }
  Manifest manifest{.step = integer(member(json, "step"), 0, kAny),
                    .scalars = scalars_in(member(json, "scalars")),
                    .tensors = tensors_in(member(json, "tensors"))};
  for (const Json& value : list_in(member(json, "files"))) {
    manifest.files.push_back(file_in(value, manifest.tensors));
    if (manifest.files.back().rank != static_cast<int>(manifest.files.size()) - 1) {
      throw FormatError("files are not those of ranks 0, 1, 2, ...");
    }
  }
  return manifest;
}

std::string to_text(const RankReport& report) {
  return concat("{\"step\":", report.step, ",\"scalars\":", json_of(report.scalars).dump(),
                ",\"tensors\":", lines_of(report.tensors),
                ",\"file\":", json_of(report.file).dump(), "}");
}

RankReport parse_report(std::string_view text) {
  const Json json = parse_json(text);
  RankReport report{.step = integer(member(json, "step"), 0, kAny),
                    .scalars = scalars_in(member(json, "scalars")),
                    .tensors = tensors_in(member(json, "tensors"))};
  report.file = file_in(member(json, "file"), report.tensors);
  return report;
}

std::vector<PayloadEntry> parse_payload_header(std::string_view json_text) {
  // The published format asks for it, so that other kinds of file are told apart early.
  if (!json_text.starts_with('{')) throw FormatError("the header does not start with '{'");
  const Json json = parse_json(json_text);
  std::vector<PayloadEntry> entries;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    const Json& offsets = list_in(member(value, "data_offsets"));
    if (offsets.size() != 2) throw FormatError("\"data_offsets\" are not two");
    entries.push_back({.name = name,
                       .dtype = dtype_in(member(value, "dtype"), true),
                       .shape = shape_in(member(value, "shape")),
                       .begin = integer(offsets[0], 0, kAny),
                       .end = integer(offsets[1], 0, kAny)});
  }
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::int64_t at = 0;
  for (const PayloadEntry& entry : entries) {
    const auto numel = checked_numel(entry.shape);
    if (!numel || entry.begin != at || entry.end < entry.begin ||
        entry.end - entry.begin != *numel * size_of(entry.dtype)) {
      throw FormatError("a tensor's bytes do not fit its shape or do not follow the one before");
    }
    at = entry.end;
  }
  return entries;
}

std::optional<CoverageProblem> find_coverage_problem(const Manifest& manifest) {
  std::vector<std::vector<OwnedRun>> runs(manifest.tensors.size());
  for (const StoredFile& file : manifest.files) {
    for (const StoredChunk& chunk : file.chunks) {
      for (const ElementRun& run : chunk.elements) {
        runs[static_cast<std::size_t>(chunk.tensor)].push_back({run, file.rank});
      }
    }
  }
  for (std::size_t t = 0; t < runs.size(); ++t) {
    const TensorInfo& tensor = manifest.tensors[t];
    const auto fault = find_partition_fault(std::move(runs[t]), *checked_numel(tensor.shape));
    if (!fault) continue;
    const std::string element =
        "element " + std::to_string(fault->element) + " of \"" + tensor.name + "\" ";
    if (fault->owner < 0) return CoverageProblem{true, element + "has no main copy on any rank"};
    return CoverageProblem{false, concat(element, "has two main copies, on rank ", fault->owner,
                                         " and on rank ", fault->other)};
  }
  return std::nullopt;
}

}  // namespace shardsim
