#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/checkpoint/chunk.hpp"

// The content of a manifest, and its text: JSON whose last member is a checksum of all before it.
// The parser treats everything in the text as hostile. Also the text of a rank's file report, and
// the header of a safetensors file: manifest.cpp handles all JSON.
namespace shardsim {

/// Longest text of a manifest or report, and of a safetensors header (whose reference reader
/// accepts 100 MB). They bound what a reader allocates before it knows better.
inline constexpr std::int64_t kMaxManifestBytes = std::int64_t{64} << 20;
inline constexpr std::int64_t kMaxHeaderBytes = std::int64_t{16} << 20;

/// A chunk as it lies in a file, under the name `entry`.
struct StoredChunk {
  int tensor = 0;  // Index into the list of tensors that goes with it.
  std::string entry;
  ElementRuns elements;
};

/// One rank's file. Its name follows from rank and checksum (names.hpp).
struct StoredFile {
  int rank = 0;
  std::int64_t bytes = 0;
  std::uint64_t checksum = 0;
  std::vector<StoredChunk> chunks;
};

struct Manifest {
  std::int64_t step = 0;
  Scalars scalars;
  std::vector<TensorInfo> tensors;  // By name, each once.
  std::vector<StoredFile> files;    // By rank, from 0.
};

/// A rank's report on the file it wrote; it holds a part of each of `tensors`.
struct RankReport {
  std::int64_t step = 0;
  Scalars scalars;
  std::vector<TensorInfo> tensors;
  StoredFile file;
};

/// A tensor in a safetensors file: bytes [begin, end) behind the header.
struct PayloadEntry {
  std::string name;
  DType dtype = DType::fp32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// A text that is not what it should be. `foreign`: it does not even claim to be.
class FormatError : public std::runtime_error {
 public:
  explicit FormatError(const std::string& message, bool foreign = false)
      : std::runtime_error(message), foreign_(foreign) {}
  [[nodiscard]] bool foreign() const noexcept { return foreign_; }

 private:
  bool foreign_;
};

/// Equal manifests give equal bytes. ASCII, ends in a newline.
[[nodiscard]] std::string to_text(const Manifest& manifest);
/// Throws FormatError. The result is well-formed (names, shapes, runs inside tensors, ranks in
/// order). The partition of tensors (below) and the content of files stay unchecked.
[[nodiscard]] Manifest parse_manifest(std::string_view text);

[[nodiscard]] std::string to_text(const RankReport& report);
/// Throws FormatError; checks as much as parse_manifest.
[[nodiscard]] RankReport parse_report(std::string_view text);

/// The JSON of a safetensors header; throws FormatError. Entries come in the order of their bytes,
/// which follow each other without gap from 0 and fit dtype and shape. Entries of a dtype that we
/// do not know are refused.
[[nodiscard]] std::vector<PayloadEntry> parse_payload_header(std::string_view json);
/// "F32", "BF16", ...: the name of a dtype in safetensors.
[[nodiscard]] std::string_view payload_name_of(DType dtype);

/// Says of the first element that is not held exactly once which it is, and in whose files; names
/// the problem in `gap`. Nothing if each tensor is whole.
struct CoverageProblem {
  bool gap = false;
  std::string message;
};
[[nodiscard]] std::optional<CoverageProblem> find_coverage_problem(const Manifest& manifest);

}  // namespace shardsim
