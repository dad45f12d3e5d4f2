// SPDX-License-Identifier: Apache-2.0
//
// What this shell has asked of the others and has no answer to yet: collectives by their names, orders, shrinks
// and grows by the numbers of their requests. Each is answered once, by a deferred call.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/result.hpp"
#include "group/deferred_calls.hpp"
#include "group/group.hpp"
#include "overlay/effect.hpp"

namespace nacre::group {

class OpenCalls {
 public:
  using WhenReleased = std::function<void(Result<overlay::Value>)>;

  explicit OpenCalls(DeferredCalls& deferred) : deferred_(deferred) {}  // has to outlive this object

  void add(std::string collective, WhenReleased done) {
    collectives_.emplace(std::move(collective), std::move(done));
  }
  void add(std::uint64_t request, Group::WhenOrdered done) { orders_.emplace(request, std::move(done)); }
  void add(std::uint64_t request, Group::WhenShrunk done) { shrinks_.emplace(request, std::move(done)); }
  void add(std::uint64_t request, Group::WhenGrown done) { grows_.emplace(request, std::move(done)); }

  void answer(overlay::Released& released);
  void answer(const overlay::Entry& entry);  // of a request of this shell
  void fail_collectives(const Error& why);
  void fail_requests(const Error& why);

 private:
  DeferredCalls& deferred_;
  std::map<std::string, WhenReleased, std::less<>> collectives_;
  std::map<std::uint64_t, Group::WhenOrdered> orders_;
  std::map<std::uint64_t, Group::WhenShrunk> shrinks_;
  std::map<std::uint64_t, Group::WhenGrown> grows_;
};

}  // namespace nacre::group
