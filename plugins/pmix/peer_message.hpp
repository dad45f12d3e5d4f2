// SPDX-License-Identifier: Apache-2.0
//
// What the plugin of one shell sends to the plugins of all shells of the job, as the payload of an event. All
// receive the same messages in the same order, and come to the same results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nacre::pmix {

using Rank = std::uint32_t;

struct PeerMessage {
  enum class Kind : std::uint8_t {
    part,       // of a collective: its name, bytes; with a status
    ask,        // asks shell `to` for what process `rank` has committed, its number in ProcessMap, once that has a
                // key, or "" for any; `status`: the client's timeout in seconds, or 0
    answer,     // answers question `number` of shell `to`: bytes; with a status
    publish,    // the publisher's namespace, infos; it is `rank`
    look_up,    // the requester's namespace, directives, keys...; it is `rank`
    give_up,    // shell `shell` withdraws its question `number`
    unpublish,  // the requester's namespace, directives, keys...; it is `rank`
    event,      // code `status`, for the others: the source's namespace, infos; of `rank`; `number`: the range
    signal,     // signal `number` for the processes with these numbers
    ended,      // of that namespace process `rank` has ended, or PMIX_RANK_WILDCARD: all that this shell has of it
    over,       // all processes of this shell have ended, and it serves none any more
    group,      // part of what members of a group do together: its name, bytes, wishes; `number`: of the part
    leave,      // shell `shell` waits no longer for what its part `number` is for: its name
    gone,       // shell `to` is lost
    list,       // asks for the rows of a namespace's processes: its name
    rows,       // answers question `number` of shell `to`: a row each
  };
  static constexpr std::uint8_t kKinds = 16;

  Kind kind = Kind::over;
  std::uint64_t start = 1;  // of the tasks, from 1: which one it is about
  std::uint32_t shell = 0;  // the sender
  std::uint32_t to = 0;
  std::uint64_t number = 0;  // of a question: from 1, counted by each shell
  Rank rank = 0;
  std::int32_t status = 0;
  std::vector<std::string> texts;

  bool operator==(const PeerMessage&) const = default;
};

// Numbers have the highest byte first; each text comes after its length in 4 bytes.
std::string encode(const PeerMessage& message);
// None: the bytes are no message.
std::optional<PeerMessage> decode(std::string_view bytes);

}  // namespace nacre::pmix
