#include "backends/mpi/mpi_library.hpp"

#include <cstdlib>
#include <filesystem>
#include <optional>

#include <dlfcn.h>

#include "sim/kernel/build_tree.hpp"
#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

constexpr const char* kName = "libshardsim-mpi.so";
constexpr const char* kModuleRemedy =
    "install openmpi-bin and libopenmpi-dev and build again, or name the module in "
    "SHARDSIM_MPI_MODULE";

}  // namespace

std::vector<std::string> mpi_module_paths_of(const std::string& executable) {
  if (executable.empty()) return {};
  const std::optional<std::string> build = build_root_of(executable);
  const std::filesystem::path folder = std::filesystem::path(executable).parent_path();
  const std::filesystem::path place =
      build ? std::filesystem::path(*build) / "backends" : folder / "../lib/shardsim";
  return {(place / kName).lexically_normal().string()};
}

std::vector<std::string> mpi_module_paths() {
  const char* const named = std::getenv("SHARDSIM_MPI_MODULE");
  if (named != nullptr && *named != '\0') return {named};
  return mpi_module_paths_of(this_executable());
}

std::string loopback_library_of(const std::string& module) {
  const std::string path =
      (std::filesystem::path(module).parent_path() / "libshardsim-loopback.so").string();
  // Blanks or colons separate the names in LD_PRELOAD.
  const bool can_be_told = path.find_first_of(" :\t\n") == std::string::npos;
  return can_be_told && std::filesystem::exists(path) ? path : "";
}

MpiModule find_mpi_module() {
  MpiModule module;
  for (const std::string& path : mpi_module_paths()) {
    if (!std::filesystem::exists(path)) {
      module.why += (module.why.empty() ? "" : "; ") + path + ": no such file";
      continue;
    }
    // Global: Open MPI opens parts of its own that look for its symbols.
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) {
      module.why += (module.why.empty() ? "" : "; ") + std::string(dlerror());
      continue;
    }
    const auto open = reinterpret_cast<ShardsimMpiModule>(dlsym(handle, "shardsim_mpi_module"));
    if (open == nullptr || open()->version != kShardsimMpiVersion ||
        open()->num_bytes != sizeof(ShardsimMpiTable)) {
      module.why += path + ": of another version of shardsim";
      continue;
    }
    module.path = path;
    module.table = open();
    return module;
  }
  if (module.why.empty()) module.why = "the system does not say where this program lies";
  return module;
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
                "see what mpirun printed; \"shardsim doctor\" shows what there is");
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

}  // namespace shardsim
