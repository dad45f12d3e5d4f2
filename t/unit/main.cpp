// SPDX-License-Identifier: Apache-2.0
//
// A test that hangs is named: Catch2 tells which one was running when the program aborts.
#define CATCH_CONFIG_RUNNER
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include <catch2/catch.hpp>

namespace {

constexpr unsigned kTimeout = 240;  // seconds; less than what CTest has

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGALRM, [](int) { std::abort(); });
  ::alarm(kTimeout);
  return Catch::Session().run(argc, argv);
}
