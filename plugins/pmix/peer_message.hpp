// SPDX-License-Identifier: Apache-2.0
//
// What the plugin of one shell tells those of all shells of the job, as the payload of an event. Everybody hears the same messages in the same
// order: what each makes of them is the same on all nodes.
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
    ask,        // `to` for what rank `rank` has committed
    answer,     // `to` its question `number`: bytes; with a status
    publish,    // the publisher's namespace, infos; it is `rank`
    look_up,    // the namespace of who asks, directives, keys...; it is `rank`
    give_up,    // the question `number` of this shell
    unpublish,  // the namespace of who asks, directives, keys...; it is `rank`
    event,   // of the code `status`, for the others: the source's namespace, infos; of `rank`; `number`: the range
    signal,  // `number` to the ranks named
    ended,   // the process `rank`
    over,    // all processes of this shell, and it serves nobody any more
  };
  static constexpr std::uint8_t kKinds = 11;

  Kind kind = Kind::over;
  std::uint32_t shell = 0;  // who says it
  std::uint32_t to = 0;
  std::uint64_t number = 0;  // of a question: from 1, of each shell
  Rank rank = 0;
  std::int32_t status = 0;
  std::vector<std::string> texts;

  bool operator==(const PeerMessage&) const = default;
};

// Numbers with the highest byte first; each text behind its length in 4 bytes.
std::string encode(const PeerMessage& message);
// None: these bytes are no message.
std::optional<PeerMessage> decode(std::string_view bytes);

}  // namespace nacre::pmix
