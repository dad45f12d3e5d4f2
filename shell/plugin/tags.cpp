// SPDX-License-Identifier: Apache-2.0
#include "plugin/tags.hpp"

#include "base/text.hpp"
#include "value/template.hpp"

namespace nacre::plugin {
namespace {

using Tag = Result<std::optional<std::string>>;

std::optional<std::string> text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : dump_json(value);
}

std::optional<std::string> of_id(const job::Job& job, std::string_view form) {
  const value::JobId& id = job.id;
  if (form == "f58") return job.f58();
  if (form == "dec") return id.decimal();
  if (form == "hex") return id.hex();
  if (form == "dothex") return id.dothex();
  if (form == "words") return id.words();
  if (form == "emoji") return id.emoji();
  return std::nullopt;
}

std::optional<std::string> of_job(const job::Job& job, std::string_view tag) {
  if (tag == "name") return job.name();
  if (tag == "size" || tag == "ntasks") return fmt::format("{}", job.tasks());
  if (tag == "nnodes") return fmt::format("{}", job.nodes_in_use());
  if (tag == "taskmap") return job.taskmap.str();
  if (tag == "resources") return dump_json(job.resources.document);
  for (std::string_view name : {"jobid", "id"}) {
    if (tag == name) return job.f58();
    if (tag.starts_with(name) && tag[name.size()] == '.') return of_id(job, tag.substr(name.size() + 1));
  }
  return std::nullopt;
}

Tag of_node(const job::Job& job, std::uint32_t shell_rank, std::string_view key) {
  Json info = TRY(job.rank_info(shell_rank));
  for (const Json* from : {&info, &info["resources"]}) {
    if (auto found = from->find(key); found != from->end()) return text_of(*found);
  }
  return std::nullopt;
}

bool is_of_task(std::string_view key) {
  return key == "id" || key == "rank" || key == "index" || key == "localid" || key == "attempt" || key == "slot" ||
         key == "argument";
}

// An element for each task, by the option arguments.
std::optional<std::string> argument_of(Host& host, std::uint32_t rank) {
  const Json* all = host.options().find("arguments");
  if (all == nullptr || !all->is_array() || rank >= all->size() || !(*all)[rank].is_string()) return std::nullopt;
  return (*all)[rank].get<std::string>();
}

bool are_different(const Json* list) {
  return list != nullptr && std::set<Json>(list->begin(), list->end()).size() == list->size();
}

std::optional<std::string> of_task(Host& host, const task::Task* task, std::string_view key) {
  if (task == nullptr) return std::nullopt;
  if (key == "argument") return argument_of(host, task->rank());
  if (key == "slot") return fmt::format("{}", task->slot());
  if (key == "id" || key == "rank") return fmt::format("{}", task->rank());
  if (key == "index" || key == "localid") return fmt::format("{}", task->local_id());
  if (key == "attempt") return fmt::format("{}", task->attempt() - 1);
  return std::nullopt;
}

Tag of_plugins(Host& host, std::string_view tag, std::uint32_t shell_rank, const task::Task* task) {
  Call call(fmt::format("mustache.render.{}", tag));
  if (!host.stack().listens(call.topic)) return std::nullopt;
  call.in = Json{{"tag", tag}, {"shell_rank", shell_rank}};
  if (task != nullptr) call.in.update({{"rank", task->rank()}, {"localid", task->local_id()}});
  TRY(host.stack().call(call));
  auto result = TRY(JsonAt::root(call.out, call.topic).find("result"));
  if (!result) return std::nullopt;
  return TRY(result->string());
}

constexpr std::string_view kNode = "node.";
constexpr std::string_view kTask = "task.";

}  // namespace

Result<std::string> render_tags(Host& host, std::string_view text, const TagScope& scope) {
  std::uint32_t shell_rank = scope.shell_rank.value_or(host.job().shell_rank);
  if (shell_rank >= host.job().shells()) return invalid(fmt::format("there is no shell {}", shell_rank));
  return value::render(text, [&](std::string_view tag) -> Tag {
    if (auto known = of_job(host.job(), tag)) return known;
    if (tag.starts_with(kNode)) return of_node(host.job(), shell_rank, tag.substr(kNode.size()));
    if (tag == "taskid") return of_task(host, scope.task, "id");
    if (tag.starts_with(kTask)) return of_task(host, scope.task, tag.substr(kTask.size()));
    return of_plugins(host, tag, shell_rank, scope.task);
  });
}

Result<std::string> render_job_tags(const job::Job& job, std::string_view text) {
  return value::render(text, [&](std::string_view tag) -> Tag { return of_job(job, tag); });
}

Result<void> check_tags(Host& host, std::string_view text) {
  std::optional<std::string> unknown;
  auto look = [&](std::string_view tag) -> Tag {
    const std::uint32_t here = host.job().shell_rank;
    bool is_known = of_job(host.job(), tag) || tag == "taskid" ||
                    (tag.starts_with(kTask) && is_of_task(tag.substr(kTask.size()))) ||
                    (tag.starts_with(kNode) && TRY(of_node(host.job(), here, tag.substr(kNode.size())))) ||
                    host.stack().listens(fmt::format("mustache.render.{}", tag));
    if (!is_known && !unknown) unknown = tag;
    return std::nullopt;
  };
  TRY(value::render(text, look));
  auto drop = [](std::string_view) { return Tag(std::optional<std::string>("")); };
  const std::string rest = TRY(value::render(text, drop));
  bool is_broken = rest.find("{{") != std::string::npos || rest.find("}}") != std::string::npos;
  if (!unknown && is_broken)
    return invalid(
        fmt::format("{}: expected tags as {{{{task.rank}}}}, with two braces on both sides", in_quotes(text)));
  if (!unknown) return {};
  static const std::vector<std::string> kUsual{"id",      "jobid",     "name",      "size",       "nnodes",
                                               "node.id", "node.name", "task.rank", "task.index", "tmpdir"};
  return invalid(fmt::format("there is no tag {{{{{}}}}}{}", *unknown, did_you_mean(*unknown, kUsual)));
}

Result<bool> differs_by_rank(Host& host, std::string_view text) {
  bool differs = false;
  auto look = [&](std::string_view tag) -> Tag {
    differs = differs || tag.starts_with(kNode) || tag.starts_with(kTask) || tag == "taskid" || tag == "tmpdir";
    if (differs || of_job(host.job(), tag)) return std::nullopt;
    differs = TRY(of_plugins(host, tag, 0, nullptr)) != TRY(of_plugins(host, tag, 1, nullptr));
    return std::nullopt;
  };
  TRY(value::render(text, look));
  return differs;
}

Result<bool> differs_by_task(Host& host, std::string_view text) {
  bool differs = false;
  auto look = [&](std::string_view tag) -> Tag {
    bool of_tasks = tag.starts_with(kTask) && is_of_task(tag.substr(kTask.size()));
    bool of_plugin = !of_job(host.job(), tag) && host.stack().listens(fmt::format("mustache.render.{}", tag)) &&
                     !TRY(of_plugins(host, tag, host.job().shell_rank, nullptr));
    differs = differs || of_tasks || tag == "taskid" || of_plugin;
    return std::nullopt;
  };
  TRY(value::render(text, look));
  return differs;
}

Result<bool> is_of_one_task(Host& host, std::string_view text) {
  bool by_rank = false;
  bool by_number = false;
  bool by_node = false;
  auto look = [&](std::string_view tag) -> Tag {
    by_rank = by_rank || tag == "task.rank" || tag == "task.id" || tag == "taskid" ||
              (tag == "task.argument" && are_different(host.options().find("arguments")));
    by_number = by_number || tag == "task.index" || tag == "task.localid";
    by_node = by_node || tag == "node.id";
    return std::nullopt;
  };
  TRY(value::render(text, look));
  return by_rank || (by_number && by_node);
}

}  // namespace nacre::plugin
