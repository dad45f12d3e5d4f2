// SPDX-License-Identifier: Apache-2.0
#include "group/link_sender.hpp"

#include "overlay/wire.hpp"

namespace nacre::group {

SendQueue::Links LinkSender::access() {
  SendQueue::Links out;
  out.send = [this](overlay::LinkName to, std::string_view frame) { return links_.send(to, frame); };
  out.has_room = [this](overlay::LinkName to) { return links_.has_room(to); };
  out.half_close = [this](overlay::LinkName link) { links_.half_close(link); };
  out.frame_of = [this](overlay::Seq seq) { return frame_of(seq); };
  return out;
}

void LinkSender::perform(overlay::Send& message) {
  auto bytes = overlay::encode(message.message);
  if (bytes) {
    bool is_beat = std::holds_alternative<overlay::Beat>(message.message.body);
    return sent(message.to,
                is_beat ? queue_.send_first(message.to, *bytes) : queue_.send(message.to, *std::move(bytes)));
  }
  log_.log(Level::error, "", "a message to shell {} is too long: {}", message.to.peer, bytes.error().message);
}

void LinkSender::perform(overlay::SendEntry& entry) { sent(entry.to, queue_.send_entry(entry.to, entry.seq)); }

void LinkSender::perform(overlay::Dial& dial) {
  Result<void> dialling = links_.dial(dial.peer);
  if (dialling) return;
  log_.log(Level::debug, "", "{}", dialling.error().message);
  failed_.push_back({dial.peer, overlay::Side::up});
}

void LinkSender::perform(overlay::HangUp& hang_up) {
  on_ends_(hang_up.link);
  queue_.flush(hang_up.link);
  links_.hang_up(hang_up.link);
}

void LinkSender::perform(overlay::HalfClose& half_close) {
  sent(half_close.link, queue_.half_close(half_close.link));
}

// Keeps the last frame: most entries are sent to several peers, one after the other.
const std::string* LinkSender::frame_of(overlay::Seq seq) {
  if (encoded_.first == seq) return &encoded_.second;
  if (node_.entry(seq) == nullptr) return nullptr;
  auto bytes = overlay::encode(node_.entry_message(seq));
  if (!bytes) {
    log_.log(Level::error, "", "entry {}: {}", seq, bytes.error().message);
    return nullptr;
  }
  encoded_ = {seq, *std::move(bytes)};
  return &encoded_.second;
}

void LinkSender::sent(overlay::LinkName to, const Result<void>& how) {
  if (!how) give_up(to, how.error());
}

void LinkSender::give_up(overlay::LinkName link, const Error& why) {
  log_.log(Level::debug, "", "shell {}: {}", link.peer, why.message);
  links_.give_up(link);
  queue_.forget(link);
  failed_.push_back(link);
  on_ends_(link);
}

}  // namespace nacre::group
