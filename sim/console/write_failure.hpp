#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>

// Explains why a file cannot be written.
namespace shardsim {

class WriteFailure {
 public:
  /// `otherwise`: the user's other way out, such as "choose another with -o".
  WriteFailure(std::filesystem::path path, std::string otherwise);

  /// Throws UsageError E0901 with the cause of `error`, an errno, and a way out.
  [[noreturn]] void refuse(int error) const;

 private:
  std::filesystem::path path_;
  std::string otherwise_;
};

/// Writes the output of `produce` to an open file. Reports a failure at the end; output after the
/// failure is dropped.
void produce_into(const WriteFailure& failure, int file,
                  const std::function<void(std::ostream&)>& produce);

}  // namespace shardsim
