// SPDX-License-Identifier: Apache-2.0
#include "base/print.hpp"
#include "boot/boot.hpp"
#include "boot/identity.hpp"
#include "boot/index_keys.hpp"
#include "boot/pod.hpp"
#include "job/job.hpp"
#include "launch/own_sockets.hpp"
#include "launch/record.hpp"
#include "transport/secret.hpp"
#include "value/wait_status.hpp"

namespace nacre::boot {
namespace {

constexpr std::initializer_list<const char*> kIndexVariables = {
    "NACRE_SIZE",    "NACRE_INDEX",      "JOB_COMPLETION_INDEX", "NACRE_LEADER",
    "NACRE_PORT",    "LWS_WORKER_INDEX", "LWS_GROUP_SIZE",       "LWS_LEADER_ADDRESS",
    "PET_NODE_RANK", "PET_NNODES",       "PET_MASTER_ADDR",      job::kShellMark};

Result<Pod> need_pod(const BootRequest& request) {
  auto pod = TRY(pod_of(request.variables));
  if (pod) return *std::move(pod);
  return Error{
      ENOENT,
      fmt::format("the variables speak of no group of pods (seen: {}): set NACRE_SIZE in an indexed Job, see "
                  "nacre-boot(7)",
                  seen_of(request.variables, kIndexVariables))};
}

Result<transport::Secret> secret_of_pods(const std::string& file) {
  auto secret = transport::Secret::from_mounted_file(file);
  if (secret) return secret;
  return Error{
      secret.error().code,
      fmt::format("the secret of the pods: {}: mount a Secret of Kubernetes there, or let NACRE_SECRET_FILE "
                  "name its file; nacre run --local=1 needs none, as its job is this pod alone",
                  secret.error().message)};
}

// As pid 1 it would outlive the signal.
[[noreturn]] void end_by(int signum, const Error& why) {
  print_err("nacre-shell: {}\n", why.message);
  std::exit(value::kSignalBase + signum);
}

// What is known before others are asked.
struct Found {
  Pod pod;
  BootRequest request;
  std::optional<launch::LaunchRecord> record;
  std::optional<IndexGroup> group;  // none: there is one pod
};

Result<Found> find_group(const BootRequest& request) {
  Found out;
  out.pod = TRY(need_pod(request));
  out.request = request;
  if (has_own_record(request)) {
    out.record = TRY(own_record(request));
    if (out.record->size != out.pod.size)
      return invalid(fmt::format("the launch record: size: {} shells, and {} pods by {}", out.record->size,
                                 out.pod.size, out.pod.size_source));
    out.request.id = out.record->job;
    out.request.arity = out.record->arity;
    out.pod.timeout = out.record->timeout;
  }
  if (out.pod.size == 1) return out;
  const std::string file = request.secret_file.value_or(pod_secret_file(request.variables));
  out.group.emplace(IndexGroup{out.pod, TRY(secret_of_pods(file)), file, request.version});
  return out;
}

// The job runs, and takes this pod in the place of one that was lost: nobody waits for it.
Result<Boot> boot_by_lines(const BootRequest& request, std::string lines, const Pod& pod) {
  const std::size_t end = std::min(lines.find('\n'), lines.size());
  auto secret = transport::Secret::from_hex(std::string_view(lines).substr(0, end));
  auto record = launch::LaunchRecord::parse(trim(std::string_view(lines).substr(end)));
  transport::wipe(lines);
  Boot out;
  out.way = Way::index;
  out.record = TRY(std::move(record));
  out.id = out.record->job;
  out.how = fmt::format("index: the job runs, and takes the pod with index {} as shell {}", pod.index,
                        out.record->rank.value_or(0));
  launch::OwnSockets own =
      TRY(launch::bind_own_sockets(temporary_directory(request.variables), {}, launch::HostNames::none));
  out.membership = TRY(membership_of(request, *out.record, TRY(std::move(secret)), std::move(own)));
  return out;
}

Result<Boot> come_together(const BootRequest& request, IndexGroup group) {
  const Pod pod = group.pod;
  const std::string seen = fmt::format("{} and {} are set, and shell 0 is at {} by {}", pod.index_source,
                                       pod.size_source, pod.leader.text(), pod.leader_source);
  IndexGroup later = group.copy();
  auto keys = TRY(in("--boot=index", open_index_keys(std::move(group))));
  auto out = boot_by_keys(request, *keys, Way::index, seen.c_str());
  if (keys->ended_by()) end_by(*keys->ended_by(), out ? Error{ECANCELED, "ended"} : out.error());
  if (std::string lines = keys->take_late(); !lines.empty())
    out = in("--boot=index", boot_by_lines(request, std::move(lines), pod));
  if (!out) return out;
  // From here on a signal waits until the shell watches for it.
  out->held = std::make_unique<EndingSignalsHeld>();
  if (pod.keeps_port) out->later = std::make_unique<IndexGroup>(std::move(later));
  return out;
}

Boot boot_one_pod(const Found& found) {
  Boot out;
  out.way = Way::index;
  out.id = found.request.id.value_or(new_job_id());
  out.how = fmt::format("index: {} is 1: one pod", found.pod.size_source);
  return out;
}

}  // namespace

Result<Boot> boot_by_index(const BootRequest& request) {
  Found found = TRY(in("--boot=index", find_group(request)));
  Boot out = found.group ? TRY(come_together(found.request, *std::move(found.group))) : boot_one_pod(found);
  if (!out.record) out.record = std::move(found.record);
  if (!out.record) return out;
  if (!out.record->rank) out.record->rank = found.pod.index;
  out.record->job = out.id;  // those of shell 0 count for all
  if (out.membership) out.record->arity = out.membership->arity;
  return out;
}

}  // namespace nacre::boot
