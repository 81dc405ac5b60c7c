#pragma once

#include <csignal>
#include <filesystem>
#include <string>

#include "sim/kernel/descriptor.hpp"

#include "sim/app/write_failure.hpp"

namespace shardsim {

/// A file that is being written under a name that nobody knows, in the folder of the one that it
/// will become. It is removed at the end, unless it was finished. Signals that end the process wait
/// meanwhile, and so nothing is left behind by them; a file that becomes larger than the user's
/// limit (SIGXFSZ) is an error like others.
class UnfinishedFile {
 public:
  /// Both outlive this. Throws Error (E0901).
  UnfinishedFile(const WriteFailure& failure, const std::filesystem::path& path);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  [[nodiscard]] int number() const { return file_.number(); }

  /// Puts it on the disk, and in the place of what had its name. Throws Error (E0901), in which
  /// case the old file is as it was.
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
