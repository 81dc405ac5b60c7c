#include "backends/mpi/mpi_library.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include <dlfcn.h>

#include "sim/kernel/diagnosis.hpp"
#include "sim/kernel/error.hpp"
#include "sim/kernel/version.hpp"

#include "backends/reduce.hpp"

namespace shardsim {

namespace {

constexpr const char* kName = "libshardsim-mpi.so";
constexpr const char* kModuleRemedy =
    "install openmpi-bin and libopenmpi-dev and build again, or name the module in "
    "SHARDSIM_MPI_MODULE";

using Combine = ShardsimMpiCombine;

// In the order of ShardsimMpiCollective::Kind.
constexpr std::array<CollectiveKind, 8> kKinds = {
    collective::kAllReduce, collective::kReduceScatter, collective::kAllGather,
    collective::kAllToAll,  collective::kBroadcast,     collective::kReduce,
    collective::kGather,    collective::kScatter};
static_assert(kKinds.size() == ShardsimMpiCollective::scatter + 1);

constexpr std::array kDTypes = {DType::fp64, DType::fp32,  DType::bf16, DType::fp16,
                                DType::int8, DType::int32, DType::int64};
constexpr std::array kReductions = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};
static_assert(kDTypes.size() * kReductions.size() <= kShardsimMpiReductions);

// A function without context, as MPI wants: what it does is part of its type.
template <DType dtype, ReduceOp op>
void combine(const void* in, void* inout, std::int64_t count) {
  auto* const own = static_cast<std::byte*>(inout);
  const std::array<const std::byte*, 2> inputs = {static_cast<const std::byte*>(in), own};
  reduce_chunk(inputs, own, count, dtype, op, ReductionOrder::rank, 0);
}

template <std::size_t index>
constexpr Combine combine_at() {
  return combine<kDTypes[index / kReductions.size()], kReductions[index % kReductions.size()]>;
}

template <std::size_t... index>
void set_reductions(const ShardsimMpiTable& table, std::index_sequence<index...>) {
  (table.set_reduction(static_cast<std::int32_t>(index), combine_at<index>()), ...);
}

std::int32_t index_of(DType dtype, ReduceOp op) {
  std::int32_t index = 0;
  for (const DType each : kDTypes) {
    for (const ReduceOp reduction : kReductions) {
      if (each == dtype && reduction == op) return index;
      ++index;
    }
  }
  throw UsageError("E0505", "fp8 tensors cannot be reduced", "reduce in bf16 or fp32");
}

std::int32_t kind_of(CollectiveKind kind) {
  return static_cast<std::int32_t>(std::find(kKinds.begin(), kKinds.end(), kind) - kKinds.begin());
}

}  // namespace

std::string mpi_module_path_of(const std::string& executable) {
  if (executable.empty()) return {};
  const std::optional<std::string> build = build_root_of(executable);
  const std::filesystem::path folder = std::filesystem::path(executable).parent_path();
  const std::filesystem::path place =
      build ? std::filesystem::path(*build) / "backends" : folder / "../lib/shardsim";
  return (place / kName).lexically_normal().string();
}

std::string loopback_library_of(const std::string& module) {
  const std::string path =
      (std::filesystem::path(module).parent_path() / "libshardsim-loopback.so").string();
  // Blanks or colons separate the names in LD_PRELOAD.
  const bool can_be_told = path.find_first_of(" :\t\n") == std::string::npos;
  return can_be_told && std::filesystem::exists(path) ? path : "";
}

MpiModule find_mpi_module() {
  const char* const named = std::getenv("SHARDSIM_MPI_MODULE");
  const std::string path =
      named != nullptr && *named != '\0' ? named : mpi_module_path_of(this_executable());
  if (path.empty()) return {.why = "the system does not say where this program lies"};
  if (!std::filesystem::exists(path)) return {.why = path + ": no such file"};
  // Global: Open MPI opens parts of its own that look for its symbols.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return {.why = dlerror()};
  const auto open = reinterpret_cast<ShardsimMpiModule>(dlsym(handle, "shardsim_mpi_module"));
  if (open == nullptr || open()->version != kShardsimMpiVersion ||
      open()->num_bytes != sizeof(ShardsimMpiTable)) {
    return {.why = path + ": of another version of shardsim"};
  }
  return {.path = path, .table = open()};
}

ProbeRow probe_mpi_module() {
  const MpiModule module = find_mpi_module();
  if (module.table == nullptr) return {"MPI module", false, module.why, kModuleRemedy};
  return {"MPI module", true, std::string(module.table->library()) + ", " + module.path, ""};
}

MpiModule require_mpi_module() {
  MpiModule module = find_mpi_module();
  if (module.table == nullptr) {
    throw Error(ExitCode::backend_failed, "E1060",
                "--backend=mpi needs the module libshardsim-mpi.so (" + module.why + ")",
                kModuleRemedy);
  }
  return module;
}

MpiJob::MpiJob(const Options& options) : module_(require_mpi_module()) {
  if (table().open(options.monitor ? 1 : 0, options.piece_bytes) != kMpiOk) {
    throw Error(ExitCode::backend_failed, "E1061", std::string("MPI: ") + table().error_text(),
                "see what mpirun printed; \"shardsim doctor\" shows what is installed");
  }
}

MpiJob::~MpiJob() {
  if (given_up_) {
    table().forget();
  } else if (!closed_) {
    close();
  }
}

MpiJob::Wire MpiJob::close() {
  Wire wire;
  const auto size = static_cast<std::size_t>(table().size(0));
  closed_ = true;
  table().close();
  wire.bytes.resize(size);
  wire.messages.resize(size);
  if (table().wire(wire.bytes.data(), wire.messages.data()) != kMpiOk) return {};
  return wire;
}

// --- Messages ----------------------------------------------------------------------------------

MpiTransport::MpiTransport(const MpiJob& job, std::int32_t group)
    : job_(job),
      group_(group),
      rank_(job.table().rank(group)),
      world_ranks_(static_cast<std::size_t>(job.table().size(group))) {
  job.table().world_ranks(group, world_ranks_.data());
  constexpr std::size_t kCount = kDTypes.size() * kReductions.size();
  if (group == 0) set_reductions(job.table(), std::make_index_sequence<kCount>());
}

MpiTransport::~MpiTransport() { job_.table().free_group(group_); }

void MpiTransport::check(std::int32_t status) const {
  if (status == kMpiOk) return;
  const std::string text = job_.table().error_text();
  if (status == kMpiOtherSize) throw WrongSize(text);
  throw Error(ExitCode::backend_failed, "E1062", text,
              "a peer may have ended; its output says why");
}

Transport::Request MpiTransport::send(int peer, const std::byte* data, std::int64_t bytes,
                                      bool rendezvous) {
  Request request = 0;
  check(job_.table().send(group_, peer, data, bytes, rendezvous ? 1 : 0, &request));
  return request;
}

Transport::Request MpiTransport::receive(int peer, std::byte* data, std::int64_t bytes) {
  Request request = 0;
  check(job_.table().receive(group_, peer, data, bytes, &request));
  return request;
}

Transport::Request MpiTransport::send_tagged(int peer, int tag, const std::byte* data,
                                             std::int64_t bytes, bool rendezvous) {
  Request request = 0;
  check(job_.table().send_tagged(group_, peer, tag, data, bytes, rendezvous ? 1 : 0, &request));
  return request;
}

Transport::Request MpiTransport::receive_tagged(int source, int tag, std::byte* data,
                                                std::int64_t bytes) {
  Request request = 0;
  check(job_.table().receive_tagged(group_, source, tag, data, bytes, &request));
  return request;
}

std::optional<TakenMessage> MpiTransport::probe_tagged(int source, int tag) {
  std::int32_t found = 0;
  check(job_.table().probe(group_, source, tag, &found));
  return found == 0 ? std::nullopt : std::optional(taken());
}

TakenMessage MpiTransport::taken() const {
  std::int32_t source = 0;
  std::int32_t tag = 0;
  std::int64_t bytes = 0;
  job_.table().taken(&source, &tag, &bytes);
  return {source, tag, bytes};
}

Transport::Request MpiTransport::barrier() {
  Request request = 0;
  check(job_.table().barrier(group_, &request));
  return request;
}

Transport::Request MpiTransport::collective(const NativeCall& call) {
  const bool in_parts = !call.counts.empty();
  const ShardsimMpiCollective collective = {
      .kind = kind_of(call.kind),
      .root = call.root,
      .element_bytes = static_cast<std::int32_t>(size_of(call.dtype)),
      .reduction = call.reduces ? index_of(call.dtype, call.reduction) : 0,
      .in = call.in,
      .out = call.out,
      .count = call.count,
      .counts = in_parts ? call.counts.data() : nullptr,
      .receive_counts = call.receive_counts.empty() ? nullptr : call.receive_counts.data()};
  Request request = 0;
  check(job_.table().collective(group_, &collective, &request));
  return request;
}

bool MpiTransport::done(Request request) {
  std::int32_t done = 0;
  check(job_.table().test(request, &done));
  return done != 0;
}

std::unique_ptr<Transport> MpiTransport::split(int color, int key) {
  std::int32_t made = 0;
  check(job_.table().split(group_, color, key, &made));
  if (made < 0) return nullptr;
  return std::unique_ptr<Transport>(new MpiTransport(job_, made));
}

}  // namespace shardsim
