// SPDX-License-Identifier: Apache-2.0
//
// What changes a job that runs, on the leader: `nacre shrink`, `nacre grow` and `nacre restart`.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "control/message.hpp"
#include "plugin/host.hpp"
#include "plugins/control/answers.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

// `nacre grow`, on the leader: what a front end asks for, and what it gets (doc/control.md, "grow").
class GrowService {
 public:
  explicit GrowService(plugin::Host& host) : host_(host) {}

  void serve(const Json& arguments, const Answers::Reply& reply) {
    auto order = value::GrowOrder::parse(JsonAt::root(arguments));
    if (!order) return reply.answer(order.error());
    host_.grow(*order, [reply](const Result<Json>& news, bool is_last) {
      if (is_last) return reply.answer(news);
      if (news) reply.part(*news);
    });
  }

 private:
  plugin::Host& host_;
};

// `nacre restart`, on the leader: what a front end asks for, and what it gets (doc/control.md, "restart"). The
// shells do it (core/shell_restart.hpp).
class RestartService {
 public:
  explicit RestartService(plugin::Host& host) : host_(host) {}

  // `running`: the tasks that have not ended for good.
  void serve(const Json& arguments, const Answers::Reply& reply, const value::Idset& running);
  // What job.tasks-restart or job.tasks-moved has.
  void started(const Json& what);
  // They have ended for good.
  void ended(const value::Idset& ranks) { refused(ranks, "it has ended"); }
  void job_ended();

 private:
  struct Open {
    Answers::Reply reply;
    value::Idset waiting;  // for their end, and the next start
    value::Idset started = {};
    Json refused = Json::array();
  };

  Result<Open> read(const Json& arguments, const value::Idset& running) const;
  void announced(std::string_view topic, std::string_view bytes);
  void refused(const value::Idset& ranks, const std::string& why);
  void answer_complete();

  plugin::Host& host_;
  plugin::Registration announced_;
  std::list<Open> open_;
};

// `nacre shrink`, on the leader: what a front end asks for, and what it gets (doc/control.md, "shrink").
class ShrinkService {
 public:
  explicit ShrinkService(plugin::Host& host) : host_(host) {}

  void serve(const Json& arguments, const Answers::Reply& reply);

 private:
  plugin::Host& host_;
  std::vector<plugin::Registration> open_;
};

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
