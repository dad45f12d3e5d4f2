// SPDX-License-Identifier: Apache-2.0
//
// What the shell writes into the overlay's opaque fields: exceptions, and how tasks ended. doc/protocol.md, "What
// the shells send".
#pragma once

#include "group/group.hpp"
#include "overlay/message.hpp"

namespace nacre::group {

inline constexpr std::size_t kMaxNote = std::size_t{64}
                                        << 10;  // bytes of an exception's message; what is longer is cut

[[nodiscard]] overlay::ExceptionEntry encode(const JobException& exception);
// Takes what it understands of an entry that another version wrote.
[[nodiscard]] JobException decode(const overlay::ExceptionEntry& entry);

// EMSGSIZE: more than an entry can have. A long set of ranks is cut into several shares.
Result<overlay::Exec> encode(value::ExecOrder order);
// The share that this shell has in it; none: it has none.
[[nodiscard]] std::optional<value::ExecShare> share_of(const overlay::Exec& exec, overlay::Seq number, Rank shell);

[[nodiscard]] overlay::Bytes encode(const Ended& ended);
Result<Ended> decode(const overlay::TaskReport& report);

// An eventlog, RFC 18: one line of JSON {"timestamp", "name", "context"} for each event, written as a whole.
class EventLog {
 public:
  // Replaces the file, or goes on behind what it has.
  static Result<EventLog> create(const std::string& path, bool appends = false);
  // `timestamp`: seconds since the Epoch; `context` is an object.
  Result<void> append(double timestamp, std::string_view name, const Json& context);

 private:
  EventLog(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  UniqueFd fd_;
};

}  // namespace nacre::group
