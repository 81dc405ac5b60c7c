#include "sim/run/state/state_dump.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

constexpr int kNobody = std::numeric_limits<int>::max();

Tensor new_tensor(const Shape& shape, DType dtype) {
  return Tensor::allocate(nullptr, MemoryCategory::activations, shape, dtype, false);
}

void add_scalar(GatheredTensors& tensors, const char* name, double value,
                DType dtype = DType::fp64) {
  const Tensor scalar = new_tensor({}, dtype);
  scalar.set(0, value);
  tensors.add_whole(name, scalar);
}

// PyTorch indexes with 64-bit tokens.
Tensor with_64_bits(const Tensor& tokens) {
  if (tokens.dtype() != DType::int32) return tokens;
  const Tensor wide = new_tensor(tokens.shape(), DType::int64);
  for (std::int64_t i = 0; i < tokens.numel(); ++i) wide.set(i, tokens.get(i));
  return wide;
}

// "gradient", "parameter", "master", "optimizer.exp_avg", "rank_state.server_error".
std::string prefix_of(const StatePiece& piece) {
  std::string name(kind_name(piece));
  if (piece.kind == StateKind::optimizer_state && name != "master") return "optimizer." + name;
  if (piece.kind != StateKind::rank_state) return name;
  // A state that one rank alone has names that rank: "worker_error of data rank 3".
  std::ranges::replace(name, ' ', '_');
  return "rank_state." + name;
}

// --- The format --------------------------------------------------------------------------------

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie");

constexpr std::size_t kAlignment = 8;
constexpr const char* kMetadata = "__metadata__";

const char* safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return "F64";
    case DType::fp32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::fp16:
      return "F16";
    case DType::int64:
      return "I64";
    case DType::int32:
      return "I32";
    case DType::int8:
      return "I8";
    case DType::fp8_e4m3:
      return "F8_E4M3";
    case DType::fp4_e2m1:
      return "F4";
  }
  throw UsageError("E0955", "safetensors has no name for this dtype", "use another dtype");
}

std::string quoted(const std::string& text) {
  const bool is_plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (!is_plain) {
    throw UsageError("E0955", "a name or a text of a safetensors file is not plain ASCII",
                     "use letters, digits and punctuation other than quotes and backslashes");
  }
  return "\"" + text + "\"";
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    text += (axis > 0 ? "," : "") + std::to_string(shape[axis]);
  }
  return text + "]";
}

}  // namespace

bool GatheredTensors::Gathered::is_whole() const {
  return std::ranges::find(ranks, kNobody) == ranks.end();
}

void GatheredTensors::add(const std::string& name, const Shape& shape, int rank,
                          const StatePiece& piece) {
  Gathered& gathered = tensors_[name];
  if (!gathered.values.defined()) {
    gathered.values = new_tensor(shape, piece.values.dtype());
    gathered.ranks.assign(static_cast<std::size_t>(shape.numel()), kNobody);
  }
  const auto size = static_cast<std::size_t>(size_of(piece.values.dtype()));
  for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
    const auto to = static_cast<std::size_t>(piece.first + i);
    int& from = gathered.ranks[to];
    if (rank > from) continue;
    from = rank;
    // Copies bytes without a computing access, so that nobody notices the dump.
    std::memcpy(gathered.values.wire_data() + to * size,
                piece.values.wire_data() + static_cast<std::size_t>(i) * size, size);
  }
}

void GatheredTensors::add_whole(const std::string& name, const Tensor& values) {
  tensors_[name] = {values, {}};
}

std::vector<NamedTensor> GatheredTensors::whole() const {
  std::vector<NamedTensor> all;
  for (const auto& [name, gathered] : tensors_) {
    if (gathered.is_whole()) all.push_back({name, gathered.values});
  }
  return all;
}

std::vector<std::string> GatheredTensors::incomplete() const {
  std::vector<std::string> all;
  for (const auto& [name, gathered] : tensors_) {
    if (!gathered.is_whole()) all.push_back(name);
  }
  return all;
}

StateDump::StateDump(const ParallelPlan& plan, StateFileWriter write)
    : plan_(plan),
      write_(std::move(write)),
      num_lines_(plan.options().sync.local.acts() ? plan.options().mesh.dp_replicate : 1),
      loss_scales_{{0, initial_state(plan.options().training.loss_scaling).scale}} {}

int StateDump::num_holders(std::int64_t step) const {
  const ParallelOptions& options = plan_.options();
  if (!options.members.empty()) return members_at(options, step);
  return options.mesh.size() / num_lines_;
}

std::string StateDump::name_of(const FileKey& key) const {
  const std::string replica = num_lines_ > 1 ? fmt::format(".replica-{}", key.second) : "";
  return fmt::format("step-{:06}{}.safetensors", key.first, replica);
}

void StateDump::show(const FileKey& key, const Oracle::Holder& holder, const GradientSync& sync,
                     StateKind kind) {
  GatheredTensors& tensors = files_[key].tensors;
  const auto visit = [&](const WholePiece& whole) {
    const auto index = static_cast<std::size_t>(whole.piece.parameter);
    const ParameterSpec& spec = plan_.whole().parameters()[index];
    tensors.add(prefix_of(whole.piece) + "." + spec.name, spec.shape, holder.rank, whole.piece);
  };
  sync.visit(kind,
             [&](const StatePiece& piece) { for_each_whole_piece(holder.part, piece, visit); });
}

void StateDump::show_state(const FileKey& key, const Oracle::Holder& holder,
                           const GradientSync& sync) {
  for (const StateKind kind :
       {StateKind::parameter, StateKind::optimizer_state, StateKind::rank_state}) {
    show(key, holder, sync, kind);
  }
  File& file = files_[key];
  const std::int64_t step = std::max<std::int64_t>(key.first - 1, 0);
  if (++file.num_shown < num_holders(step)) return;
  write(key, file);
  files_.erase(key);
}

// Adds the inputs of the step and its scalars.
void StateDump::add_step(std::int64_t step, File& file) const {
  const TrainingPlan& training = plan_.options().training;
  LocalRuntime runtime;
  const std::int64_t samples = plan_.num_runs() * training.micro_batch_size;
  const Batch batch = plan_.whole().make_batch(runtime, training.seed, step * samples, samples,
                                               training.ignore_fraction);
  file.tensors.add_whole("inputs", with_64_bits(batch.inputs));
  file.tensors.add_whole("targets", with_64_bits(batch.targets));
  if (batch.mask.defined()) file.tensors.add_whole("mask", batch.mask);
  const auto scale = loss_scales_.find(step);
  add_scalar(file.tensors, "loss_scale", scale->second);
  add_scalar(file.tensors, "skipped", file.skipped ? 1.0 : 0.0, DType::int64);
  if (file.loss) add_scalar(file.tensors, "loss", *file.loss);
  add_norm(scale->second, file);
}

void StateDump::add_norm(double loss_scale, File& file) const {
  double sum = 0.0;
  double most = 0.0;
  bool found = false;
  for (const NamedTensor& each : file.tensors.whole()) {
    if (!each.name.starts_with("gradient.")) continue;
    found = true;
    for (std::int64_t i = 0; i < each.values.numel(); ++i) {
      const double value = each.values.get(i) / loss_scale;
      sum += value * value;
      most = std::isnan(value) ? HUGE_VAL : std::fmax(most, std::fabs(value));
    }
  }
  if (!found) return;
  const bool is_two = plan_.options().training.grad_norm_type == NormType::two;
  add_scalar(file.tensors, "gradient_norm", is_two ? std::sqrt(sum) : most);
}

void StateDump::write(const FileKey& key, File& file) {
  if (key.first > 0) add_step(key.first - 1, file);
  std::map<std::string, std::string> metadata = {
      {"format", "pt"}, {"shardsim_state_version", "1"}, {"steps_done", std::to_string(key.first)}};
  if (num_lines_ > 1) metadata["replica"] = std::to_string(key.second);
  const std::vector<std::string> incomplete = file.tensors.incomplete();
  if (!incomplete.empty()) {
    metadata["incomplete"] = fmt::format("{}", fmt::join(incomplete, " "));
  }
  write_(name_of(key), to_safetensors(file.tensors.whole(), metadata));
}

void StateDump::Observer::training_begins(const GradientSync& sync) {
  next_.training_begins(sync);
  dump_.show_state({0, holder_.line}, holder_, sync);
}

void StateDump::Observer::gradients_ready(std::int64_t step, const GradientSync& sync) {
  next_.gradients_ready(step, sync);
  dump_.show({step + 1, holder_.line}, holder_, sync, StateKind::gradient);
}

void StateDump::Observer::step_decided(std::int64_t step, bool skipped, double next_scale) {
  next_.step_decided(step, skipped, next_scale);
  dump_.files_[{step + 1, holder_.line}].skipped = skipped;
  dump_.loss_scales_[step + 1] = next_scale;
}

void StateDump::Observer::step_ends(std::int64_t step, const GradientSync& sync,
                                    std::optional<double> loss) {
  next_.step_ends(step, sync, loss);
  const FileKey key{step + 1, holder_.line};
  if (loss) dump_.files_[key].loss = loss;
  dump_.show_state(key, holder_, sync);
}

// --- The format --------------------------------------------------------------------------------

std::string to_safetensors(std::vector<NamedTensor> tensors,
                           const std::map<std::string, std::string>& metadata) {
  std::ranges::sort(tensors, {}, [](const NamedTensor& each) {
    return std::tuple(-size_of(each.values.dtype()), std::string_view(each.name));
  });
  std::string header = "{" + quoted(kMetadata) + ":{";
  for (const auto& [key, value] : metadata) {
    header += (header.ends_with('{') ? "" : ",") + quoted(key) + ":" + quoted(value);
  }
  header += "}";
  std::map<std::string_view, int> uses = {{kMetadata, 1}};
  std::int64_t end = 0;
  for (const NamedTensor& each : tensors) {
    if (++uses[each.name] > 1) {
      throw UsageError("E0955", "two tensors of a safetensors file are called " + each.name,
                       "give each a name of its own");
    }
    const std::int64_t first = end;
    end += each.values.num_bytes();
    header += fmt::format(R"(,{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                          quoted(each.name), safetensors_name(each.values.dtype()),
                          shape_text(each.values.shape()), first, end);
  }
  header += "}";
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');

  std::string file;
  file.reserve(sizeof(std::uint64_t) + header.size() + static_cast<std::size_t>(end));
  const std::uint64_t length = header.size();
  file.append(reinterpret_cast<const char*>(&length), sizeof length);
  file += header;
  for (const NamedTensor& each : tensors) {
    if (each.values.num_bytes() == 0) continue;
    file.append(reinterpret_cast<const char*>(each.values.wire_data()),
                static_cast<std::size_t>(each.values.num_bytes()));
  }
  return file;
}

}  // namespace shardsim
