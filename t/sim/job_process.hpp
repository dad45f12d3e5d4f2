// SPDX-License-Identifier: Apache-2.0
//
// The process of one shell on virtual time: which shell it is, the phase that it is in, and its loop, with what it
// does later and the news that it gets.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "job_plan.hpp"
#include "job_witness.hpp"
#include "world.hpp"

namespace nacre::sim {

class JobProcess {
 public:
  // `step`: goes on in the phase that it is in; false: it cannot.
  JobProcess(World& world, const JobPlan& plan, Id id, Witness& witness, std::function<bool()> step);

  [[nodiscard]] World& world() const { return world_; }
  [[nodiscard]] const JobPlan& plan() const { return plan_; }
  [[nodiscard]] Witness& witness() const { return witness_; }
  [[nodiscard]] Id id() const { return id_; }
  [[nodiscard]] bool leads() const { return id_ == 0; }
  [[nodiscard]] bool is_late() const { return id_ >= plan_.members; }  // it joins a job that runs
  void trace(const std::string& line) const;
  void on_node(const std::function<void(Node&)>& what) { world_.on(id_, what); }

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool is_over() const { return phase_ == Phase::over; }
  [[nodiscard]] bool has_crashed() const { return crashed_; }
  [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }
  void enter(Phase phase);
  void exit(int code);
  void crash();

  // ---- its loop
  void go_on();
  void later(Time delay, const std::function<void()>& what);
  // Likewise, and it does not go on before: handlers run for so many microseconds at most.
  void hold(std::uint64_t most, const std::function<void()>& what);
  void stepped();    // its node has done something, so there may be news
  void take_news();  // before anything else is done to the shell
  void post(std::function<void()> news) { news_.push_back(std::move(news)); }
  // News about the job are kept until it serves it.
  void post_of_job(std::function<void()> news) { (serves_ ? news_ : kept_).push_back(std::move(news)); }
  void serve();
  [[nodiscard]] bool serves() const { return serves_; }
  void drop_kept() { kept_.clear(); }

 private:
  World& world_;
  const JobPlan& plan_;
  Id id_;
  Witness& witness_;
  std::function<bool()> step_;
  Phase phase_ = Phase::unborn;
  bool crashed_ = false;
  std::optional<int> exit_code_;
  std::deque<std::function<void()>> news_, kept_;
  bool scheduled_ = false, takes_news_ = false, serves_ = false;
  bool busy_ = false;  // in a handler
};

}  // namespace nacre::sim
