// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "base/print.hpp"
#include "base/process_start.hpp"
#include "cli/verbs.hpp"
#include "front/verbs.hpp"

int main(int argc, char** argv) {
  if (auto opened = nacre::open_closed_streams(); !opened) {
    nacre::print_err("nacre: {}\n", opened.error().message);
    return 1;
  }
  nacre::reset_signals();
  std::vector<nacre::cli::VerbPtr> verbs;
  using namespace nacre;  // NOLINT
  for (auto make :
       {front::make_run,    front::make_launch,   front::make_jobs,    front::make_ps,     front::make_top,
        front::make_doctor, front::make_timeline, front::make_attach,  front::make_wait,   front::make_exec,
        front::make_kill,   front::make_cancel,   front::make_restart, front::make_shrink, front::make_grow,
        front::make_report, cli::make_archive,    cli::make_initrc,    cli::make_plugin,   front::make_control})
    verbs.push_back(make());
  return nacre::cli::run_nacre(argc, argv, verbs);
}
