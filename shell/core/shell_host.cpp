// SPDX-License-Identifier: Apache-2.0
#include "core/shell_host.hpp"

#include <unistd.h>

#include "core/shell.hpp"
#include "event/clock.hpp"

namespace nacre::core {

// ---- holds ------------------------------------------------------------------------------

int HoldCounts::add(std::string_view name) {
  auto it = counts_.find(name);
  if (it == counts_.end()) it = counts_.emplace(std::string(name), 0).first;
  if (++it->second == 1) timeline_.add(begins_, name);
  return it->second;
}

Result<void> HoldCounts::remove(std::string_view name) {
  auto it = counts_.find(name);
  if (it == counts_.end()) return Error{ENOENT, fmt::format("no completion reference '{}'", name)};
  if (--it->second > 0) return {};
  counts_.erase(it);
  timeline_.add(ends_, name);
  return {};
}

// ---- job events -------------------------------------------------------------------------

Result<void> JobEvents::open(const std::string& eventlog, bool appends) {
  eventlog_ = TRY(group::EventLog::create(eventlog, appends));
  return {};
}

namespace {

constexpr std::string_view kEvent = "job.event";  // of the leader: the number of it and its text, as JSON
constexpr std::string_view kAsked = "job.events-asked";

}  // namespace

void JobEvents::share(group::Group& group, bool leads, bool is_newcomer) {
  group_ = &group;
  is_follower_ = !leads;
  leads_ = leads;
  is_newcomer_ = is_newcomer;
  leaders_.when_followed([this] {
    if (is_asked_) ask();
  });
}

void JobEvents::asked_by_then(bool any) {
  is_asked_ = any;
  if (has_asked()) ask();
}

// A newcomer has none of the events that were announced before it came. This fails only if this shell is cut off.
void JobEvents::ask() const {
  if (is_newcomer_ || !*is_asked_) static_cast<void>(group_->announce(kAsked, ""));
}

// Events that come in between are in what the leader announces when it learns that events are wanted.
Result<bool> JobEvents::take(std::string_view topic, std::string_view bytes) {
  if (topic == kAsked) {
    is_asked_ = true;
    for (std::size_t index = announced_from_; leads_ && index < record_.events().size(); ++index)
      CHECK_OK(announce(index));
    return true;
  }
  if (topic != kEvent) return false;
  Json event = TRY(parse_json(bytes));
  JsonAt at = JsonAt::root(event);
  std::int64_t number = TRY(TRY(at.at("number")).integer(0));
  if (is_follower_ && number == static_cast<std::int64_t>(leaders_.events().size()))
    leaders_.add(TRY(at.at("event")).json());
  return true;
}

Result<void> JobEvents::announce(std::size_t index) const {
  const std::size_t number = index - announced_from_ + first_number_;
  return group_->announce(kEvent, dump_json({{"number", number}, {"event", record_.events()[index]}}));
}

// If nobody has followed the events so far, all of this shell's own count.
void JobEvents::lead() {
  leads_ = true;
  if (is_asked_ != true) return;
  announced_from_ = record_.events().size();
  first_number_ = leaders_.events().size();
}

void JobEvents::add_context(std::string_view event, const Json& members) {
  auto it = contexts_.find(event);
  if (it == contexts_.end()) it = contexts_.emplace(std::string(event), Json::object()).first;
  if (members.is_object()) it->second.update(members);
}

Result<void> JobEvents::post(std::string_view event, Json context) {
  auto added = contexts_.find(event);
  if (added != contexts_.end()) context.update(added->second);
  double now = event::wall_clock();
  if (eventlog_) {
    Result<void> written = eventlog_->append(now, event, context);
    if (!written) eventlog_.reset();  // the error is logged once
    CHECK_OK(std::move(written));
  }
  record_.add({{"timestamp", now}, {"name", event}, {"context", std::move(context)}});
  if (!leads_ || is_asked_ != true) return {};
  return announce(record_.events().size() - 1);
}

// ---- exchange ---------------------------------------------------------------------------

Exchange::Exchange(group::Group& group, const job::Job& job, bool may_have_others)
    : group_(group),
      job_(job),
      messages_(job.shell_rank, job.shells(), [this](auto topic, auto bytes) { return announce(topic, bytes); }) {
  if (!may_have_others) messages_.cut_off();
}

plugin::Registration Exchange::gather(std::string_view name, std::string mine, WhenGathered done) {
  auto pending = gathers_.add(std::move(done));
  group_.gather(name, std::move(mine), std::move(pending.receive));
  return std::move(pending.registration);
}

plugin::Registration Exchange::gather_up_to(std::uint32_t last, std::string_view name, std::string mine,
                                            WhenGathered done) {
  auto pending = gathers_.add(std::move(done));
  group_.gather_up_to(last, name, std::move(mine), std::move(pending.receive));
  return std::move(pending.registration);
}

std::uint32_t Exchange::last_with_tasks() const {
  std::uint32_t last = job_.shells() - 1;
  while (last > 0 && job_.taskmap.ranks_on(last).empty()) --last;
  return group_.last_come_with(last);
}

plugin::Registration Exchange::exec(value::ExecOrder order, plugin::Host::WhenOrdered done) {
  auto pending = orders_.add(std::move(done));
  group_.exec(std::move(order), std::move(pending.receive));
  return std::move(pending.registration);
}

// ---- host -------------------------------------------------------------------------------

class ShellHost final : public plugin::Host {
 public:
  explicit ShellHost(Shell& shell) : shell_(shell) {}

  // The job, and what may be changed before its tasks start.
  const job::Job& job() const override { return shell_.job_; }
  void choose_cores(const value::Idset& ids) override { shell_.job_.choose_cores(ids); }
  void choose_gpus(const value::Idset& ids) override { shell_.job_.choose_gpus(ids); }
  bool standalone() const override { return shell_.standalone_; }
  bool has_input() const override { return shell_.config_.has_input; }
  Json info() const override {
    const job::Job& job = shell_.job_;
    return Json{{"jobid", job.id.value()},
                {"instance_owner", shell_.process_.instance ? shell_.process_.instance->owner : ::getuid()},
                {"rank", job.shell_rank},
                {"size", job.shells()},
                {"ntasks", job.tasks()},
                {"service", fmt::format("{}-shell-{}", ::getuid(), job.id.f58_plain())},
                {"options", {{"verbose", shell_.config_.verbose > 0}, {"standalone", shell_.standalone_}}},
                {"jobspec", job.spec.document},
                {"R", taken_document(job.resources)}};
  }
  const exits::Policy& exit_policy() const override { return shell_.exit_policy_; }
  const exits::Outcomes& outcomes() const override { return shell_.shells_.all_tasks().outcomes(); }
  job::Options& options() override { return shell_.options_; }
  job::Environment& environment() override { return shell_.environment_; }
  plugin::Stack& stack() override { return shell_.stack_; }
  std::string& plugin_searchpath() override { return shell_.config_.plugin_searchpath; }

  // Tasks.
  std::span<const std::unique_ptr<task::Task>> tasks() override { return shell_.tasks_.all(); }
  task::Task* current_task() override { return shell_.tasks_.current(); }
  void kill_tasks(int signum) override { shell_.ending_.kill_tasks(signum); }
  void signal_tasks(int signum, const std::optional<value::Idset>& ranks) override {
    shell_.exchange_.group().signal(signum, ranks);
  }
  plugin::Registration signal_also(std::function<void(int signum)> processes) override {
    return shell_.ending_.signal_also(std::move(processes));
  }
  bool sent_to_tasks(int signum) const override { return shell_.end_.has_sent(signum); }

  // Output, and the launcher.
  void offer_output(plugin::TaskOutput* output) override {
    shell_.task_output_ = output;
    if (output != nullptr && shell_.launcher_tie_) shell_.launcher_tie_->offer_output(*output);
  }
  plugin::TaskOutput* task_output() override { return shell_.task_output_; }
  broker::Instance* instance() override { return shell_.process_.instance.get(); }
  void set_expiration(double seconds) override {
    job::Resources& resources = shell_.job_.resources;
    resources.expiration = seconds;
    if (resources.document.contains("execution")) resources.document["execution"]["expiration"] = seconds;
  }
  value::Idset launcher_agrees() override { return shell_.launcher_agrees(); }
  plugin::LauncherTie* launcher_tie() override { return shell_.launcher_tie_ ? &*shell_.launcher_tie_ : nullptr; }

  // What the shell waits for.
  int hold(std::string_view name) override { return shell_.holds_.add(name); }
  Result<void> release(std::string_view name) override { return shell_.holds_.remove(name); }
  int hold_start(std::string_view name) override { return shell_.start_holds_.add(name); }
  Result<void> release_start(std::string_view name) override { return shell_.start_holds_.remove(name); }
  void start_after_all() override { shell_.starts_after_all_ = true; }

  // The job's record.
  void add_event_context(std::string_view event, const Json& members) override {
    shell_.events_.add_context(event, members);
  }
  const std::optional<std::string>& record_directory() const override { return shell_.config_.record_directory; }
  plugin::EventRecord& events() override { return shell_.events_.record(); }
  plugin::EventRecord& job_events() override { return shell_.events_.of_job(); }

  // Other shells.
  plugin::Registration gather(std::string_view name, std::string mine, WhenGathered done) override {
    return shell_.exchange_.gather(name, std::move(mine), std::move(done));
  }
  plugin::Registration gather_up_to(std::uint32_t last, std::string_view name, std::string mine,
                                    WhenGathered done) override {
    return shell_.exchange_.gather_up_to(last, name, std::move(mine), std::move(done));
  }
  std::uint32_t last_with_tasks() const override { return shell_.exchange_.last_with_tasks(); }
  Result<void> announce(std::string_view topic, std::string_view bytes) override {
    return shell_.exchange_.announce(topic, bytes);
  }
  plugin::Registration on_announcement(Receive receive) override {
    return shell_.exchange_.on_announcement(std::move(receive));
  }
  plugin::ShellMessages& messages() override { return shell_.exchange_.messages(); }
  void hold_links(const value::Idset& shells) override { shell_.exchange_.group().hold_links(shells); }
  plugin::Registration exec(value::ExecOrder order, WhenOrdered done) override {
    return shell_.exchange_.exec(std::move(order), std::move(done));
  }
  plugin::Registration on_exec(std::function<void(const value::ExecShare&)> receive) override {
    return shell_.exchange_.on_exec(std::move(receive));
  }
  bulk::Port* bulk() override { return shell_.exchange_.group().bulk(); }
  Result<std::string> derived_secret(std::string_view purpose) override {
    return TRY(shell_.exchange_.group().secret())->derive(purpose);
  }

  // How many shells the job has.
  plugin::Registration shrink(const value::ShrinkOrder& order, WhenShrunk news) override {
    return shell_.shrink_.ask(order, std::move(news));
  }
  void offer_release(plugin::NodeRelease* release) override { shell_.shrink_.offer_release(release); }
  void grow(const value::GrowOrder& order, const WhenGrown& news) override { shell_.grow_.grow(order, news); }
  bool joined_late() const override { return shell_.process_.joins_late; }
  Replaced leave_out(const value::Idset& shells) override { return shell_.replace_.leave_out(shells); }
  void be_lost() override { ::kill(::getpid(), SIGKILL); }  // the guard removes what it leaves

  // The job's end.
  void raise(const plugin::RaisedException& exception) override { shell_.ending_.raise(exception); }
  void die(int exit_code, std::string_view component, std::string_view message) override {
    shell_.ending_.die(exit_code, component, message);
  }
  bool ending() const override { return shell_.end_.is_ending(); }
  bool is_cut_off() const override { return shell_.end_.is_cut_off(); }
  plugin::Registration on_ended(std::function<void(const Json& summary)> receive) override {
    return shell_.ending_.on_ended(std::move(receive));
  }
  std::optional<exits::TaskEnd> ended_by() const override {
    return shell_.end_.cause() ? shell_.end_.cause()->task : std::nullopt;
  }
  void set_first_failure(const exits::TaskEnd& first) override { shell_.end_.set_first(first); }

  timeline::Recorder& timeline() override { return shell_.process_.timeline; }
  Log& log() override { return shell_.log_; }
  event::Loop& loop() override { return *shell_.process_.loop; }
  event::Children& children() override { return *shell_.process_.children; }

 private:
  Shell& shell_;
};

std::unique_ptr<plugin::Host> make_host(Shell& shell) { return std::make_unique<ShellHost>(shell); }

}  // namespace nacre::core
