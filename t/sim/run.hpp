// SPDX-License-Identifier: Apache-2.0
//
// One simulated job: what its shells do, and what is done to them, from a seed.
#pragma once

#include "check.hpp"

namespace nacre::sim {

enum class Deed : std::uint8_t {
  crash,
  darken,
  freeze,
  reset,      // a link between two breaks; it can be dialled again
  cut,        // nothing passes between two members, for a while or for good
  isolate,    // nothing passes between one member and all others
  partition,  // nothing passes between two halves
  slow,       // all messages of one member take longer
  still,      // nothing runs anywhere, as on a machine that is suspended
  busy,       // a handler of a plugin runs
  ask,        // a member asks the leader for something
  exit,       // a task ends
  stale,      // a message of an earlier term of the job, with an entry that would fit
  alien,      // of another job
};

struct Asking;

inline constexpr Id kLeader = Idset::kMaxId;

struct Action {
  Time at{};
  Deed deed = Deed::exit;
  Id a = 0;  // kLeader: the leader of that time
  Id b = 0;
  Time span{};
  std::vector<Id> ids;
  const Asking* asking = nullptr;  // with Deed::ask
};

// What a member may ask the leader for; plan.cpp has all of them.
struct Asking {
  enum class Names : std::uint8_t { nobody, members, newcomers };

  const char* name;
  Names names;                                          // in Action::ids
  bool by_leader;                                       // it asks even where the leader is spared
  RequestBody (*make)(const Action& action, Seq view);  // `view`: of the member that asks
};

struct Plan {
  std::uint64_t seed = 0;
  std::uint32_t members = 2;
  std::uint32_t arity = 2;
  std::uint32_t rounds = 3;  // collectives
  bool ends = false;         // with END, after the rest
  bool hands_over = false;   // another member leads when the leader is lost
  bool over_the_wire = false;
  std::uint64_t bytes_per_ms = 0;  // 0: any
  std::vector<Action> actions;
};

struct Limits {
  std::uint32_t members = 200;
  std::uint32_t faults = 25;
};
Plan make_plan(std::uint64_t seed, const Limits& limits);
std::string brief(const Action& action);

struct Outcome {
  std::string broken;  // "": all invariants held
  std::uint64_t messages = 0;
  std::uint64_t campaigns = 0;
  std::uint64_t deaths = 0;
  std::uint64_t releases = 0;
  std::uint64_t leaders = 0;
};
Outcome run(const Plan& plan, bool trace);

// Finds a plan with the same failure, and as few actions and members as possible; `broken` is the broken invariant.
Plan shrink(const Plan& plan, std::string& broken);

class Run : private Watcher {
 public:
  Run(const Plan& plan, bool trace);
  void go();  // throws Broken
  [[nodiscard]] Outcome outcome() const;

 private:
  void effect(Id id, const Effect& effect) override;
  void stepped(Id id) override { check_.stepped(id); }

  [[nodiscard]] OverlayOptions options(Id id) const;
  void act(const Action& action);
  void act_on_host(const Action& action);
  void act_on_links(const Action& action);
  void stand_still(Time span);
  void run_handler(Id id, Time until);
  void awake(std::function<void()> what);
  void ask(const Action& action);
  void end_task(Id id);
  void forge(const Action& action);
  void ask(Id id, RequestBody body);
  void enter(Id id, const std::string& name, Merge merge, Scope scope);
  void go_on(Id id, std::uint32_t round);
  void leave(Id id);
  void come_to_rest();
  void check_reports();

  Plan plan_;
  World world_;
  Check check_;
  Time rest_{};
  Time still_until_{};  // nothing runs
  Idset exited_;        // tasks that ended while their host lived
  Idset started_;
  std::map<Id, Idset> reported_;  // that each leader knows of
};

}  // namespace nacre::sim
