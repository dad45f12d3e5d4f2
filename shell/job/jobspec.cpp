// SPDX-License-Identifier: Apache-2.0
#include "job/jobspec.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "job/environment.hpp"
#include "job/jobspec_resources.hpp"

namespace nacre::job {
namespace {

// ---- the task --------------------------------------------------------------

Result<void> read_command(const JsonAt& command, Jobspec& spec) {
  for (const JsonAt& each : TRY(command.elements())) {
    std::string argument = TRY(each.string());
    // GCC 12 warns falsely about std::string::find here when it sees the whole program.
    bool nul = std::find(argument.begin(), argument.end(), '\0') != argument.end();
    if (nul) return each.error("an argument cannot have a NUL");
    if (argument.size() >= Jobspec::kMaxArgument) {
      return each.error(fmt::format("{} bytes; at most {}", argument.size(), Jobspec::kMaxArgument - 1));
    }
    spec.command.push_back(std::move(argument));
  }
  if (spec.command.empty()) return command.error("expected a program and its arguments, got an empty list");
  if (spec.command.front().empty()) return command.error("expected a program's name first, got an empty one");
  return {};
}

Result<std::uint32_t> positive(const JsonAt& at) {
  if (at.json().is_object() || at.json().is_string()) return at.expected("a positive integer");
  return TRY(CountRange::read(at)).min();
}

// The tasks of a slot.
Result<std::uint32_t> per_resource(const JsonAt& at, const Jobspec& spec) {
  CHECK_OK(at.only_keys({"type", "count"}));
  JsonAt type = TRY(at.at("type"));
  std::string name = TRY(type.string());
  std::uint32_t in_slot = name == "core" ? spec.cores_per_slot : name == "gpu" ? spec.gpus_per_slot : 0;
  if (in_slot == 0) return type.expected("core or gpu, of which a slot has some");
  std::uint64_t tasks = std::uint64_t{TRY(positive(TRY(at.at("count"))))} * in_slot;
  if (tasks > Jobspec::kMaxCount)
    return at.error(fmt::format("{} tasks a slot; at most {}", tasks, Jobspec::kMaxCount));
  return static_cast<std::uint32_t>(tasks);
}

Result<void> read_count(const JsonAt& count, Jobspec& spec) {
  CHECK_OK(count.only_keys({"per_slot", "total", "per_resource"}));
  if (count.json().size() > 1) return count.error("expected one of per_slot, total and per_resource, got several");
  if (auto total = TRY(count.find("total"))) {
    spec.count = Jobspec::Count::total;
    spec.count_value = TRY(positive(*total));
  } else if (auto per_slot = TRY(count.find("per_slot"))) {
    spec.count_value = TRY(positive(*per_slot));
  } else if (auto resource = TRY(count.find("per_resource"))) {
    spec.count_value = TRY(per_resource(*resource, spec));
  } else {
    return count.error("expected one of per_slot, total and per_resource, got none");
  }
  if (spec.tasks() > Jobspec::kMaxCount) {
    return count.error(fmt::format("{} tasks in all; at most {}", spec.tasks(), Jobspec::kMaxCount));
  }
  return {};
}

Result<void> read_tasks(const JsonAt& root, const std::string& label, Jobspec& spec) {
  JsonAt tasks = TRY(root.at("tasks"));
  auto elements = TRY(tasks.elements());
  if (elements.size() != 1)
    return tasks.error(fmt::format("expected one task, got {}{}", elements.size(),
                                   elements.empty() ? "" : "; the option multi-prog runs several programs"));
  const JsonAt& task = elements.front();
  CHECK_OK(task.only_keys({"command", "slot", "count", "attributes", "distribution"}));
  if (auto distribution = TRY(task.find("distribution"))) CHECK_OK(distribution->string());
  CHECK_OK(read_command(TRY(task.at("command")), spec));
  JsonAt slot = TRY(task.at("slot"));
  if (TRY(slot.string()) != label) {
    return slot.error(
        fmt::format("names no slot: {}; the only slot is labelled {}", dump_json(slot.json()), in_quotes(label)));
  }
  return read_count(TRY(task.at("count")), spec);
}

// ---- attributes ------------------------------------------------------------

Result<double> read_duration(const JsonAt& at) {
  double seconds = TRY(at.number());
  if (!std::isfinite(seconds) || seconds < 0) return at.expected("a number of seconds, not negative");
  return seconds;
}

Result<std::string> read_cwd(const JsonAt& at) {
  std::string path = TRY(at.string());
  if (!path.starts_with('/') || path.find('\0') != std::string::npos) return at.expected("an absolute path");
  return path;
}

Result<void> read_environment(const JsonAt& environment, Jobspec& spec) {
  for (const auto& [name, at] : TRY(environment.members())) {
    bool is_null = at.json().is_null();
    std::string value = is_null ? std::string() : TRY(at.string());
    CHECK_OK(in(environment.path(), Environment::check(name, value)));
    std::size_t size = name.size() + value.size() + 1;
    if (size >= Jobspec::kMaxArgument) {
      return at.error(fmt::format("{} bytes with its name; at most {}", size, Jobspec::kMaxArgument - 1));
    }
    if (!is_null) spec.environment.emplace_back(name, std::move(value));
  }
  return {};
}

Result<void> read_shell(const JsonAt& shell, Jobspec& spec) {
  auto options = TRY(shell.find("options"));
  if (!options) return {};
  if (!options->json().is_object()) return options->expected("an object");
  spec.options = options->json();
  return {};
}

Result<void> read_system(const JsonAt& system, Jobspec& spec) {
  if (auto found = TRY(system.find("duration"))) spec.duration = TRY(read_duration(*found));
  if (auto found = TRY(system.find("cwd"))) spec.cwd = TRY(read_cwd(*found));
  if (auto found = TRY(system.find("environment"))) CHECK_OK(read_environment(*found, spec));
  if (auto found = TRY(system.find("shell"))) CHECK_OK(read_shell(*found, spec));
  return {};
}

Result<void> read_attributes(const JsonAt& root, Jobspec& spec) {
  auto attributes = TRY(root.find("attributes"));
  // RFC 25's schema allows the value to be null, but not the key to be missing.
  if (!attributes && root.json().contains("attributes")) return {};
  if (!attributes) return root.at("attributes").error();
  CHECK_OK(attributes->only_keys({"system", "user"}));
  if (auto user = TRY(attributes->find("user"))) CHECK_OK(user->members());
  if (auto system = TRY(attributes->find("system"))) CHECK_OK(read_system(*system, spec));
  return {};
}

// Variables of the task go over those of the job.
Result<void> read_task_attributes(const JsonAt& root, Jobspec& spec) {
  JsonAt task = TRY(TRY(root.at("tasks")).elements()).front();
  auto attributes = TRY(task.find("attributes"));
  if (!attributes) return {};
  CHECK_OK(attributes->members());
  auto environment = TRY(attributes->find("environment"));
  if (!environment) return {};
  for (const auto& [name, at] : TRY(environment->members()))
    std::erase_if(spec.environment, [&name = name](const auto& each) { return each.first == name; });
  return read_environment(*environment, spec);
}

Result<void> check_jobspec_version(const JsonAt& root) {
  JsonAt version = TRY(root.at("version"));
  std::int64_t number = TRY(version.integer());
  if (number != 1 && number != Jobspec::kDraftVersion) return version.expected("1");
  return {};
}

}  // namespace

Result<Jobspec> Jobspec::parse(std::string_view text) {
  if (!trim(text).starts_with('{')) return from_json(TRY(yaml_to_json(text)));
  auto json = parse_json(text);
  if (json) return from_json(*std::move(json));
  // A YAML map may start with a brace too.
  auto yaml = yaml_to_json(text);
  if (!yaml) return invalid(fmt::format("{}; {}", json.error().message, yaml.error().message));
  auto spec = from_json(*std::move(yaml));
  if (!spec) return invalid(fmt::format("{}; as YAML: {}", json.error().message, spec.error().message));
  return spec;
}

Result<Jobspec> Jobspec::from_json(Json document) {
  Jobspec spec;
  JsonAt root = JsonAt::root(document);
  CHECK_OK(check_jobspec_version(root));
  std::string label = TRY(read_resources(TRY(root.at("resources")), spec));
  CHECK_OK(read_tasks(root, label, spec));
  CHECK_OK(read_attributes(root, spec));
  CHECK_OK(read_task_attributes(root, spec));
  spec.document = std::move(document);
  return spec;
}

std::uint64_t Jobspec::tasks() const {
  return count == Count::total ? count_value : std::uint64_t{slots} * count_value;
}

}  // namespace nacre::job
