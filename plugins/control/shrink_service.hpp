// SPDX-License-Identifier: Apache-2.0
//
// `nacre shrink`, on the leader: which shells a front end means, and what it gets for an answer (doc/control.md,
// "shrink").
#pragma once

#include <cstdint>
#include <map>

#include "base/json.hpp"
#include "plugin/host.hpp"
#include "plugins/control/answers.hpp"
#include "value/shrunk.hpp"

namespace nacre::plugins {

class ShrinkService {
 public:
  explicit ShrinkService(plugin::Host& host) : host_(host) {}

  void serve(const Json& arguments, Answers::Reply reply);
  // These shells are no longer of the job, or about to leave.
  void note_gone(const value::Idset& shells) { gone_ = gone_ | shells; }

 private:
  Result<value::ShrinkOrder> read(const Json& arguments) const;
  Result<value::Idset> shells_of(const JsonAt& at) const;
  Result<value::Idset> shells_on(const JsonAt& hosts) const;
  Result<value::Idset> last_ones(const JsonAt& count) const;
  [[nodiscard]] std::string hosts_of(const value::Idset& shells) const;

  plugin::Host& host_;
  value::Idset gone_;
  std::map<std::uint64_t, plugin::Registration> open_;  // by order
  std::uint64_t last_ = 0;
};

}  // namespace nacre::plugins
