#include "sim/experiment/split_recorder.hpp"

#include "sim/kernel/diagnosis.hpp"
#include "sim/kernel/error.hpp"

#include "backends/call.hpp"

namespace shardsim {

namespace {

[[noreturn]] void refuse(const std::string& call) {
  throw Error(ExitCode::internal, "E7007",
              call + " of a rank that only says how it splits the world",
              "use execution.fold \"off\", and please report this scenario");
}

}  // namespace

const std::string& SplitRecorder::name() const {
  static const std::string kName = "world";
  return kName;
}

std::unique_ptr<Communicator> SplitRecorder::split(int color, int key, const std::string&,
                                                   CallSite) {
  if (choices_ != nullptr) choices_->push_back({color, key});
  if (color == kNoColor) return nullptr;
  return std::make_unique<SplitRecorder>(0, 1, nullptr);
}

Work SplitRecorder::post(const Call& call) { refuse(call.record.name); }

Diagnosis SplitRecorder::diagnosis_of(const std::string& action, CallSite) const { refuse(action); }

}  // namespace shardsim
