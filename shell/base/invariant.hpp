// SPDX-License-Identifier: Apache-2.0
//
// INVARIANT(condition): what holds as long as this program is right, whatever others send. It is checked in all
// builds, so it has to be cheap. If it does not hold the callback ends: it throws std::logic_error, which
// base/guarded.hpp reports as any exception, and the job ends with a line that names the condition, the place, the
// shell and the job. It is not for destructors and noexcept functions. Wrong input is an error (base/result.hpp),
// and no broken invariant.
#pragma once

namespace nacre {

[[noreturn]] void report_broken(const char* condition, const char* file, int line);

}  // namespace nacre

#define INVARIANT(condition) \
  (__builtin_expect(!!(condition), 1) ? void() : ::nacre::report_broken(#condition, __FILE_NAME__, __LINE__))
