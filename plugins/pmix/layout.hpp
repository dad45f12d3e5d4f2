// SPDX-License-Identifier: Apache-2.0
//
// Ranks and hosts as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "peer_message.hpp"

namespace nacre::pmix {

// Ascending ranks, "0-3,7", and back; none if the text is no such list.
std::string text_of(const std::vector<Rank>& ranks);
std::optional<std::vector<Rank>> ranks_in(std::string_view text);

// Several shells may be on one host, but libpmix identifies a node by its name: so equal names are changed, except
// the first.
std::vector<std::string> distinct(std::vector<std::string> names);

}  // namespace nacre::pmix
