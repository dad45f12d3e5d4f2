// SPDX-License-Identifier: Apache-2.0
//
// <flux/message.h>: the routes of a message.
#include "flux/message.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::capi;  // NOLINT

namespace {

constexpr std::size_t kShownOfId = 8;  // characters in flux_msg_route_string(3)

// 0, or -1 with EINVAL (NULL) or EPROTO (without routes).
int check_routes(const flux_msg_t* msg) {
  if (msg == nullptr) return fail(EINVAL);
  return (msg->flags & FLUX_MSGFLAG_ROUTE) != 0 ? 0 : fail(EPROTO);
}

}  // namespace

void flux_msg_route_enable(flux_msg_t* msg) noexcept {
  if (msg != nullptr) msg->flags |= FLUX_MSGFLAG_ROUTE;
}

void flux_msg_route_disable(flux_msg_t* msg) noexcept {
  if (msg == nullptr) return;
  msg->flags &= ~FLUX_MSGFLAG_ROUTE;
  msg->routes.clear();
}

void flux_msg_route_clear(flux_msg_t* msg) noexcept {
  if (msg != nullptr) msg->routes.clear();
}

int flux_msg_route_push(flux_msg_t* msg, const char* id) noexcept {
  if (id == nullptr) return fail(EINVAL);
  if (check_routes(msg) < 0) return -1;
  msg->routes.emplace_back(id);
  return 0;
}

int flux_msg_route_delete_last(flux_msg_t* msg) noexcept {
  if (check_routes(msg) < 0) return -1;
  if (!msg->routes.empty()) msg->routes.pop_back();
  return 0;
}

const char* flux_msg_route_first(const flux_msg_t* msg) noexcept {
  return msg != nullptr && !msg->routes.empty() ? msg->routes.front().c_str() : nullptr;
}

const char* flux_msg_route_last(const flux_msg_t* msg) noexcept {
  return msg != nullptr && !msg->routes.empty() ? msg->routes.back().c_str() : nullptr;
}

int flux_msg_route_count(const flux_msg_t* msg) noexcept {
  return check_routes(msg) < 0 ? -1 : static_cast<int>(msg->routes.size());
}

char* flux_msg_route_string(const flux_msg_t* msg) noexcept {
  if (check_routes(msg) < 0) return nullptr;
  std::string out;
  for (const std::string& each : msg->routes) {
    if (!out.empty()) out += '!';
    out += each.substr(0, kShownOfId);
  }
  return c_string(out);
}

bool flux_msg_route_match_first(const flux_msg_t* msg1, const flux_msg_t* msg2) noexcept {
  const char *first = flux_msg_route_first(msg1), *second = flux_msg_route_first(msg2);
  if (first == nullptr || second == nullptr) return first == second;
  return std::string_view(first) == second;
}
