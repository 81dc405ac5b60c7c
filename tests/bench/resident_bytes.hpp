#pragma once

#include <cstdint>
#include <cstdio>

#include <unistd.h>

namespace shardsim {

/// Memory of this process that is in use now; 0 where the system does not tell.
inline std::int64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  std::int64_t total = 0;
  std::int64_t resident = 0;
  const int fields = std::fscanf(file, "%ld %ld", &total, &resident);
  std::fclose(file);
  return fields == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace shardsim
