// SPDX-License-Identifier: Apache-2.0
#include "group/announcements.hpp"

#include <fmt/format.h>

#include "base/bytes.hpp"

namespace nacre::group {
namespace {

// Which piece it is: who joins while pieces are on their way does not get the first of them.
constexpr char kOnly = '.';
constexpr char kFirst = '(';
constexpr char kInside = '+';
constexpr char kLast = ')';
constexpr std::size_t kPieceHead = sizeof(Rank) + 1;  // bytes

}  // namespace

Result<std::vector<overlay::Event>> pieces_of(std::string_view topic, std::string_view bytes, Rank origin) {
  if (bytes.size() > kMaxAnnounced) {
    return Error{EMSGSIZE,
                 fmt::format("{}: an announcement of {} bytes; at most {}", topic, bytes.size(), kMaxAnnounced)};
  }
  std::vector<overlay::Event> out;
  const bool is_one = bytes.size() <= kAnnouncedPiece;
  do {
    std::string_view piece = bytes.substr(0, kAnnouncedPiece);
    bytes.remove_prefix(piece.size());
    overlay::Event& each = out.emplace_back();
    each.name = topic;
    each.data.reserve(kPieceHead + piece.size());
    append_number(each.data, origin);
    each.data += is_one ? kOnly : out.size() == 1 ? kFirst : bytes.empty() ? kLast : kInside;
    each.data += piece;
  } while (!bytes.empty());
  return out;
}

std::optional<Announcement> Announcements::take(const overlay::Event& piece) {
  std::string_view data = piece.data;
  if (data.size() < kPieceHead) return std::nullopt;
  auto origin = take_number<Rank>(data);
  const char which = data[0];
  data.remove_prefix(1);
  if (which == kOnly) return Announcement{piece.name, std::string(data)};
  if (which == kFirst) begun_[origin].clear();
  auto begun = begun_.find(origin);
  if (begun == begun_.end()) return std::nullopt;
  begun->second += data;
  if (which != kLast && begun->second.size() < kMaxAnnounced) return std::nullopt;
  Announcement whole{piece.name, std::move(begun->second)};
  begun_.erase(begun);
  return whole;
}

}  // namespace nacre::group
