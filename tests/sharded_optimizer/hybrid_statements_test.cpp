#include <algorithm>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "tests/sharded_optimizer/fixture.hpp"

// Statements H1 to H8: the document of hybrid sharding.
namespace shardsim::test {

namespace {

Setup hybrid(int pp, int tp, int dp, const std::string& model = "gpt2") {
  Setup setup = setup_of("hybrid_sharded", pp * tp * dp, model);
  setup.choice = hybrid_sharded(pp, tp, dp);
  setup.training.num_microbatches = 4;
  setup.change_model = [](ModelOptions& options) { options.num_query_groups = 4; };
  // A key's bias has a gradient of rounding noise only, which Adam would blow up.
  setup.optimizer_options.epsilon = 1e-4;
  return setup;
}

// Calls of rank 0 in a step whose label begins with "bucket", by stream.
std::map<std::string, int> bucket_calls(Setup setup) {
  setup.world.traced_ranks = {0};
  FiberWorld world(world_of(setup));
  on_ranks(world, setup, [](ShardedOptimizer& optimizer) { optimizer.step(); });
  std::map<std::string, int> calls;
  for (const TraceTrack& track : world.engine().rank(0).trace()->tracks) {
    for (const TraceSlice& slice : track.slices) {
      if (slice.label.rfind("bucket", 0) == 0) ++calls[track.name];
    }
  }
  return calls;
}

// World ranks of a group, told by its members.
std::set<int> members_of(Runtime& runtime, Communicator& group, int world_rank) {
  const Tensor own = runtime.allocate(MemoryCategory::comm, {1}, DType::int64);
  const Tensor all = runtime.allocate(MemoryCategory::comm, {group.size()}, DType::int64);
  own.set(0, world_rank);
  group.all_gather(all, own).wait();
  std::set<int> members;
  for (int i = 0; i < group.size(); ++i) members.insert(static_cast<int>(all.get(i)));
  return members;
}

}  // namespace

TEST_CASE("H1: by default pp = 1, tp = 1 and dp is what is left of the world", "[H1]") {
  const ParallelChoice choice = hybrid_sharded();
  CHECK(choice.pp == 1);
  CHECK(choice.tp == 1);
  CHECK(choice.dp == -1);
  CHECK(mesh_of(choice, 6).data_size() == 6);
  CHECK(mesh_of(hybrid_sharded(3, 2), 24).data_size() == 4);
  // Data ranks are neighbours, pipeline stages furthest apart.
  const MeshShape mesh = mesh_of(hybrid_sharded(2, 3, 4), 24);
  for (int rank = 0; rank < 24; ++rank) {
    const MeshPlace place = mesh.place_of(rank);
    CHECK(rank == (place.pp * 3 + place.tp) * 4 + place.dp_shard);
  }
}

TEST_CASE("P48: degrees that are zero, negative or do not divide the world are an argument error") {
  for (const ParallelChoice& bad :
       {hybrid_sharded(5), hybrid_sharded(1, 7), hybrid_sharded(2, 2, 4), hybrid_sharded(0),
        hybrid_sharded(1, 0), hybrid_sharded(1, 1, 0), hybrid_sharded(-1), hybrid_sharded(1, 1, -2),
        hybrid_sharded(4, 4, 1), hybrid_sharded(1 << 16, 1 << 16)}) {
    INFO(bad.pp << " x " << bad.tp << " x " << bad.dp);
    CHECK(code_of([&] { (void)mesh_of(bad, 12); }) == "E0771");
  }
}

TEST_CASE("H2: gradients are combined across data-parallel replicas only", "[H2]") {
  const std::map<std::string, int> calls = bucket_calls(hybrid(2, 2, 2));
  CHECK(calls.size() == 1);
  CHECK(calls.count("dp") == 1);
  CHECK(bucket_calls(hybrid(2, 2, 1)).empty());
}

TEST_CASE("H3: tensor-parallel groups are synchronized separately", "[H3]") {
  const Setup setup = hybrid(2, 2, 2);
  FiberWorld world(world_of(setup));
  on_ranks(world, setup, [](ShardedOptimizer& optimizer) { optimizer.step(); });
  const MeshShape mesh = mesh_of(setup.choice, setup.ranks);
  std::set<std::pair<int, int>> groups;
  world.for_each_link([&](const LinkTraffic& link) {
    if (link.group != "tp") return;
    MeshPlace from = mesh.place_of(link.from_rank);
    MeshPlace to = mesh.place_of(link.to_rank);
    CHECK(link.counts.sent > 0);
    groups.insert({from.pp, from.dp_shard});
    from.tp = to.tp = 0;
    CHECK(from == to);
  });
  CHECK(groups.size() == 4);
}

TEST_CASE("H4: gradients are accumulated over a pipeline's microbatches and reduced once", "[H4]") {
  for (const std::int64_t microbatches : {1, 2, 5}) {
    Setup setup = hybrid(2, 1, 2);
    setup.training.num_microbatches = microbatches;
    INFO(microbatches);
    CHECK(worst_error(train(setup, 2), train_alone(setup, 2)) <= kOracleBound);
    CHECK(bucket_calls(setup) == bucket_calls(hybrid(2, 1, 2)));
  }
}

TEST_CASE("H5: each dimension has a group object of its own, and each kind partitions the world",
          "[H5]") {
  const Setup setup = hybrid(2, 2, 2);
  std::vector<std::map<int, std::set<int>>> groups(3);
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    ShardedModel& model = optimizer.model();
    Communicator* const axes[] = {model.mesh().data_group(), model.mesh().tp_group(),
                                  model.mesh().pp_group()};
    const std::set<Communicator*> different(std::begin(axes), std::end(axes));
    CHECK(different.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      REQUIRE(axes[i] != nullptr);
      groups[i][optimizer.rank()] = members_of(model.runtime(), *axes[i], optimizer.rank());
    }
  });
  for (const auto& kind : groups) {
    std::set<std::set<int>> parts;
    std::size_t covered = 0;
    for (const auto& [rank, members] : kind) {
      CHECK(members.count(rank) == 1);
      if (parts.insert(members).second) covered += members.size();
    }
    CHECK(parts.size() == 4);
    CHECK(covered == 8);
  }
}

TEST_CASE("H6: everything happens in the right order: the result is that of one device", "[H6]") {
  for (const char* model : {"gpt2", "untied gpt2", "tied llama"}) {
    for (const auto& [pp, tp, dp] :
         {std::array{1, 1, 3}, {2, 1, 2}, {1, 2, 2}, {2, 2, 1}, {2, 2, 2}, {3, 2, 1}, {2, 4, 2}}) {
      Setup setup = hybrid(pp, tp, dp, model);
      setup.training.max_grad_norm = 0.1;
      setup.training.ignore_fraction = 0.2;
      INFO(model << " " << pp << " x " << tp << " x " << dp);
      CHECK(worst_error(train(setup, 3), train_alone(setup, 3)) <= kOracleBound);
    }
  }
}

TEST_CASE("H6: what cannot be cut along all dimensions is refused by name", "[H6]") {
  CHECK(code_of([] { (void)train(hybrid(2, 2, 1, "mlp"), 1); }) == "E0784");
  CHECK(code_of([] { (void)train(hybrid(2, 1, 1, "mlp"), 1); }) == "none");
  CHECK(code_of([] { (void)train(hybrid(1, 2, 1, "mlp"), 1); }) == "none");
  CHECK(code_of([] { (void)train(hybrid(1, 3, 1), 1); }) == "E0631");
  CHECK(code_of([] { (void)train(hybrid(9, 1, 1), 1); }) == "E0711");
}

TEST_CASE("H7: memory uses all dimensions: a rank has 1 / (pp * tp) of the parameters", "[H7]") {
  Setup setup = hybrid(2, 2, 2, "untied gpt2");
  setup.change_model = [](ModelOptions& options) {
    options.hidden_size = 32;
    options.ffn_hidden_size = 128;
    options.num_layers = 6;
  };
  FiberWorld world(world_of(setup));
  std::int64_t whole = 0;
  on_ranks(world, setup, [&](ShardedOptimizer& optimizer) {
    whole = num_parameters(optimizer.model().wrapped_model()) * 8;
  });
  std::int64_t sum = 0;
  for (int rank = 0; rank < 8; ++rank) {
    const std::int64_t bytes = world.engine().rank(rank).ledger().category_peaks()[0];
    sum += bytes;
    // Stages of 3 layers each, beside the embedding or the head; norms, biases and positions are
    // not cut: a few percent.
    CHECK(bytes > whole / 4 * 95 / 100);
    CHECK(bytes < whole / 4 * 110 / 100);
  }
  CHECK(sum >= 2 * whole);  // Two replicas.
}

TEST_CASE("H8: hundreds of ranks train the model of one device", "[H8]") {
  Setup setup = hybrid(2, 2, 64, "llama");
  setup.training.num_microbatches = 2;
  REQUIRE(setup.ranks == 256);
  CHECK(worst_error(train(setup, 2), train_alone(setup, 2)) <= kOracleBound);
}

TEST_CASE("H8: a thousand ranks run, each with its part of the work", "[H8]") {
  Setup setup = hybrid(4, 4, 64, "llama");
  setup.world.has_data = false;
  setup.world.all_reduce_algorithm = Algorithm::ring;
  setup.change_model = [](ModelOptions& options) {
    options.num_query_groups = 4;
    options.num_layers = 4;
  };
  const MeshShape mesh = mesh_of(setup.choice, setup.ranks);
  FiberWorld world(world_of(setup));
  std::set<int> ranks;
  std::set<int> places;
  on_ranks(world, setup, [&](ShardedOptimizer& optimizer) {
    optimizer.step();
    CHECK(optimizer.model().steps() == 1);
    ranks.insert(optimizer.rank());
    places.insert(mesh.rank_of(optimizer.model().place()));
  });
  CHECK(ranks.size() == 1024);
  CHECK(places.size() == 1024);
  // A replica has the parts of each parameter once, but for norms, which its four tensor-parallel
  // ranks all have. Replicas are equal.
  std::int64_t replica_bytes = 0;
  for (int rank = 0; rank < 1024; ++rank) {
    MeshPlace first = mesh.place_of(rank);
    const bool is_first = first.dp_shard == 0;
    first.dp_shard = 0;
    const auto params = [&](int of) {
      return world.engine().rank(of).ledger().category_peaks()[0];
    };
    CHECK(params(rank) == params(mesh.rank_of(first)));
    if (is_first) replica_bytes += params(rank);
  }
  const ModelOptions model = problem_of(setup).model;
  const std::int64_t norms = (2 * model.num_layers + 1) * model.hidden_size;
  // The vocabulary of 11 is filled up to 12 for four parts, in embedding and head.
  const std::int64_t filling = 2 * model.hidden_size;
  CHECK(replica_bytes == 8 * (num_parameters(*make_model(model)) + filling + 3 * norms));
  // A gradient is as large as its parameter, and each is summed over 64 replicas: 2 (N - 1) n.
  // Padding is counted apart.
  const TrafficCounters& reduced = world.traffic().at("dp");
  CHECK(reduced.payload_sent == 2 * 63 * (replica_bytes - 8 * filling));
  CHECK(reduced.padding_sent == 2 * 63 * 8 * filling);
  // Per microbatch and replica: 3 boundaries there and back, on four tensor-parallel ranks.
  const std::int64_t activation = model.seq_len * model.hidden_size * 8;
  const std::int64_t piped = world.traffic().at("pp_forward").payload_sent +
                             world.traffic().at("pp_backward").payload_sent;
  CHECK(piped == setup.training.num_microbatches * 64 * 2 * 3 * 4 * activation);
}

TEST_CASE("repairing optimizer state sends what fills a vocabulary up as padding") {
  Setup setup = hybrid(1, 4, 2, "llama");
  setup.world.has_data = false;
  FiberWorld world(world_of(setup));
  on_ranks(world, setup,
           [](ShardedOptimizer& optimizer) { optimizer.synchronize_optimizer_state(); });
  const ModelOptions model = problem_of(setup).model;
  REQUIRE(model.vocab_size == 11);
  const std::int64_t norms = (2 * model.num_layers + 1) * model.hidden_size;
  const std::int64_t filling = 2 * model.hidden_size;  // A twelfth row, in embedding and head.
  constexpr std::int64_t kStates = 2 * 8;              // Bytes of both moments.
  // From one replica to the other, each tensor-parallel rank its part, of norms the whole.
  const TrafficCounters& copied = world.traffic().at("dp");
  CHECK(copied.payload_sent == kStates * (num_parameters(*make_model(model)) + 3 * norms));
  CHECK(copied.padding_sent == kStates * filling);
  // In each replica, from one to the three others.
  CHECK(world.traffic().at("tp").payload_sent == kStates * 2 * 3 * norms);
  CHECK(world.traffic().at("tp").padding_sent == 0);
}

}  // namespace shardsim::test
