// SPDX-License-Identifier: Apache-2.0
//
// The shell as its plugins see it.
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "core/shell_host.hpp"
#include "event/clock.hpp"

namespace nacre::core {
namespace {

std::string own_host_name() {
  utsname names{};
  ::uname(&names);
  return names.nodename;
}

template <typename Holds>
int add_to(Holds& holds, std::string_view name) {
  auto it = holds.find(name);
  if (it == holds.end()) it = holds.emplace(std::string(name), 0).first;
  return ++it->second;
}

template <typename Holds>
Result<void> take_from(Holds& holds, std::string_view name) {
  auto it = holds.find(name);
  if (it == holds.end()) return Error{ENOENT, fmt::format("no completion reference '{}'", name)};
  if (--it->second == 0) holds.erase(it);
  return {};
}

}  // namespace

ShellHost::ShellHost(join::ShellProcess& process, bool standalone, job::Job&& job, job::Options&& options,
                     ShellConfig&& config, Log& log)
    : process_(process),
      group_(process.group.get()),
      log_(log),
      config_(std::move(config)),
      standalone_(standalone),
      job_(std::move(job)),
      options_(std::move(options)),
      shell_messages_(job_.shell_rank, job_.shells(),
                      [this](std::string_view topic, std::string_view bytes) { return announce(topic, bytes); }) {
  if (!has_siblings() && group_->bulk() == nullptr) shell_messages_.cut_off();
  if (process.detachment) launched_.emplace(*this, process, config_.detaches);
  for (const auto& [name, value] : job_.spec.environment) environment_.set(name, value);
  job::set_job_variables(environment_, job_, "");
  // It came from the host where the job was submitted.
  if (environment_.get("HOSTNAME")) environment_.set("HOSTNAME", own_host_name());
}

void ShellHost::offer_output(plugin::TaskOutput* output) {
  task_output_ = output;
  if (output != nullptr && launched_) launched_->offer_output(*output);
}

Json ShellHost::info() const {
  return Json{{"jobid", job_.id.value()},
              {"instance_owner", ::getuid()},
              {"rank", job_.shell_rank},
              {"size", job_.shells()},
              {"ntasks", job_.tasks()},
              {"service", fmt::format("{}-shell-{}", ::getuid(), job_.f58())},
              {"options", {{"verbose", config_.verbose > 0}, {"standalone", standalone_}}},
              {"jobspec", job_.spec.document},
              {"R", taken_document(job_.resources)}};
}

plugin::Registration ShellHost::signal_also(std::function<void(int)> processes) {
  return signalled_also_.add(std::move(processes));
}

int ShellHost::hold(std::string_view name) {
  int count = add_to(holds_, name);
  if (count == 1) process_.timeline.add(timeline::Kind::end_hold_begins, name);
  return count;
}

int ShellHost::hold_start(std::string_view name) {
  int count = add_to(start_holds_, name);
  if (count == 1) process_.timeline.add(timeline::Kind::hold_begins, name);
  return count;
}

Result<void> ShellHost::release(std::string_view name) {
  CHECK_OK(take_from(holds_, name));
  if (process_.timeline.is_on() && holds_.find(name) == holds_.end())
    process_.timeline.add(timeline::Kind::end_hold_ends, name);
  return {};
}

Result<void> ShellHost::release_start(std::string_view name) {
  CHECK_OK(take_from(start_holds_, name));
  if (process_.timeline.is_on() && start_holds_.find(name) == start_holds_.end())
    process_.timeline.add(timeline::Kind::hold_ends, name);
  return {};
}

void ShellHost::add_event_context(std::string_view event, const Json& members) {
  auto it = event_context_.find(event);
  if (it == event_context_.end()) it = event_context_.emplace(std::string(event), Json::object()).first;
  if (members.is_object()) it->second.update(members);
}

plugin::Registration ShellHost::gather(std::string_view name, std::string mine, WhenGathered done) {
  auto pending = gathers_.add(std::move(done));
  group_->gather(name, std::move(mine), std::move(pending.receive));
  return std::move(pending.registration);
}

plugin::Registration ShellHost::gather_up_to(std::uint32_t last, std::string_view name, std::string mine,
                                             WhenGathered done) {
  auto pending = gathers_.add(std::move(done));
  group_->gather_up_to(last, name, std::move(mine), std::move(pending.receive));
  return std::move(pending.registration);
}

std::uint32_t ShellHost::last_with_tasks() const {
  std::uint32_t last = job_.shells() - 1;
  while (last > 0 && job_.taskmap.ranks_on(last).empty()) --last;
  return group_->last_come_with(last);
}

Result<void> ShellHost::announce(std::string_view topic, std::string_view bytes) {
  return group_->announce(topic, bytes);
}

plugin::Registration ShellHost::on_announcement(Receive receive) { return announced_to_.add(std::move(receive)); }

plugin::Registration ShellHost::exec(value::ExecOrder order, WhenOrdered done) {
  auto pending = orders_.add(std::move(done));
  group_->exec(std::move(order), std::move(pending.receive));
  return std::move(pending.registration);
}

plugin::Registration ShellHost::on_exec(std::function<void(const value::ExecShare&)> receive) {
  return ordered_to_.add(std::move(receive));
}

// A plan that is only printed leaves no record.
Result<void> ShellHost::open_record() {
  bool runs = !config_.explain && !config_.explain_plugins;
  if (auto& directory = config_.record_directory; directory && runs) {
    if (::mkdir(directory->c_str(), 0777) < 0 && errno != EEXIST) {
      return system_error(errno, "--record-dir: " + *directory);
    }
    std::error_code failed;
    *directory = std::filesystem::absolute(*directory, failed).native();
    if (failed) return system_error(failed.value(), "cannot find the working directory");
    if (!config_.eventlog) config_.eventlog = *directory + "/guest.exec.eventlog";
  }
  bool records = job_.shell_rank == 0 || !has_siblings();
  if (config_.eventlog && records) eventlog_ = TRY(group::EventLog::create(*config_.eventlog));
  return {};
}

Result<void> ShellHost::post(std::string_view event, Json context) {
  auto added = event_context_.find(event);
  if (added != event_context_.end()) context.update(added->second);
  double now = event::wall_clock();
  if (eventlog_) {
    Result<void> written = eventlog_->append(now, event, context);
    if (!written) eventlog_.reset();  // the error is logged once
    CHECK_OK(std::move(written));
  }
  events_.add({{"timestamp", now}, {"name", event}, {"context", std::move(context)}});
  return {};
}

}  // namespace nacre::core
