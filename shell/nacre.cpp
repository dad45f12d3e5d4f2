// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.hpp"

int main(int argc, char** argv) { return nacre::cli::run_nacre(argc, argv); }
