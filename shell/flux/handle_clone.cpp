// SPDX-License-Identifier: Apache-2.0
//
// <flux/handle.h>: clones of a handle, and which of a handle and its clones gets a message.
#include <algorithm>

#include "flux/handle.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::capi;  // NOLINT
using nacre::flux::MsgRef;

bool flux_handle::is_busy() {
  auto started = [](const flux_msg_handler* each) { return each->started; };
  auto mine = [this](const auto& each) { return each.second.handle == this; };
  const auto& open = root().calls;
  return std::any_of(handlers.begin(), handlers.end(), started) || std::any_of(open.begin(), open.end(), mine);
}

// This one first.
std::vector<flux_handle*> flux_handle::on_this_loop() {
  std::vector<flux_handle*> out{this};
  auto add = [&](flux_handle* other) {
    bool same = reactor != nullptr && other->reactor != nullptr && other->reactor->loop == reactor->loop;
    if (other != this && same) out.push_back(other);
  };
  add(&root());
  for (flux_handle* each : root().clones) add(each);
  return out;
}

bool flux_handle::accepts(const flux_msg& msg) {
  std::vector<flux_handle*> beside = on_this_loop();
  auto is_beside = [&](flux_handle* each) { return std::find(beside.begin(), beside.end(), each) != beside.end(); };
  if (is_beside(&root())) return true;
  if (msg.type == FLUX_MSGTYPE_RESPONSE) {
    auto call = root().calls.find(msg.matchtag);
    if (call != root().calls.end()) return is_beside(call->second.handle);
  }
  return handler_for(msg) != nullptr;
}

// What a clone does not accept is taken from the inbox all the same: its loop would not come to rest.
MsgRef flux_handle::next() {
  for (flux_handle* each : clones) each->give_back();
  for (;;) {
    MsgRef msg = incoming.take(FLUX_MATCH_ANY);
    if (msg.get() == nullptr || accepts(*msg.get())) return msg;
    held_.push_back(std::move(msg));
  }
}

void flux_handle::give_back() {
  if (held_.empty()) return;
  incoming.give_back(std::move(held_));
  held_.clear();
  if (link == nullptr && root().poll_) root().poll_->keeps_running(true);
}

// The handler made last that has this very topic, else the last one that matches.
flux_msg_handler* flux_handle::handler_for(const flux_msg& msg) {
  auto exact = [&](const flux_msg_handler* each) { return each->takes(msg) && each->topic == msg.topic; };
  auto any = [&](const flux_msg_handler* each) { return each->takes(msg); };
  flux_msg_handler* found = nullptr;
  for (flux_handle* each : on_this_loop()) {
    const auto& of_it = each->handlers;
    auto it = std::find_if(of_it.rbegin(), of_it.rend(), exact);
    if (it != of_it.rend()) return *it;
    it = std::find_if(of_it.rbegin(), of_it.rend(), any);
    if (found == nullptr && it != of_it.rend()) found = *it;
  }
  return found;
}

void flux_handle::deliver_event(const flux_msg& msg) {
  // a handler may destroy others
  auto all = [&] {
    std::vector<flux_msg_handler*> out;
    for (const flux_handle* each : on_this_loop())
      out.insert(out.end(), each->handlers.begin(), each->handlers.end());
    return out;
  };
  for (flux_msg_handler* each : all()) {
    std::vector<flux_msg_handler*> now = all();
    bool there = std::find(now.begin(), now.end(), each) != now.end();
    if (there && each->takes(msg) && each->allows(msg)) each->handle->call(*each, msg);
  }
}

flux_t* flux_clone(flux_t* orig) noexcept {
  if (orig == nullptr) return none(EINVAL);
  flux_handle& root = orig->root();
  auto* clone = new flux_handle(root.runtime, root.incoming, root.outgoing, nullptr);
  clone->link = root.link;
  clone->flags = orig->flags | FLUX_O_CLONE;
  clone->original = flux_incref(&root);
  root.clones.push_back(clone);
  return clone;
}
