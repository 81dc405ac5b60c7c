#include "backends/mpi/mpi_library.hpp"

#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

constexpr const char* kName = "libshardsim-mpi.so";
constexpr const char* kModuleRemedy =
    "install openmpi-bin and libopenmpi-dev and build again, or name the module in "
    "SHARDSIM_MPI_MODULE";

}  // namespace

std::vector<std::string> mpi_module_paths() {
  const char* const named = std::getenv("SHARDSIM_MPI_MODULE");
  if (named != nullptr && *named != '\0') return {named};
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {kName};
  const std::filesystem::path folder = program.parent_path();
  std::vector<std::string> paths;
  // Beside it; from sim/app or tests of a build folder; from bin of an installation.
  for (const char* const way : {".", "../../backends", "../backends", "../lib/shardsim"}) {
    paths.push_back((folder / way / kName).lexically_normal().string());
  }
  return paths;
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
