#include "backends/rendezvous/fingerprint_table.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include <catch2/catch.hpp>

#include "tests/rendezvous/sample_messages.hpp"

namespace shardsim {
namespace {

constexpr double kTableGrace = 0.5;

using test::sample_call;

CallFingerprint message_call(int rank, int peer, bool sends, std::int64_t count) {
  CallFingerprint call = sample_call(rank, 4);
  call.is_message = true;
  call.sends = sends;
  call.root = peer;
  call.name = sends ? "send" : "recv";
  call.reduces = false;
  call.count = count;
  call.line = sends ? 30 : 40;
  return call;
}

void add(FingerprintTable& table, int rank, CallFingerprint call, double now = 1.0) {
  const std::optional<std::string> problem = table.add(rank, std::move(call), now);
  CHECK(!problem);
}

}  // namespace

TEST_CASE("calls that match say nothing and leave nothing, in whatever order members come") {
  std::vector<int> order = {0, 1, 2, 3};
  FingerprintTable table;
  do {
    for (const int rank : order) add(table, rank, sample_call(rank, 4));
    CHECK(table.num_waiting() == 0);
  } while (std::next_permutation(order.begin(), order.end()));
  // Some run ahead.
  for (int i = 0; i < 10; ++i) add(table, 0, sample_call(0, 4));
  CHECK(table.num_waiting() == 10);
  for (const int rank : {3, 1, 2}) {
    for (int i = 0; i < 10; ++i) add(table, rank, sample_call(rank, 4));
  }
  CHECK(table.num_waiting() == 0);
  CHECK(!table.has_mismatch());
}

TEST_CASE("the odd one of a collective is told from the rest, whoever came first") {
  const std::pair<const char*, std::function<void(CallFingerprint&)>> changes[] = {
      {"COLL_COUNT", [](CallFingerprint& call) { call.count = 127; }},
      {"COLL_COUNT", [](CallFingerprint& call) { call.counts_hash = 7; }},
      {"COLL_COUNT", [](CallFingerprint& call) { call.padding = 1; }},
      {"COLL_DTYPE", [](CallFingerprint& call) { call.dtype = DType::bf16; }},
      {"COLL_REDOP", [](CallFingerprint& call) { call.reduce = ReduceOp::max; }},
      {"COLL_ROOT", [](CallFingerprint& call) { call.root = 1; }},
      {"COLL_LABEL", [](CallFingerprint& call) { call.label = "bucket 4"; }},
      {"COLL_ORDER", [](CallFingerprint& call) { call.name = "reduce"; }},
      {"COLL_TRAFFIC", [](CallFingerprint& call) { call.traffic = TrafficClass::scalar; }},
  };
  for (const auto& [code, change] : changes) {
    for (const int first : {0, 1, 2, 3}) {
      CAPTURE(code, first);
      FingerprintTable table;
      for (int rank = 0; rank < 4; ++rank) add(table, rank, sample_call(rank, 4));
      for (int i = 0; i < 4; ++i) {
        const int rank = (first + i) % 4;
        CallFingerprint call = sample_call(rank, 4);
        if (rank == 2) {
          change(call);
          call.line = 99;
        }
        add(table, rank, call);
        // Before all have come, nobody knows who is the odd one.
        if (i < 3) CHECK(!table.mismatch(1.1, kTableGrace));
      }
      const std::optional<Diagnosis> diagnosis = table.mismatch(1.1, kTableGrace);
      REQUIRE(diagnosis);
      CHECK(diagnosis->code == code);
      CHECK(diagnosis->group == "world");
      CHECK(diagnosis->members == std::vector<int>{0, 1, 2, 3});
      CHECK(diagnosis->sequence == 1);
      CHECK(diagnosis->last_matched == "#0 all_reduce sum fp32 x 128 \"bucket 3\"");
      REQUIRE(diagnosis->sides.size() == 2);
      CHECK(diagnosis->sides[0].ranks == std::vector<int>{2});
      CHECK(diagnosis->sides[0].site.line == 99);
      CHECK(diagnosis->sides[1].ranks == std::vector<int>{0, 1, 3});
      CHECK(diagnosis->sides[1].action == "all_reduce sum fp32 x 128 \"bucket 3\"");
      CHECK(std::string(diagnosis->sides[1].site.file) == "strategies/sync.cpp");
    }
  }
}

TEST_CASE("a mismatch is told after a while though not all members have come") {
  FingerprintTable table;
  add(table, 0, sample_call(0, 4));
  CallFingerprint other = sample_call(1, 4);
  other.count = 5;
  add(table, 1, other, 1.0);
  CHECK(table.has_mismatch());
  CHECK(!table.mismatch(1.4, kTableGrace));
  CHECK(table.mismatch(1.6, kTableGrace)->code == "COLL_COUNT");
}

TEST_CASE("messages match by sender, receiver and order") {
  FingerprintTable table;
  add(table, 0, message_call(0, 1, true, 8));
  add(table, 0, message_call(0, 1, true, 9));
  add(table, 0, message_call(0, 2, true, 7));
  add(table, 2, message_call(2, 0, false, 7));
  add(table, 1, message_call(1, 0, false, 8));
  add(table, 1, message_call(1, 0, true, 5));  // The other way is another matter.
  CHECK(table.num_waiting() == 2);
  CHECK(!table.has_mismatch());
  add(table, 1, message_call(1, 0, false, 10));
  const std::optional<Diagnosis> diagnosis = table.mismatch(1.0, kTableGrace);
  REQUIRE(diagnosis);
  CHECK(diagnosis->code == "P2P_MISMATCH");
  CHECK(diagnosis->summary ==
        "message #1 from rank 0 to rank 1 is sent as one kind of data and received as another");
  CHECK(diagnosis->sides[0].ranks == std::vector<int>{0});
  CHECK(diagnosis->sides[0].action == "send fp32 x 9 to 1 \"bucket 3\"");
  CHECK(diagnosis->sides[0].site.line == 30);
  CHECK(diagnosis->sides[1].ranks == std::vector<int>{1});
  CHECK(diagnosis->sides[1].action == "recv fp32 x 10 from 0 \"bucket 3\"");
  CHECK(diagnosis->sides[1].site.line == 40);
}

TEST_CASE("groups with other names, members or numbers are other groups") {
  FingerprintTable table;
  CallFingerprint call = sample_call(0, 2);
  add(table, 0, call);
  call.instance = 1;
  call.count = 1;
  add(table, 0, call);
  call.group = "dp";
  call.count = 2;
  add(table, 0, call);
  call = sample_call(0, 3);
  call.count = 3;
  add(table, 0, call);
  CHECK(table.num_waiting() == 4);
  CHECK(!table.has_mismatch());
}

TEST_CASE("a call that cannot be is refused, and so are too many that nobody joins") {
  FingerprintTable table;
  CHECK(table.add(1, sample_call(0, 4), 1.0));  // Says it is another.
  CallFingerprint outside = sample_call(0, 4);
  outside.member = 4;
  CHECK(table.add(0, outside, 1.0));
  CHECK(table.add(0, message_call(0, 4, true, 1), 1.0));
  CHECK(table.add(0, message_call(0, -1, true, 1), 1.0));
  CHECK(table.num_waiting() == 0);
  std::int64_t accepted = 0;
  std::optional<std::string> problem;
  while (!(problem = table.add(0, sample_call(0, 4), 1.0))) ++accepted;
  CHECK(accepted == 65536);
  CHECK(*problem == "65536 calls for which the other members' do not come");
}

}  // namespace shardsim
