#include "sim/serve/serve.hpp"

#include <filesystem>
#include <ostream>
#include <system_error>

#include "backends/rendezvous/launch_environment.hpp"

#include "scenarios/confined_reading.hpp"

#include "sim/serve/guarded_scenario.hpp"
#include "sim/serve/http_server.hpp"
#include "sim/serve/page.hpp"
#include "sim/serve/plan_stream.hpp"
#include "sim/serve/preset_list.hpp"
#include "sim/serve/run_answer.hpp"

namespace shardsim {

namespace {

namespace fs = std::filesystem;

// The folder without links, so that what lies in it is compared with the same path later.
std::string real_folder(const std::string& folder) {
  if (folder.empty()) return {};
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error || !fs::is_directory(real, error)) {
    throw UsageError("E1414", "there is no folder \"" + folder + "\"",
                     "name a folder, or leave --folder out: then scenarios read no files");
  }
  return real.string();
}

HttpAnswer static_answer(const HttpRequest& request, const std::string& presets) {
  const std::string_view name = request.route->name;
  if (name == "presets") return {.body = presets};
  if (name == "serve.js") return {.type = "text/javascript; charset=utf-8", .body = serve_script()};
  if (name == "serve.css") return {.type = "text/css; charset=utf-8", .body = serve_style()};
  return {.type = "text/html; charset=utf-8", .body = serve_page()};
}

HttpServices services_of(const ServeSetting& setting, int jobs) {
  HttpServices services;
  services.at_once = [presets = preset_list_json()](const HttpRequest& request) {
    return static_answer(request, presets);
  };
  services.work = [setting](const HttpRequest& request, bool may_be_long, const AskEnd& end) {
    return request.route->name == "run" ? answer_run(request.body, setting, may_be_long, end)
                                        : answer_show(request.body, setting, may_be_long, end);
  };
  // One core is left for the simulations of the page, which go on meanwhile.
  services.stream = [jobs](const HttpRequest& request, const AskEnd& end, const SendEvent& send) {
    stream_plan(request.body, std::max(1, jobs - 1), end, send);
  };
  return services;
}

}  // namespace

void serve(const ServeOptions& options, const std::function<bool()>& is_over, std::ostream& out,
           std::ostream& err) {
  const ServeSetting setting{.folder = real_folder(options.folder), .limits = options.limits};
  const ConfinedReading confined(readable_folders(setting.folder));
  HttpServer server({.address = options.address,
                     .port = options.port,
                     .token = options.has_token ? make_token() : std::string(),
                     .jobs = options.jobs,
                     .limits = options.limits},
                    services_of(setting, options.jobs));
  if (!server.is_loopback()) {
    if (!options.has_token) {
      throw UsageError("E1410", "without a token only this machine may be served",
                       "leave --no-token out, or --address");
    }
    err << "warning: other machines can reach this address; the token and all that is asked cross "
           "the network in plain text\n";
  }
  out << server.url() << "\n" << std::flush;
  server.run(is_over);
}

}  // namespace shardsim
