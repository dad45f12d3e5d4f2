// SPDX-License-Identifier: Apache-2.0
//
// Finds which of several failures was the first, and which may be its consequences: when one process of a parallel
// program fails, the others see their connections close and fail within milliseconds. The order in which a shell
// learns of them says little, so evidence is compared: what each one's last words tell of the origin of its
// failure, when it died by the kernel, how well the clocks of two hosts are known. nacre-exits(7), "WHO FAILED
// FIRST", is the rule for people.
#pragma once

#include "exits/record.hpp"

namespace nacre::exits {

// Where a failure has come from, as far as is known.
enum class Origin : std::uint8_t {
  peer,     // from others: a connection that closed, an answer that did not come; SIGPIPE
  unknown,  // nothing known tells
  own,      // from itself: the signal of a crash, an exception or assertion of its own
};

// "peer", "unknown", "own".
[[nodiscard]] std::string_view name_of(Origin origin);
[[nodiscard]] std::optional<Origin> origin_named(std::string_view name);

// `err`: the last bytes of the task's standard error; `error`: what it has written to its error file, "" if there
// is none.
[[nodiscard]] Origin origin_of(const Record& record, std::string_view err, std::string_view error = {});

struct FailureFacts {
  value::Idset::Id rank;
  Record record;
  Origin origin = Origin::unknown;
  // When it has failed: when it wrote its last words, if these are why it failed; otherwise when it died.
  double at = 0;            // seconds by one clock
  double uncertainty = 0;   // of `at`, to either side
  std::uint32_t clock = 0;  // of a shell: times by one clock are compared exactly
  std::uint64_t order = 0;  // of deaths by that clock; 0: not known
};

struct Blame {
  std::size_t first = 0;    // of the failures
  bool is_certain = false;  // what is known of all of them shows it
  value::Idset others;      // those that failed so soon before or after it that they may have been the first
};

constexpr double kInstant = 0.05;  // seconds: within this time no failure counts as earlier
constexpr double kApart = 0.3;   // seconds after which neither of two failures can be the consequence of the other
constexpr double kCascade = 10;  // seconds within which failures with one cause come

// `failures` has at least one.
[[nodiscard]] Blame first_of(std::span<const FailureFacts> failures);
// The same if something else has decided that failures[first] was the first.
[[nodiscard]] Blame blame_on(std::span<const FailureFacts> failures, std::size_t first);
// Whether `a` was the first rather than `b`, although the end of `b` has ended the job.
[[nodiscard]] bool outweighs(const FailureFacts& a, const FailureFacts& b);

// "; task 3-4 failed at about the same time", or that its last words name another task; "": it is certain.
[[nodiscard]] std::string doubt_of(bool is_certain, Origin origin, const value::Idset& others);

// Why a task has failed, if its last words are those of NCCL, CUDA, HIP, the driver, Gloo, torch.distributed or a
// framework that has run out of memory: a table of texts, each of which stands for a reason. nacre-exits(7),
// "REASONS", has the reasons for people.
struct KnownReason {
  std::string_view name;   // one word: "gpu-memory"
  std::string_view words;  // for people, what it means
  Origin origin;           // of a failure of this reason
};

// All reasons. A reason that others follow from comes before them.
[[nodiscard]] std::span<const KnownReason> known_reasons();
// null: there is none of this name.
[[nodiscard]] const KnownReason* reason_named(std::string_view name);
// The first reason that one of the last lines shows; null: none. `err`: the last bytes of standard error.
[[nodiscard]] const KnownReason* reason_in(std::string_view err);

}  // namespace nacre::exits
