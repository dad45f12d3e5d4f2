// SPDX-License-Identifier: Apache-2.0
//
// A way to other shells on which nothing comes and all that is sent has room, for tests that override the rest.
#pragma once

#include "bulk/port.hpp"

namespace nacre::kit {

class QuietPort : public bulk::Port {
 public:
  void serve(bulk::Channel /*channel*/, Upward /*owner*/) override {}
  void serve(bulk::Channel /*channel*/, Downward /*owner*/) override {}
  void serve_no_more() override {}
  Result<bool> put(bulk::Channel /*channel*/, std::string_view /*bytes*/) override { return true; }
  Result<bool> broadcast(bulk::Channel /*channel*/, std::string_view /*bytes*/) override { return true; }
  Result<void> end_broadcast(bulk::Channel /*channel*/) override { return {}; }
  void taken(bulk::Id /*origin*/, bulk::Numbered /*number*/) override {}
  void consumed(bulk::Numbered /*number*/) override {}
};

}  // namespace nacre::kit
