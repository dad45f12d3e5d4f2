// SPDX-License-Identifier: Apache-2.0
//
// The bulk port of a shell that is alone so far. It keeps who serves which channel for the port that the job has
// once there are others, and passes all on to that then. Until then there is nobody to send to.
#pragma once

#include <map>

#include "bulk/port.hpp"

namespace nacre::group {

class LaterPort final : public bulk::Port {
 public:
  // From now on `port` is used, which has to outlive this object. At most once.
  void become(bulk::Port& port);

  void serve(bulk::Channel channel, Upward owner) override;
  void serve(bulk::Channel channel, Downward owner) override;
  void serve_no_more() override;
  // ENOTCONN: there is no other shell yet.
  Result<bool> put(bulk::Channel channel, std::string_view bytes) override;
  Result<bool> broadcast(bulk::Channel channel, std::string_view bytes) override;
  Result<void> end_broadcast(bulk::Channel channel) override;
  void taken(bulk::Id origin, bulk::Numbered number) override;
  void consumed(bulk::Numbered number) override;

 private:
  bulk::Port* port_ = nullptr;  // none: the shell is alone
  std::map<bulk::Channel, Upward> upward_;
  std::map<bulk::Channel, Downward> downward_;
  bool serves_all_ = false;
};

}  // namespace nacre::group
