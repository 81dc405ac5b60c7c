#include <algorithm>
#include <array>
#include <optional>

#include "sim/kernel/error.hpp"

#include "sim/hardware/architecture.hpp"
#include "sim/hardware/software.hpp"
#include "sim/hardware/workspaces.hpp"

#include "strategies/model/offload_modules.hpp"

#include "scenarios/resolve.hpp"

namespace shardsim {

namespace {

struct Degree {
  const char* field;
  std::int64_t ParallelismSpec::*size;
};

// The degrees that say how many ranks remain for dp_shard.
constexpr std::array<Degree, 4> kDegrees = {{
    {"parallelism.tp", &ParallelismSpec::tp},
    {"parallelism.pp", &ParallelismSpec::pp},
    {"parallelism.cp", &ParallelismSpec::cp},
    {"parallelism.dp_replicate", &ParallelismSpec::dp_replicate},
}};

std::string layout_words(const ParallelismSpec& p) {
  std::string words;
  for (const Degree& degree : kDegrees) {
    words += (words.empty() ? "" : " x ") + last_key(degree.field) + " " + text_of(p.*degree.size);
  }
  return words;
}

// The ranks that the degrees leave for dp_shard. The first degree that does not divide the ranks
// left by those before it is reported; then nothing is left.
std::optional<std::int64_t> ranks_left(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  const std::int64_t ranks = r.scenario.system.ranks;
  std::int64_t left = ranks;
  std::string before;
  for (const Degree& degree : kDegrees) {
    const std::int64_t size = p.*degree.size;
    const std::string name = last_key(degree.field);
    if (left % size != 0) {
      std::string whose = text_of(left) + " ranks";
      if (!before.empty())
        whose.append(" that ").append(before).append(" leaves of " + text_of(ranks));
      const std::string what = name + " (" + text_of(size) + ") does not divide the ";
      r.problem("E0203", degree.field, what + whose, "try " + divisors(left, left));
      r.fields[degree.field].good = false;
      return std::nullopt;
    }
    left /= size;
    if (size > 1) before += (before.empty() ? "" : " x ") + name + " " + text_of(size);
  }
  return left;
}

// Comes before anything derived from the number of ranks: later checks would only repeat it.
void check_num_ranks(Reading& r) {
  const std::int64_t ranks = r.scenario.system.ranks;
  const std::int64_t most = max_ranks_of(r);
  if (r.good("system.ranks") && ranks > most) {
    const bool could_plan = ranks <= r.limits.max_plan_ranks;
    r.problem("E0351", r.given("system.ranks") ? "system.ranks" : "system.nodes",
              text_of(ranks) + " ranks; at most " + text_of(most) + " can be simulated" +
                  (could_plan ? ", each by itself" : ""),
              could_plan ? "use fewer nodes, or a plan (execution.tensors meta) with "
                           "execution.engine auto, which replays ranks that do the same"
                         : "use fewer nodes");
    r.fields["system.ranks"].good = false;
  }
}

void resolve_kernels(Reading& r, SystemSpec& s) {
  if (r.good("system.device.kernels")) {
    derive(r, "system.kernel_model", s.kernel_model,
           std::string(s.device.kernels == "none" ? "roofline" : "shapes"));
  }
  if (r.all_good({"system.kernel_model", "system.device.kernels"}) && s.kernel_model == "shapes" &&
      s.device.kernels == "none") {
    r.problem("E0214", "system.kernel_model", "there are no constants of this device's kernels",
              "name a GPU in system.device.kernels, or use kernel_model roofline");
  }
  // Whose kernels a plan has; numbers are those of one device whatever prices them.
  if (r.all_good({"system.kernel_model", "system.device.kernels"})) {
    const bool is_priced =
        s.kernel_model == "shapes" && r.scenario.execution.tensors == TensorMode::meta;
    s.software_is_default = is_priced && !r.given("system.software");
    derive(r, "system.software", s.software,
           is_priced ? default_software(r.scenario) : std::string("none"));
  }
  if (!r.good("system.software")) return;
  if (r.good("system.kernel_model") && s.kernel_model != "shapes" && s.software != "none") {
    r.problem("E0221", "system.software", "a roofline has no kernels that software could choose",
              "name a GPU in system.device.kernels, or use software none");
  }
  const Software* software = find_software(s.software);
  derive(r, "system.host_us_per_kernel", s.host_us_per_kernel,
         software == nullptr ? 0.0 : software->host_us_per_kernel.value);
  derive(r, "system.host_us_per_call", s.host_us_per_call,
         software == nullptr ? 0.0 : software->host_us_per_call.value);
}

// The first field that needs the host link, for the error that there is none.
const char* first_offload(const ParallelismSpec& p) {
  if (p.offload_optimizer) return "parallelism.offload_optimizer";
  if (p.offload_gradients) return "parallelism.offload_gradients";
  return p.offload_parameters ? "parallelism.offload_parameters" : "parallelism.offload_layers";
}

}  // namespace

void resolve_system(Reading& r) {
  SystemSpec& s = r.scenario.system;
  derive(r, "system.name", s.name, s.preset.empty() ? std::string("inline system") : s.preset);
  derive(r, "system.device.architecture", s.device.architecture,
         std::string(architecture_of_device(s.device.name).name));
  if (r.good("system.cublas_workspace_config") && !s.cublas_workspace_config.empty() &&
      !parse_workspace_config(s.cublas_workspace_config)) {
    r.problem("E0222", "system.cublas_workspace_config",
              "\"" + s.cublas_workspace_config + "\" is no list of :KiB:count pairs",
              "write it as CUBLAS_WORKSPACE_CONFIG, such as \":4096:8\", or leave it out");
  }
  resolve_kernels(r, s);
  if (!r.given("system.nodes") && !r.given("system.ranks")) {
    if (r.broken.count("system") == 0 && r.sections.count("system") > 0) {
      r.problem("E0103", "system.nodes", "\"nodes\" is missing in \"system\"",
                "say how many nodes there are, or how many ranks");
    }
    return;
  }
  if (!r.good("system.gpus_per_node")) return;
  if (r.good("system.ranks")) {
    if (s.ranks % s.gpus_per_node != 0) {
      r.problem(
          "E0203", "system.ranks",
          text_of(s.ranks) + " ranks do not fill nodes of " + text_of(s.gpus_per_node) + " GPUs",
          s.ranks < s.gpus_per_node
              ? "set gpus_per_node to " + text_of(s.ranks)
              : "use " + text_of(s.ranks - s.ranks % s.gpus_per_node) + " or " +
                    text_of(s.ranks - s.ranks % s.gpus_per_node + s.gpus_per_node));
      r.fields["system.ranks"].good = false;
      return;
    }
    derive(r, "system.nodes", s.nodes, s.ranks / s.gpus_per_node);
  }
  if (!r.good("system.nodes")) return;
  const auto all = product_if_fits({s.nodes, s.gpus_per_node});  // at most 2^50
  derive(r, "system.ranks", s.ranks, *all);
  if (r.good("system.ranks") && s.ranks != *all) {
    r.problem("E0203", "system.ranks",
              text_of(s.nodes) + " nodes x " + text_of(s.gpus_per_node) +
                  " GPUs = " + text_of(*all) + " ranks, but ranks is " + text_of(s.ranks),
              "remove \"ranks\" or \"nodes\"");
    r.fields["system.ranks"].good = false;
  }
}

void resolve_layout(Reading& r) {
  check_num_ranks(r);
  ParallelismSpec& p = r.scenario.parallelism;
  const std::int64_t ranks = r.scenario.system.ranks;
  if (!r.all_good({"system.ranks", "parallelism.tp", "parallelism.pp", "parallelism.cp",
                   "parallelism.dp_replicate"})) {
    return;
  }
  const std::optional<std::int64_t> left = ranks_left(r);
  if (!left.has_value()) {
    r.fields["parallelism.dp_shard"].good = false;  // Nothing is derived from half a layout.
    return;
  }
  derive(r, "parallelism.dp_shard", p.dp_shard, *left);
  if (r.good("parallelism.dp_shard") && p.dp_shard != *left) {
    const auto all = product_if_fits({ranks / *left, p.dp_shard});
    r.problem("E0203", "parallelism.dp_shard",
              "the machine has " + text_of(ranks) + " ranks, but " + layout_words(p) +
                  " x dp_shard " + text_of(p.dp_shard) +
                  (all.has_value() ? " = " + text_of(*all) : " is far more"),
              "use \"dp_shard\": " + text_of(*left) + ", or \"auto\"");
    r.fields["parallelism.dp_shard"].good = false;
  }
}

void resolve_sharding(Reading& r) {
  ParallelismSpec& p = r.scenario.parallelism;
  if (r.good("parallelism.bucket_bytes")) {
    constexpr std::int64_t kFirstBucket = 1048576;
    derive(r, "parallelism.first_bucket_bytes", p.first_bucket_bytes,
           std::min(kFirstBucket, p.bucket_bytes));
    if (r.good("parallelism.first_bucket_bytes") && p.first_bucket_bytes > p.bucket_bytes) {
      r.problem("E0208", "parallelism.first_bucket_bytes",
                "first_bucket_bytes (" + text_of(p.first_bucket_bytes) +
                    ") is more than bucket_bytes (" + text_of(p.bucket_bytes) + ")",
                "make it smaller, or leave it out");
    }
  }
  if (!r.good("parallelism.zero_stage")) return;
  derive(r, "parallelism.sync_every_microbatch", p.sync_every_microbatch, p.zero_stage >= 2);
  if (r.good("parallelism.sync_every_microbatch") && p.sync_every_microbatch && p.zero_stage < 2) {
    r.problem("E0206", "parallelism.sync_every_microbatch",
              "stage " + text_of(p.zero_stage) +
                  " reduces gradients once per step; sync_every_microbatch belongs to stages 2 "
                  "and 3",
              "leave it out, or use zero_stage 2");
  }
}

void resolve_offload(Reading& r) {
  const ParallelismSpec& p = r.scenario.parallelism;
  if (r.good("parallelism.offload_modules")) {
    try {
      static_cast<void>(offload_modules_of(p.offload_modules));
    } catch (const UsageError& error) {
      r.problem(error.code(), "parallelism.offload_modules", error.what(), error.fix());
    }
  }
  if (!p.uses_host_memory()) return;
  if (p.offloads_activations() && r.good("model.family") &&
      r.scenario.model.family == ModelFamily::mlp) {
    r.problem("E0206", "parallelism.offload_layers", "family mlp has no layers to offload",
              "leave it out, or use a transformer");
  }
  if (p.offload_gradients && r.good("parallelism.zero_stage") && p.zero_stage < 2) {
    r.problem("E0206", "parallelism.offload_gradients",
              "at zero_stage " + text_of(p.zero_stage) +
                  " gradients are whole on every rank, and are not offloaded",
              "use zero_stage 2 or 3, or leave it out");
  }
  if (p.offload_parameters && r.good("parallelism.zero_stage") && p.zero_stage != 3) {
    r.problem("E0206", "parallelism.offload_parameters",
              "at zero_stage " + text_of(p.zero_stage) +
                  " every rank computes with all parameters, and they are not offloaded",
              "use zero_stage 3, or leave it out");
  }
  if (r.good("system.device.host_bandwidth_gb_per_s") &&
      r.scenario.system.device.host_bandwidth_gb_per_s == 0) {
    r.problem("E0206", first_offload(p),
              "there is no link to host memory: system.device.host_bandwidth_gb_per_s is 0",
              "give the GPU's host bandwidth, or keep everything on the device");
  }
}

}  // namespace shardsim
