// SPDX-License-Identifier: Apache-2.0
#include "core/shell_taskmap.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.hpp"

namespace nacre::core {
namespace {

struct MapRequest {
  std::string scheme;
  std::string value;  // "": none
};

// {"scheme": S, "value": V}, as front ends write it, or "S", "S:V", as users type it.
Result<MapRequest> map_request(const JsonAt& option) {
  MapRequest request;
  if (option.json().is_string()) {
    request.scheme = TRY(option.string());
    if (std::size_t colon = request.scheme.find(':'); colon != std::string::npos) {
      request.value = request.scheme.substr(colon + 1);
      request.scheme.resize(colon);
    }
  } else {
    CHECK_OK(option.only_keys({"scheme", "value"}));
    request.scheme = TRY(TRY(option.at("scheme")).string());
    // A manual map may be JSON in place of text.
    if (auto value = TRY(option.find("value"))) {
      request.value = value->json().is_string() ? TRY(value->string()) : dump_json(value->json());
    }
  }
  if (request.scheme.empty()) return option.error("the scheme is empty");
  return request;
}

// Each task has to occur once, on the same nodes. A node may get more tasks than it has slots, as a map is meant to
// choose.
Result<value::Taskmap> checked(const std::string& text, const job::Job& job) {
  value::Taskmap map = TRY(value::Taskmap::parse(text));
  if (map.nodes() > job.nodes() && map.nodes() <= job.shells())
    return invalid(fmt::format("the map has tasks on node {}, which is a spare", map.nodes() - 1));
  CHECK_OK(map.same_size(job.taskmap));
  return map;
}

}  // namespace

Result<value::Taskmap> chosen_taskmap(plugin::Host& host) {
  const job::Job& job = host.job();
  auto option = host.options().at("taskmap");
  if (!option) return job.taskmap;
  MapRequest request = TRY(map_request(*option));
  plugin::Call call("taskmap." + request.scheme);
  call.in["taskmap"] = job.taskmap.str();
  call.in["scheme"] = request.scheme;
  call.in["value"] = request.value;
  if (TRY(host.stack().call(call)) == 0) {
    return Error{ENOENT,
                 fmt::format("taskmap: no plugin offers the scheme '{}'; nacre has block, cyclic, manual, hostfile",
                             request.scheme)};
  }
  auto text = TRY(TRY(JsonAt::root(call.out, call.topic).at("taskmap")).string());
  value::Taskmap map = TRY(in(call.topic, checked(text, job)));
  // Where tasks may share cores the block map gives each node as many as others, whatever room it has.
  const std::uint64_t room = job.node().cores.size() / job.spec.cores_per_slot;
  const std::uint64_t before = std::max<std::uint64_t>(job.taskmap.tasks_on(job.shell_rank), room);
  std::uint32_t now = map.tasks_on(job.shell_rank);
  if (now > before) {
    host.log().log(Level::notice, "", "{}: {} tasks on node {}, where R has room for {}", call.topic, now,
                   job.shell_rank, before);
  }
  return map;
}

}  // namespace nacre::core
