// SPDX-License-Identifier: Apache-2.0
#include "group/announcements.hpp"

#include <fmt/format.h>

#include "base/big_endian.hpp"

namespace nacre::group {
namespace {

constexpr char kMore = '+';
constexpr char kLast = '.';
constexpr std::size_t kPieceHead = sizeof(Rank) + 1;  // bytes

}  // namespace

Result<std::vector<overlay::Event>> pieces_of(std::string_view topic, std::string_view bytes, Rank origin) {
  if (bytes.size() > kMaxAnnounced) {
    return Error{EMSGSIZE,
                 fmt::format("{}: an announcement of {} bytes; at most {}", topic, bytes.size(), kMaxAnnounced)};
  }
  std::vector<overlay::Event> out;
  do {
    std::string_view piece = bytes.substr(0, kAnnouncedPiece);
    bytes.remove_prefix(piece.size());
    overlay::Event& each = out.emplace_back();
    each.name = topic;
    each.data.reserve(kPieceHead + piece.size());
    append_number(each.data, origin);
    each.data += bytes.empty() ? kLast : kMore;
    each.data += piece;
  } while (!bytes.empty());
  return out;
}

std::optional<Announcement> Announcements::take(const overlay::Event& piece) {
  std::string_view data = piece.data;
  if (data.size() < kPieceHead) return std::nullopt;
  auto origin = take_number<Rank>(data);
  std::string& text = begun_[origin];
  text += data.substr(1);
  if (data[0] == kMore && text.size() < kMaxAnnounced) return std::nullopt;
  Announcement whole{piece.name, std::move(text)};
  begun_.erase(origin);
  return whole;
}

}  // namespace nacre::group
