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

// ---- send queue -------------------------------------------------------------------------

Result<void> SendQueue::send(overlay::LinkName to, std::string frame) { return add(to, std::move(frame)); }

Result<void> SendQueue::add(overlay::LinkName link, Item item) {
  auto found = waiting_.find(link);
  if (found == waiting_.end() && links_.has_room(link)) return put(link, item);
  waiting_[link].push_back(std::move(item));
  return {};
}

Result<void> SendQueue::put(overlay::LinkName link, const Item& item) {
  if (const auto* frame = std::get_if<std::string>(&item)) return links_.send(link, *frame);
  if (const auto* seq = std::get_if<overlay::Seq>(&item)) {
    const std::string* frame = links_.frame_of(*seq);
    return frame != nullptr ? links_.send(link, *frame) : Result<void>();
  }
  links_.half_close(link);
  return {};
}

void SendQueue::flush(overlay::LinkName link) {
  static_cast<void>(drain(link, false));
  forget(link);
}

void SendQueue::flush_all() {
  while (!waiting_.empty()) flush(waiting_.begin()->first);
}

Result<void> SendQueue::drain(overlay::LinkName link, bool needs_room) {
  auto found = waiting_.find(link);
  if (found == waiting_.end()) return {};
  std::deque<Item>& items = found->second;
  for (; !items.empty() && (!needs_room || links_.has_room(link)); items.pop_front()) {
    CHECK_OK(put(link, items.front()));
  }
  if (items.empty()) waiting_.erase(found);
  return {};
}

}  // namespace nacre::group
