#include <ostream>

#include <CLI/CLI.hpp>

#include "sim/command/verbs.hpp"
#include "sim/console/parallel.hpp"

#include "sim/serve/serve.hpp"

namespace shardsim {

namespace {

struct ServeArguments {
  ServeOptions options{.jobs = default_jobs()};
  bool no_token = false;
};

void add_serve_options(CLI::App& app, ServeArguments& arguments) {
  constexpr int kLastPort = 65535;
  constexpr int kMostJobs = 256;
  ServeOptions& options = arguments.options;
  app.add_option("--port", options.port, "Port to listen on (8642; 0: a free one)")
      ->check(CLI::Range(0, kLastPort));
  app.add_option("--folder", options.folder,
                 "Folder whose files scenarios may read; without it they read none");
  app.add_option("--jobs,-j", options.jobs, "Number of parallel simulations (one per core)")
      ->check(CLI::Range(1, kMostJobs));
  app.add_option("--address", options.address,
                 "Address of another interface: others then see the page (127.0.0.1)");
  app.add_flag("--no-token", arguments.no_token,
               "Serve without a token in the URL, on loopback only");
}

int command_serve(ServeArguments& arguments, const Console& console) {
  arguments.options.has_token = !arguments.no_token;
  const InterruptWatch interrupt;
  serve(
      arguments.options, [&interrupt] { return interrupt.is_asked(); }, console.out, console.err);
  return 0;
}

}  // namespace

Verb serve_verb() {
  return with_arguments<ServeArguments>(
      {.name = "serve",
       .summary = "Try layouts on a page in the browser",
       .group = VerbGroup::plan,
       .examples = {{"shardsim serve", "prints the address of the page; Ctrl-C ends it"},
                    {"shardsim serve --port 0", "on a free port"},
                    {"shardsim serve --folder scenarios",
                     "for scenarios that name files of this folder"}}},
      add_serve_options, command_serve);
}

}  // namespace shardsim
