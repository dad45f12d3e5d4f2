// SPDX-License-Identifier: Apache-2.0
#include "base/guarded.hpp"
#include "shell_program.hpp"

namespace {

// Static objects take memory too.
[[gnu::constructor(101)]] void prepare_end_without_memory() {
  nacre::end_in_order_without_memory(nacre::kShellName);
}

}  // namespace

int main(int argc, char** argv) { return nacre::run_shell_program(argc, argv); }
