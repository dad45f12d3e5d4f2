// SPDX-License-Identifier: Apache-2.0
//
// Whether all shells of a job have read the same initrc: one host with another, or with none, would run its tasks
// in another way.
#pragma once

#include <string>

#include "base/result.hpp"
#include "job/job.hpp"
#include "job/options.hpp"
#include "plugin/host.hpp"
#include "script/interpreter.hpp"

namespace nacre::core {

// What this shell has read, for the others: "off" with the option initrc-check=off, else the fingerprints of the
// initrc and of the files of lua.d, with a blank between them. `interpreter`: null where there was no initrc.
Result<std::string> initrc_mark(const job::Options& options, const script::Interpreter* interpreter);

// The initrc files that this shell has read; `installed`, which it would have, if it has read none.
[[nodiscard]] std::string initrc_files(const script::Interpreter* interpreter, const std::string& installed);

// Of the marks of all shells: an error that names the hosts whose mark is not that of shell 0. `files`: what
// initrc_files() returns on shell 0, which logs the error; others only need to know that there is one.
Result<void> compare_initrcs(const plugin::Gathered& marks, const job::Job& job, const std::string& files);

}  // namespace nacre::core
