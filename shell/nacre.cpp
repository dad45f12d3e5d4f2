// SPDX-License-Identifier: Apache-2.0
#include "base/print.hpp"
#include "base/process_start.hpp"
#include "cli/verbs.hpp"

int main(int argc, char** argv) {
  if (auto opened = nacre::open_closed_streams(); !opened) {
    nacre::print_err("nacre: {}\n", opened.error().message);
    return 1;
  }
  nacre::reset_signals();
  return nacre::cli::run_nacre(argc, argv);
}
