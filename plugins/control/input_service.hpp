// SPDX-License-Identifier: Apache-2.0
//
// The request `input`, on the leader: a front end becomes the owner of the job's standard input, which goes to the
// tasks as the launcher's does (doc/control.md, "input"). There is one owner at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "control/server.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

inline constexpr std::size_t kInputCredit = std::size_t{64} << 10;  // bytes that an owner may send ahead
inline constexpr std::size_t kMostOwnerName = 256;                  // bytes

class InputService {
 public:
  using ClientId = control::ControlServer::ClientId;

  // `server`: of front ends; null while there is none.
  InputService(plugin::Host& host, std::function<control::ControlServer*()> server)
      : host_(host), server_(std::move(server)) {}

  void serve(ClientId client, const control::ControlRequest& request);
  // Of requests of any kind: what is not the owner's is passed over.
  void data(ClientId client, const control::StreamData& data);
  void end(ClientId client, const control::StreamEnd& end);
  void gone(ClientId client);

 private:
  struct Owner {
    ClientId client = 0;
    std::uint64_t id = 0;  // of its request
    std::string name;
    std::size_t uncredited = 0;  // bytes that it has sent, and that it gets no credit for yet
  };

  // The launcher's input, if a front end can have it now.
  Result<plugin::LaunchedInput*> find(bool takes) const;
  Result<void> begin(ClientId client, const control::ControlRequest& request);
  void notify_former(const std::string& by);
  void grant();
  [[nodiscard]] bool is_owner(ClientId client, std::uint64_t id) const {
    return owner_ && owner_->client == client && owner_->id == id;
  }

  plugin::Host& host_;
  std::function<control::ControlServer*()> server_;
  std::optional<Owner> owner_;
};

}  // namespace nacre::plugins
