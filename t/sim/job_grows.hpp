// SPDX-License-Identifier: Apache-2.0
//
// Orders to grow, one after the other, as the leader's half of core/shell_grow.cpp: shells are started, come, make
// their offers, and get ready; or fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "job_changes.hpp"
#include "world.hpp"

namespace nacre::sim {

class JobElastic;
class JobLeader;
class JobShell;

class JobGrows {
 public:
  JobGrows(JobShell& shell, JobElastic& elastic, JobLeader& leader)
      : shell_(shell), elastic_(elastic), leader_(leader) {}

  void order(std::size_t number, const Order& order);
  void start_failed(Id shell);
  void announced(const std::string& topic, const Json& what);
  void grown(const Idset& come);  // the log has the growth
  void lost(Id shell);            // if it is about to join
  void stop();                    // the tasks are over
  [[nodiscard]] bool are_open() const { return (open_ && !open_->is_answered) || !queue_.empty(); }

 private:
  struct Growing {
    std::size_t number = 0;
    bool all = false;
    std::uint32_t count = 1;
    bool is_answered = false;
    Id first = 0;
    std::optional<Idset> come = {};
    Idset offers = {}, ready = {}, failed = {};
    bool is_sent = false, is_announced = false, is_undone = false;
  };

  void begin_next();
  void begin();
  void came(const Entry* entry);
  void fail(const Idset& shells);
  void look_for_offers();
  void send_growth();
  void settle();
  void end(bool is_error);
  [[nodiscard]] Idset asked() const { return Idset::range(open_->first, open_->first + open_->count - 1); }
  [[nodiscard]] bool is_open(Id first) const { return open_ && open_->first == first; }
  [[nodiscard]] Json state() const;

  JobShell& shell_;
  JobElastic& elastic_;
  JobLeader& leader_;
  std::optional<Growing> open_;
  std::deque<Growing> queue_;
  bool stopped_ = false;
};

}  // namespace nacre::sim
