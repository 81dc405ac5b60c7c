#include <fmt/format.h>

#include "strategies/gradient_sync/compressors.hpp"

#include "scenarios/field_table.hpp"

namespace shardsim {

namespace {

bool trains_apart(const Scenario& s) { return s.parallelism.trains_apart(); }
bool is_diloco(const Scenario& s) {
  return s.parallelism.data_parallel == DataParallelKind::diloco;
}
bool is_elastic(const Scenario& s) { return s.parallelism.is_elastic(); }

constexpr const char* kWhenDiloco = "data_parallel is diloco";
constexpr const char* kWhenElastic = "data_parallel is elastic";

constexpr const char* kNoCompressor = "none";

// A word for each compressor, and one for none of them. Help tells what each sends.
Field compressor_field(const char* path) {
  std::vector<std::string> words = {kNoCompressor};
  std::string help = "The form of the gradients that ranks send in plain data parallelism.";
  for (const CompressorRow* const compressor : compressor_rows()) {
    words.emplace_back(compressor->name);
    help += fmt::format(" {}: {}.", compressor->name, compressor->summary);
  }
  Field row;
  row.path = path;
  row.set = [](Scenario& s, const FieldValue& value) {
    s.parallelism.compression.compressor = find_compressor(std::get<std::string>(value));
  };
  row.get = [](const Scenario& s) -> FieldValue {
    const CompressorRow* const compressor = s.parallelism.compression.compressor;
    return std::string(compressor != nullptr ? compressor->name : std::string_view(kNoCompressor));
  };
  row.one_of(std::move(words)).doc(std::move(help));
  return row.or_else(fmt::format("\"{}\"", kNoCompressor));
}

// A setting that some compressors read: the field says which, and acts with them alone.
template <typename Value>
Field compressor_setting(const char* path, Value GradientCompression::*member,
                         bool CompressorRow::*reads) {
  const std::string readers =
      names_of_compressors([reads](const CompressorRow& row) { return row.*reads; });
  return field(path, &Scenario::parallelism, &ParallelismSpec::compression, member)
      .acts_when("gradient_compression is " + readers, [reads](const Scenario& s) {
        const CompressorRow* const compressor = s.parallelism.compression.compressor;
        return compressor != nullptr && compressor->*reads;
      });
}

std::string all_compressors() {
  return names_of_compressors([](const CompressorRow&) { return true; });
}

}  // namespace

// How data-parallel ranks train one model other than by summing every gradient in every step.
// A table with a row per field, not a function to follow. NOLINTNEXTLINE(readability-function-size)
std::vector<Field> data_parallel_fields() {
  using P = ParallelismSpec;
  using C = GradientCompression;
  const auto parallelism = [](const char* path, auto... members) {
    return field(path, &Scenario::parallelism, members...);
  };
  return {
      parallelism("parallelism.data_parallel", &P::data_parallel)
          .or_else("\"synchronous\"")
          .foreign({{"torchtitan", "semi_sync_method"}})
          .doc("synchronous: all gradients of a step are summed. local_sgd, diloco: replicas "
               "(dp_replicate) train apart and are averaged now and then. async_sgd: gradients are "
               "applied late. elastic: ranks leave and join between steps."),
      parallelism("parallelism.sync_period", &P::sync_period)
          .range(1, kTwoTo40)
          .unit("updates")
          .or_else("1")
          .foreign({{"torchtitan", "sync_steps"}, {"PyTorch", "period"}, {"torchft", "sync_every"}})
          .acts_when("data_parallel is local_sgd or diloco", trains_apart)
          .doc("Updates that replicas make on their own between two averages."),
      parallelism("parallelism.outer_learning_rate", &P::outer_learning_rate)
          .above(0, 1e6)
          .or_else("0.7")
          .acts_when(kWhenDiloco, is_diloco)
          .of_values()
          .doc("Rate of the outer optimizer, SGD with Nesterov momentum. The default is the "
               "paper's."),
      parallelism("parallelism.outer_momentum", &P::outer_momentum)
          .below(0, 1)
          .or_else("0.9")
          .acts_when(kWhenDiloco, is_diloco)
          .of_values()
          .doc("Momentum of the outer optimizer. The default is the paper's."),
      parallelism("parallelism.max_staleness", &P::max_staleness)
          .range(0, 64)
          .unit("updates")
          .or_else("1")
          .acts_when("data_parallel is async_sgd",
                     [](const Scenario& s) {
                       return s.parallelism.data_parallel == DataParallelKind::async_sgd;
                     })
          .doc("How old gradients are when they are applied. 0: as synchronous."),
      parallelism("parallelism.elastic_members", &P::elastic_members)
          .in_order()
          .range(1, kTwoTo20)
          .or_auto()
          .derived("all data-parallel ranks, in every step")
          .acts_when(kWhenElastic, is_elastic)
          .doc("How many data-parallel ranks take part in each step, the first ones; the last "
               "number holds for all further steps."),
      parallelism("parallelism.elastic_min", &P::elastic_min)
          .range(1, kTwoTo20)
          .or_else("1")
          .foreign({{"DeepSpeed", "min_gpus"}, {"PyTorch", "min_nodes"}})
          .acts_when(kWhenElastic, is_elastic)
          .doc("The fewest ranks that may take part in a step."),
      parallelism("parallelism.elastic_max", &P::elastic_max)
          .range(1, kTwoTo20)
          .or_else("1024")
          .foreign({{"DeepSpeed", "max_gpus"}, {"PyTorch", "max_nodes"}})
          .acts_when(kWhenElastic, is_elastic)
          .doc("The most ranks that may take part in a step."),
      compressor_field("parallelism.gradient_compression"),
      compressor_setting("parallelism.compression_ratio", &C::ratio, &CompressorRow::reads_ratio)
          .above(0, 1)
          .or_else("0.1")
          .doc("Share of a bucket's elements that is sent, rounded up."),
      compressor_setting("parallelism.compression_block_size", &C::block_size,
                         &CompressorRow::reads_block_size)
          .range(1, kTwoTo40)
          .or_else("256")
          .doc("Elements that share a scale."),
      parallelism("parallelism.error_feedback", &P::compression, &C::error_feedback)
          .or_else("true")
          .acts_when("gradient_compression is " + all_compressors(),
                     [](const Scenario& s) { return s.parallelism.compresses(); })
          .doc("The error of compressing a gradient, or a sum, is kept and added to the next "
               "one."),
  };
}

}  // namespace shardsim
