// SPDX-License-Identifier: Apache-2.0
#include "job/jobspec.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "job/environment.hpp"

namespace nacre::job {
namespace {

// ---- resources -------------------------------------------------------------

Result<std::uint32_t> positive(const JsonAt& at) {
  const Json& json = at.json();
  std::uint64_t value = json.is_number_unsigned() ? json.get<std::uint64_t>() : 0;
  if (value == 0) value = static_cast<std::uint64_t>(TRY(at.integer(1)));
  if (value > Jobspec::kMaxCount) return at.error(fmt::format("at most {}, got {}", Jobspec::kMaxCount, value));
  return static_cast<std::uint32_t>(value);
}

Result<std::uint32_t> count_of(const JsonAt& vertex) {
  JsonAt count = TRY(vertex.at("count"));
  if (count.json().is_object() || count.json().is_string()) {
    return count.expected("a positive integer (version 1 has no ranges)");
  }
  return positive(count);
}

Result<std::string> type_of(const JsonAt& vertex, std::string_view first, std::string_view second) {
  JsonAt type = TRY(vertex.at("type"));
  std::string text = TRY(type.string());
  if (text != first && text != second) return type.expected(fmt::format("{} or {}", first, second));
  return text;
}

Result<bool> exclusive(const JsonAt& vertex) {
  auto found = TRY(vertex.find("exclusive"));
  if (!found) return false;
  return found->boolean();
}

// Checks the types of keys that have no effect here.
Result<void> check_unit_and_label(const JsonAt& vertex) {
  for (std::string_view key : {"unit", "label"}) {
    if (auto found = TRY(vertex.find(key))) CHECK_OK(found->string());
  }
  return {};
}

// The content of a slot: cores, and possibly gpus.
Result<void> read_slot_contents(const JsonAt& slot, Jobspec& spec) {
  JsonAt with = TRY(slot.at("with"));
  bool has_cores = false;
  bool has_gpus = false;
  for (const JsonAt& vertex : TRY(with.elements())) {
    std::string type = TRY(type_of(vertex, "core", "gpu"));
    CHECK_OK(vertex.only_keys({"type", "count", "unit", "label"}));
    CHECK_OK(check_unit_and_label(vertex));
    bool is_core = type == "core";
    if (std::exchange(is_core ? has_cores : has_gpus, true)) return vertex.error(fmt::format("a second {}", type));
    (is_core ? spec.cores_per_slot : spec.gpus_per_slot) = TRY(count_of(vertex));
  }
  if (!has_cores) return with.error("no core; a slot needs one");
  return {};
}

struct Slot {
  std::string label;
  std::uint32_t count = 1;
};

Result<Slot> read_slot(const JsonAt& vertex, Jobspec& spec) {
  CHECK_OK(vertex.only_keys({"type", "count", "unit", "with", "label", "exclusive"}));
  CHECK_OK(check_unit_and_label(vertex));
  CHECK_OK(exclusive(vertex));  // it has no effect: cores and gpus of a slot are the job's alone anyway
  Slot slot;
  slot.count = TRY(count_of(vertex));
  slot.label = TRY(TRY(vertex.at("label")).string());
  CHECK_OK(read_slot_contents(vertex, spec));
  return slot;
}

// The only element of a list of `what`s.
Result<JsonAt> only_element(const JsonAt& list, std::string_view what) {
  auto elements = TRY(list.elements());
  if (elements.size() != 1) return list.error(fmt::format("expected one {}, got {}", what, elements.size()));
  return elements.front();
}

// Returns the label of the slot.
Result<std::string> read_resources(const JsonAt& root, Jobspec& spec) {
  JsonAt vertex = TRY(only_element(TRY(root.at("resources")), "vertex"));
  if (TRY(type_of(vertex, "node", "slot")) == "slot") {
    Slot slot = TRY(read_slot(vertex, spec));
    spec.slots = slot.count;
    return slot.label;
  }
  CHECK_OK(vertex.only_keys({"type", "count", "unit", "with", "label", "exclusive"}));
  CHECK_OK(check_unit_and_label(vertex));
  spec.node_exclusive = TRY(exclusive(vertex));
  spec.nodes = TRY(count_of(vertex));
  JsonAt inner = TRY(only_element(TRY(vertex.at("with")), "slot"));
  JsonAt type = TRY(inner.at("type"));
  if (TRY(type.string()) != "slot") return type.expected("slot");
  Slot slot = TRY(read_slot(inner, spec));
  spec.slots_per_node = slot.count;
  std::uint64_t slots = std::uint64_t{*spec.nodes} * slot.count;
  if (slots > Jobspec::kMaxCount) {
    return inner.error(fmt::format("{} slots on all nodes; at most {}", slots, Jobspec::kMaxCount));
  }
  spec.slots = static_cast<std::uint32_t>(slots);
  return slot.label;
}

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

Result<void> read_count(const JsonAt& count, Jobspec& spec) {
  CHECK_OK(count.only_keys({"per_slot", "total"}));
  auto per_slot = TRY(count.find("per_slot"));
  auto total = TRY(count.find("total"));
  if (per_slot.has_value() == total.has_value()) {
    return count.error(fmt::format("expected either per_slot or total, got {}", total ? "both" : "neither"));
  }
  spec.count = total ? Jobspec::Count::total : Jobspec::Count::per_slot;
  spec.count_value = TRY(positive(total ? *total : *per_slot));
  if (spec.tasks() > Jobspec::kMaxCount) {
    return count.error(fmt::format("{} tasks in all; at most {}", spec.tasks(), Jobspec::kMaxCount));
  }
  return {};
}

Result<void> read_tasks(const JsonAt& root, const std::string& label, Jobspec& spec) {
  JsonAt task = TRY(only_element(TRY(root.at("tasks")), "task"));
  CHECK_OK(task.only_keys({"command", "slot", "count"}));
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

Result<void> check_jobspec_version(const JsonAt& root) {
  JsonAt version = TRY(root.at("version"));
  if (TRY(version.integer()) != 1) return version.expected("1");
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
  std::string label = TRY(read_resources(root, spec));
  CHECK_OK(read_tasks(root, label, spec));
  CHECK_OK(read_attributes(root, spec));
  spec.document = std::move(document);
  return spec;
}

std::uint64_t Jobspec::tasks() const {
  return count == Count::total ? count_value : std::uint64_t{slots} * count_value;
}

}  // namespace nacre::job
