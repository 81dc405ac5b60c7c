#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backends/message/process_messages.hpp"
#include "backends/mpi/mpi_library.hpp"
#include "backends/rendezvous/rendezvous_client.hpp"

#include "sim/harness/call_log.hpp"
#include "sim/harness/check_on_mpi.hpp"
#include "sim/harness/checker.hpp"
#include "sim/harness/shown_figures.hpp"
#include "sim/harness/step_exchange.hpp"

namespace shardsim {

/// One process's part in checks on an MPI job (docs/decisions/0098-programs-on-mpi.md).
class ProcessChecks {
 public:
  /// All outlive it. `calls` is told of every call of the programs.
  ProcessChecks(const MpiJob& job, RendezvousClient& client, CallWatch& calls,
                const MpiCheckOptions& options);
  ~ProcessChecks();

  /// Runs one program on all processes; the report is rank 0's, and empty elsewhere. Throws why the
  /// processes have to end.
  [[nodiscard]] std::optional<CheckReport> run(const MpiProgram& program);

 private:
  class Watch;
  struct Live;  // A program that runs.

  [[nodiscard]] bool reports() const { return base_->rank() == 0; }
  [[nodiscard]] int size() const { return base_->size(); }
  // Runs it once; on rank 0 returns what all ranks have shown.
  [[nodiscard]] ProgramRun run_once(const RankContext::Setting& setting);
  void run_program_here(RankContext& context);
  // The program has thrown: it ends with the verdict.
  void wait_for_verdict();
  void wait_for_all();
  void look_until(const std::function<bool()>& is_enough, double seconds);
  [[nodiscard]] ProgramRun gather(const ShownFigures& figures);

  void on_idle();
  void on_woken();
  // On rank 0: looks whether all ranks wait in vain or have ended, and judges their calls then.
  // Throws if these are wrong.
  void look_at_calls();
  [[nodiscard]] Diagnosis named(Diagnosis failure, const std::vector<RankLog>& logs);
  [[nodiscard]] MessageOptions message_options(Watch& watch, double deadline_s) const;

  const MpiCheckOptions& options_;
  RendezvousClient& client_;
  std::unique_ptr<Watch> watch_;  // For programs.
  std::unique_ptr<Watch> quiet_;  // For what is gathered.
  std::unique_ptr<Transport> base_;
  std::unique_ptr<MessageRank> control_;
  std::unique_ptr<Communicator> control_world_;
  StepSender sender_;
  std::optional<MpiProgram> program_;
  int num_runs_ = 0;
  std::unique_ptr<Live> live_;
  double waits_since_s_ = -1.0;
  bool told_waiting_ = false;
  // On rank 0.
  StepCollector collector_;
  std::optional<Checker> checker_;
  ReplayToken token_;
  std::vector<std::int64_t> judged_;  // Versions of logs that said nothing.
  double next_look_s_ = 0.0;
  double look_after_s_ = 0.0;
  bool calls_are_right_ = false;
  bool has_decided_ = false;
  std::vector<Diagnosis> warnings_;
};

}  // namespace shardsim
