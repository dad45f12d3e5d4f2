// SPDX-License-Identifier: Apache-2.0
//
// What plugins exchange with the broker of the Flux instance whose job shell this is: their requests that no shell
// of the job takes, requests of others for services that they offer, and events. Without an instance there is none.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "broker/instance.hpp"
#include "flux/message.hpp"

namespace nacre::flux {

class Runtime;

class BrokerCalls {
 public:
  explicit BrokerCalls(Runtime& runtime) : runtime_(runtime) {}
  ~BrokerCalls();
  BrokerCalls(const BrokerCalls&) = delete;
  BrokerCalls& operator=(const BrokerCalls&) = delete;

  void begin();  // requests and events are received from now on
  [[nodiscard]] bool is_there() const { return instance_ != nullptr; }
  [[nodiscard]] broker::Instance& instance() const { return *instance_; }

  // A request, or the response to one that the broker has brought. ECONNRESET: the broker is gone.
  Result<void> send(const flux_msg& msg);
  void forget(std::uint32_t matchtag);
  // For who waits in a call: waits so long for responses, and puts the next one into the inbox.
  void serve(double seconds);
  // Calls are open that the shell's loop cannot be waited for with: it runs, or does not serve the broker yet.
  [[nodiscard]] bool needs_serving() const;
  [[nodiscard]] bool any() const { return !open_.empty(); }
  // Waits for the answer.
  Result<Json> ask(std::string_view topic, const Json& payload);

 private:
  void deliver(const broker::BrokerMessage& message, std::uint32_t matchtag);
  void name_for_broker(broker::BrokerMessage& request) const;

  Runtime& runtime_;
  broker::Instance* instance_ = nullptr;
  std::map<std::uint32_t, std::uint32_t> open_;  // by matchtag: the broker's
};

}  // namespace nacre::flux
