#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "backends/tagged_messages.hpp"

#include "tests/backends/all_backends.hpp"
#include "tests/backends/fiber_fixture.hpp"

// Every call with an undefined tensor in every place. The result is a diagnosis if the call reads
// or writes the tensor, and unchanged otherwise. Rank 1 of two errs; the root is 0.
// tests/tidy/undefined_rows.py reads the first columns of both tables.
namespace shardsim {

namespace {

struct Buffers {
  Tensor full;   // Two elements, on every rank.
  Tensor chunk;  // One element.
};

using CallBody = std::function<void(Communicator&, const Buffers&)>;

struct Row {
  const char* call;
  const char* place;
  bool legal;
  CallBody body;
  const char* said = call;  // The call's name in the diagnosis.
};

// An undefined tensor on rank 1, the usual one elsewhere.
Tensor odd(const Communicator& world, const Tensor& usual) {
  return world.rank() == 1 ? Tensor() : usual;
}

const std::vector<Row>& rows() {
  using C = Communicator;
  using B = Buffers;
  constexpr ReduceOp kSum = ReduceOp::sum;
  static const std::vector<Row> kRows = {
      {"all_reduce", "buffer", false,
       [](C& w, const B& b) { w.all_reduce(odd(w, b.chunk), kSum).wait(); }},
      {"reduce_scatter", "output", false,
       [](C& w, const B& b) { w.reduce_scatter(odd(w, b.chunk), b.full, kSum).wait(); }},
      {"reduce_scatter", "input", false,
       [](C& w, const B& b) { w.reduce_scatter(b.chunk, odd(w, b.full), kSum).wait(); }},
      {"all_gather", "output", false,
       [](C& w, const B& b) { w.all_gather(odd(w, b.full), b.chunk).wait(); }},
      {"all_gather", "input", false,
       [](C& w, const B& b) { w.all_gather(b.full, odd(w, b.chunk)).wait(); }},
      {"all_to_all", "output", false,
       [](C& w, const B& b) { w.all_to_all(odd(w, b.full), b.full, {}, {}).wait(); }},
      {"all_to_all", "input", false,
       [](C& w, const B& b) { w.all_to_all(b.full, odd(w, b.full), {}, {}).wait(); }},
      {"broadcast", "buffer", false,
       [](C& w, const B& b) { w.broadcast(odd(w, b.chunk), 0).wait(); }},
      {"broadcast", "buffer", false,
       [](C& w, const B& b) { w.broadcast(odd(w, b.chunk), 1).wait(); }},
      {"reduce", "buffer", false,
       [](C& w, const B& b) { w.reduce(odd(w, b.chunk), kSum, 0).wait(); }},
      {"gather", "input", false,
       [](C& w, const B& b) { w.gather(b.full, odd(w, b.chunk), 0).wait(); }},
      {"gather", "output", false,
       [](C& w, const B& b) { w.gather(odd(w, b.full), b.chunk, 1).wait(); }},
      {"gather", "output off the root", true,
       [](C& w, const B& b) { w.gather(odd(w, b.full), b.chunk, 0).wait(); }},
      {"scatter", "output", false,
       [](C& w, const B& b) { w.scatter(odd(w, b.chunk), b.full, 0).wait(); }},
      {"scatter", "input", false,
       [](C& w, const B& b) { w.scatter(b.chunk, odd(w, b.full), 1).wait(); }},
      {"scatter", "input off the root", true,
       [](C& w, const B& b) { w.scatter(b.chunk, odd(w, b.full), 0).wait(); }},
      {"collective", "output", false,
       [](C& w, const B& b) {
         w.collective(collective::kAllGather, odd(w, b.full), b.chunk).wait();
       },
       "all_gather"},
      {"collective", "input", false,
       [](C& w, const B& b) {
         w.collective(collective::kAllGather, b.full, odd(w, b.chunk)).wait();
       },
       "all_gather"},
      {"send", "buffer", false,
       [](C& w, const B& b) {
         w.rank() == 1 ? w.send(Tensor(), 0).wait() : w.recv(b.chunk, 1).wait();
       }},
      {"recv", "buffer", false,
       [](C& w, const B& b) {
         w.rank() == 1 ? w.recv(Tensor(), 0).wait() : w.send(b.chunk, 1).wait();
       }},
      {"batch", "buffer of a send", false,
       [](C& w, const B& b) {
         const P2pOp halves[] = {{P2pOp::Kind::recv, b.chunk, 1 - w.rank()},
                                 {P2pOp::Kind::send, odd(w, b.chunk), 1 - w.rank()}};
         w.batch(halves).wait();
       },
       "send"},
      {"batch", "buffer of a recv", false,
       [](C& w, const B& b) {
         const P2pOp halves[] = {{P2pOp::Kind::send, b.chunk, 1 - w.rank()},
                                 {P2pOp::Kind::recv, odd(w, b.chunk), 1 - w.rank()}};
         w.batch(halves).wait();
       },
       "recv"},
  };
  return kRows;
}

using TaggedCall = std::function<void(TaggedMessages&, const Tensor&)>;

struct TaggedRow {
  const char* call;
  const char* place;
  TaggedCall body;
};

const std::vector<TaggedRow>& tagged_rows() {
  using M = TaggedMessages;
  static const std::vector<TaggedRow> kRows = {
      {"send", "buffer",
       [](M& m, const Tensor& t) {
         m.rank() == 1 ? m.send(Tensor(), 0, 3).wait() : m.recv(t, 1, 3).wait();
       }},
      {"recv", "buffer",
       [](M& m, const Tensor& t) {
         m.rank() == 1 ? m.recv(Tensor(), 0, 3).wait() : m.send(t, 1, 3).wait();
       }},
      {"recv", "buffer of any source and tag",
       [](M& m, const Tensor& t) {
         m.rank() == 1 ? m.recv(Tensor(), kAnySource, kAnyTag).wait() : m.send(t, 1, 3).wait();
       }},
  };
  return kRows;
}

// The code and summary of the run's diagnosis; "NONE" if it ends well.
template <class Run>
Diagnosis ending(const Row& row, Run run) {
  try {
    run(2, [&](Runtime& runtime, Communicator& world) {
      const auto one = [](std::int64_t) { return 1.0; };
      row.body(world, {filled(runtime, 2, DType::fp32, one), filled(runtime, 1, DType::fp32, one)});
    });
  } catch (const CommunicationError& error) {
    return error.diagnosis();
  }
  return Diagnosis{.code = "NONE", .summary = {}};
}

void expect(const Row& row, const Diagnosis& diagnosis) {
  CHECK(diagnosis.code == (row.legal ? "NONE" : "ARG_RANGE"));
  if (row.legal) return;
  CHECK(diagnosis.summary.rfind(std::string(row.said) + " on rank 1: ", 0) == 0);
  CHECK(diagnosis.summary.find("undefined tensor") != std::string::npos);
  CHECK(diagnosis.sides.at(0).site.line > 0);
}

}  // namespace

TEST_CASE("an undefined tensor is a diagnosis in every call that touches it, on every backend") {
  for (const Row& row : rows()) {
    CAPTURE(row.call, row.place);
    expect(row, ending(row, [](int ranks, const auto& body) { run_ranks(ranks, body); }));
    expect(row, ending(row, [](int ranks, const auto& body) { run_message_ranks(ranks, body); }));
    expect(row, ending(row, [](int ranks, const auto& body) { run_nccl_ranks(ranks, body); }));
  }
}

TEST_CASE("an undefined tensor is a diagnosis in a plan as well") {
  for (const Row& row : rows()) {
    CAPTURE(row.call, row.place);
    expect(row, ending(row, [](int ranks, const auto& body) {
             FiberOptions options;
             options.has_data = false;
             run_ranks(ranks, body, options);
           }));
  }
}

TEST_CASE("an undefined tensor is a diagnosis in every tagged message") {
  for (const TaggedRow& row : tagged_rows()) {
    for (const bool has_data : {true, false}) {
      for (const bool buffered : {true, false}) {
        CAPTURE(row.call, row.place, has_data, buffered);
        FiberOptions options;
        options.cluster = test_cluster(2);
        options.has_data = has_data;
        options.buffered_sends = buffered;
        FiberWorld world(options);
        const auto run = [&](int, const FiberWorld::RankBody& body) { world.run(body); };
        const auto call = [&](Communicator& everyone, const Buffers& buffers) {
          row.body(*everyone.tagged_messages(), buffers.chunk);
        };
        expect({row.call, row.place, false, call}, ending({row.call, row.place, false, call}, run));
      }
    }
  }
}

TEST_CASE("a reduce op outside of its enumeration is refused by every reduction") {
  const auto bad = static_cast<ReduceOp>(9);
  const std::vector<Row> calls = {
      {"all_reduce", "op", false,
       [&](Communicator& w, const Buffers& b) { w.all_reduce(b.chunk, bad).wait(); }},
      {"reduce_scatter", "op", false,
       [&](Communicator& w, const Buffers& b) { w.reduce_scatter(b.chunk, b.full, bad).wait(); }},
      {"reduce", "op", false,
       [&](Communicator& w, const Buffers& b) { w.reduce(b.chunk, bad, 0).wait(); }},
  };
  for (const Row& row : calls) {
    CAPTURE(row.call);
    const auto refused = [](const Diagnosis& diagnosis) {
      CHECK(diagnosis.code == "ARG_RANGE");
      CHECK(diagnosis.summary.find("the reduce op is 9") != std::string::npos);
    };
    refused(ending(row, [](int ranks, const auto& body) { run_ranks(ranks, body); }));
    refused(ending(row, [](int ranks, const auto& body) { run_message_ranks(ranks, body); }));
    refused(ending(row, [](int ranks, const auto& body) { run_nccl_ranks(ranks, body); }));
  }
}

TEST_CASE("a member without a color joins no group; any other negative color is refused") {
  run_on_all(3, [](Runtime& runtime, Communicator& world) {
    const int color = world.rank() == 1 ? kNoColor : 7;
    const std::unique_ptr<Communicator> part = world.split(color, -world.rank(), "part");
    REQUIRE((part == nullptr) == (world.rank() == 1));
    if (part == nullptr) return;
    CHECK(part->size() == 2);
    CHECK(part->rank() == (world.rank() == 2 ? 0 : 1));
    const Tensor own =
        filled(runtime, 1, DType::fp64, [&](std::int64_t) { return 1.0 + world.rank(); });
    part->all_reduce(own, ReduceOp::sum).wait();
    CHECK(own.get(0) == 4.0);
  });
  const Row row{"split", "color", false, [](Communicator& w, const Buffers&) {
                  static_cast<void>(w.split(w.rank() == 1 ? -2 : 0, 0, "part"));
                }};
  for (const Diagnosis& diagnosis :
       {ending(row, [](int ranks, const auto&body) { run_ranks(ranks, body); }),
        ending(row, [](int ranks, const auto&body) { run_message_ranks(ranks, body); }),
        ending(row, [](int ranks, const auto&body) { run_nccl_ranks(ranks, body); })}) {
    CHECK(diagnosis.code == "ARG_RANGE");
    CHECK(diagnosis.summary.find("the color is -2") != std::string::npos);
  }
}

}  // namespace shardsim
