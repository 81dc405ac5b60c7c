#pragma once

#include <csignal>
#include <filesystem>
#include <string>

#include "sim/kernel/descriptor.hpp"

#include "sim/console/write_failure.hpp"

namespace shardsim {

/// A file that is being written under a random name in the folder of the final file. Unless it was
/// finished, it is removed at the end. Signals that end the process wait meanwhile, so they leave
/// nothing behind. A file beyond the user's size limit (SIGXFSZ) is an error like others.
class UnfinishedFile {
 public:
  /// Both outlive this. Throws Error (E0901).
  UnfinishedFile(const WriteFailure& failure, const std::filesystem::path& path);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  [[nodiscard]] int number() const { return file_.number(); }

  /// Flushes it to the disk and gives it the final name. Throws Error (E0901); the old file then
  /// stays as it was.
  void finish();

 private:
  // Until its end: declared first, it is destroyed last.
  class SignalsWait {
   public:
    SignalsWait();
    ~SignalsWait();
    SignalsWait(const SignalsWait&) = delete;
    SignalsWait& operator=(const SignalsWait&) = delete;

   private:
    sigset_t before_{};
  };

  int create();

  SignalsWait signals_wait_;
  const WriteFailure& failure_;
  std::string target_;
  Descriptor folder_;
  std::string name_;
  Descriptor file_;
};

}  // namespace shardsim
