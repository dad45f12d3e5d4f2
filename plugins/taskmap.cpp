// SPDX-License-Identifier: Apache-2.0
//
// taskmap: the schemes that are built in. Each is a topic `taskmap.SCHEME`: in {"taskmap": the block map, "value":
// what the user gave, as text; "" or missing: nothing}, out {"taskmap": the map to use, as RFC 34 text}.
//
//   block           the map as it is; takes no value
//   cyclic[:N]      N tasks (1 by default) to each node in turn that has room left, as long as tasks are left
//   manual:MAP      MAP, in a form of RFC 34, with as many tasks in all, on nodes that the job has
//   hostfile:FILE   task by task to the hosts of FILE in turn, which starts anew when it is through; a host
//                   without room is passed over. Each line is a hostlist (RFC 29); what follows a '#' is a comment.
//                   It has to name each host of the job that has tasks, and no other. A relative path is one from
//                   the job's directory.
//
// "Room" is the number of tasks that the block map has on the node.

#include "base/file.hpp"
#include "base/text.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

using value::Hostlist;
using value::Taskmap;

constexpr std::size_t kMaxHostfile = Hostlist::kMaxText;  // bytes

std::vector<std::uint32_t> room_of(const Taskmap& map) {
  std::vector<std::uint32_t> room;
  room.reserve(map.nodes());
  for (std::uint32_t node = 0; node < map.nodes(); ++node) room.push_back(map.tasks_on(node));
  return room;
}

Taskmap cyclic(const Taskmap& block, std::uint32_t stride) {
  std::vector<std::uint32_t> room = room_of(block);
  std::vector<std::uint32_t> open;  // the nodes that have room, so that no round visits full ones
  for (std::uint32_t node = 0; node < room.size(); ++node) open.push_back(node);
  std::vector<std::uint32_t> node_of;
  node_of.reserve(block.tasks());
  while (!open.empty()) {
    for (std::uint32_t node : open) {
      std::uint32_t count = std::min(stride, room[node]);
      node_of.insert(node_of.end(), count, node);
      room[node] -= count;
    }
    std::erase_if(open, [&](std::uint32_t node) { return room[node] == 0; });
  }
  return Taskmap::of(node_of);
}

Result<Taskmap> manual(const Taskmap& block, std::uint32_t nodes, const std::string& text) {
  Taskmap map = TRY(Taskmap::parse(text));
  if (map.tasks() != block.tasks()) {
    return invalid(fmt::format("the map has {} tasks, the job {}", map.tasks(), block.tasks()));
  }
  if (map.nodes() > nodes) {
    return invalid(fmt::format("the map has a node {}, the job has nodes 0-{}", map.nodes() - 1, nodes - 1));
  }
  return map;
}

Result<std::vector<std::string>> read_hostfile(const std::string& path) {
  std::string text = TRY(read_file(path, kMaxHostfile));
  Hostlist hosts;
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line.substr(0, line.find('#')));
    std::string where = fmt::format("{}:{}", path, number);
    hosts.append(TRY(in(where, Hostlist::parse(line))));
    if (hosts.size() > Hostlist::kMaxHosts) {
      return in(where, Error{ERANGE, fmt::format("more than {} hosts", Hostlist::kMaxHosts)});
    }
  }
  if (hosts.empty()) return invalid(path + ": no host names; expected a hostlist on each line");
  return hosts.names();
}

// Deals tasks to hosts by name. R may list a host several times: its nodes are filled one after the other.
class HostDealer {
 public:
  HostDealer(const Taskmap& block, const job::Job& job) : job_(job), room_(room_of(block)), left_(block.tasks()) {
    for (std::uint32_t node = 0; node < job.shells(); ++node)
      nodes_[job.resources.nodes[node].hostname].push_back(node);
  }

  Result<Taskmap> deal(std::vector<std::string> names) {
    for (const std::string& name : names) {
      if (!nodes_.contains(name)) return invalid(fmt::format("{} is not a host of the job", in_quotes(name)));
    }
    CHECK_OK(check_all_named(names));
    while (left_ > 0) {
      for (const std::string& name : names) give_one(nodes_[name]);
      std::erase_if(names, [&](const std::string& name) { return nodes_[name].empty(); });
    }
    return Taskmap::of(node_of_);
  }

 private:
  Result<void> check_all_named(const std::vector<std::string>& names) {
    std::unordered_map<std::string_view, bool> named;
    for (const std::string& name : names) named[name] = true;
    for (std::uint32_t node = 0; node < room_.size(); ++node) {
      const std::string& name = job_.resources.nodes[node].hostname;
      if (room_[node] == 0 || named.contains(name)) continue;
      return invalid(fmt::format(
          "host {} of the job is not named, and has room for {} of its tasks",
          name.empty() ? fmt::format("of node {}, without a name in R,", node) : in_quotes(name), room_[node]));
    }
    return {};
  }

  // Gives a task to the first of these nodes that has room; nodes without room are removed from the list.
  void give_one(std::vector<std::uint32_t>& nodes) {
    auto open =
        std::find_if(nodes.begin(), nodes.end(), [&](auto node) { return node < room_.size() && room_[node] > 0; });
    nodes.erase(nodes.begin(), open);
    if (nodes.empty()) return;
    node_of_.push_back(nodes.front());
    --left_;
    if (--room_[nodes.front()] == 0) nodes.erase(nodes.begin());
  }

  const job::Job& job_;
  std::vector<std::uint32_t> room_;  // by node
  std::uint64_t left_;               // tasks
  std::unordered_map<std::string, std::vector<std::uint32_t>> nodes_;
  std::vector<std::uint32_t> node_of_;  // by rank, for the tasks given out so far
};

class TaskmapPlugin final : public plugin::Plugin {
 public:
  explicit TaskmapPlugin(plugin::Host& host) : Plugin("taskmap"), host_(host) {
    offer("block", &TaskmapPlugin::block);
    offer("cyclic", &TaskmapPlugin::cyclic_by_value);
    offer("manual", &TaskmapPlugin::manual_by_value);
    offer("hostfile", &TaskmapPlugin::by_hostfile);
  }

 private:
  using Value = std::optional<std::string>;
  using Scheme = Result<Taskmap> (TaskmapPlugin::*)(const Taskmap&, const Value&) const;

  void offer(const std::string& name, Scheme scheme) {
    on("taskmap." + name, [this, scheme](plugin::Call& call) -> Result<void> {
      JsonAt arguments = JsonAt::root(call.in);
      Taskmap given = TRY(map_of(TRY(arguments.at("taskmap"))));
      Value value;
      if (auto at = TRY(arguments.find("value"))) value = TRY(at->string());
      if (value && value->empty()) value.reset();
      Taskmap map = TRY((this->*scheme)(given, value));
      call.out["taskmap"] = map.str();
      return {};
    });
  }

  static Result<Taskmap> map_of(const JsonAt& argument) {
    if (!argument.json().is_string()) return Taskmap::from_json(argument.json());
    return Taskmap::parse(TRY(argument.string()));
  }

  Result<Taskmap> block(const Taskmap& map, const Value& value) const {
    if (value) return invalid(fmt::format("takes no value, got {}", in_quotes(*value)));
    return map;
  }

  Result<Taskmap> cyclic_by_value(const Taskmap& map, const Value& value) const {
    auto stride = parse_u64(value.value_or("1"));
    if (stride && *stride >= 1 && *stride <= Taskmap::kMaxTasks)
      return cyclic(map, static_cast<std::uint32_t>(*stride));
    return invalid(
        fmt::format("expected a stride of 1 to {} tasks, got {}", Taskmap::kMaxTasks, in_quotes(*value)));
  }

  Result<Taskmap> manual_by_value(const Taskmap& map, const Value& value) const {
    if (!value) return invalid("a map is missing; use manual:MAP, with MAP as in [[0,2,4,1]]");
    return manual(map, host_.job().shells(), *value);
  }

  Result<Taskmap> by_hostfile(const Taskmap& map, const Value& value) const {
    if (!value) return invalid("a path is missing; use hostfile:FILE");
    const job::Job& job = host_.job();
    std::string path = *value;
    if (path.front() != '/' && job.spec.cwd) path = *job.spec.cwd + '/' + path;
    std::vector<std::string> hosts = TRY(read_hostfile(path));
    return in(path, HostDealer(map, job).deal(std::move(hosts)));
  }

  plugin::Host& host_;
};

}  // namespace

PluginPtr make_taskmap(plugin::Host& host) { return std::make_unique<TaskmapPlugin>(host); }

}  // namespace nacre::plugins
