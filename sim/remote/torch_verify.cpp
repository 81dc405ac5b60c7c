#include "sim/remote/torch_verify.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backends/fiber/fiber_world.hpp"

#include "reports/units.hpp"
#include "scenarios/source_text.hpp"

#include "sim/remote/remote_rank.hpp"
#include "sim/remote/remote_ranks.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kShownScript = 200;

std::string numbered(std::int64_t number, const char* thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

}  // namespace

TorchVerification verify_torch(const TorchVerifyOptions& options) {
  const InterruptGuard guard;
  FiberWorld world({.cluster = options.cluster, .has_data = true});
  RemoteRanks ranks(world.engine(), {.world_size = world.num_ranks(),
                                     .folder = options.folder,
                                     .command =
                                         [&options](int rank) {
                                           return options.command(rank, socket_path(options.folder),
                                                                  stack_path(options.folder, rank));
                                         },
                                     .limit_s = options.limit_s,
                                     .output = options.output});
  RemoteRun run{.world = world, .ranks = ranks};
  try {
    world.run([&run](Runtime& runtime, Communicator& communicator) {
      RemoteRank(run, runtime, communicator).serve();
    });
  } catch (const CommunicationError& error) {
    // Its places are texts of the world.
    return {.num_ranks = world.num_ranks(), .failure = error.diagnosis().to_text()};
  }
  const std::vector<std::int64_t> sent = world.sent_by_rank();
  const auto busiest = std::ranges::max_element(sent);
  return {.num_ranks = world.num_ranks(),
          .num_calls = run.num_calls,
          .num_groups = static_cast<int>(world.groups().size()),
          .sent_bytes = world.total_traffic().payload_sent,
          .busiest_rank = busiest - sent.begin(),
          .busiest_bytes = *busiest};
}

std::string verification_text(const TorchVerifyOptions& options, const TorchVerification& result) {
  return fmt::format(
      "{}: {} trained with real numbers\n"
      "  {} in {}; {} sent, {} by rank {}, the busiest\n"
      "  every call found its partners, and no buffer was used before its work was waited for\n"
      "  OK\n",
      printable(options.script, kShownScript), numbered(result.num_ranks, "rank"),
      numbered(result.num_calls, "call"), numbered(result.num_groups, "group"),
      format_traffic(result.sent_bytes), format_traffic(result.busiest_bytes), result.busiest_rank);
}

std::string verification_json(const TorchVerifyOptions& options, const TorchVerification& result) {
  const nlohmann::ordered_json json = {{"script", options.script},
                                       {"ranks", result.num_ranks},
                                       {"calls", result.num_calls},
                                       {"groups", result.num_groups},
                                       {"sent_bytes", result.sent_bytes},
                                       {"busiest_rank", result.busiest_rank},
                                       {"busiest_rank_sent_bytes", result.busiest_bytes}};
  constexpr int kIndent = 2;
  return json.dump(kIndent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace shardsim
