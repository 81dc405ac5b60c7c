#include <string>
#include <string_view>
#include <vector>

#include "strategies/checkpoint/names.hpp"

#include "tests/checkpoint/draw.hpp"
#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/checkpoint/sample_state.hpp"
#include "tests/property/check_property.hpp"

// Files made by somebody who knows the format and means no good: all checksums are right. Reading
// them ends in an error or in values, never in a crash, an endless loop or gigabytes of memory.
namespace shardsim::test {
namespace {

const std::string kManifestPath = "/run/step-00000002/manifest.json";

// The manifest's text with the checksum that its body has.
std::string sealed(const std::string& body) {
  return body + ",\n\"xxh64\":\"" + hex_of(checksum_of(body)) + "\"}\n";
}

std::string body_of(const std::string& manifest) {
  return manifest.substr(0, manifest.rfind(",\n\"xxh64\""));
}

struct SealedSample {
  MemoryFileSystem files;
  std::string body;
  SealedSample() {
    const SampleState state = make_sample(2);
    REQUIRE(save(files, kStep2, state.ranks, state.scalars).ok());
    body = body_of(files.read_file(kManifestPath));
    REQUIRE(sealed(body) == files.read_file(kManifestPath));
  }

  // Puts a file in the place of a rank's, and seals a manifest that agrees with it.
  void replace_payload(const std::string& payload, std::size_t rank = 0) {
    Manifest manifest = parse_manifest(sealed(body));
    StoredFile& file = manifest.files[rank];
    file.bytes = static_cast<std::int64_t>(payload.size());
    file.checksum = checksum_of(payload);
    files.write_file("/run/step-00000002/" + rank_file_name(file.rank, file.checksum), payload);
    files.write_file(kManifestPath, to_text(manifest));
  }
  [[nodiscard]] std::string payload() const {
    const Manifest manifest = parse_manifest(sealed(body));
    const StoredFile& file = manifest.files[0];
    return files.read_file("/run/step-00000002/" + rank_file_name(0, file.checksum));
  }
};

// Reads all there is in every way there is.
CheckpointProblem read_everything(MemoryFileSystem& files) {
  try {
    CheckpointReader reader(files, kStep2);
    reader.verify();
    for (const TensorInfo& tensor : reader.tensors()) {
      const std::int64_t numel = checked_numel(tensor.shape).value();
      static_cast<void>(load(reader, tensor, flat_run(0, numel)));
      static_cast<void>(load(reader, tensor, flat_run(numel / 2, numel - numel / 2)));
    }
    return CheckpointProblem::none;
  } catch (const CheckpointError& error) {
    return error.problem();
  }
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

struct Change {
  const char* from;
  const char* to;
  CheckpointProblem problem = CheckpointProblem::damaged;
};

TEST_CASE("a sealed manifest that contradicts itself is damaged") {
  SealedSample saved;
  const std::vector<Change> changes = {
      {"\"version\":1", "\"version\":2", CheckpointProblem::foreign},
      {"\"version\":1", "\"version\":1.0"},
      {"\"step\":2", "\"step\":3"},
      {"\"step\":2", "\"step\":-2"},
      {"\"step\":2", "\"step\":2,\"step\":2"},
      {"\"step\":2", "\"step\":\"2\""},
      {"\"step\":2", "\"step\":18446744073709551615"},
      {"\"step\":2", "\"step\":2e0"},
      {"\"step\":2", "\"pets\":2"},
      {"\"step\":2", "\"step\":[[[[[[[[[[[[[[]]]]]]]]]]]]]]"},
      {"\"scalars\":{", "\"scalars\":[],\"other\":{"},
      {"\"float64\"", "\"float32\""},
      {"\"int64\",\"value\":2", "\"int64\",\"value\":9223372036854775808"},
      {"\"int64\",\"value\":2", "\"bool\",\"value\":2"},
      {"\"int64\",\"value\":2", "\"uint64\",\"value\":-2"},
      {"\"int64\",\"value\":2", "\"text\",\"value\":\"\\u0000\""},
      {"\"loss_scale\"", "\"loss scale\""},
      {"\"name\":\"exp_avg/w\"", "\"name\":\"parameter/w\""},
      {"\"name\":\"exp_avg/w\"", "\"name\":\"zz\""},
      {"\"name\":\"exp_avg/w\"", "\"name\":\"\""},
      {"\"name\":\"exp_avg/w\"", "\"name\":7"},
      {"\"dtype\":\"fp64\"", "\"dtype\":\"fp65\""},
      {"\"dtype\":\"fp64\"", "\"dtype\":\"fp32\""},
      {"\"shape\":[2,3]", "\"shape\":[2,4]"},
      {"\"shape\":[2,3]", "\"shape\":[2,2]"},
      {"\"shape\":[2,3]", "\"shape\":[4294967296,4294967296]"},
      {"\"shape\":[2,3]", "\"shape\":[-2,-3]"},
      {"\"shape\":[2,3]", "\"shape\":[1,1,1,1,1,1,1,2,3]"},
      {"\"shape\":[2,3]", "\"shape\":6"},
      {"\"rank\":0", "\"rank\":1"},
      {"\"rank\":0", "\"rank\":4294967296"},
      {"\"rank\":2", "\"rank\":3"},
      {"\"bytes\":", "\"bytes\":1"},
      {"\"bytes\":", "\"bytes\":-"},
      {"\"xxh64\":\"", "\"xxh64\":\"0"},
      {"\"xxh64\":\"", "\"xxh64\":\"../../../"},
      {"\"tensor\":1", "\"tensor\":4"},
      {"\"tensor\":1", "\"tensor\":-1"},
      {"\"tensor\":1", "\"tensor\":3"},
      {"\"entry\":\"exp_avg/w#0\"", "\"entry\":\"exp_avg/w#1\""},
      {"\"entry\":\"exp_avg/w#0\"", "\"entry\":\"__metadata__\""},
      {"\"runs\":[[0,4]]", "\"runs\":[[0,3]]"},
      {"\"runs\":[[0,4]]", "\"runs\":[[0,5]]"},
      {"\"runs\":[[0,4]]", "\"runs\":[[1,4]]"},
      {"\"runs\":[[0,4]]", "\"runs\":[]"},
      {"\"runs\":[[0,4]]", "\"runs\":[[0,9223372036854775807]]"},
      {"\"runs\":[[0,4]]", "\"runs\":[[9223372036854775807,9223372036854775807]]"},
      {"\"runs\":[[0,4]]", "\"runs\":[[0,1,1,9223372036854775807]]"},
      {"\"runs\":[[0,4]]", "\"runs\":[[0,1,0,4]]"},
      {"\"runs\":[[0,4]]", "\"runs\":[[0,4,4,1]]"},
      {"\"runs\":[[0,4]]", "\"runs\":[[0,0]]"},
      {"\"runs\":[[0,4]]", "\"runs\":[[0,4,1]]"},
      {"\"runs\":[[0,4]]", "\"runs\":[0,4]"},
      {"\"runs\":[[0,4]]", "\"runs\":[[0,2],[0,2]]"},
      {"\"files\":[", "\"files\":[[],"},
      {"\"files\":[", "\"files\":[{},"},
      {"\"tensors\":[", "\"tensors\":[{},"},
  };
  for (const Change& change : changes) {
    INFO(change.from << " -> " << change.to);
    saved.files.write_file(kManifestPath, sealed(replaced(saved.body, change.from, change.to)));
    CHECK(read_everything(saved.files) == change.problem);
  }
  // A manifest of another format, but with the ending of ours.
  saved.files.write_file(kManifestPath, sealed(replaced(saved.body, "shardsim-", "sharpsim-")));
  CHECK(read_everything(saved.files) == CheckpointProblem::foreign);
  // And changes that contradict nothing.
  saved.files.write_file(kManifestPath, sealed(replaced(saved.body, "[[0,4]]", "[[0,1,1,4]]")));
  CHECK(read_everything(saved.files) == CheckpointProblem::none);
  saved.files.write_file(kManifestPath,
                         sealed(replaced(saved.body, ":[[0,4]]", " :\n[[ 0, 4 ] ]")));
  CHECK(read_everything(saved.files) == CheckpointProblem::none);
}

TEST_CASE("claims of enormous tensors cost nothing") {
  // A tensor of 2^59 elements in pieces of one, in a file of a few bytes.
  SealedSample saved;
  std::string body = replaced(saved.body, "\"shape\":[2,3]", "\"shape\":[576460752303423488]");
  body = replaced(body, "\"runs\":[[4,2]]", "\"runs\":[]");
  body = replaced(body, "\"runs\":[[0,4]]",
                  "\"runs\":[[0,1,2,288230376151711744],[1,1,2,288230376151711744]]");
  saved.files.write_file(kManifestPath, sealed(body));
  CHECK(read_everything(saved.files) == CheckpointProblem::damaged);
  saved.files.write_file(kManifestPath, sealed(saved.body + std::string(65 << 20, ' ')));
  CHECK(read_everything(saved.files) == CheckpointProblem::damaged);
}

std::string with_header_length(std::string payload, std::uint64_t length) {
  for (std::size_t i = 0; i < 8; ++i, length >>= 8U) payload[i] = static_cast<char>(length & 0xFFU);
  return payload;
}

TEST_CASE("a header's length is not believed") {
  SealedSample saved;
  const std::string payload = saved.payload();
  const auto right =
      static_cast<unsigned char>(payload[0]) + 256U * static_cast<unsigned char>(payload[1]);
  saved.replace_payload(with_header_length(payload, right));
  CHECK(read_everything(saved.files) == CheckpointProblem::none);
  std::vector<std::uint64_t> lengths = {UINT64_MAX, UINT64_MAX - 7, std::uint64_t{1} << 63U,
                                        std::uint64_t{1} << 32U, std::uint64_t{16} << 20U};
  for (std::uint64_t length = 0; length < payload.size() + 8; ++length) {
    if (length != right) lengths.push_back(length);
  }
  for (const std::uint64_t length : lengths) {
    INFO(length);
    saved.replace_payload(with_header_length(payload, length));
    CHECK(read_everything(saved.files) == CheckpointProblem::damaged);
  }
  // The limit holds for a header that is as long as it claims, and right.
  const std::size_t limit = std::size_t{16} << 20U;
  for (const std::size_t length : {limit, limit + 1}) {
    std::string large = payload;
    large.insert(8 + right, length - right, ' ');
    saved.replace_payload(with_header_length(large, length));
    CHECK(read_everything(saved.files) ==
          (length == limit ? CheckpointProblem::none : CheckpointProblem::damaged));
  }
  for (std::size_t size = 0; size <= 8; ++size) {
    INFO(size);
    saved.replace_payload(std::string(size, '\0'));  // Too short for its chunks,
    CHECK(read_everything(saved.files) == CheckpointProblem::damaged);
    saved.replace_payload(std::string(size, '\0'), 2);  // and of a rank that has none.
    CHECK(read_everything(saved.files) == CheckpointProblem::damaged);
  }
}

TEST_CASE("a sealed header that contradicts itself is damaged") {
  SealedSample saved;
  const std::string payload = saved.payload();
  const std::size_t header_end =
      8 + static_cast<unsigned char>(payload[0]) + 256U * static_cast<unsigned char>(payload[1]);
  const std::string header = payload.substr(8, header_end - 8);
  const std::string data = payload.substr(header_end);
  const auto with_header = [&](const std::string& text) {
    return with_header_length(std::string(8, '\0'), text.size()) + text + data;
  };
  saved.replace_payload(with_header(header));
  REQUIRE(read_everything(saved.files) == CheckpointProblem::none);
  saved.replace_payload(with_header(header + "  \n\t"));
  CHECK(read_everything(saved.files) == CheckpointProblem::none);
  const std::vector<Change> changes = {
      {"{\"__metadata__\"", " {\"__metadata__\""},
      {"\"exp_avg/w#0\"", "\"exp_avg/w#1\""},
      {"\"exp_avg/w#0\"", "\"parameter/w#0\""},  // Twice.
      {"\"exp_avg/w#0\"", "\"\xff\""},
      {"\"F64\"", "\"F32\""},
      {"\"F64\"", "\"I64\""},
      {"\"F64\"", "\"F63\""},
      {"\"shape\":[4]", "\"shape\":[5]"},
      {"\"shape\":[4]", "\"shape\":[-4]"},
      {"\"shape\":[4]", "\"shape\":[9223372036854775807,9223372036854775807]"},
      {"\"shape\":[4]", "\"form\":[4]"},
      {"\"data_offsets\":[0,32]", "\"data_offsets\":[0,31]"},
      {"\"data_offsets\":[0,32]", "\"data_offsets\":[0,40]"},
      {"\"data_offsets\":[0,32]", "\"data_offsets\":[8,40]"},
      {"\"data_offsets\":[0,32]", "\"data_offsets\":[32,0]"},
      {"\"data_offsets\":[0,32]", "\"data_offsets\":[-32,0]"},
      {"\"data_offsets\":[0,32]", "\"data_offsets\":[0]"},
      {"\"data_offsets\":[0,32]", "\"data_offsets\":[0,9223372036854775807]"},
      {"\"data_offsets\":[0,32]", "\"data_offsets\":[0,18446744073709551615]"},
      {"\"data_offsets\":[0,32]", "\"data_offsets\":[0,32.0]"},
      {"}}", "}"},
      {"}}", "}}}"},
  };
  for (const Change& change : changes) {
    INFO(change.from << " -> " << change.to);
    saved.replace_payload(with_header(replaced(header, change.from, change.to)));
    CHECK(read_everything(saved.files) == change.problem);
  }
  saved.replace_payload(with_header("[]"));
  CHECK(read_everything(saved.files) == CheckpointProblem::damaged);
  saved.replace_payload(with_header("{" + std::string(100'000, '[')));
  CHECK(read_everything(saved.files) == CheckpointProblem::damaged);
}

// --- random changes ----------------------------------------------------------------------------

std::string draw_splice() {
  static const std::vector<std::string> kPieces = {"0",
                                                   "-1",
                                                   "9223372036854775807",
                                                   "18446744073709551616",
                                                   "1e308",
                                                   "[",
                                                   "]",
                                                   "{",
                                                   "}",
                                                   "\"",
                                                   ",",
                                                   ":",
                                                   "null",
                                                   "true",
                                                   "\\u0000",
                                                   "\\ud800",
                                                   "\xff",
                                                   std::string(1, '\0'),
                                                   "[[[[[[[[",
                                                   "2"};
  return *rc::gen::elementOf(kPieces);
}

// One to four bytes flipped, pieces put in, cut out or doubled.
std::string mutated(std::string text) {
  const int changes = draw(1, 5);
  for (int i = 0; i < changes; ++i) {
    const auto at = draw<std::size_t>(0, text.size() + 1);
    const auto count = draw<std::size_t>(0, std::min<std::size_t>(40, text.size() - at) + 1);
    switch (draw(0, 4)) {
      case 0:
        if (at < text.size()) text[at] = *rc::gen::arbitrary<char>();
        break;
      case 1:
        text.erase(at, count);
        break;
      case 2:
        text.insert(at, text.substr(at, count));
        break;
      default:
        text.replace(at, std::min<std::size_t>(count, 2), draw_splice());
    }
  }
  return text;
}

TEST_CASE("no change to a sealed manifest makes the reader crash") {
  SealedSample saved;
  int survived = 0;
  check_property(3000, [&] {
    saved.files.write_file(kManifestPath, sealed(mutated(saved.body)));
    if (read_everything(saved.files) == CheckpointProblem::none) ++survived;
  });
  CHECK(survived > 0);  // Some changes are of no consequence: then all of it was read.
}

TEST_CASE("no change to a sealed payload makes the reader crash") {
  SealedSample saved;
  const std::string payload = saved.payload();
  int survived = 0;
  check_property(3000, [&] {
    const std::string changed = mutated(payload);
    if (changed.size() < 100) return;
    saved.replace_payload(changed);
    if (read_everything(saved.files) == CheckpointProblem::none) ++survived;
  });
  CHECK(survived > 0);
}

TEST_CASE("no change to a report makes its reader crash") {
  MemoryFileSystem files;
  const GlobalTensor w = make_tensor("w", DType::fp32, {4, 4});
  const OwnChunk own = cut(w, {{0, 2, 4, 4}});
  const Chunk chunk{.tensor = own.info, .elements = own.elements, .bytes = own.bytes};
  const RankWrite written = write_rank_file(files, kStep2, 0, {&chunk, 1}, {{"a", 1.0}});
  const std::string text = to_text(written.report);
  REQUIRE(to_text(parse_report(text)) == text);
  int refused = 0;
  check_property(2000, [&] {
    try {
      const RankReport report = parse_report(mutated(text));
      static_cast<void>(commit(files, kStep2, {&report, 1}));
    } catch (const FormatError&) {
      ++refused;
    }
  });
  CHECK(refused > 0);
}

}  // namespace
}  // namespace shardsim::test
