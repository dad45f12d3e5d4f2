// SPDX-License-Identifier: Apache-2.0
//
// The ways of boot.hpp, each in a file of its own.
#pragma once

#include <initializer_list>

#include "boot/boot.hpp"

namespace nacre::boot {

Result<Boot> boot_by_pmi(const BootRequest& request);
Result<Boot> boot_by_pmix(const BootRequest& request);
Result<Boot> boot_by_slurm(const BootRequest& request);
Result<Boot> boot_by_record(const BootRequest& request);
Result<Boot> boot_by_own_record(
    const BootRequest& request);  // nacre run has become this shell, the only one of its job

// ---- shared by the ways

// The number in a variable, up to `most`. Errors: the variable is not set, or is no such number.
Result<std::uint64_t> number_of(const Variables& variables, const char* name, std::uint64_t most);
// "SLURM_PROCID=3, SLURM_STEP_ID=0", or "none of SLURM_PROCID and SLURM_STEP_ID".
[[nodiscard]] std::string seen_of(const Variables& variables, std::initializer_list<const char*> names);
// The folder for the shells' Unix sockets.
[[nodiscard]] std::string temporary_directory(const Variables& variables);
// The ranks above this one, the parent first.
[[nodiscard]] std::vector<group::Rank> ancestors_of(group::Rank rank, std::uint32_t arity);
Result<void> check_arity(std::uint32_t arity);

}  // namespace nacre::boot
