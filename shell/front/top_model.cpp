// SPDX-License-Identifier: Apache-2.0
#include "front/top_model.hpp"

#include <algorithm>
#include <set>

#include "exits/record.hpp"
#include "value/hostlist.hpp"

namespace nacre::front {
namespace {

// What is known of GPUs, of a node or a task.
template <typename Row>
void add_gpu(const Row& row, Json& out) {
  if (row.gpu_memory) out["gpu_memory"] = *row.gpu_memory;
  if (row.gpu_device_use) out["gpu_device_use"] = *row.gpu_device_use;
}

}  // namespace

Result<TopStatus> TopStatus::parse(const Json& json) {
  JsonAt at = JsonAt::root(json);
  TopStatus out;
  out.id = TRY(TRY(at.at("id")).string());
  out.name = TRY(TRY(at.at("name")).string());
  out.tasks = static_cast<std::uint64_t>(TRY(TRY(at.at("tasks")).integer(0)));
  out.shells = static_cast<std::uint64_t>(TRY(TRY(at.at("shells")).integer(0)));
  out.running = static_cast<std::uint64_t>(TRY(TRY(at.at("running")).integer(0)));
  out.started = TRY(TRY(at.at("started")).number());
  out.ending = TRY(TRY(at.at("ending")).boolean());
  if (auto hosts = TRY(at.find("hosts"))) {
    auto list = value::Hostlist::parse(TRY(hosts->string()));
    if (!list) return hosts->error(list.error().message);
    out.hosts = list->names();
  }
  if (auto gone = TRY(at.find("gone"))) {
    auto shells = value::Idset::parse(TRY(gone->string()));
    if (!shells) return gone->error(shells.error().message);
    out.gone = *std::move(shells);
  }
  return out;
}

Result<std::uint64_t> TopSample::failed_of(const Json& exits) {
  std::uint64_t out = 0;
  for (const JsonAt& each : TRY(TRY(JsonAt::root(exits).at("exits")).elements())) {
    auto count = static_cast<std::uint64_t>(TRY(TRY(each.at("count")).integer(0)));
    JsonAt text = TRY(each.at("record"));
    if (text.json() == "others") {  // of more ways to end than are listed one by one
      out += count;
      continue;
    }
    auto record = exits::Record::parse(TRY(text.string()));
    if (!record) return text.error(record.error().message);
    if (record->code() != 0) out += count;
  }
  return out;
}

Result<std::vector<std::string>> TopSample::late_of(const Json& ps) {
  auto late = TRY(JsonAt::root(ps).find("late"));
  if (!late) return std::vector<std::string>();
  return late->strings();
}

Result<std::vector<std::string>> TopSample::notes_of(const Json& ps) {
  auto notes = TRY(JsonAt::root(ps).find("notes"));
  if (!notes) return std::vector<std::string>();
  return notes->strings();
}

void TopModel::take(TopSample sample, double now) {
  status_ = std::move(sample.status);
  notes_ = std::move(sample.notes);
  failed_ = sample.failed;
  now_ = now;
  std::set<std::string> late(sample.late.begin(), sample.late.end());
  std::erase_if(nodes_, [this](const auto& each) { return status_.gone.contains(each.first); });
  for (std::uint32_t shell = 0; shell < status_.hosts.size(); ++shell) {
    if (status_.gone.contains(shell)) continue;
    auto [node, is_new] = nodes_.try_emplace(shell);
    node->second.host = status_.hosts[shell];
    if (is_new) node->second.seen = now;
  }
  for (const PsTask& task : sample.tasks) {
    if (!status_.gone.contains(task.shell)) nodes_[task.shell].host = task.host;
  }
  for (auto& [shell, node] : nodes_) {
    node.late = late.contains(node.host);
    if (!node.late) node.seen = now;
  }
  for (PsTask& task : sample.tasks) measure(task);
  std::set<std::uint32_t> fresh;
  for (const PsTask& task : sample.tasks) fresh.insert(task.rank);
  for (PsTask& task : tasks_) {
    auto node = nodes_.find(task.shell);
    if (node != nodes_.end() && node->second.late && !fresh.contains(task.rank))
      sample.tasks.push_back(std::move(task));
  }
  tasks_ = std::move(sample.tasks);
  std::sort(tasks_.begin(), tasks_.end(), [](const PsTask& a, const PsTask& b) { return a.rank < b.rank; });
  fresh.clear();
  for (const PsTask& task : tasks_) fresh.insert(task.rank);
  std::erase_if(usage_, [&](const auto& each) { return !fresh.contains(each.first); });
}

void TopModel::measure(PsTask& task) {
  constexpr double kShortest = 0.05;  // seconds: the kernel counts CPU time in hundredths
  Usage now{task.pid, task.time, task.cpu * task.time};
  auto [before, is_new] = usage_.try_emplace(task.rank, now);
  double passed = now.time - before->second.time;
  if (!is_new && before->second.pid == task.pid && passed >= kShortest)
    task.cpu = std::max(0.0, now.cpu - before->second.cpu) / passed;
  before->second = now;
}

std::vector<TopNode> TopModel::nodes() const {
  std::map<std::uint32_t, TopNode> out;
  std::map<std::uint32_t, std::uint64_t> on_devices;  // tasks, by shell
  for (const auto& [shell, node] : nodes_)
    out[shell] = {node.host, shell, 0, 0, 0, node.late ? std::optional(now_ - node.seen) : std::nullopt, {}, {}};
  for (const PsTask& task : tasks_) {
    TopNode& node = out[task.shell];
    node.tasks += 1;
    node.cpu += task.cpu;
    node.rss += task.rss;
    if (task.gpu_memory) node.gpu_memory = node.gpu_memory.value_or(0) + *task.gpu_memory;
    if (!task.gpu_device_use) continue;
    node.gpu_device_use = node.gpu_device_use.value_or(0) + *task.gpu_device_use;
    ++on_devices[task.shell];
  }
  for (const auto& [shell, tasks] : on_devices) *out[shell].gpu_device_use /= static_cast<double>(tasks);
  std::vector<TopNode> nodes;
  for (auto& [shell, node] : out) nodes.push_back(std::move(node));
  return nodes;
}

double TopModel::cpu() const {
  double sum = 0;
  for (const PsTask& task : tasks_) sum += task.cpu;
  return sum;
}

double TopModel::rss() const {
  double sum = 0;
  for (const PsTask& task : tasks_) sum += task.rss;
  return sum;
}

Json TopModel::json(bool with_tasks) const {
  Json out{{"timestamp", now_},
           {"id", status_.id},
           {"name", status_.name},
           {"state", "running"},
           {"ending", status_.ending},
           {"time", time()},
           {"ntasks", status_.tasks},
           {"running", status_.running},
           {"failed", failed_},
           {"nnodes", status_.nodes()},
           {"cpu", cpu()},
           {"rss", rss()}};
  if (!notes_.empty()) out["notes"] = notes_;
  Json& nodes = out["nodes"] = Json::array();
  for (const TopNode& each : this->nodes()) {
    nodes.push_back({{"host", each.host},
                     {"shell", each.shell},
                     {"tasks", each.tasks},
                     {"cpu", each.cpu},
                     {"rss", each.rss},
                     {"late", each.late ? Json(*each.late) : Json()}});
    add_gpu(each, nodes.back());
  }
  if (!with_tasks) return out;
  Json& tasks = out["tasks"] = Json::array();
  for (const PsTask& each : tasks_) {
    tasks.push_back({{"rank", each.rank},
                     {"host", each.host},
                     {"shell", each.shell},
                     {"pid", each.pid},
                     {"state", each.state},
                     {"try", each.attempt},
                     {"time", each.time},
                     {"cpu", each.cpu},
                     {"rss", each.rss},
                     {"command", each.command}});
    add_gpu(each, tasks.back());
  }
  return out;
}

}  // namespace nacre::front
