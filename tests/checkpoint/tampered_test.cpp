#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "strategies/checkpoint/names.hpp"
#include "strategies/checkpoint/payload.hpp"

#include "tests/checkpoint/draw.hpp"
#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/checkpoint/sample_state.hpp"
#include "tests/property/check_property.hpp"

// A rank's file and the manifest altered together: sizes, offsets, names, dtypes and shapes, with
// every checksum made anew. Nothing can tell such files from true ones, so what they say is loaded,
// to the byte, or they contradict each other and are refused. Never is a byte read that is in no
// file.
namespace shardsim::test {
namespace {

const std::string kStep2Folder = "/run/step-00000002/";

struct Entry {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::int64_t begin;
  std::int64_t end;
};

// A checkpoint taken apart: anything may be changed, and is then written with right checksums.
struct Altered {
  Manifest manifest;
  std::vector<std::vector<Entry>> headers;  // By file.
  std::vector<std::string> data;

  explicit Altered(const MemoryFileSystem& files) {
    manifest = parse_manifest(files.read_file(kStep2Folder + std::string(kManifestName)));
    for (const StoredFile& file : manifest.files) {
      const std::string text =
          files.read_file(kStep2Folder + rank_file_name(file.rank, file.checksum));
      std::uint64_t length = 0;
      std::memcpy(&length, text.data(), sizeof length);
      headers.emplace_back();
      for (const PayloadEntry& e : parse_payload_header(text.substr(8, length))) {
        headers.back().push_back({e.name, e.dtype, e.shape, e.begin, e.end});
      }
      data.push_back(text.substr(8 + length));
    }
  }

  void write_to(MemoryFileSystem& files) {
    for (std::size_t i = 0; i < headers.size(); ++i) {
      nlohmann::ordered_json json = {{"__metadata__", {{"format", "shardsim-checkpoint"}}}};
      for (const Entry& entry : headers[i]) {
        json[entry.name] = {{"dtype", payload_name_of(entry.dtype)},
                            {"shape", nlohmann::json(entry.shape)},
                            {"data_offsets", {entry.begin, entry.end}}};
      }
      const std::string text = json.dump();
      const std::uint64_t length = text.size();
      std::string payload(8, '\0');
      std::memcpy(payload.data(), &length, sizeof length);
      payload += text + data[i];
      StoredFile& file = manifest.files[i];
      file.bytes = static_cast<std::int64_t>(payload.size());
      file.checksum = checksum_of(payload);
      files.write_file(kStep2Folder + rank_file_name(file.rank, file.checksum), payload);
    }
    files.write_file(kStep2Folder + std::string(kManifestName), to_text(manifest));
  }
};

using Tensors = std::map<std::string, std::vector<std::byte>>;

// The content of the files, read element by element; nothing if it makes no sense.
class NaiveReading {
 public:
  explicit NaiveReading(const Altered& altered) : altered_(altered) {}

  std::optional<Tensors> tensors() {
    for (const TensorInfo& tensor : altered_.manifest.tensors) {
      const auto numel = checked_numel(tensor.shape);
      if (!numel || *numel > 1000) return std::nullopt;  // More than there are bytes.
      const auto count = static_cast<std::size_t>(*numel);
      found_[tensor.name].resize(count * static_cast<std::size_t>(size_of(tensor.dtype)));
      times_[tensor.name].resize(count);
    }
    for (std::size_t i = 0; i < altered_.headers.size(); ++i) {
      if (!read_file(i)) return std::nullopt;
    }
    for (const auto& [name, times] : times_) {
      for (const int count : times) {
        if (count != 1) return std::nullopt;
      }
    }
    return found_;
  }

 private:
  bool read_file(std::size_t i) {
    for (const StoredChunk& chunk : altered_.manifest.files[i].chunks) {
      const TensorInfo& tensor = altered_.manifest.tensors[static_cast<std::size_t>(chunk.tensor)];
      const Entry* entry = nullptr;
      for (const Entry& each : altered_.headers[i]) {
        if (each.name == chunk.entry) entry = &each;
      }
      if (entry == nullptr || entry->dtype != tensor.dtype) return false;
      std::int64_t at = entry->begin;
      for (const ElementRun& run : chunk.elements) {
        for (std::int64_t k = 0; k < run.repeats * run.count; ++k) {
          const std::int64_t element = run.piece(k / run.count) + k % run.count;
          if (!read_element(tensor, element, altered_.data[i], at)) return false;
          at += size_of(tensor.dtype);
        }
      }
      if (at != entry->end) return false;
    }
    return true;
  }

  bool read_element(const TensorInfo& tensor, std::int64_t element, const std::string& data,
                    std::int64_t at) {
    std::vector<int>& times = times_[tensor.name];
    const std::int64_t size = size_of(tensor.dtype);
    if (element < 0 || element >= static_cast<std::int64_t>(times.size())) return false;
    if (at < 0 || at > static_cast<std::int64_t>(data.size()) - size) return false;
    ++times[static_cast<std::size_t>(element)];
    std::memcpy(found_[tensor.name].data() + element * size, data.data() + at,
                static_cast<std::size_t>(size));
    return true;
  }

  const Altered& altered_;
  Tensors found_;
  std::map<std::string, std::vector<int>> times_;
};

// The same by the product: whole, and in two parts. Nothing if it refuses.
std::optional<Tensors> read(MemoryFileSystem& files) {
  try {
    CheckpointReader reader(files, kStep2);
    reader.verify();
    Tensors found;
    for (const TensorInfo& tensor : reader.tensors()) {
      const std::int64_t numel = checked_numel(tensor.shape).value();
      std::vector<std::byte> parts = load(reader, tensor, flat_run(0, numel / 2));
      const std::vector<std::byte> rest =
          load(reader, tensor, flat_run(numel / 2, numel - numel / 2));
      parts.insert(parts.end(), rest.begin(), rest.end());
      found[tensor.name] = load(reader, tensor, flat_run(0, numel));
      REQUIRE(found[tensor.name] == parts);
    }
    return found;
  } catch (const CheckpointError& error) {
    REQUIRE(error.problem() == CheckpointProblem::damaged);
    return std::nullopt;
  }
}

struct SavedSample {
  MemoryFileSystem files;
  SavedSample() {
    const SampleState state = make_sample(2);
    REQUIRE(save(files, kStep2, state.ranks, state.scalars).ok());
  }
};

// Writes it, reads it both ways; true if it was loaded.
bool loads_what_it_says(MemoryFileSystem& files, Altered& altered) {
  altered.write_to(files);
  files.reads_outside = 0;
  const std::optional<Tensors> found = read(files);
  REQUIRE(files.reads_outside == 0);
  if (!found) return false;
  const std::optional<Tensors> expected = NaiveReading(altered).tensors();
  REQUIRE(expected.has_value());
  REQUIRE(*found == *expected);
  return true;
}

std::int64_t size_of_entry(const Entry& entry) { return entry.end - entry.begin; }

// Entries one after the other, as their sizes now are.
void pack(std::vector<Entry>& header) {
  std::int64_t at = 0;
  for (Entry& entry : header) {
    const std::int64_t size = size_of_entry(entry);
    entry.begin = at;
    entry.end = at += size;
  }
}

TEST_CASE("an untouched checkpoint reads the same both ways") {
  SavedSample saved;
  Altered altered(saved.files);
  CHECK(loads_what_it_says(saved.files, altered));
}

TEST_CASE("the border between two ranks' chunks, moved in both files and the manifest, is moved") {
  for (const std::int64_t border : {1, 2, 3, 5}) {
    SavedSample saved;
    Altered altered(saved.files);
    // exp_avg/w: elements 0 to 3 on rank 0 and 4, 5 on rank 1, first in both files.
    const std::string both = altered.data[0].substr(0, 32) + altered.data[1].substr(0, 16);
    const std::vector<std::int64_t> counts = {border, 6 - border};
    for (std::size_t i = 0; i < 2; ++i) {
      Entry& entry = altered.headers[i].front();
      REQUIRE(entry.name == "exp_avg/w#0");
      altered.data[i].replace(0, static_cast<std::size_t>(size_of_entry(entry)),
                              both.substr(static_cast<std::size_t>(i == 0 ? 0 : 8 * border),
                                          static_cast<std::size_t>(8 * counts[i])));
      entry.shape = {counts[i]};
      entry.end = entry.begin + 8 * counts[i];
      pack(altered.headers[i]);
      altered.manifest.files[i].chunks.front().elements = flat_run(i == 0 ? 0 : border, counts[i]);
    }
    REQUIRE(loads_what_it_says(saved.files, altered));
    CHECK(read(saved.files)->at("exp_avg/w") == make_sample(2).tensors[1].bytes);
  }
}

TEST_CASE("tensors of one size that change places in the header change their values") {
  SavedSample saved;
  Altered altered(saved.files);
  // parameter/w: two elements of fp32 on rank 1, and parameter/b: three of bf16.
  std::vector<Entry>& header = altered.headers[1];
  REQUIRE(header.size() == 3);
  std::swap(header[1], header[2]);
  pack(header);
  REQUIRE(loads_what_it_says(saved.files, altered));
  CHECK(read(saved.files)->at("parameter/b") != make_sample(2).tensors[2].bytes);
}

TEST_CASE("a chunk cannot reach beyond its bytes in the file, nor leave some of them") {
  SavedSample saved;
  for (const std::int64_t count : {0, 2, 3}) {
    Altered altered(saved.files);
    // count, one element, stands between two other tensors.
    StoredChunk& chunk = altered.manifest.files[0].chunks[1];
    TensorInfo& tensor = altered.manifest.tensors[static_cast<std::size_t>(chunk.tensor)];
    REQUIRE(tensor.name == "count");
    REQUIRE(altered.headers[0].size() == 3);
    tensor.shape = {count};
    chunk.elements = count > 0 ? flat_run(0, count) : ElementRuns();
    CHECK_FALSE(loads_what_it_says(saved.files, altered));
  }
}

TEST_CASE("two chunks cannot have the same bytes, nor may bytes belong to none") {
  SavedSample saved;
  Altered twice(saved.files);
  // Rank 0 has exp_avg/w and count in eight-byte elements; make them alike, then one of them.
  std::vector<StoredChunk>& chunks = twice.manifest.files[0].chunks;
  REQUIRE(twice.manifest.tensors[static_cast<std::size_t>(chunks[1].tensor)].name == "count");
  twice.manifest.tensors[static_cast<std::size_t>(chunks[1].tensor)].shape = {4};
  twice.manifest.tensors[static_cast<std::size_t>(chunks[1].tensor)].dtype = DType::fp64;
  chunks[1].elements = flat_run(0, 4);
  chunks[1].entry = chunks[0].entry;
  CHECK_FALSE(loads_what_it_says(saved.files, twice));

  Altered orphan(saved.files);
  orphan.headers[2].push_back({"nobody's", DType::int8, {3}, 0, 3});
  orphan.data[2] = "abc";
  CHECK_FALSE(loads_what_it_says(saved.files, orphan));
}

// --- random changes ----------------------------------------------------------------------------

std::int64_t draw_offset() {
  return *rc::gen::element<std::int64_t>(0, 1, 4, 8, 16, 24, 32, 40, 48, 56, 1 << 20, INT64_MAX - 7,
                                         INT64_MAX);
}

bool is_packed(const std::vector<Entry>& header) {
  std::int64_t at = 0;
  for (const Entry& entry : header) {
    if (entry.begin != at || entry.end < at || entry.end > 4096) return false;
    at = entry.end;
  }
  return true;
}

// One change to the header of a file, to the manifest, or to both alike.
void change(Altered& altered) {
  const auto i = draw<std::size_t>(0, 2);
  std::vector<Entry>& header = altered.headers[i];
  std::vector<StoredChunk>& chunks = altered.manifest.files[i].chunks;
  const auto a = draw<std::size_t>(0, header.size());
  const auto b = draw<std::size_t>(0, header.size());
  StoredChunk& chunk = chunks[draw<std::size_t>(0, chunks.size())];
  TensorInfo& tensor = altered.manifest.tensors[static_cast<std::size_t>(chunk.tensor)];
  Entry* own = nullptr;
  for (Entry& entry : header) {
    if (entry.name == chunk.entry) own = &entry;
  }
  switch (draw(0, 8)) {
    case 0:
      return std::swap(header[a].name, header[b].name);
    case 1:
      if (!is_packed(header)) return;
      std::swap(header[a], header[b]);
      return pack(header);
    case 2: {  // More or fewer elements, in header, manifest and data.
      const std::int64_t count = draw(1, 8);
      chunk.elements = flat_run(draw(0, 3), count);
      if (own == nullptr || !is_packed(header)) return;
      own->shape = {count};
      own->end = own->begin + count * size_of(own->dtype);
      pack(header);
      altered.data[i].resize(static_cast<std::size_t>(header.back().end), 'x');
      return;
    }
    case 3:
      tensor.shape = {draw(1, 8)};
      chunk.elements = flat_run(0, tensor.shape[0]);  // Perhaps not all that is in the file.
      return;
    case 4: {  // Another dtype, of the same size or not, in both.
      const DType dtype = *rc::gen::element(DType::fp64, DType::int64, DType::fp32, DType::int8);
      tensor.dtype = dtype;
      for (std::vector<Entry>& entries : altered.headers) {
        for (Entry& entry : entries) {
          if (entry.name.substr(0, entry.name.find('#')) == tensor.name) entry.dtype = dtype;
        }
      }
      return;
    }
    case 5:
      header[a].begin = draw_offset();
      return;
    case 6:
      header[a].end = draw_offset();
      return;
    default:
      return std::swap(chunk.entry, chunks[draw<std::size_t>(0, chunks.size())].entry);
  }
}

TEST_CASE("whatever is altered together is loaded as it says, or refused") {
  SavedSample saved;
  int loaded = 0;
  int refused = 0;
  check_property(3000, [&] {
    Altered altered(saved.files);
    const auto files = saved.files.copy();
    const int changes = draw(1, 4);
    for (int k = 0; k < changes; ++k) change(altered);
    (loads_what_it_says(*files, altered) ? loaded : refused) += 1;
  });
  CHECK(loaded > 100);
  CHECK(refused > 1000);
}

}  // namespace
}  // namespace shardsim::test
