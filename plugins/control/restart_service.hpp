// SPDX-License-Identifier: Apache-2.0
//
// `nacre restart`, on the leader: what a front end asks for, and what it gets (doc/control.md, "restart"). The
// shells do it (core/shell_restart.hpp).
#pragma once

#include <list>
#include <string>

#include "base/json.hpp"
#include "plugin/host.hpp"
#include "plugins/control/answers.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

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

}  // namespace nacre::plugins
