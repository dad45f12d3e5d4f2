// SPDX-License-Identifier: Apache-2.0
#include "front/job_request.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "group/membership.hpp"
#include "job/jobspec.hpp"
#include "value/duration.hpp"

namespace nacre::front {
namespace {

constexpr double kMinute = 60;

std::string counted_nodes(std::uint64_t nodes) { return fmt::format("{} node{}", nodes, nodes == 1 ? "" : "s"); }

Result<std::uint32_t> nodes_for(const SizeRequest& request, std::optional<std::uint32_t> places) {
  std::string there = places ? fmt::format("there {} {}", *places == 1 ? "is" : "are", counted_nodes(*places)) : "";
  if (request.nodes && places && std::uint64_t{*request.nodes} + request.spares > *places) {
    std::string spares = request.spares > 0 ? fmt::format("+{}", request.spares) : "";
    return invalid(
        fmt::format("-N {}{}, but {}: a smaller -N, more hosts (--hosts), or --local={} for all on this one",
                    *request.nodes, spares, there, std::uint64_t{*request.nodes} + request.spares));
  }
  if (request.nodes) return *request.nodes;
  if (places && request.spares >= *places)
    return invalid(
        fmt::format("--spares={}, but {}: at least one has to be left for tasks", request.spares, there));
  std::uint64_t most = places ? *places - request.spares : 1;
  if (request.tasks_per_node && !request.tasks) return static_cast<std::uint32_t>(most);
  std::uint64_t each = request.tasks_per_node.value_or(1);
  std::uint64_t wanted = (request.tasks.value_or(1) + each - 1) / each;
  // size_of() reports tasks that do not fit.
  return static_cast<std::uint32_t>(std::min(wanted, most));
}

// As sbatch(1) has times: M:S, H:M:S, D-H, D-H:M, D-H:M:S.
std::optional<double> seconds_of_clock(std::string_view text) {
  double days = 0;
  std::size_t dash = text.find('-');
  bool has_days = dash != std::string_view::npos;
  if (has_days) {
    auto count = parse_u64(text.substr(0, dash));
    if (!count) return std::nullopt;
    days = static_cast<double>(*count);
    text.remove_prefix(dash + 1);
  }
  auto parts = split(text, ':');
  if (parts.size() > 3 || (parts.size() < 2 && !has_days)) return std::nullopt;
  double unit = has_days || parts.size() == 3 ? 60 * kMinute : kMinute, out = 0;
  for (std::string_view each : parts) {
    auto count = parse_u64(each);
    if (!count) return std::nullopt;
    out += static_cast<double>(*count) * unit;
    unit /= 60;
  }
  return days * 24 * 60 * kMinute + out;
}

}  // namespace

Result<NodeCounts> NodeCounts::parse(std::string_view text) {
  std::size_t plus = text.find('+');
  auto nodes = parse_u64(text.substr(0, plus));
  std::optional<std::uint64_t> spares;
  if (plus != std::string_view::npos) spares = parse_u64(text.substr(plus + 1));
  if (!nodes || (plus != std::string_view::npos && !spares))
    return invalid(fmt::format("expected a number of nodes, or NODES+SPARES as in 4+1, got {}", in_quotes(text)));
  if (*nodes < 1) return invalid("at least 1 node");
  // Each is compared first, so that the sum cannot overflow.
  constexpr std::uint32_t kMost = group::Membership::kMaxShells;
  std::uint64_t more = spares.value_or(0);
  if (*nodes > kMost || more > kMost || *nodes + more > kMost)
    return invalid(fmt::format("at most {} nodes in all, got {}", kMost, text));
  NodeCounts out;
  out.nodes = static_cast<std::uint32_t>(*nodes);
  if (spares) out.spares = static_cast<std::uint32_t>(*spares);
  return out;
}

Result<JobSize> size_of(const SizeRequest& request, std::optional<std::uint32_t> places) {
  JobSize out;
  out.nodes = TRY(nodes_for(request, places));
  out.spares = request.spares;
  std::uint64_t each = request.tasks_per_node.value_or(1);
  std::uint64_t full = each * out.nodes;
  std::uint64_t tasks = request.tasks ? *request.tasks : request.nodes || request.tasks_per_node ? full : 1;
  if (tasks > job::Jobspec::kMaxCount)
    return invalid(fmt::format("{} tasks; at most {}", tasks, job::Jobspec::kMaxCount));
  if (request.tasks_per_node && tasks > full)
    return invalid(
        fmt::format("-n {}, but {} of {} tasks are {}: a smaller -n, a larger --tasks-per-node, or more nodes",
                    tasks, counted_nodes(out.nodes), each, full));
  if (tasks < out.nodes) return invalid(fmt::format("-n {}, but -N {}: each node needs a task", tasks, out.nodes));
  out.tasks = static_cast<std::uint32_t>(tasks);
  if (request.tasks_per_node)
    out.tasks_per_node = request.tasks_per_node;
  else if (request.nodes && tasks % out.nodes == 0)
    out.tasks_per_node = static_cast<std::uint32_t>(tasks / out.nodes);
  return out;
}

SizeRequest size_of_places(SizeRequest request, std::uint32_t places, std::optional<std::uint32_t> tasks) {
  if (request.tasks || request.nodes || request.tasks_per_node || places <= request.spares) return request;
  if (tasks)
    request.tasks = tasks;
  else
    request.nodes = places - request.spares;
  return request;
}

Result<Json> jobspec_of(const JobRequest& request) {
  for (std::size_t i = 0; i < request.command.size(); ++i) {
    const std::string& each = request.command[i];
    if (!is_utf8(each))
      return Error{EILSEQ,
                   fmt::format("argument {}: {} is no UTF-8, which a jobspec has to be", i, in_quotes(each))};
  }
  Json contents = Json::array({{{"type", "core"}, {"count", request.cores_per_task}}});
  if (request.gpus_per_task > 0) contents.push_back({{"type", "gpu"}, {"count", request.gpus_per_task}});
  const JobSize& size = request.size;
  Json slot{{"type", "slot"}, {"label", "task"}, {"with", std::move(contents)}};
  Json count{{"per_slot", 1}};
  Json vertex;
  if (size.tasks_per_node) {
    slot["count"] = *size.tasks_per_node;
    bool is_full = std::uint64_t{size.nodes} * *size.tasks_per_node == size.tasks;
    if (!is_full) count = Json{{"total", size.tasks}};
    vertex = Json{{"type", "node"}, {"count", size.shells()}, {"with", Json::array({std::move(slot)})}};
  } else {
    slot["count"] = size.tasks;
    vertex = std::move(slot);
  }
  Json system{{"duration", request.duration},
              {"cwd", request.cwd},
              {"environment", request.environment},
              {"shell", {{"options", request.options}}}};
  if (!request.name.empty()) system["job"] = Json{{"name", request.name}};
  Json task{{"command", request.command}, {"slot", "task"}, {"count", std::move(count)}};
  Json out{{"version", 1},
           {"resources", Json::array({std::move(vertex)})},
           {"tasks", Json::array({std::move(task)})},
           {"attributes", {{"system", std::move(system)}}}};
  CHECK_OK(job::Jobspec::from_json(out));
  return out;
}

Result<double> time_limit_of(const std::string& text) {
  if (auto minutes = parse_u64(text)) return static_cast<double>(*minutes) * kMinute;
  if (auto seconds = seconds_of_clock(text)) return *seconds;
  auto duration = value::Duration::parse(text);
  if (!duration)
    return invalid(
        fmt::format("expected minutes, or a time as 90s, 15m, 1.5h or 1:30:00, got {}", in_quotes(text)));
  return duration->is_infinite() ? 0 : duration->seconds();
}

}  // namespace nacre::front
