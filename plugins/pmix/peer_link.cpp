// SPDX-License-Identifier: Apache-2.0
#include "peer_link.hpp"

#include <cerrno>
#include <utility>

namespace nacre::pmix {
namespace {

constexpr const char* kTopic = "nacre-pmix";

}  // namespace

int PeerLink::listen() {
  auto on_event = [](flux_t*, flux_msg_handler_t*, const flux_msg_t* msg, void* arg) {
    const void* data = nullptr;
    std::size_t size = 0;
    if (flux_event_decode_raw(msg, nullptr, &data, &size) < 0) return;
    std::optional<PeerMessage> message = decode({static_cast<const char*>(data), size});
    auto* link = static_cast<PeerLink*>(arg);
    if (message) message = link->filter_.pass(*std::move(message));
    if (message) link->receive_(*message);
  };
  struct flux_match match = FLUX_MATCH_EVENT;
  match.topic_glob = kTopic;
  handler_ = flux_msg_handler_create(flux_shell_get_flux(shell_), match, on_event, this);
  if (handler_ == nullptr) return -1;
  flux_msg_handler_start(handler_);
  return 0;
}

void PeerLink::close() { flux_msg_handler_destroy(std::exchange(handler_, nullptr)); }

void PeerLink::begin(std::uint64_t start, Receive receive) {
  receive_ = std::move(receive);
  for (const PeerMessage& each : filter_.begin(start)) receive_(each);
}

void PeerLink::send(PeerMessage message) const {
  message.start = filter_.current();
  std::string bytes = encode(message);
  flux_future_t* sent = flux_event_publish_raw(flux_shell_get_flux(shell_), kTopic, 0, bytes.data(), bytes.size());
  if (sent == nullptr) shell_die(1, "pmix: cannot notify the other nodes: %s", flux_strerror(errno));
  flux_future_destroy(sent);
}

}  // namespace nacre::pmix
