// SPDX-License-Identifier: Apache-2.0
//
// The option `taskmap`: which plugin maps the tasks to the nodes.
#include <fmt/format.h>

#include "base/json.hpp"
#include "shell.hpp"

namespace nacre {
namespace {

struct MapRequest {
  std::string scheme;
  std::optional<std::string> value;
};

// {"scheme": S, "value": V}, as front ends write it, or "S", "S:V", as people type it.
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
    // A manual map may be given as JSON rather than as text.
    if (auto value = TRY(option.find("value"))) {
      request.value = value->json().is_string() ? TRY(value->string()) : dump_json(value->json());
    }
  }
  if (request.scheme.empty()) return option.error("the scheme is empty");
  return request;
}

// Every task once, on the same nodes. A node may get more tasks than slots: a map is there to choose.
Result<value::Taskmap> checked(const std::string& text, const value::Taskmap& block) {
  value::Taskmap map = TRY(value::Taskmap::parse(text));
  CHECK_OK(map.same_size(block));
  return map;
}

}  // namespace

Result<void> Shell::remap() {
  auto option = options_.at("taskmap");
  if (!option) return {};
  MapRequest request = TRY(map_request(*option));
  plugin::Call call("taskmap." + request.scheme);
  call.in["taskmap"] = job_.taskmap.str();
  if (request.value) call.in["value"] = *request.value;
  if (TRY(stack_.call(call)) == 0) {
    return Error{ENOENT,
                 fmt::format("taskmap: no plugin offers the scheme '{}'; nacre has block, cyclic, manual, hostfile",
                             request.scheme)};
  }
  auto text = TRY(TRY(JsonAt::root(call.out, call.topic).at("taskmap")).string());
  value::Taskmap map = TRY(in(call.topic, checked(text, job_.taskmap)));
  std::uint32_t before = job_.taskmap.tasks_on(job_.shell_rank);
  std::uint32_t now = map.tasks_on(job_.shell_rank);
  if (now > before) {
    log_.log(Level::notice, "", "{}: {} tasks on node {}, where R has room for {}", call.topic, now,
             job_.shell_rank, before);
  }
  job_.taskmap = std::move(map);
  return {};
}

}  // namespace nacre
