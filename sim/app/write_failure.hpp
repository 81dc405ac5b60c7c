#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>

// Why a file cannot be written, in words.
namespace shardsim {

class WriteFailure {
 public:
  /// `otherwise`: the user's other way out, such as "choose another with -o".
  WriteFailure(std::filesystem::path path, std::string otherwise);

  /// Throws UsageError E0901 with the cause that `error`, an errno, stands for, and a way out.
  [[noreturn]] void refuse(int error) const;

 private:
  std::filesystem::path path_;
  std::string otherwise_;
};

/// Writes what `produce` puts out to an open file. A failure is told at its end: what is produced
/// after it goes nowhere.
void produce_into(const WriteFailure& failure, int file,
                  const std::function<void(std::ostream&)>& produce);

}  // namespace shardsim
