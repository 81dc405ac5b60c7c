#include "sim/serve/plan_stream.hpp"

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/units.hpp"
#include "sim/search/layout_json.hpp"
#include "sim/search/plan_search.hpp"

#include "sim/serve/plan_request.hpp"

namespace shardsim {

namespace {

using Json = nlohmann::ordered_json;

// On one line: a line ends a part of an event.
std::string event_of(const char* name, const Json& data) {
  constexpr int kNoIndent = -1;
  return fmt::format("event: {}\ndata: {}\n\n", name,
                     data.dump(kNoIndent, ' ', true, Json::error_handler_t::replace));
}

const char* stop_words(SearchStop stop, WorkEnd end) {
  if (end == WorkEnd::shut_down) return "the server stops";
  if (stop == SearchStop::none) return "the search is complete";
  return "the time is over";
}

// Tells of the search. Its progress comes from one thread at a time.
class Teller {
 public:
  Teller(const SearchBase& base, const SendEvent& send) : base_(base), send_(send) {}

  void note(const SearchProgress& progress) {
    if (!progress.best) return;
    const bool is_new = !told_ || !(*told_ == progress.best->candidate) || gap_ != progress.gap;
    if (is_new) tell(progress);
  }

  void done(const SearchOutcome& outcome, WorkEnd end) const {
    Json data;
    data["why"] = stop_words(outcome.stop, end);
    data["candidates"] = outcome.num_candidates;
    data["simulated"] = outcome.simulated.size();
    data["open"] = outcome.num_open;
    data["found"] = told_.has_value();
    data["gap"] = outcome.gap ? Json(*outcome.gap) : Json();
    data["assumptions"] = base_.assumptions;
    send_(event_of("done", data));
  }

 private:
  void tell(const SearchProgress& progress) {
    told_ = progress.best->candidate;
    gap_ = progress.gap;
    Json data;
    data["simulated"] = progress.simulated;
    data["gap"] = progress.gap ? Json(*progress.gap) : Json();
    add_point(data, *progress.best);
    data["words"] = fmt::format("{}, by the model {}, {}", words_of(*told_),
                                format_seconds(progress.best->step_time_s),
                                format_memory(progress.best->device_bytes));
    data["software"] = base_.scenario.system.software;
    data["global_batch_size"] = base_.scenario.training.global_batch_size;
    send_(event_of("best", data));
  }

  const SearchBase& base_;
  const SendEvent& send_;
  std::optional<Candidate> told_;
  std::optional<double> gap_;
};

SearchStop stop_of(WorkEnd end) {
  if (end == WorkEnd::none) return SearchStop::none;
  return end == WorkEnd::time_limit ? SearchStop::time_limit : SearchStop::interrupt;
}

}  // namespace

void stream_plan(const std::string& request, int jobs, const AskEnd& end, const SendEvent& send) {
  try {
    const SearchRequest asked = read_plan_request(request);
    const SearchBase base = prepare_search(asked);
    Teller teller(base, send);
    SearchHooks hooks;
    hooks.jobs = jobs;
    hooks.stop = [&end] { return stop_of(end()); };
    hooks.on_progress = [&teller](const SearchProgress& progress) { teller.note(progress); };
    const SearchOutcome outcome = search(base, asked, hooks);
    teller.done(outcome, end());
  } catch (const Error& error) {
    Json data = Json::parse(errors_answer(error).body);
    send(event_of("error", data));
  }
}

}  // namespace shardsim
