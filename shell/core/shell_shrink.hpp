// SPDX-License-Identifier: Apache-2.0
//
// Shrinks of the job, on one of its shells. The leader announces which shells are about to leave; these end their
// tasks, and put out what they have; once they are ready the leader takes them out of the job. elastic/roster.hpp
// decides.
#pragma once

#include "bulk/port.hpp"
#include "core/shell_group.hpp"
#include "core/shell_tasks.hpp"
#include "core/slurm_nodes.hpp"
#include "elastic/roster.hpp"
#include "event/loop.hpp"
#include "exits/job_end.hpp"
#include "group/group.hpp"
#include "plugin/host.hpp"
#include "plugin/questions.hpp"

namespace nacre::core {

// Orders to shrink, from the plugins of all shells. The leader serves them. Orders of other shells come to it, and
// the answers back, as announcements. Each costs a message to every shell, as the shrink itself does.
class ShrinkAsks {
 public:
  using WhenShrunk = plugin::Host::WhenShrunk;
  // The leader's: what an order does.
  using Serve = std::function<void(const value::ShrinkOrder&, WhenShrunk)>;

  // Both must outlive it.
  ShrinkAsks(plugin::Host& host, ShellGroup& shells) : host_(host), shells_(shells) {}

  void serve(Serve order);
  // See plugin::Host::shrink().
  plugin::Registration ask(const value::ShrinkOrder& order, WhenShrunk news);
  // Open orders, and later ones, get this error.
  void end(const Error& why);
  void fail_open(const Error& why);

 private:
  static constexpr std::string_view kAskTopic = "shell.shrink-ask";
  static constexpr std::string_view kAnswerTopic = "shell.shrink-answer";

  using Number = std::uint64_t;

  Result<void> send(Number number, const value::ShrinkOrder& order);
  void announced(std::string_view topic, std::string_view bytes);
  void asked(std::string_view bytes);
  void answered(std::string_view bytes);
  void pass_on(Number number, const Result<Json>& news, bool is_last);

  plugin::Host& host_;
  ShellGroup& shells_;
  Serve serve_;
  plugin::Registration announced_;
  std::map<Number, plugin::CallbackList<const Result<Json>&, bool>> open_;
  std::optional<Error> over_;
  Number last_ = 0;
};

// Before shells leave, the leader asks them by an announcement which of their tasks are connected to PMI (topic
// pmi.connected), and whether spawned processes are (pmi.spawned). It asks the shells that stay in the same way
// before a spare takes over the tasks of a lost shell. They answer with a record of bulk data. A shell that does
// not answer in time counts as one without such tasks: it may be frozen, and a shrink is the way to remove it.

inline constexpr std::string_view kShrinkQuestionTopic = "shell.shrink-question";

class ShrinkQuestion {
 public:
  static constexpr event::Seconds kMostAnswerTime{2};

  explicit ShrinkQuestion(plugin::Host& host) : host_(host) {}

  struct Connected {
    value::Idset tasks;     // ranks
    value::Idset spawning;  // shells with spawned processes that are connected
    [[nodiscard]] bool none() const { return tasks.empty() && spawning.empty(); }
  };

  // The leader's. `done` is called once, perhaps before this returns, with what is connected; never after end().
  using Done = std::function<void(const Connected& connected)>;
  enum class About : std::uint8_t { leaving, staying };
  void ask(const value::Idset& shells, About about, const Done& done);
  void take(std::uint32_t shell, std::string_view answer);
  void gone(std::uint32_t shell) { open_.gone(shell); }  // it answers no more
  [[nodiscard]] value::Idset asked_to_leave() const;
  void end() { open_.drop_all(); }

  // On any shell: the shells that are perhaps about to leave, if this announcement asks for that.
  static value::Idset leaving_in(std::string_view announcement);
  // On a shell that is asked: the record for this announcement; "": it is not for this shell.
  std::string answer(std::string_view announcement);

 private:
  struct Asked {
    value::Idset shells;
    About about = About::leaving;
    Connected connected;
  };

  plugin::Host& host_;
  plugin::OpenQuestions<Asked> open_{host_, std::string(kShrinkQuestionTopic)};
};

class ShellShrink {
 public:
  using WhenShrunk = plugin::Host::WhenShrunk;

  ShellShrink(plugin::Host& host, group::Group* group, ShellGroup& shells, ShellTasks& tasks, exits::JobEnd& end)
      : host_(host),
        group_(group),
        shells_(shells),
        tasks_(tasks),
        end_(end),
        asks_(host, shells),
        question_(host) {}

  // Before others can take part: sets what the group calls. `grace`: between the first signal and SIGKILL.
  void serve(group::Group::Callbacks& callbacks, event::Seconds grace);

  // See plugin::Host.
  plugin::Registration ask(const value::ShrinkOrder& order, WhenShrunk news) {
    return asks_.ask(order, std::move(news));
  }
  void offer_release(plugin::NodeRelease* release) { release_ = release; }
  // Leader: hosts that are not of the job's first allocation. Has to outlive the last shrink.
  void set_nodes(SlurmNodes* nodes) { nodes_ = nodes; }

  // Leader: asks these shells, which stay, which of their tasks are connected to PMI.
  void ask_connected(const value::Idset& shells, ShrinkQuestion::Done done) {
    question_.ask(shells, ShrinkQuestion::About::staying, std::move(done));
  }

  // Leader: the shell is about to leave, or asked to.
  [[nodiscard]] bool is_leaving(group::Rank rank) const { return shrinks_.is_leaving(rank); }
  // This shell is about to leave: what fails here does not end the job any more.
  [[nodiscard]] bool leaves() const { return leaves_; }
  // Another shell has come to lead, or this one.
  void follow();
  void take_over();
  // This shell's tasks have ended, and all that it puts out is out.
  void put_all();
  // The job ends, so orders that are open end with an error.
  void job_over();

 private:
  static constexpr std::string_view kTopic = "shell.shrink";
  static constexpr std::string_view kReady = "1";  // record: the shell can be taken out

  struct Open {
    WhenShrunk news;
    std::optional<event::Timer> timer;  // of its batch
  };

  [[nodiscard]] Result<value::Idset> shells_of(const value::ShrinkOrder& order) const;
  [[nodiscard]] value::Idset maybe_connected(const value::Idset& shells) const;
  void order(const value::ShrinkOrder& order, const WhenShrunk& news);
  void confirm(const value::ShrinkOrder& order, const value::Idset& shells,
               const ShrinkQuestion::Connected& connected, const WhenShrunk& news);
  [[nodiscard]] Error refusal(const value::Idset& shells, const ShrinkQuestion::Connected& connected) const;
  void open(const value::ShrinkOrder& order, const value::Idset& shells, const WhenShrunk& news);
  Result<void> begin(elastic::Shrinks::Order number, const value::Idset& fresh, const value::ShrinkOrder& order);
  void settle();
  void take_out(const value::Idset& shells);
  void withdraw(const value::Idset& shells);
  void lost_leaving(group::Rank rank);
  void settle_lost(group::Rank rank);
  void released(const value::Idset& shells, const std::function<void()>& done);
  [[nodiscard]] Json answer_of(const value::Shrunk& shrunk) const;
  void announced(std::string_view bytes);
  void send_ready();

  plugin::Host& host_;
  group::Group* group_;
  ShellGroup& shells_;
  ShellTasks& tasks_;
  exits::JobEnd& end_;
  event::Seconds grace_{};
  elastic::Shrinks shrinks_;  // the leader's, as the next two
  std::map<elastic::Shrinks::Order, Open> open_;
  bool job_over_ = false;
  plugin::NodeRelease* release_ = nullptr;
  SlurmNodes* nodes_ = nullptr;
  value::Idset given_back_;                              // shells
  value::Idset lost_;                                    // shells, while they left or were asked to
  std::vector<std::pair<value::Idset, Json>> releases_;  // what the manager has answered
  ShrinkAsks asks_;
  ShrinkQuestion question_;
  plugin::Registration announced_;
  bool leaves_ = false;    // this shell is about to leave
  bool all_put_ = false;   // put_all() was called
  bool is_ready_ = false;  // and kReady is sent, or waits for room
  bulk::RecordQueue records_{bulk::up::kReadyToLeave};
};

}  // namespace nacre::core
