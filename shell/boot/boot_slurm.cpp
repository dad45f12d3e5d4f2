// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/text.hpp"
#include "boot/identity.hpp"
#include "boot/ways.hpp"
#include "launch/own_sockets.hpp"
#include "transport/agreed_ports.hpp"
#include "transport/credentials.hpp"

namespace nacre::boot {
namespace {

using group::Membership;
using group::Rank;

constexpr std::initializer_list<const char*> kSlurmVariables = {
    "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NODEID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"};

// A step, as one of its tasks sees it.
struct Step {
  value::JobId id;
  Rank rank = 0;
  std::uint32_t size = 1;
  value::Hostlist hosts;
};

Result<std::uint64_t> first_number(const Variables& variables, std::initializer_list<const char*> names,
                                   std::uint64_t most) {
  for (const char* name : names) {
    if (variables(name)) return number_of(variables, name, most);
  }
  return number_of(variables, *names.begin(), most);
}

Result<value::Hostlist> hosts_of(const Variables& variables) {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"}) {
    if (auto text = variables(name)) return in(name, value::Hostlist::parse(*text));
  }
  return Error{ENOENT, "SLURM_STEP_NODELIST is not set"};
}

Result<Step> step_of(const Variables& variables) {
  Step out;
  std::uint64_t job = TRY(first_number(variables, {"SLURM_JOB_ID", "SLURM_JOBID"}, UINT32_MAX));
  std::uint64_t step = TRY(first_number(variables, {"SLURM_STEP_ID", "SLURM_STEPID"}, UINT32_MAX));
  out.id = value::JobId(job << 32 | step);
  out.size = static_cast<std::uint32_t>(
      TRY(first_number(variables, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, Membership::kMaxShells)));
  out.rank = static_cast<Rank>(TRY(number_of(variables, "SLURM_PROCID", Membership::kMaxShells)));
  if (out.rank >= out.size)
    return invalid(fmt::format("SLURM_PROCID: {} is not below the {} tasks of the step", out.rank, out.size));
  out.hosts = TRY(hosts_of(variables));
  if (out.size == 1) return out;
  if (out.hosts.size() != out.size) {
    return invalid(
        fmt::format("{} tasks on {} nodes, but there is one shell a node: give srun --ntasks-per-node=1, and no "
                    "other number of tasks",
                    out.size, out.hosts.size()));
  }
  if (variables("SLURM_NODEID") && TRY(number_of(variables, "SLURM_NODEID", Membership::kMaxShells)) != out.rank) {
    return invalid("the tasks are not in the order of the nodes: give srun --distribution=block");
  }
  return out;
}

// The addresses of a shell that has bound the first free one of its ports.
group::Directory::Otherwise agreed_places(const transport::Secret& secret, const value::Hostlist& hosts) {
  // shared, as a std::function has to be copyable
  auto own = std::make_shared<const transport::Secret>(secret.copy());
  return [own, hosts](Rank rank) {
    std::vector<transport::Address> out;
    auto host = hosts.nth(rank);
    auto ports = transport::agreed_ports(*own, rank);
    if (!host || !ports) return out;
    for (std::uint16_t port : *ports) out.push_back({*host, port, ""});
    return out;
  };
}

Result<Membership> join_step(const BootRequest& request, const Step& step, transport::Secret secret) {
  launch::OwnSockets own =
      TRY(launch::bind_own_sockets(std::nullopt, TRY(transport::agreed_ports(secret, step.rank))));
  Membership out{request.version, step.id, step.rank, step.size, request.arity, std::move(secret), {}, {}, {}, {}};
  own.move_to(out);
  out.directory.set_otherwise(agreed_places(out.secret, step.hosts));
  return out;
}

Result<launch::LaunchInput> secret_of(const BootRequest& request, const Step& step) {
  if (request.secret_file)
    return launch::LaunchInput{
        TRY(in("--secret-file", transport::Secret::from_file(*request.secret_file))), {}, {}};
  if (request.way == Way::slurm) {
    // meanwhile: srun's standard input comes some milliseconds after the start
    if (step.size > 1) transport::prepare_tls();
    return launch::read_launch_input(request.input, request.timeout);
  }
  return Error{
      ENOKEY,
      fmt::format("this is task {} of {} of a step of Slurm, which has no secret in common with the others: start "
                  "it by `nacre launch --srun`, or by srun --mpi=pmi2, or give --secret-file=FILE; or "
                  "--standalone",
                  step.rank, step.size)};
}

Result<Boot> join(const BootRequest& request, Step step) {
  launch::LaunchInput input = TRY(secret_of(request, step));
  Boot out;
  out.way = Way::slurm;
  out.how = fmt::format("slurm: SLURM_PROCID and SLURM_STEP_ID are set: shell {} of {}, the secret is from {}",
                        step.rank, step.size, request.secret_file ? *request.secret_file : "standard input");
  BootRequest own = request;
  if (input.record) {
    if (input.record->size != step.size) {
      return invalid(
          fmt::format("the launch record is for {} shells, the step has {} tasks", input.record->size, step.size));
    }
    input.record->rank = step.rank;
    input.record->hosts = step.hosts.part(0, step.size);
    step.id = input.record->job;
    own.arity = input.record->arity;
    out.launcher = TRY(launch::take_input(request.input));
    out.launcher_bytes = std::move(input.behind);
    out.record = std::move(input.record);
  } else if (request.id) {
    step.id = *request.id;
  }
  out.id = step.id;
  if (step.size > 1) out.membership = TRY(join_step(own, step, std::move(input.secret)));
  return out;
}

}  // namespace

Result<Boot> boot_by_slurm(const BootRequest& request) {
  auto step = step_of(request.variables);
  if (!step) {
    return Error{step.error().code,
                 fmt::format("--boot=slurm: {} (seen: {}); srun has to start this shell, see nacre-boot(7)",
                             step.error().message, seen_of(request.variables, kSlurmVariables))};
  }
  // A single shell needs no secret; but if this way was requested there may be a record.
  bool asked = request.way == Way::slurm;
  if (step->size > 1 || (asked && !request.secret_file)) return in("--boot=slurm", join(request, *step));
  Boot out;
  out.way = Way::slurm;
  out.how = "slurm: SLURM_PROCID and SLURM_STEP_ID are set: the step has one task";
  out.id = request.id.value_or(step->id);
  return out;
}

}  // namespace nacre::boot
