// SPDX-License-Identifier: Apache-2.0
//
// What the leader of a simulated job has beside JobElastic: what is ordered, and where the tasks of lost shells go.
// A small model of the leader's half of core/shell_shrink, shell_grow, shell_replace and whole_restart, and of
// plugins/control/restart_service. The real elastic::Shrinks, Replacements and ExpectedStarts decide.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "elastic/replacements.hpp"
#include "elastic/shrinks.hpp"
#include "elastic/starts.hpp"
#include "group/statements.hpp"
#include "job_elastic.hpp"

namespace nacre::sim {

class JobLeader {
 public:
  using Message = elastic::RestartMessage;

  JobLeader(JobShell& shell, JobElastic& elastic) : shell_(shell), elastic_(elastic) {}

  void order(std::size_t number, const Order& order);
  void answered(const Entry& entry);  // a request of the overlay
  void announced(const std::string& topic, const Json& what);

  // ---- tasks
  void expect(const Idset& ranks);  // from now on the start of them counts that the job has
  void reported(const group::Ended& ended);
  void note_ended(const Idset& ranks, const exits::Record& record);  // for good
  void all_started();
  void answer(const Message& message);
  void answer_order();
  void order_came_back() { order_is_answered_ = false; }
  void restarted(const Idset& ranks);

  // ---- shells
  void lost(Id shell);
  void decide_loss(Id shell);
  void give_up(Id shell);
  void loss_closes(Id shell);  // it is decided what becomes of its tasks
  void decide_losses();        // from now on; first those of before, when no task could start again yet
  void lost_leaving(Id shell);
  void lost_newcomer(Id shell);
  void ready_to_leave(Id shell);
  void replace(Id from);
  void replaced(const std::vector<job::Move>& moves);
  void grown(const Idset& come);
  void start_failed(Id shell);
  void tasks_are_over();
  void job_over();

  [[nodiscard]] std::string open() const;

 private:
  using Done = std::function<void(bool is_error)>;
  struct Restart {
    std::size_t number = 0;
    Idset waiting;
  };
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

  void request(RequestBody body, const std::function<void(const Entry*)>& done);
  // job_leader.cpp
  void refused(const Idset& ranks);
  void answer_complete();
  [[nodiscard]] std::string why_not_whole() const;
  void order_restart(std::size_t number, const Idset& ranks);
  // job_resize.cpp
  void shrink(const value::ShrinkOrder& order, const Done& done);
  void settle_shrinks();
  void order_grow(std::size_t number, const Order& order);
  void begin_next();
  void begin();
  void came(const Entry* entry);
  void fail(const Idset& shells);
  void look_for_offers();
  void send_growth();
  void settle_grow();
  void end_grow(bool is_error);
  void take_out(const Idset& shells, const Done& done);
  [[nodiscard]] Idset asked() const { return Idset::range(open_->first, open_->first + open_->count - 1); }
  [[nodiscard]] bool is_open(Id first) const { return open_ && open_->first == first; }
  [[nodiscard]] Json state() const;

  JobShell& shell_;
  JobElastic& elastic_;
  elastic::ExpectedStarts expected_;
  elastic::Replacements replacements_;
  elastic::Shrinks shrinks_;
  std::map<elastic::Shrinks::Order, Done> shrinking_;
  std::map<std::uint64_t, std::function<void(const Entry*)>> requests_;
  std::vector<Restart> restarting_;
  std::optional<Growing> open_;
  std::deque<Growing> queue_;
  std::vector<Message> unanswered_;
  bool decides_losses_ = false;
  Idset undecided_;
  Idset open_losses_;         // shells; meanwhile nothing is answered
  bool order_waits_ = false;  // until then
  bool all_started_ = false, order_is_answered_ = false, stopped_ = false, job_over_ = false;
};

}  // namespace nacre::sim
