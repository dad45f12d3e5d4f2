// SPDX-License-Identifier: Apache-2.0
#include "boot/boot.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/print.hpp"
#include "boot/identity.hpp"
#include "boot/index_keys.hpp"
#include "boot/pmi_session.hpp"
#include "boot/pmix_keys.hpp"
#include "boot/pod.hpp"
#include "event/clock.hpp"
#include "group/first_words.hpp"
#include "launch/own_sockets.hpp"
#include "transport/address.hpp"
#include "transport/dialer.hpp"

namespace nacre::boot {
namespace {

constexpr std::array<std::pair<std::string_view, Way>, 8> kWays{{{"auto", Way::automatic},
                                                                 {"standalone", Way::standalone},
                                                                 {"pmi", Way::pmi},
                                                                 {"pmix", Way::pmix},
                                                                 {"slurm", Way::slurm},
                                                                 {"hosts", Way::hosts},
                                                                 {"index", Way::index},
                                                                 {"flux", Way::flux}}};

Boot boot_alone(const BootRequest& request) {
  Boot out;
  out.id = request.id.value_or(new_job_id());
  out.how = "standalone: it was asked for";
  return out;
}

bool has(const BootRequest& request, const char* name) { return request.variables(name).has_value(); }

// Where a program between has closed the descriptor, its number is left from another start.
bool has_pmi(const BootRequest& request) {
  auto number = parse_u64(request.variables("PMI_FD").value_or(""));
  return number && *number <= INT_MAX && ::fcntl(static_cast<int>(*number), F_GETFD) >= 0;
}

Result<Boot> choose(const BootRequest& request) {
  // Before PMI, which the program that has started the instance may have left in the environment.
  if (request.id && has(request, "FLUX_URI") && has(request, "FLUX_KVS_NAMESPACE")) return boot_by_flux(request);
  if (has_pmi(request)) return boot_by_pmi(request);
  std::string others = fmt::format("pmi: PMI_FD is {}", has(request, "PMI_FD") ? "no open descriptor" : "not set");
  if (has(request, "PMIX_NAMESPACE") && has(request, "PMIX_RANK")) {
    Boot out = TRY(boot_by_pmix(request));
    out.how += fmt::format("; not {}", others);
    return out;
  }
  others +=
      fmt::format("; not pmix: {} is not set", has(request, "PMIX_NAMESPACE") ? "PMIX_RANK" : "PMIX_NAMESPACE");
  // A batch script has the first variable without the second.
  if (has(request, "SLURM_PROCID") && has(request, "SLURM_STEP_ID")) {
    Boot out = TRY(boot_by_slurm(request));
    out.how += fmt::format("; not {}", others);
    return out;
  }
  others +=
      fmt::format("; not slurm: {} is not set", has(request, "SLURM_PROCID") ? "SLURM_STEP_ID" : "SLURM_PROCID");
  if (TRY(in("--boot=auto", pod_of(request.variables)))) {
    Boot out = TRY(boot_by_index(request));
    out.how += fmt::format("; not {}", others);
    return out;
  }
  Boot out = boot_alone(request);
  out.how = fmt::format("standalone: no sign of other shells; not {}; not index: no variables of a pod", others);
  return out;
}

}  // namespace

// Here, as the header knows no more of IndexGroup than its name.
Boot::Boot() = default;
Boot::Boot(Boot&&) noexcept = default;
Boot& Boot::operator=(Boot&&) noexcept = default;
Boot::~Boot() = default;

std::string_view way_name(Way way) {
  for (const auto& [name, each] : kWays) {
    if (each == way) return name;
  }
  return "?";
}

Result<Way> parse_way(std::string_view name) {
  for (const auto& [known, way] : kWays) {
    if (known == name) return way;
  }
  return invalid(
      fmt::format("expected auto, standalone, pmi, pmix, slurm, hosts, index or flux, got {}", in_quotes(name)));
}

namespace {

Result<Boot> boot_by_way(const BootRequest& request) {
  if (has_own_record(request) && request.way != Way::index) return boot_by_own_record(request);
  switch (request.way) {
    case Way::standalone: return boot_alone(request);
    case Way::pmi: return boot_by_pmi(request);
    case Way::pmix: return boot_by_pmix(request);
    case Way::slurm: return boot_by_slurm(request);
    case Way::hosts: return boot_by_record(request);
    case Way::index: return boot_by_index(request);
    case Way::flux: return boot_by_flux(request);
    case Way::automatic: break;
  }
  return choose(request);
}

}  // namespace

Result<Boot> boot(const BootRequest& request) {
  CHECK_OK(check_arity(request.arity));
  Boot out = TRY(boot_by_way(request));
  if (!out.record) return out;
  // Over ssh a shell has a login's environment, and its umask. The user's files are where the launcher's
  // environment has them.
  for (const auto& [name, value] : out.record->environment) ::setenv(name.c_str(), value.c_str(), 1);
  if (out.record->umask) ::umask(*out.record->umask);
  return out;
}

// ---- shared by the ways --------------------------------------------------------

Result<std::uint64_t> number_of(const Variables& variables, const char* name, std::uint64_t most) {
  auto text = variables(name);
  if (!text) return Error{ENOENT, fmt::format("{} is not set", name)};
  auto number = parse_u64(*text);
  if (number && *number <= most) return *number;
  return invalid(fmt::format("{}: expected a number up to {}, got {}", name, most, in_quotes(*text)));
}

std::string seen_of(const Variables& variables, std::initializer_list<const char*> names) {
  std::string seen;
  std::string all;
  for (const char* name : names) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", name);
    if (auto value = variables(name))
      seen += fmt::format("{}{}={}", seen.empty() ? "" : ", ", name, in_quotes(*value));
  }
  return seen.empty() ? "none of " + all : seen;
}

std::string temporary_directory(const Variables& variables) {
  auto directory = variables("TMPDIR");
  return directory && !directory->empty() ? *directory : "/tmp";
}

std::vector<group::Rank> ancestors_of(group::Rank rank, std::uint32_t arity) {
  std::vector<group::Rank> out;
  while (rank > 0) out.push_back(rank = (rank - 1) / arity);
  return out;
}

Result<void> check_arity(std::uint32_t arity) {
  if (arity >= 2 && arity <= launch::LaunchRecord::kMaxArity) return {};
  return invalid(fmt::format("the arity of the tree of shells: expected 2 to {}, got {}",
                             launch::LaunchRecord::kMaxArity, arity));
}

// ---- boot hosts -------------------------------------------------------------------------

namespace {

using group::Membership;
using group::Rank;

Result<launch::OwnSockets> bind_sockets(const BootRequest& request, const launch::LaunchRecord& record) {
  std::string directory = temporary_directory(request.variables);
  return record.agent.empty() ? launch::bind_local_sockets(directory) : launch::bind_own_sockets(directory);
}

Result<Boot> read_and_join(const BootRequest& request) {
  launch::LaunchInput input = TRY(launch::read_launch_input(request.input, request.timeout));
  if (!input.record) return invalid("standard input has ended after the secret: the launch record is missing");
  if (!input.record->rank) return invalid("the launch record: rank: expected this shell's, as no manager gives it");
  Boot out;
  out.way = Way::hosts;
  out.how = fmt::format("hosts: --boot=hosts was given: shell {} of {}", *input.record->rank, input.record->size);
  out.id = input.record->job;
  out.launcher = TRY(launch::take_input(request.input));
  out.launcher_bytes = std::move(input.behind);
  if (input.record->size > 1 || input.record->growth)
    out.membership = TRY(
        membership_of(request, *input.record, std::move(input.secret), TRY(bind_sockets(request, *input.record))));
  out.record = std::move(input.record);
  return out;
}

Result<Boot> take_own_record(const BootRequest& request) {
  auto record = TRY(own_record(request));
  if (record.size != 1)
    return invalid(fmt::format("the launch record: size: expected 1, got {}: others need a secret", record.size));
  Boot out;
  out.way = Way::hosts;
  out.how = "hosts: nacre run has become this shell: shell 0 of 1";
  out.id = record.job;
  out.record = std::move(record);
  return out;
}

}  // namespace

Result<Membership> membership_of(const BootRequest& request, const launch::LaunchRecord& record,
                                 transport::Secret secret, launch::OwnSockets own) {
  Membership out{request.version,   record.job, *record.rank, record.size, record.arity,
                 std::move(secret), {},         {},           {},          {}};
  std::string mark = transport::host_mark();
  out.is_newcomer = record.growth.has_value();
  out.leader = record.leader;
  for (const auto& [rank, addresses] : record.addresses) {
    if (out.is_newcomer) CHECK_OK(out.directory.set(rank, transport::usable_on(mark, addresses)));
  }
  for (Rank each :
       out.is_newcomer ? std::vector<Rank>{record.leader.value_or(0)} : ancestors_of(out.rank, out.arity)) {
    auto known = record.addresses.find(each);
    if (known == record.addresses.end()) {
      return invalid(
          fmt::format("the launch record: addresses: shell {} is above this one, and is not there", each));
    }
    CHECK_OK(out.directory.set(each, transport::usable_on(mark, known->second)));
  }
  own.move_to(out);
  return out;
}

Result<launch::LaunchRecord> own_record(const BootRequest& request) {
  if (const auto* given = std::get_if<const launch::LaunchRecord*>(&request.record)) return **given;
  const int descriptor = std::get<int>(request.record);
  const UniqueFd fd(descriptor);
  ::lseek(descriptor, 0, SEEK_SET);  // it stands where who has written it has stopped
  std::string text = TRY(read_file(descriptor, fmt::format("descriptor {} cannot be read", descriptor),
                                   launch::LaunchRecord::kMaxLine));
  return launch::LaunchRecord::parse(trim(text));
}

Result<Boot> boot_by_own_record(const BootRequest& request) {
  return in("--launch-record", take_own_record(request));
}

Result<Boot> boot_by_record(const BootRequest& request) { return in("--boot=hosts", read_and_join(request)); }

// ---- boot keys --------------------------------------------------------------------------

namespace {

using group::Membership;
using group::Rank;

constexpr const char* kShellKey = "nacre.shell";
constexpr const char* kJobKey = "nacre.job";

// The manager's, if it gives one.
value::JobId job_id(const BootRequest& request) {
  if (request.id) return *request.id;
  if (auto text = request.variables("FLUX_JOB_ID")) {
    if (auto id = value::JobId::parse(*text)) return *id;
  }
  return new_job_id();
}

Result<void> announce_job(Keys& keys, const BootRequest& request) {
  auto secret = TRY(transport::Secret::generate());
  Json job{{"version", request.version},
           {"protocol", group::kProtocol},
           {"jobid", job_id(request).f58_plain()},
           {"arity", request.arity},
           {"secret", secret.hex()}};
  std::string text = dump_json(job);
  transport::wipe(job["secret"].get_ref<std::string&>());
  Result<void> put = keys.put(kJobKey, text);
  transport::wipe(text);
  return put;
}

Result<Membership> read_job(const std::string& text, const Keys& keys, const std::string& version) {
  Json json = TRY(parse_json(text));
  JsonAt job = JsonAt::root(json);
  auto protocol = TRY(TRY(job.at("protocol")).integer(0, UINT32_MAX));
  if (protocol != group::kProtocol) {
    return invalid(
        fmt::format("shell 0 is of nacre {} and speaks protocol {}, this shell is of {} and speaks {}: the same "
                    "version has to be installed on all hosts",
                    in_quotes(TRY(TRY(job.at("version")).string())), protocol, version, group::kProtocol));
  }
  auto id = TRY(value::JobId::parse(TRY(TRY(job.at("jobid")).string())));
  auto arity = static_cast<std::uint32_t>(TRY(TRY(job.at("arity")).integer(2, launch::LaunchRecord::kMaxArity)));
  std::string hex = TRY(TRY(job.at("secret")).string());
  auto secret = transport::Secret::from_hex(hex);
  transport::wipe(hex);
  transport::wipe(json["secret"].get_ref<std::string&>());
  transport::Secret known = TRY(std::move(secret));  // before the braces: see group/codec.cpp
  return Membership{version, id, keys.rank(), keys.size(), arity, std::move(known), {}, {}, {}, {}};
}

Result<Membership> exchange(Keys& keys, const BootRequest& request) {
  auto names = keys.resolves_names() ? launch::HostNames::first : launch::HostNames::none;
  launch::OwnSockets own = TRY(launch::bind_own_sockets(temporary_directory(request.variables), {}, names));
  CHECK_OK(keys.put(kShellKey, own.address));
  if (keys.rank() == 0) CHECK_OK(announce_job(keys, request));
  CHECK_OK(keys.barrier());
  std::string text = TRY(keys.get(0, kJobKey));
  Result<Membership> read = in("the key of shell 0", read_job(text, keys, request.version));
  transport::wipe(text);
  Membership out = TRY(std::move(read));
  std::string mark = transport::host_mark();
  for (Rank each : ancestors_of(out.rank, out.arity)) {
    std::string addresses = TRY(keys.get(each, kShellKey));
    CHECK_OK(out.directory.set(each, transport::usable_on(mark, addresses)));
  }
  own.move_to(out);
  return out;
}

}  // namespace

Result<Boot> boot_by_keys(const BootRequest& request, Keys& keys, Way way, const char* seen) {
  Boot out;
  out.way = way;
  out.how = fmt::format("{}: {}: shell {} of {}", way_name(way), seen, keys.rank(), keys.size());
  out.id = job_id(request);
  if (keys.size() > 1) {
    out.membership = TRY(in(fmt::format("--boot={}", way_name(way)), exchange(keys, request)));
    out.id = out.membership->job;
  }
  CHECK_OK(keys.finish());
  return out;
}

// ---- boot pmi ---------------------------------------------------------------------------

namespace {

constexpr std::initializer_list<const char*> kPmiVariables = {
    "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMIX_NAMESPACE", "PMIX_RANK", "FLUX_JOB_ID", "SLURM_PROCID"};

// All processes share one space of keys, so each key has its owner's rank in its name.
class PmiKeys final : public Keys {
 public:
  explicit PmiKeys(PmiSession session) : session_(std::move(session)) {}

  [[nodiscard]] std::uint32_t rank() const override { return session_.rank(); }
  [[nodiscard]] std::uint32_t size() const override { return session_.size(); }
  Result<void> put(std::string_view key, std::string_view value) override {
    return session_.put_long(owned(rank(), key), value);
  }
  Result<void> barrier() override {
    auto server = session_.server();
    if (!server || !is_hydra_proxy(*server)) return session_.barrier();
    auto mapping = session_.get("PMI_process_mapping");
    auto count = mapping ? proxies_in_mapping(*mapping) : std::nullopt;
    if (!count) return session_.barrier();
    std::optional<HydraProxies> proxies;
    std::optional<Error> known;
    return session_.barrier([&]() -> std::optional<Error> {
      // Reports it only at the next look, as otherwise Hydra, which then kills this shell, may not have read the
      // line below.
      if (known) return known;
      if (!proxies) proxies = HydraProxies::find(*server, *count);
      auto why = proxies ? proxies->look(event::clock_now().count()) : std::nullopt;
      if (!why) return std::nullopt;
      print_err("nacre-shell: --boot=pmi: {}\n", *why);
      known = Error{ECHILD, *why, true};
      return std::nullopt;
    });
  }
  Result<std::string> get(std::uint32_t owner, std::string_view key) override {
    return session_.get_long(owned(owner, key));
  }
  Result<void> finish() override { return session_.finalize(); }

 private:
  static std::string owned(std::uint32_t owner, std::string_view key) { return fmt::format("{}.{}", key, owner); }
  PmiSession session_;
};

}  // namespace

Result<Boot> boot_by_pmi(const BootRequest& request) {
  auto session = PmiSession::open(request.variables, request.timeout);
  if (!session) {
    return Error{
        session.error().code,
        fmt::format("--boot=pmi: {} (seen: {}); a manager with a PMI-1 server has to start this shell, as Hydra, "
                    "Flux and `srun --mpi=pmi2` do; --standalone needs none",
                    session.error().message, seen_of(request.variables, kPmiVariables))};
  }
  PmiKeys keys(std::move(*session));
  return boot_by_keys(request, keys, Way::pmi, "PMI_FD is set");
}

// ---- boot slurm -------------------------------------------------------------------------

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

namespace {

constexpr std::initializer_list<const char*> kPmixVariables = {"PMIX_NAMESPACE",   "PMIX_RANK", "PMIX_SERVER_URI41",
                                                               "PMIX_SERVER_URI4", "PMI_FD",    "SLURM_PROCID"};

Error with_remedy(const BootRequest& request, const Error& why) {
  return Error{
      why.code,
      fmt::format("--boot=pmix: {} (seen: {}); a manager with a PMIx server has to start this shell, as PRRTE, "
                  "Open MPI's mpirun and `srun --mpi=pmix` do; --standalone needs none",
                  why.message, seen_of(request.variables, kPmixVariables))};
}

}  // namespace

Result<Boot> boot_by_pmix(const BootRequest& request) {
  for (const char* name : {"PMIX_NAMESPACE", "PMIX_RANK"}) {
    // Without these the library would look for any server of the user.
    if (!request.variables(name)) return with_remedy(request, Error{ENOENT, fmt::format("{} is not set", name)});
  }
  auto keys = open_pmix_keys();
  if (!keys) return with_remedy(request, keys.error());
  return boot_by_keys(request, **keys, Way::pmix, "PMIX_NAMESPACE is set");
}

}  // namespace nacre::boot
