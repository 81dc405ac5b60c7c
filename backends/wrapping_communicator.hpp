#pragma once

#include <memory>
#include <string>
#include <utility>

#include "backends/call.hpp"
#include "backends/communicator.hpp"
#include "backends/tagged_messages.hpp"

namespace shardsim {

/// Stands between strategies and another communicator and passes everything on. Derive from it and
/// override `post`: it sees every call, checked. Override `split` to wrap what splits return.
class WrappingCommunicator : public Communicator {
 public:
  /// `inner` outlives this.
  explicit WrappingCommunicator(Communicator& inner) : inner_(inner) {}
  explicit WrappingCommunicator(std::unique_ptr<Communicator> inner)
      : owned_(std::move(inner)), inner_(*owned_) {}

  [[nodiscard]] int rank() const override { return inner_.rank(); }
  [[nodiscard]] int size() const override { return inner_.size(); }
  [[nodiscard]] const std::string& name() const override { return inner_.name(); }
  [[nodiscard]] const TrafficCounters* counters() const override { return inner_.counters(); }

  Work post(const Call& call) override { return inner_.post(call); }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                                    CallSite site) override {
    return inner_.split(color, key, name, site);
  }
  [[nodiscard]] std::unique_ptr<TaggedMessages> tagged_messages() override {
    return inner_.tagged_messages();
  }
  [[nodiscard]] Diagnosis diagnosis_of(const std::string& action, CallSite site) const override {
    return inner_.diagnosis_of(action, site);
  }

 protected:
  [[nodiscard]] Communicator& inner() const { return inner_; }

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
};

}  // namespace shardsim
