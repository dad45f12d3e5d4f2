// SPDX-License-Identifier: Apache-2.0
//
// `nacre shrink`, on the leader: what a front end asks for, and what it gets (doc/control.md, "shrink").
#pragma once

#include <vector>

#include "base/json.hpp"
#include "plugin/host.hpp"
#include "plugins/control/answers.hpp"

namespace nacre::plugins {

class ShrinkService {
 public:
  explicit ShrinkService(plugin::Host& host) : host_(host) {}

  void serve(const Json& arguments, const Answers::Reply& reply);

 private:
  plugin::Host& host_;
  std::vector<plugin::Registration> open_;
};

}  // namespace nacre::plugins
