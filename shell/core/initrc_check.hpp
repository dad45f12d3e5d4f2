// SPDX-License-Identifier: Apache-2.0
//
// Whether all shells of a job have read the same initrc: one host with another, or with none, would run its tasks
// in another way.
#pragma once

#include "base/result.hpp"
#include "job/job.hpp"
#include "job/options.hpp"
#include "plugin/host.hpp"
#include "script/interpreter.hpp"

namespace nacre::core {

// What this shell has read, for the others: "off" with the option initrc-check=off, else the fingerprints of the
// initrc and of the files of lua.d, with a blank between them. `interpreter`: null where there was no initrc.
Result<std::string> initrc_mark(const job::Options& options, const script::Interpreter* interpreter);

// Of the marks of all shells: an error that names the hosts whose mark is not that of shell 0. All shells get the
// same.
Result<void> compare_initrcs(const plugin::Gathered& marks, const job::Job& job);

}  // namespace nacre::core
