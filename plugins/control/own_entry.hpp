// SPDX-License-Identifier: Apache-2.0
//
// The entry of this job in the list of jobs, as its leader makes it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "job/job.hpp"
#include "job/options.hpp"
#include "record/places.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

[[nodiscard]] record::JobEntry own_entry(const job::Job& job, const job::Options& options);

// Adds what takes system calls; to be called once the tasks run. The second time it does nothing.
void complete_entry(record::JobEntry& entry, const job::Job& job);

// What has changed since shells came, went or were replaced, or tasks started again. `gone`: shells.
void set_changes(record::JobEntry& entry, const job::Job& job, const value::Idset& gone);

// Why a place is not taken.
using OnOtherPlace = std::function<void(const std::string& why)>;

// The first of these places that can be written to.
Result<record::EntryDirectory> choose_directory(const std::vector<std::string>& places, const OnOtherPlace& other);

// Writes it to `directory`, or else to the first place that takes it, which is `directory` then: it may be full, or
// have gone since. `first`: a place that comes before the others; "": there is none.
Result<void> put_entry(const record::JobEntry& entry, std::optional<record::EntryDirectory>& directory,
                       const std::string& first, const OnOtherPlace& other);

}  // namespace nacre::plugins
