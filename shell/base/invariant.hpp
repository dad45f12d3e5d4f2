// SPDX-License-Identifier: Apache-2.0
//
// INVARIANT(condition): what holds as long as this program is right, whatever others send. It is looked at in all
// builds, so it has to be cheap. Where it does not hold the callback ends: it throws std::logic_error, which
// base/guarded.hpp reports as any exception, and the job ends with a line that names the condition, the place, the
// shell and the job. Not in destructors and in functions that are noexcept. Input has errors (base/result.hpp).
#pragma once

namespace nacre {

[[noreturn]] void report_broken(const char* condition, const char* file, int line);

}  // namespace nacre

#define INVARIANT(condition) \
  (__builtin_expect(!!(condition), 1) ? void() : ::nacre::report_broken(#condition, __FILE_NAME__, __LINE__))
