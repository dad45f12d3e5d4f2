// SPDX-License-Identifier: Apache-2.0
//
// <flux/msglist.h>.
#include <flux/msglist.h>

#include <deque>

#include "flux/message.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT
using nacre::flux::MsgRef;

struct flux_msglist {
  static constexpr std::size_t kBeforeFirst = SIZE_MAX;  // one more is 0

  std::deque<MsgRef> messages;
  std::size_t cursor = 0;

  [[nodiscard]] const flux_msg_t* at_cursor() const {
    return cursor < messages.size() ? messages[cursor].get() : nullptr;
  }
};

struct flux_msglist* flux_msglist_create() noexcept {
  return new flux_msglist;
}
void flux_msglist_destroy(struct flux_msglist* l) noexcept { delete l; }

int flux_msglist_append(struct flux_msglist* l, const flux_msg_t* msg) noexcept {
  if (l == nullptr || msg == nullptr) return fail(EINVAL);
  l->messages.push_back(MsgRef::to(msg));
  return 0;
}

int flux_msglist_push(struct flux_msglist* l, const flux_msg_t* msg) noexcept {
  if (l == nullptr || msg == nullptr) return fail(EINVAL);
  l->messages.push_front(MsgRef::to(msg));
  return 0;
}

const flux_msg_t* flux_msglist_pop(struct flux_msglist* l) noexcept {
  if (l == nullptr || l->messages.empty()) return nullptr;
  const flux_msg_t* msg = l->messages.front().release();
  l->messages.pop_front();
  return msg;
}

int flux_msglist_count(struct flux_msglist* l) noexcept {
  return l != nullptr ? static_cast<int>(l->messages.size()) : fail(EINVAL);
}

const flux_msg_t* flux_msglist_first(struct flux_msglist* l) noexcept {
  if (l == nullptr) return nullptr;
  l->cursor = 0;
  return l->at_cursor();
}

const flux_msg_t* flux_msglist_next(struct flux_msglist* l) noexcept {
  if (l == nullptr || (l->cursor >= l->messages.size() && l->cursor != flux_msglist::kBeforeFirst)) return nullptr;
  ++l->cursor;
  return l->at_cursor();
}

const flux_msg_t* flux_msglist_last(struct flux_msglist* l) noexcept {
  if (l == nullptr || l->messages.empty()) return nullptr;
  l->cursor = l->messages.size() - 1;
  return l->at_cursor();
}

// The next message takes its place, so the cursor goes back by one: flux_msglist_next() then returns that message.
void flux_msglist_delete(struct flux_msglist* l) noexcept {
  if (l == nullptr || l->at_cursor() == nullptr) return;
  l->messages.erase(l->messages.begin() + static_cast<std::ptrdiff_t>(l->cursor));
  --l->cursor;
}
