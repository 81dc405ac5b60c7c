#include <sstream>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "sim/sweep/part_file.hpp"

#include "tests/app/command_fixture.hpp"

// The files that keep finished points, and how they are put together.
namespace shardsim::test {

namespace {

const std::vector<std::string> kColumns = {"parallelism.tp", "training.precision"};
const PartHeader kHeader = {.version = "1.2.3",
                            .sweep = "00ff",
                            .num_points = 3,
                            .columns = kColumns,
                            .skip = {},
                            .command = "shardsim sweep f.json --out d"};

std::string row(std::size_t point, const std::string& key = "k",
                PointStatus status = PointStatus::ok, const std::string& code = "") {
  return line_of({.point = point,
                  .key = key,
                  .status = status,
                  .code = code,
                  .message = "a \"b\", c",
                  .values = {std::to_string(point), "\"bf16\""},
                  .metrics = {{"step_time_s", 0.5}, {"ranks", std::int64_t{8}}}},
                 kColumns);
}

std::string code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return "no error";
}

std::vector<std::string> lines_in(const TemporaryFolder& folder) {
  std::vector<std::string> lines;
  PointIndex(folder.path(), nullptr).for_each_line([&](const KeptRow&, const std::string& line) {
    lines.push_back(line + "\n");
  });
  return lines;
}

}  // namespace

TEST_CASE("a row reads back as it was written", "[sweep]") {
  const std::string line = row(2, "beef", PointStatus::failed);
  CHECK(line.back() == '\n');
  const std::optional<PartLine> parsed = parse_line(line);
  REQUIRE(parsed.has_value());
  CHECK_FALSE(parsed->header.has_value());
  CHECK(parsed->point == 2);
  CHECK(parsed->key == "beef");
  CHECK(parsed->status == "failed");
  const PointRow back = row_of(line, kColumns);
  CHECK(line_of(back, kColumns) == line);
  const std::optional<PartLine> header = parse_line(line_of(kHeader));
  REQUIRE(header.has_value());
  CHECK(header->header == kHeader);
  for (const char* damaged : {"", "{", "[]", "{}", "{\"point\": 1}", R"({"format": "other"})",
                              R"({"point": "1", "key": "k", "status": "ok"})"}) {
    CHECK_FALSE(parse_line(damaged).has_value());
  }
}

TEST_CASE("CSV quotes what needs it", "[sweep]") {
  const std::string header = csv_header(kColumns);
  CHECK(header.rfind(
            "point,key,status,code,message,warnings,parallelism.tp,training.precision,step_time_s,",
            0) == 0);
  CHECK(csv_of(row(1)).rfind("1,k,ok,,\"a \"\"b\"\", c\",[],1,bf16,0.5,", 0) == 0);
  const auto commas = [](const std::string& text) {
    return std::count(text.begin(), text.end(), ',');
  };
  CHECK(commas(csv_of(row(1))) == commas(header) + 1);
}

TEST_CASE("a part goes on where it ends, and drops a torn line", "[sweep]") {
  const TemporaryFolder folder;
  const std::string path = part_path(folder.path(), 0, 1).string();
  std::ostringstream err;
  { PartFile(path, kHeader, err).append(row(0)); }
  const std::string whole = content_of(path);
  CHECK(whole == line_of(kHeader) + row(0));
  write(path, whole + row(1).substr(0, 20));
  CHECK(read_part(path).torn);
  CHECK(read_part(path).rows.size() == 1);
  { PartFile(path, kHeader, err).append(row(2)); }
  CHECK(content_of(path) == whole + row(2));
  CHECK(err.str().empty());
}

TEST_CASE("a header that changes is written again, another sweep's is refused", "[sweep]") {
  const TemporaryFolder folder;
  const std::string path = part_path(folder.path(), 0, 1).string();
  std::ostringstream err;
  PartHeader other = kHeader;
  { const PartFile part(path, kHeader, err); }
  other.skip = {"invalid"};
  { const PartFile part(path, other, err); }
  CHECK(content_of(path) == line_of(kHeader) + line_of(other));
  CHECK(read_part(path).header == other);
  other.sweep = "1234";
  CHECK(code_of([&] { PartFile(path, other, err); }) == "E1310");
  other = kHeader;
  other.version = "1.2.4";
  CHECK(code_of([&] { PartFile(path, other, err); }) == "E1310");
  write(path, "{\"some\": \"file\"}\n");
  CHECK(code_of([&] { PartFile(path, kHeader, err); }) == "E1309");
  CHECK(code_of([&] { PartFile("/proc/none/part-0-of-1.ndjson", kHeader, err); }) == "E1312");
}

TEST_CASE("a part has one writer", "[sweep]") {
  const TemporaryFolder folder;
  const std::string path = part_path(folder.path(), 0, 1).string();
  std::ostringstream err;
  const PartFile part(path, kHeader, err);
  CHECK(code_of([&] { PartFile(path, kHeader, err); }) == "E1311");
}

TEST_CASE("points come once and in order, whatever part has them", "[sweep]") {
  const TemporaryFolder folder;
  write(folder / "part-0-of-2.ndjson", line_of(kHeader) + row(2) + row(0, "old") + row(0));
  write(folder / "part-1-of-2.ndjson", line_of(kHeader) + row(1) + row(0));
  write(folder / "part-0-of-3.ndjson", "");  // Just opened.
  CHECK(lines_in(folder) == std::vector<std::string>{row(0), row(1), row(2)});
  const PointIndex index(folder.path(), &kHeader);
  CHECK(index.has(0, "k"));
  CHECK_FALSE(index.has(0, "old"));
  CHECK_FALSE(index.has(1, "old"));
  CHECK(index.points() == std::set<std::size_t>{0, 1, 2});
}

TEST_CASE("a point that failed here is not finished, wherever else it ended counts", "[sweep]") {
  const TemporaryFolder folder;
  const std::string failed = row(0, "k", PointStatus::failed, "internal");
  const std::string also_failed = row(1, "", PointStatus::failed, "internal");
  write(folder / "part-0-of-2.ndjson", line_of(kHeader) + failed + also_failed + row(2));
  const PointIndex index(folder.path(), &kHeader);
  CHECK_FALSE(index.has(0, "k"));
  CHECK(index.points() == std::set<std::size_t>{2});
  CHECK(lines_in(folder) == std::vector<std::string>{failed, also_failed, row(2)});
  const Printed printed = shardsim({"merge", folder.path()});
  CHECK(printed.exit_code == 1);
  CHECK(contains(printed.err, "2 of 3 points are missing: 0-1"));
  // Computed again, one in the same part and one in another.
  write(folder / "part-0-of-2.ndjson", line_of(kHeader) + failed + also_failed + row(2) + row(0));
  write(folder / "part-1-of-2.ndjson", line_of(kHeader) + row(1));
  CHECK(shardsim({"merge", folder.path()}).out == row(0) + row(1) + row(2));
  // A failure of the point's own stays.
  write(folder / "part-0-of-2.ndjson",
        line_of(kHeader) + row(0, "k", PointStatus::failed, "DEADLOCK"));
  CHECK(PointIndex(folder.path(), &kHeader).has(0, "k"));
}

TEST_CASE("parts that do not belong together are refused", "[sweep]") {
  const TemporaryFolder folder;
  write(folder / "part-0-of-2.ndjson", line_of(kHeader) + row(0));
  write(folder / "part-1-of-2.ndjson", line_of(kHeader) + row(0, "other"));
  CHECK(code_of([&] { lines_in(folder); }) == "E1316");
  PartHeader other = kHeader;
  other.sweep = "1234";
  write(folder / "part-1-of-2.ndjson", line_of(other) + row(1));
  CHECK(code_of([&] { lines_in(folder); }) == "E1310");
}

TEST_CASE("merge wants parts, all points, and one opinion of what to skip", "[sweep]") {
  const TemporaryFolder folder;
  Printed printed = shardsim({"merge", folder / "none"});
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "error[E1317]"));
  write(folder / "part-0-of-2.ndjson", line_of(kHeader) + row(0));
  printed = shardsim({"merge", folder.path()});
  CHECK(printed.exit_code == 1);
  CHECK(printed.out.empty());
  CHECK(contains(printed.err, "2 of 3 points are missing: 1-2"));
  CHECK(contains(printed.err, "finish with: shardsim sweep f.json --out d"));
  write(folder / "part-1-of-2.ndjson",
        line_of(kHeader) + row(2, "k", PointStatus::invalid) + "damaged\n" + row(1));
  printed = shardsim({"merge", folder.path()});
  CHECK(printed.exit_code == 0);
  CHECK(printed.out == row(0) + row(1) + row(2, "k", PointStatus::invalid));
  CHECK(contains(printed.err, "warning: 1 damaged lines"));
  PartHeader skipping = kHeader;
  skipping.skip = {"invalid"};
  write(folder / "part-0-of-2.ndjson", line_of(skipping) + row(0));
  CHECK(contains(shardsim({"merge", folder.path()}).err, "error[E1310]"));
}

TEST_CASE("merge writes the file it is asked for, as CSV by its name", "[sweep]") {
  const TemporaryFolder folder;
  write(folder / "part-0-of-1.ndjson", line_of(kHeader) + row(0) + row(1) + row(2));
  const std::string csv = folder / "table.csv";
  CHECK(shardsim({"merge", folder.path(), "-o", csv}).exit_code == 0);
  CHECK(content_of(csv) == csv_header(kColumns) + csv_of(row(0)) + csv_of(row(1)) + csv_of(row(2)));
  CHECK(shardsim({"merge", folder.path(), "--csv"}).out == content_of(csv));
  CHECK(contains(shardsim({"merge", folder.path(), "-o", "/proc/none/x"}).err, "error[E0901]"));
}

}  // namespace shardsim::test
