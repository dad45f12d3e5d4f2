// SPDX-License-Identifier: Apache-2.0
//
// What changes a job that runs, on the leader: `nacre shrink`, `nacre grow` and `nacre restart`.
#pragma once

#include "control/message.hpp"
#include "plugins/control/grow_service.hpp"
#include "plugins/control/restart_service.hpp"
#include "plugins/control/shrink_service.hpp"

namespace nacre::plugins {

struct Changes {
  explicit Changes(plugin::Host& host) : shrinks(host), grows(host), restarts(host) {}

  // False: the request is another's. `answers`: what is known of the tasks.
  bool take(const control::ControlRequest& request, const Answers::Reply& reply, const Answers& answers) {
    if (request.action == "shrink")
      shrinks.serve(request.arguments, reply);
    else if (request.action == "grow")
      grows.serve(request.arguments, reply);
    else if (request.action == "restart")
      restarts.serve(request.arguments, reply, answers.running());
    else
      return false;
    return true;
  }

  ShrinkService shrinks;
  GrowService grows;
  RestartService restarts;
};

}  // namespace nacre::plugins
