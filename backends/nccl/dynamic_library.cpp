#include "backends/nccl/dynamic_library.hpp"

#include <cstdlib>

#include <dlfcn.h>
#include <link.h>

namespace shardsim {

DynamicLibrary::DynamicLibrary(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      errors_.clear();
      return;
    }
    const char* error = dlerror();
    errors_.push_back(error != nullptr ? error : name + ": the loader gives no reason");
  }
}

std::string DynamicLibrary::path() const {
  link_map* map = nullptr;
  if (handle_ == nullptr || dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) return {};
  return map->l_name;
}

void* DynamicLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

std::vector<std::string> library_names(const std::string& explicit_path, const char* variable,
                                       std::vector<std::string> defaults) {
  if (!explicit_path.empty()) return {explicit_path};
  const char* value = std::getenv(variable);
  if (value != nullptr && *value != '\0') return {value};
  return defaults;
}

}  // namespace shardsim
