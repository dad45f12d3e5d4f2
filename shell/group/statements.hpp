// SPDX-License-Identifier: Apache-2.0
//
// What the shell writes into the overlay's opaque fields: exceptions, and how tasks ended. doc/protocol.md, "What
// the shells send".
#pragma once

#include "base/result.hpp"
#include "group/group.hpp"
#include "overlay/message.hpp"

namespace nacre::group {

inline constexpr std::size_t kMaxNote = std::size_t{64}
                                        << 10;  // bytes of an exception's message; what is longer is cut

[[nodiscard]] overlay::Exception statement_of(const Exception& exception);
// Takes what it understands of a statement of another version.
[[nodiscard]] Exception exception_of(const overlay::Exception& statement);

[[nodiscard]] overlay::Bytes statement_of(const Ended& ended);
Result<Ended> ended_of(const overlay::Record& statement);

}  // namespace nacre::group
