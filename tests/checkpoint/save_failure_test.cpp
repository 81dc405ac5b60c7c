#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/checkpoint/sample_state.hpp"

// A disk that reports errors, and callers that hand over nonsense: every rank gets the same error,
// and what was saved before stays as it was.
namespace shardsim::test {
namespace {

struct Fault {
  int error_number;
  CheckpointProblem problem;
  const char* code;
  ExitCode exit_code;
};

const std::vector<Fault> kFaults = {
    {EIO, CheckpointProblem::io_error, "E0803", ExitCode::backend_failed},
    {ENOSPC, CheckpointProblem::no_space, "E0804", ExitCode::does_not_fit},
    {EDQUOT, CheckpointProblem::no_space, "E0804", ExitCode::does_not_fit},
    {EACCES, CheckpointProblem::permission, "E0802", ExitCode::bad_usage},
    {EROFS, CheckpointProblem::permission, "E0802", ExitCode::bad_usage},
    {ENOENT, CheckpointProblem::not_found, "E0801", ExitCode::bad_usage},
};

void check_error(const SaveStatus& status, const Fault& fault) {
  try {
    raise_if_failed(status, {"/run", 2});
    FAIL("no error was raised");
  } catch (const CheckpointError& error) {
    CHECK(error.problem() == fault.problem);
    CHECK(error.code() == fault.code);
    CHECK(error.exit_code() == fault.exit_code);
    CHECK_FALSE(error.fix().empty());
    const std::string message = error.what();
    CHECK(message.find("/run/step-00000002") != std::string::npos);
    CHECK(message.find("errno " + std::to_string(fault.error_number)) != std::string::npos);
  }
}

bool has_manifest(const MemoryFileSystem& files, const std::string& folder) {
  const std::vector<std::string> all = files.all_files();
  return std::find(all.begin(), all.end(), folder + "/manifest.json") != all.end();
}

// Saves step 2 over step 1 with a fault at a call. Returns whether the save failed.
bool save_with_fault(const MemoryFileSystem& before, const Fault& fault, std::int64_t call,
                     bool keeps_failing) {
  INFO(fault.code << " at call " << call << (keeps_failing ? " and after" : ""));
  const std::unique_ptr<MemoryFileSystem> files = before.copy();
  files->fail_at = call;
  files->fail_with = fault.error_number;
  files->keeps_failing = keeps_failing;
  const SampleState state = make_sample(2);
  const SaveStatus status = save(*files, {"/run", 2}, state.ranks, state.scalars);
  if (status.ok()) {  // Only tidying up failed: all the same the new state is safe.
    files->restart(Survival::nothing);
    LatestCheckpoint latest = find_latest(*files, "/run");
    CHECK(holds(latest.reader, state));
    return false;
  }
  files->restart(Survival::everything);
  LatestCheckpoint latest = find_latest(*files, "/run");
  CHECK(latest.skipped.empty());
  check_error(status, fault);
  // Between the manifest's rename and the folder's sync the new state is there, but not promised.
  const bool renamed = has_manifest(*files, "/run/step-00000002");
  if (renamed) CHECK(status.operation == FileOperation::sync_folder);
  CHECK(holds(latest.reader, renamed ? state : make_sample(1)));
  CheckpointReader old(*files, {"/run", 1});
  CHECK(holds(old, make_sample(1)));
  if (!renamed && !keeps_failing) CHECK(files->list("/run").size() == 1);  // Space is given back.
  return true;
}

TEST_CASE("an error at any call is reported as what it is and leaves the previous checkpoint") {
  MemoryFileSystem before;
  const SampleState first = make_sample(1);
  REQUIRE(save(before, {"/run", 1}, first.ranks, first.scalars).ok());
  const std::unique_ptr<MemoryFileSystem> whole = before.copy();
  const SampleState state = make_sample(2);
  REQUIRE(save(*whole, {"/run", 2}, state.ranks, state.scalars).ok());
  for (const Fault& fault : kFaults) {
    for (const bool keeps_failing : {false, true}) {
      int failures = 0;
      for (std::int64_t call = 1; call <= whole->calls; ++call) {
        failures += save_with_fault(before, fault, call, keeps_failing) ? 1 : 0;
      }
      CHECK(failures > 30);
    }
  }
}

TEST_CASE("writes that take a byte at a time give the same files") {
  const SampleState state = make_sample(2);
  MemoryFileSystem fast;
  MemoryFileSystem slow;
  slow.longest_write = 1;
  REQUIRE(save(fast, {"/run", 2}, state.ranks, state.scalars).ok());
  REQUIRE(save(slow, {"/run", 2}, state.ranks, state.scalars).ok());
  REQUIRE(fast.all_files() == slow.all_files());
  for (const std::string& path : fast.all_files())
    CHECK(fast.read_file(path) == slow.read_file(path));
}

TEST_CASE("a disk that takes nothing and says nothing is an I/O error") {
  const SampleState state = make_sample(2);
  MemoryFileSystem files;
  files.longest_write = 0;
  const SaveStatus status = save(files, {"/run", 2}, state.ranks, state.scalars);
  CHECK(status.problem == CheckpointProblem::io_error);
  CHECK(status.error_number == EIO);
}

TEST_CASE("a status survives as one number, and the largest names the lowest rank") {
  for (int problem = 1; problem <= static_cast<int>(CheckpointProblem::no_such_scalar); ++problem) {
    for (const int rank : {0, 3, (1 << 24) - 1}) {
      const SaveStatus status{.problem = static_cast<CheckpointProblem>(problem),
                              .operation = FileOperation::remove_folder,
                              .error_number = EDQUOT,
                              .rank = rank};
      const std::int64_t number = status.number();
      CHECK(number > 0);
      CHECK(number < std::int64_t{1} << 53);
      const SaveStatus back = SaveStatus::from_number(number);
      CHECK(back.problem == status.problem);
      CHECK(back.operation == status.operation);
      CHECK(back.error_number == status.error_number);
      CHECK(back.rank == status.rank);
    }
  }
  CHECK(SaveStatus{.rank = 5}.number() == 0);
  CHECK(SaveStatus::from_number(0).ok());
  const auto failed = [](int rank) {
    return SaveStatus{.problem = CheckpointProblem::io_error, .error_number = EIO, .rank = rank};
  };
  CHECK(failed(2).number() > failed(3).number());
}

// --- refusals ----------------------------------------------------------------------------------

std::string message_of(const SaveStatus& status) {
  try {
    raise_if_failed(status, {"/run", 2});
  } catch (const CheckpointError& error) {
    return error.code() + " " + error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The result of a save of these ranks over step 1; step 1 must stay.
std::string refusal(const RankChunks& ranks, const std::vector<Scalars>& scalars = {}) {
  MemoryFileSystem files;
  const SampleState first = make_sample(1);
  REQUIRE(save(files, {"/run", 1}, first.ranks, first.scalars).ok());
  std::vector<RankReport> reports;
  SaveStatus status;
  for (std::size_t r = 0; r < ranks.size() && status.ok(); ++r) {
    std::vector<Chunk> chunks;
    for (const OwnChunk& own : ranks[r]) {
      chunks.push_back({own.info, own.elements, own.bytes, own.main});
    }
    RankWrite written = write_rank_file(files, {"/run", 2}, static_cast<int>(r), chunks,
                                        scalars.empty() ? Scalars{} : scalars[r]);
    status = written.status;
    reports.push_back(std::move(written.report));
  }
  if (status.ok()) status = commit(files, {"/run", 2}, reports);
  CHECK_FALSE(has_manifest(files, "/run/step-00000002"));
  LatestCheckpoint latest = find_latest(files, "/run");
  CHECK(holds(latest.reader, first));
  return message_of(status);
}

TEST_CASE("two main copies of an element are refused, and the element is named") {
  const GlobalTensor w = make_tensor("parameter/w", DType::fp32, {4, 4});
  const std::string message =
      refusal({{cut(w, flat_run(0, 8))}, {}, {cut(w, {{7, 1, 0, 1}, {8, 8, 0, 1}})}});
  CHECK(contains(message, "E0808"));
  CHECK(contains(message, "element 7 of \"parameter/w\""));
  CHECK(contains(message, "rank 0"));
  CHECK(contains(message, "rank 2"));
  CHECK(contains(refusal({{cut(w, flat_run(0, 16)), cut(w, flat_run(0, 16))}}), "E0811"));
  CHECK(contains(refusal({{cut(w, flat_run(0, 16)), cut(w, flat_run(3, 1))}}), "E0808"));
  CHECK(contains(refusal({{cut(w, {{0, 16, 0, 1}, {3, 1, 0, 1}})}}), "E0811"));
}

TEST_CASE("an element without a main copy is refused, and named") {
  const GlobalTensor w = make_tensor("parameter/w", DType::fp32, {4, 4});
  CHECK(
      contains(refusal({{cut(w, flat_run(0, 8))}, {cut(w, flat_run(9, 7))}}),
               "E0809 rank 0 could not save \"/run/step-00000002\": element 8 of \"parameter/w\""));
  OwnChunk replica = cut(w, flat_run(0, 16));
  replica.main = false;
  CHECK(contains(refusal({{replica}, {replica}}), "element 0 of \"parameter/w\" has no main copy"));
  CHECK(contains(refusal({{cut(w, flat_run(0, 15))}}), "element 15 of"));
}

TEST_CASE("ranks that disagree are refused, and what differs is named") {
  const GlobalTensor w = make_tensor("w", DType::fp32, {4});
  const GlobalTensor other = make_tensor("w", DType::fp32, {2, 2});
  const std::string message = refusal({{cut(w, flat_run(0, 2))}, {cut(other, flat_run(2, 2))}});
  CHECK(contains(message, "E0810"));
  CHECK(contains(message, "fp32 [4] on rank 0"));
  CHECK(contains(message, "fp32 [2, 2] on rank 1"));
  const std::string scalar =
      refusal({{}, {}, {}}, {{{"scale", 2.0}}, {{"scale", 2.0}}, {{"scale", 1.0}}});
  CHECK(contains(scalar, "E0810"));
  CHECK(contains(scalar, "scalar \"scale\" is 2 (float64) on rank 0 and 1 (float64) on rank 2"));
  CHECK(contains(refusal({{}, {}}, {{{"a", true}}, {}}), "\"a\" is true on rank 0 and absent"));
  CHECK(contains(refusal({{}, {}}, {{}, {{"a", true}}}), "\"a\" is absent on rank 0 and true"));
  CHECK(contains(refusal({{}, {}}, {{{"a", 0.0}}, {{"a", -0.0}}}), "E0810"));
  CHECK(
      contains(refusal({{}, {}}, {{{"a", std::int64_t{1}}}, {{"a", std::uint64_t{1}}}}), "E0810"));
}

TEST_CASE("reports must be those of all ranks, each once, of one step") {
  MemoryFileSystem files;
  const auto report = [&](int rank, std::int64_t step) {
    return write_rank_file(files, {"/run", step}, rank, {}, {}).report;
  };
  const auto outcome = [&](const std::vector<RankReport>& reports) {
    return message_of(commit(files, {"/run", 2}, reports));
  };
  CHECK(contains(outcome({}), "E0810"));
  CHECK(contains(outcome({report(0, 2), report(0, 2)}), "E0810"));
  CHECK(contains(outcome({report(0, 2), report(2, 2)}), "E0810"));
  CHECK(contains(outcome({report(1, 2)}), "E0810"));
  CHECK(contains(outcome({report(0, 2), report(1, 3)}), "rank 1 saved step 3, not 2"));
  CHECK(outcome({report(1, 2), report(0, 2)}) == "no error");  // In any order.
}

TEST_CASE("a chunk that contradicts itself is refused") {
  const GlobalTensor w = make_tensor("w", DType::fp32, {4});
  const auto changed = [&](const auto& change) {
    OwnChunk chunk = cut(w, flat_run(0, 4));
    change(chunk);
    return refusal({{chunk}});
  };
  CHECK(contains(changed([](OwnChunk& c) { c.bytes.pop_back(); }), "E0811"));
  CHECK(contains(changed([](OwnChunk& c) { c.info.dtype = DType::fp64; }), "E0811"));
  CHECK(contains(changed([](OwnChunk& c) { c.info.shape = {-4}; }), "E0811"));
  CHECK(contains(changed([](OwnChunk& c) { c.info.shape = {INT64_MAX, 2}; }), "E0811"));
  CHECK(contains(changed([](OwnChunk& c) { c.info.shape.assign(9, 1); }), "E0811"));
  CHECK(contains(changed([](OwnChunk& c) { c.elements = flat_run(1, 4); }), "E0811"));
  for (const char* name : {"", "a b", "a\"b", "a\\b", "a#0", "a\nb", "\xc3\xa4", "__metadata__"}) {
    INFO(name);
    CHECK(contains(changed([&](OwnChunk& c) { c.info.name = name; }), "E0811"));
  }
  CHECK(contains(changed([](OwnChunk& c) { c.info.name.assign(513, 'a'); }), "E0811"));
  const GlobalTensor other = make_tensor("w", DType::fp32, {2, 2});
  CHECK(contains(refusal({{cut(w, flat_run(0, 2)), cut(other, flat_run(2, 2))}}), "E0811"));
  CHECK(contains(refusal({{}}, {{{"a b", true}}}), "E0811"));
  CHECK(contains(refusal({{}}, {{{"a", std::string("\n")}}}), "E0811"));
}

}  // namespace
}  // namespace shardsim::test
