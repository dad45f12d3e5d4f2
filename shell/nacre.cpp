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
  for (auto make : {nacre::cli::make_archive, nacre::cli::make_initrc, nacre::front::make_launch,
                    nacre::cli::make_plugin, nacre::front::make_run})
    verbs.push_back(make());
  return nacre::cli::run_nacre(argc, argv, verbs);
}
