#include "strategies/checkpoint/payload.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "strategies/checkpoint/checkpoint_error.hpp"

namespace shardsim {

// Elements are written as they lie in memory, and the format is little-endian.
static_assert(std::endian::native == std::endian::little);

namespace {

constexpr std::int64_t kLengthBytes = 8;

[[noreturn]] void refuse(const std::string& why) {
  throw CheckpointError(CheckpointProblem::bad_chunk, why);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t dim : shape) {
    if (text.size() > 1) text += ",";
    text += std::to_string(dim);
  }
  return text + "]";
}

// Names need no escaping: problem_of_name sees to it.
std::string entry_text(const std::string& name, DType dtype, std::span<const std::int64_t> shape,
                       std::int64_t begin, std::int64_t end) {
  return concat(",\"", name, "\":{\"dtype\":\"", payload_name_of(dtype),
                "\",\"shape\":", shape_text(shape), ",\"data_offsets\":[", begin, ",", end, "]}");
}

std::string with_length(std::string json) {
  // Tensors are written in falling order of element size, so one aligned beginning aligns them all.
  while (json.size() % kLengthBytes != 0) json += ' ';
  std::string header(kLengthBytes, '\0');
  std::uint64_t length = json.size();
  for (char& byte : header) {
    byte = static_cast<char>(length & 0xFFU);
    length >>= 8U;
  }
  return header + json;
}

// Index of each tensor by name, in the order of names.
std::map<std::string, int> index_tensors(std::span<const Chunk> chunks,
                                         std::vector<TensorInfo>& tensors) {
  std::map<std::string, const TensorInfo*> by_name;
  for (const Chunk& chunk : chunks) {
    if (auto problem = problem_of(chunk.tensor, chunk.elements, chunk.bytes.size())) {
      refuse(*problem);
    }
    const auto [known, is_new] = by_name.emplace(chunk.tensor.name, &chunk.tensor);
    if (!is_new && *known->second != chunk.tensor) {
      refuse("\"" + chunk.tensor.name + "\" is " + describe(*known->second) + " in one chunk and " +
             describe(chunk.tensor) + " in another");
    }
  }
  std::map<std::string, int> index;
  for (const auto& [name, tensor] : by_name) {
    index.emplace(name, static_cast<int>(tensors.size()));
    tensors.push_back(*tensor);
  }
  return index;
}

}  // namespace

PayloadLayout lay_out_payload(std::span<const Chunk> chunks, std::int64_t step, int rank) {
  PayloadLayout layout;
  const std::map<std::string, int> index = index_tensors(chunks, layout.tensors);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i].main && !chunks[i].elements.empty()) layout.order.push_back(static_cast<int>(i));
  }
  std::stable_sort(layout.order.begin(), layout.order.end(), [&](int a, int b) {
    return size_of(chunks[static_cast<std::size_t>(a)].tensor.dtype) >
           size_of(chunks[static_cast<std::size_t>(b)].tensor.dtype);
  });
  std::string json =
      concat("{\"__metadata__\":{\"format\":\"shardsim-checkpoint\",\"version\":\"1\",\"step\":\"",
             step, "\",\"rank\":\"", rank, "\"}");
  std::map<std::string, int> parts;
  std::int64_t at = 0;
  for (const int i : layout.order) {
    const Chunk& chunk = chunks[static_cast<std::size_t>(i)];
    const TensorInfo& tensor = chunk.tensor;
    const bool whole = is_whole(tensor, chunk.elements);
    const int part = parts[tensor.name]++;
    if (whole && part > 0) refuse("\"" + tensor.name + "\" has two main copies on one rank");
    std::string entry = whole ? tensor.name : tensor.name + "#" + std::to_string(part);
    const std::vector<std::int64_t> flat = {num_elements(chunk.elements)};
    const auto end = at + static_cast<std::int64_t>(chunk.bytes.size());
    json += entry_text(entry, tensor.dtype, whole ? tensor.shape : flat, at, end);
    layout.stored.push_back(
        {.tensor = index.at(tensor.name), .entry = std::move(entry), .elements = chunk.elements});
    at = end;
  }
  json += "}";
  if (static_cast<std::int64_t>(json.size()) > kMaxHeaderBytes - kLengthBytes) {
    throw CheckpointError(CheckpointProblem::too_large,
                          concat("the header of a rank's file has ", json.size(),
                                 " bytes; the limit is ", kMaxHeaderBytes));
  }
  layout.header = with_length(std::move(json));
  layout.bytes = static_cast<std::int64_t>(layout.header.size()) + at;
  return layout;
}

PayloadHeader read_payload_header(InputFile& file) {
  std::array<std::byte, kLengthBytes> prefix{};
  if (!read_all(file, 0, prefix)) throw FormatError("the file is shorter than a header's length");
  std::uint64_t length = 0;
  for (std::size_t i = prefix.size(); i-- > 0;) {
    length = length << 8U | std::to_integer<std::uint64_t>(prefix[i]);
  }
  const auto behind = static_cast<std::uint64_t>(file.size() - kLengthBytes);
  if (length > behind || length > static_cast<std::uint64_t>(kMaxHeaderBytes)) {
    throw FormatError("the header claims " + std::to_string(length) + " bytes");
  }
  std::string json(length, '\0');
  if (!read_all(file, kLengthBytes, std::as_writable_bytes(std::span(json)))) {
    throw FormatError("the file ends in its header");
  }
  PayloadHeader header{.entries = parse_payload_header(json),
                       .data_offset = kLengthBytes + static_cast<std::int64_t>(length)};
  const std::int64_t data = header.entries.empty() ? 0 : header.entries.back().end;
  if (data != file.size() - header.data_offset) {
    throw FormatError("the tensors do not fill the file");
  }
  return header;
}

}  // namespace shardsim
