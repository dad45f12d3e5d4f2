// SPDX-License-Identifier: Apache-2.0
//
// What a shell only keeps for its plugins, without deciding anything by it: holds, the job's events, exchanges with
// the plugins of other shells. And its plugin::Host, which passes on to the parts of Shell what plugins ask.
#pragma once

#include "group/codec.hpp"
#include "group/group.hpp"
#include "job/job.hpp"
#include "plugin/host.hpp"
#include "plugin/registration.hpp"
#include "plugin/shell_messages.hpp"
#include "timeline/recorder.hpp"

namespace nacre::core {

// References by name, for which the shell waits.
class HoldCounts {
 public:
  using Counts = std::map<std::string, int, std::less<>>;

  // The timeline is told when a name is first held, and when it is held no more. It has to outlive this object.
  HoldCounts(timeline::Recorder& timeline, timeline::Kind begins, timeline::Kind ends)
      : timeline_(timeline), begins_(begins), ends_(ends) {}

  int add(std::string_view name);  // returns how many there are of the name
  Result<void> remove(std::string_view name);
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] bool none() const { return counts_.empty(); }

 private:
  timeline::Recorder& timeline_;
  timeline::Kind begins_, ends_;
  Counts counts_;
};

// The events of the job, for plugins and in the leader's eventlog. The leader announces its events once a plugin of
// another shell follows them; that shell says so at the init barrier, or by an announcement.
class JobEvents {
 public:
  Result<void> open(const std::string& eventlog, bool appends = false);
  // For a job that has other shells, or may get some. `group` has to outlive it.
  void share(group::Group& group, bool leads, bool is_newcomer);
  // This shell has come to lead: it goes on with the events that the leader before has announced.
  void lead();
  // Adds to the context of an event of this name, before it is posted.
  void add_context(std::string_view event, const Json& members);
  // The eventlog ends with the first error.
  Result<void> post(std::string_view event, Json context);
  [[nodiscard]] plugin::EventRecord& record() { return record_; }
  // See plugin::Host::job_events().
  [[nodiscard]] plugin::EventRecord& of_job() { return is_follower_ ? leaders_ : record_; }
  [[nodiscard]] bool has_asked() const { return leaders_.is_followed(); }
  // After the init barrier: whether one of its shells has_asked().
  void asked_by_then(bool any);
  // False: the announcement is no such event.
  Result<bool> take(std::string_view topic, std::string_view bytes);

 private:
  Result<void> announce(std::size_t index) const;
  void ask() const;

  std::map<std::string, Json, std::less<>> contexts_;  // by event
  plugin::EventRecord record_, leaders_;
  std::optional<group::EventLog> eventlog_;
  group::Group* group_ = nullptr;
  bool is_follower_ = false, is_newcomer_ = false, leads_ = false;
  std::size_t announced_from_ = 0, first_number_ = 0;  // the first event of this leader, and its number
  std::optional<bool> is_asked_;                       // none: the init barrier was not passed yet
};

// See plugin::OtherShells, and group::Group for what comes.
class Exchange {
 public:
  using WhenGathered = plugin::Host::WhenGathered;

  // Both have to outlive it.
  Exchange(group::Group& group, const job::Job& job, bool may_have_others);

  plugin::Registration gather(std::string_view name, std::string mine, WhenGathered done);
  plugin::Registration gather_up_to(std::uint32_t last, std::string_view name, std::string mine, WhenGathered done);
  [[nodiscard]] std::uint32_t last_with_tasks() const;
  Result<void> announce(std::string_view topic, std::string_view bytes) { return group_.announce(topic, bytes); }
  plugin::Registration on_announcement(plugin::Host::Receive receive) { return announced_.add(std::move(receive)); }
  plugin::Registration exec(value::ExecOrder order, plugin::Host::WhenOrdered done);
  plugin::Registration on_exec(std::function<void(const value::ExecShare&)> receive) {
    return ordered_.add(std::move(receive));
  }
  [[nodiscard]] plugin::ShellMessages& messages() { return messages_; }
  [[nodiscard]] group::Group& group() { return group_; }

  // ---- what comes
  void announced(std::string_view topic, std::string_view bytes) {
    if (!messages_.take(topic, bytes)) announced_.call(topic, bytes);
  }
  void ordered(const value::ExecShare& share) { ordered_.call(share); }

 private:
  group::Group& group_;
  const job::Job& job_;
  plugin::ShellMessages messages_;
  plugin::CallbackList<std::string_view, std::string_view> announced_;  // topic and bytes
  plugin::CallbackList<const value::ExecShare&> ordered_;
  plugin::PendingAnswers<Result<plugin::Gathered>> gathers_;
  plugin::PendingAnswers<Result<value::ExecAnswer>> orders_;
};

class Shell;

// It has to outlive the Host.
std::unique_ptr<plugin::Host> make_host(Shell& shell);

}  // namespace nacre::core
