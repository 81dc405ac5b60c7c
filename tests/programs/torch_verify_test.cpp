#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/app/command_fixture.hpp"
#include "tests/programs/fake_python.hpp"

// `shardsim torch --verify` without PyTorch: ranks that speak its language with the command.
namespace shardsim::test {
namespace {

using nlohmann::json;

// A rank's number, and all that it may say (sim/remote/rank_connection.hpp).
constexpr const char* kRank = R"(#!/usr/bin/env python3
import faulthandler, json, os, signal, socket, struct, sys, time
words = sys.argv[1:]
if words[1] == "shardsim.torch.build_native":
    sys.exit(0)
def option(name):
    return words[words.index(name) + 1]
rank, world = int(option("--rank")), int(option("--world"))
faulthandler.register(signal.SIGUSR1, file=open(option("--stack"), "w"))
line = socket.socket(socket.AF_UNIX)
line.connect(option("--socket"))
number = 0
def say(payload=b"", **fields):
    text = json.dumps(fields | {"bytes": len(payload)}, separators=(",", ":"))
    line.sendall(text.encode() + b"\n" + payload)
def read(size):
    data = b""
    while len(data) < size:
        part = line.recv(size - len(data))
        if not part:
            os._exit(0)
        data += part
    return data
def post(kind, values, count, site, group="world", **more):
    global number
    number += 1
    call = {"group": group, "kind": kind, "dtype": "fp32", "count": count} | more
    say(struct.pack(f"<{len(values)}f", *values), post=number, call=call, site=site)
def wait():
    say(wait=number)
    size, = struct.unpack("<Q", read(8))
    return list(struct.unpack(f"<{size // 4}f", read(size)))
def all_reduce(values, site="train.py:7", **more):
    post("all_reduce", values, len(values), site, reduction="sum", **more)
    return wait()
def expect(got, expected):
    if got != expected:
        say(end=f"got {got} instead of {expected}", site="train.py:99")
        sys.exit(1)
if os.path.basename(words[-1]) == "slow.py":
    time.sleep(2.5)
say(rank=rank)
)";
constexpr const char* kEnd = R"(
say(end="")
)";

Printed verify(const std::string& does, std::vector<std::string> more = {},
               const char* script = "train.py") {
  const FakePython python(kRank + does + kEnd);
  std::vector<std::string> words = {"torch", "--verify", "--world", "4"};
  words.insert(words.end(), more.begin(), more.end());
  words.emplace_back(script);
  Printed printed = shardsim(words);
  CHECK(python.left_nothing());
  return printed;
}

}  // namespace

TEST_CASE("calls of ranks in other processes move their data") {
  const Printed printed = verify(R"(
expect(all_reduce([rank, 1.0]), [6.0, 4.0])
pair = [rank // 2 * 2, rank // 2 * 2 + 1]
say(form=f"pair{rank // 2}", members=pair, site="train.py:3")
mine = f"pair{rank // 2}"
expect(all_reduce([rank], group=mine), [float(sum(pair))])
post("all_gather", [rank], 4, "train.py:8"); expect(wait(), [0.0, 1.0, 2.0, 3.0])
post("all_gather", [rank] * rank, 6, "train.py:8", counts=[0, 1, 2, 3])
expect(wait(), [1.0, 2.0, 2.0, 3.0, 3.0, 3.0])
post("reduce_scatter", [1, 2, 3, 4], 4, "train.py:9", reduction="sum"); expect(wait(), [4.0 * (rank + 1)])
post("broadcast", [rank], 1, "train.py:10", root=2); expect(wait(), [2.0])
post("gather", [rank], 4, "train.py:11", root=1)
expect(wait(), [0.0, 1.0, 2.0, 3.0] if rank == 1 else [])
post("scatter", [5, 6, 7, 8] if rank == 3 else [], 4, "train.py:12", root=3); expect(wait(), [5.0 + rank])
post("all_to_all", [rank] * 4, 0, "train.py:13", send_counts=[1] * 4, recv_counts=[1] * 4)
expect(wait(), [0.0, 1.0, 2.0, 3.0])
right, left = (rank + 1) % 4, (rank + 3) % 4
post("batch", [rank], 0, "train.py:14", messages=[{"to": right, "dtype": "fp32", "count": 1},
                                                  {"from": left, "dtype": "fp32", "count": 1}])
expect(wait(), [float(left)])
post("barrier", [], 0, "train.py:15"); expect(wait(), [])
)",
                                 {"--json"});
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  const json result = json::parse(printed.out);
  CHECK(result["ranks"] == 4);
  CHECK(result["calls"] == 4 * 11);
  CHECK(result["groups"] == 3);
  CHECK(result["sent_bytes"] > 0);
}

TEST_CASE("a rank goes on while others compute, and what it drops must match all the same") {
  const Printed slow = verify("if rank == 1: time.sleep(0.3)\nexpect(all_reduce([1.0]), [4.0])\n");
  INFO(slow.err);
  CHECK(slow.exit_code == 0);
  CHECK(contains(slow.out, "4 ranks trained with real numbers"));
  const std::string post = "post('all_reduce', [1.0], 1, 'train.py:5', reduction='sum')\n";
  CHECK(verify(post).exit_code == 0);
  const Printed dropped = verify("if rank != 3: " + post);
  CHECK(dropped.exit_code == 4);
  CHECK(contains(dropped.err, "COLL_MISSING"));
}

TEST_CASE("calls that hang or differ are explained with the script's lines") {
  const Printed missing = verify("if rank != 2: all_reduce([1.0])\n");
  CHECK(missing.exit_code == 4);
  CHECK(contains(missing.err, "rank 2: missing: has finished"));
  CHECK(
      contains(missing.err, "ranks 0-1,3: called all_reduce sum fp32 x 1 and wait at train.py:7"));
  const Printed backward = verify("if rank != 2: all_reduce([1.0], 'train.py:9 (backward)')\n");
  CHECK(contains(backward.err, "wait at train.py:9"));
  const Printed differs = verify("all_reduce([1.0] * (1 + (rank == 3)))\n");
  CHECK(differs.exit_code == 4);
  CHECK(contains(differs.err, "COLL_COUNT"));
  CHECK(contains(differs.err, "rank 3: all_reduce sum fp32 x 2 at train.py:7"));
}

TEST_CASE("a rank that fails, goes, or says nothing is named") {
  const Printed raised = verify(
      "print('before', flush=True)\n"
      "if rank == 1:\n  say(end='ValueError: bad', site='train.py:3'); sys.exit(1)\n"
      "all_reduce([1.0])\n");
  CHECK(raised.exit_code == 1);
  CHECK(contains(raised.err, "error[E1395]: rank 1 failed: ValueError: bad at train.py:3"));
  CHECK(contains(raised.err, "[rank 1] before"));
  const Printed died = verify("if rank == 1: os._exit(9)\nall_reduce([1.0])\n");
  CHECK(died.exit_code == 5);
  CHECK(contains(died.err, "error[E1393]: rank 1 failed: the process exited with 9"));
  const Printed silent =
      verify("if rank == 1: time.sleep(60)\nall_reduce([1.0])\n", {"--limit", "1"});
  CHECK(silent.exit_code == 4);
  CHECK(
      contains(silent.err, "error[E1394]: rank 1 failed: it has neither called nor ended for 1 s"));
  CHECK(contains(silent.err, "it is at "));
  // Its silence counts from where its script begins.
  CHECK(verify("expect(all_reduce([1.0]), [4.0])\n", {"--limit", "1"}, "slow.py").exit_code == 0);
}

TEST_CASE("what is no message, and groups that differ, are refused") {
  const Printed other = verify(
      "say(form='odd', members=[0, 1] if rank == 0 else [1, 2], site='train.py:4')\n"
      "if rank in (0, 1): all_reduce([1.0], group='odd')\n");
  CHECK(other.exit_code == 4);
  CHECK(contains(other.err, "error[E1397]"));
  CHECK(contains(other.err, "train.py:4"));
  for (const char* text : {R"(b"hello\n")", R"(b'{"bytes":0}\n')", R"(b'[],"bytes":0}\n')"}) {
    const Printed refused = verify("line.sendall(" + std::string(text) + ")\n");
    INFO(text << refused.err);
    CHECK(refused.exit_code == 2);
    CHECK(contains(refused.err, "error[E1378]"));
  }
  CHECK(verify("", {"--world", "65"}).exit_code == 2);
}

}  // namespace shardsim::test
