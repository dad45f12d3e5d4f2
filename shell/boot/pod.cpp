// SPDX-License-Identifier: Apache-2.0
#include "boot/pod.hpp"

#include <netdb.h>

#include "base/program.hpp"
#include "base/text.hpp"
#include "boot/boot.hpp"
#include "job/job.hpp"
#include "launch/record.hpp"

namespace nacre::boot {
namespace {

constexpr std::uint64_t kMostPods = group::Membership::kMaxShells;
constexpr std::size_t kMaxName = 253;  // bytes of a name in the DNS

constexpr const char* kJobIndex = "JOB_COMPLETION_INDEX";
constexpr const char* kOwnIndex = "NACRE_INDEX";
constexpr const char* kWorkersLeader = "LWS_LEADER_ADDRESS";

bool has(const Variables& variables, const char* name) { return variables(name).value_or("") != ""; }

// `setter`: what sets it, for people in whose pod it is missing.
Result<std::uint32_t> count_of(const Variables& variables, const char* name, std::uint64_t least,
                               const char* setter) {
  auto text = variables(name).value_or("");
  if (text.empty()) return Error{ENOENT, fmt::format("{} is not set: {}", name, setter)};
  auto number = parse_u64(text);
  if (number && *number >= least && *number <= kMostPods) return static_cast<std::uint32_t>(*number);
  return invalid(
      fmt::format("{}: expected a number from {} to {}, got {}", name, least, kMostPods, in_quotes(text)));
}

Result<void> check_index(const Pod& pod) {
  if (pod.index < pod.size) return {};
  return invalid(fmt::format("{}: {} is not below {}, which {} has: the indices of the pods are 0 to {}",
                             pod.index_source, pod.index, pod.size, pod.size_source, pod.size - 1));
}

bool is_host(std::string_view text) {
  bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~' && c != ',' && c != '/'; });
  return plain && !text.empty() && text.size() <= kMaxName;
}

// ---- names -------------------------------------------------------------------------------

// "SET-RJOB-JOB-POD.DOMAIN", or "NAME-POD.DOMAIN": what Kubernetes names the pods of an indexed Job.
struct PodName {
  std::string job;     // "SET-RJOB-JOB", "NAME"
  std::string domain;  // with its dot; "": none
  std::string pod;
};

std::optional<PodName> parse_pod_name(const std::string& full) {
  PodName out;
  std::size_t dot = std::min(full.find('.'), full.size());
  std::size_t dash = full.substr(0, dot).rfind('-');
  if (dash == std::string::npos || dash == 0) return std::nullopt;
  out.job = full.substr(0, dash);
  out.pod = full.substr(dash + 1, dot - dash - 1);
  out.domain = full.substr(dot);
  return out;
}

// Finds this pod's index among all pods of a JobSet with several equal Jobs.
Result<void> count_jobs(const Variables& variables, const std::string& own, PodName& name, Pod& pod) {
  if (!has(variables, "NACRE_JOBS")) return {};
  std::uint32_t jobs = TRY(count_of(variables, "NACRE_JOBS", 1, ""));
  if (pod.size % jobs != 0)
    return invalid(
        fmt::format("NACRE_JOBS: {} Jobs cannot have {} pods, which NACRE_SIZE has, evenly", jobs, pod.size));
  std::size_t dash = name.job.rfind('-');
  auto number = dash != std::string::npos ? parse_u64(name.job.substr(dash + 1)) : std::nullopt;
  const std::uint32_t each = pod.size / jobs;
  if (!number || *number >= jobs || pod.index >= each)
    return invalid(
        fmt::format("NACRE_JOBS: the pod {} is none of {} Jobs with {} pods each: expected a name that "
                    "ends with -JOB-POD",
                    own, jobs, each));
  pod.jobs = jobs;
  pod.index += static_cast<std::uint32_t>(*number) * each;
  pod.index_source += " and the pod's name";
  name.job = name.job.substr(0, dash) + "-0";
  return {};
}

// The index among all Jobs, and the first pod's name, both by this pod's own name.
Result<void> take_name(const Variables& variables, const std::string& own, Pod& pod) {
  auto name = parse_pod_name(own);
  const bool is_this = name && parse_u64(name->pod) == pod.index;
  const bool counts = has(variables, "NACRE_JOBS") && pod.index_source == kJobIndex;
  if (counts && !is_this)
    return invalid(fmt::format("NACRE_JOBS: the pod {} has no name of a JobSet's, SET-RJOB-JOB-POD", own));
  if (counts) CHECK_OK(count_jobs(variables, own, *name, pod));
  if (pod.size == 1 || !pod.leader.host.empty()) return {};
  if (!is_this || name->domain.empty())
    return Error{
        ENOENT, fmt::format("NACRE_LEADER is not set, and the name of this pod, {}, does not tell the first one's: "
                            "give the pods a headless Service as their subdomain, or NACRE_LEADER the name of "
                            "the pod with index 0",
                            own)};
  pod.leader.host = name->job + "-0" + name->domain;
  pod.leader_source = "this pod's name";
  return {};
}

// ---- sets of variables ---------------------------------------------------------------------

Result<void> take_leader(const Variables& variables, const char* name, Pod& pod) {
  if (has(variables, "NACRE_LEADER")) name = "NACRE_LEADER";
  std::string host = variables(name).value_or("");
  if (host.empty()) return {};
  if (!is_host(host)) return invalid(fmt::format("{}: expected the name of a host, got {}", name, in_quotes(host)));
  pod.leader.host = std::move(host);
  pod.leader_source = name;
  return {};
}

// An index and a size that others set: all three variables are there, or none.
Result<Pod> pod_of_three(const Variables& variables, const char* index, const char* size, const char* leader,
                         const char* setter) {
  Pod out;
  out.index_source = index;
  out.size_source = size;
  out.index = TRY(count_of(variables, index, 0, setter));
  out.size = TRY(count_of(variables, size, 1, setter));
  CHECK_OK(check_index(out));
  CHECK_OK(take_leader(variables, leader, out));
  if (out.size > 1 && out.leader.host.empty())
    return Error{ENOENT, fmt::format("{} is not set, and {} is: {}", leader, index, setter)};
  return out;
}

Result<Pod> pod_of_job(const Variables& variables, const std::function<std::string()>& own_name) {
  Pod out;
  out.index_source = has(variables, kOwnIndex) ? kOwnIndex : kJobIndex;
  out.size_source = "NACRE_SIZE";
  out.size = TRY(count_of(variables, "NACRE_SIZE", 1, ""));
  out.index = TRY(count_of(variables, out.index_source.c_str(), 0,
                           "Kubernetes sets it in a Job with completionMode: Indexed; NACRE_INDEX stands for it"));
  CHECK_OK(take_leader(variables, "NACRE_LEADER", out));
  if (has(variables, "NACRE_JOBS") || (out.size > 1 && out.leader.host.empty()))
    CHECK_OK(take_name(variables, own_name(), out));
  CHECK_OK(check_index(out));
  return out;
}

// PET_NNODES may be a range, of which nobody knows how many come.
Result<Pod> pod_of_torch(const Variables& variables) {
  Variables plain = [&variables](const char* name) {
    auto text = variables(name);
    std::size_t colon = text ? text->find(':') : std::string::npos;
    bool is_one = std::string_view(name) == "PET_NNODES" && colon != std::string::npos &&
                  text->substr(0, colon) == text->substr(colon + 1);
    return is_one ? std::optional(text->substr(0, colon)) : text;
  };
  return pod_of_three(plain, "PET_NODE_RANK", "PET_NNODES", "PET_MASTER_ADDR",
                      "a PyTorchJob or TrainJob sets PET_NODE_RANK, PET_NNODES and PET_MASTER_ADDR");
}

Result<std::optional<Pod>> find_pod(const Variables& variables, const std::function<std::string()>& own_name) {
  if (has(variables, "NACRE_SIZE")) return std::optional(TRY(pod_of_job(variables, own_name)));
  if (has(variables, "LWS_WORKER_INDEX") || has(variables, "LWS_GROUP_SIZE"))
    return std::optional(TRY(pod_of_three(variables, "LWS_WORKER_INDEX", "LWS_GROUP_SIZE", kWorkersLeader,
                                          "a LeaderWorkerSet sets LWS_WORKER_INDEX, LWS_GROUP_SIZE and "
                                          "LWS_LEADER_ADDRESS")));
  if (has(variables, "PET_NODE_RANK")) return std::optional(TRY(pod_of_torch(variables)));
  return std::optional<Pod>();
}

Result<void> take_port(const Variables& variables, Pod& pod) {
  const char* name = "NACRE_PORT";
  if (!has(variables, name) && pod.index_source == "PET_NODE_RANK") {
    name = "PET_MASTER_PORT";  // torch's own
    pod.keeps_port = !has(variables, name);
  }
  pod.leader.port = Pod::kPort;
  if (!has(variables, name)) return {};
  auto text = *variables(name);
  auto number = parse_u64(text);
  if (!number || *number == 0 || *number > UINT16_MAX)
    return invalid(fmt::format("{}: expected a port from 1 to 65535, got {}", name, in_quotes(text)));
  pod.leader.port = static_cast<std::uint16_t>(*number);
  return {};
}

Result<double> timeout_of(const Variables& variables) {
  if (!has(variables, "NACRE_TIMEOUT")) return Pod::kTimeout;
  auto text = *variables("NACRE_TIMEOUT");
  auto number = parse_u64(text);
  constexpr auto kMostSeconds = static_cast<std::uint64_t>(launch::LaunchRecord::kMaxTimeout);
  if (number && *number > 0 && *number <= kMostSeconds) return static_cast<double>(*number);
  return invalid(
      fmt::format("NACRE_TIMEOUT: expected seconds from 1 to {}, got {}", kMostSeconds, in_quotes(text)));
}

}  // namespace

std::string full_host_name() {
  std::string name = host_name();
  if (name.find('.') != std::string::npos) return name;
  addrinfo hints{};
  hints.ai_flags = AI_CANONNAME;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return name;
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  std::string full = all->ai_canonname != nullptr ? all->ai_canonname : "";
  return full.starts_with(name + ".") ? full : name;
}

Result<std::optional<Pod>> pod_of(const Variables& variables, const std::function<std::string()>& own_name) {
  if (has(variables, job::kShellMark)) return std::optional<Pod>();
  std::optional<Pod> out = TRY(find_pod(variables, own_name));
  if (!out) return out;
  CHECK_OK(take_port(variables, *out));
  out->timeout = TRY(timeout_of(variables));
  return out;
}

std::string name_of_pod(const Pod& pod, std::uint32_t index) {
  const std::string& first = pod.leader.host;
  if (index == 0) return first;
  const std::size_t dot = std::min(first.find('.'), first.size());
  const std::string label = first.substr(0, dot), domain = first.substr(dot);
  auto named = [&](std::string_view end, const std::string& other) {
    return label.ends_with(end) ? label.substr(0, label.size() - end.size()) + other + domain : "";
  };
  if (pod.leader_source == kWorkersLeader) return fmt::format("{}-{}{}", label, index, domain);
  const std::uint32_t each = pod.size / pod.jobs;
  if (pod.jobs > 1) return named("-0-0", fmt::format("-{}-{}", index / each, index % each));
  if (std::string out = named("-master-0", fmt::format("-worker-{}", index - 1)); !out.empty()) return out;
  return named("-0", fmt::format("-{}", index));
}

std::string pod_secret_file(const Variables& variables) {
  std::string file = variables("NACRE_SECRET_FILE").value_or("");
  return file.empty() ? kMountedSecret : file;
}

}  // namespace nacre::boot
