// SPDX-License-Identifier: Apache-2.0
//
// Orders to shrink, as the leader's half of core/shell_shrink.cpp. The real elastic::Shrinks decides.
#pragma once

#include <functional>
#include <map>

#include "elastic/roster.hpp"
#include "value/resizing.hpp"
#include "world.hpp"

namespace nacre::sim {

class JobElastic;
class JobLeader;
class JobShell;

class JobShrinks {
 public:
  using Done = std::function<void(bool is_error)>;

  JobShrinks(JobShell& shell, JobElastic& elastic, JobLeader& leader)
      : shell_(shell), elastic_(elastic), leader_(leader) {}

  void order(const value::ShrinkOrder& what, const Done& done);
  void take_out(const Idset& shells, const Done& done);  // `done`: or null
  void ready(Id shell);
  void lost(Id shell);  // if it is about to leave
  void end_all();       // the job is over
  [[nodiscard]] bool are_open() const { return !shrinking_.empty(); }

 private:
  void settle();

  JobShell& shell_;
  JobElastic& elastic_;
  JobLeader& leader_;
  elastic::Shrinks shrinks_;
  std::map<elastic::Shrinks::Order, Done> shrinking_;
};

}  // namespace nacre::sim
