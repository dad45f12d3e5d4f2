// SPDX-License-Identifier: Apache-2.0
#include "job/jobspec.hpp"

#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "job/environment.hpp"

namespace nacre::job {

// ---- yaml scalar ------------------------------------------------------------------------
//
// The type of a YAML scalar: YAML 1.2, section 10.3.2, the core schema.

namespace {

constexpr std::array<std::string_view, 5> kNull = {"", "~", "null", "Null", "NULL"};
constexpr std::array<std::string_view, 3> kTrue = {"true", "True", "TRUE"};
constexpr std::array<std::string_view, 3> kFalse = {"false", "False", "FALSE"};
constexpr std::array<std::string_view, 6> kNotInJson = {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"};
constexpr std::string_view kDigits = "0123456789";

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& words, std::string_view text) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_made_of(std::string_view set, std::string_view text) {
  return !text.empty() && text.find_first_not_of(set) == std::string_view::npos;
}

// Digits, possibly with a dot, then possibly an exponent. A sign was removed before.
bool is_number(std::string_view text) {
  if (auto e = text.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view exponent = text.substr(e + 1);
    if (exponent.starts_with('+') || exponent.starts_with('-')) exponent.remove_prefix(1);
    if (!is_made_of(kDigits, exponent)) return false;
    text = text.substr(0, e);
  }
  auto dot = text.find('.');
  if (dot == std::string_view::npos) return is_made_of(kDigits, text);
  std::string_view whole = text.substr(0, dot);
  std::string_view fraction = text.substr(dot + 1);
  if (whole.empty()) return is_made_of(kDigits, fraction);
  return is_made_of(kDigits, whole) && (fraction.empty() || is_made_of(kDigits, fraction));
}

Result<Json> integer(std::string_view digits, int base) {
  std::uint64_t value = 0;
  auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (code != std::errc{}) return invalid("a number of more than 64 bits");
  return Json(value);
}

// `text` may start with '-', but not with '+'.
Result<Json> number(std::string_view text) {
  if (auto value = parse_i64(text)) return Json(*value);
  if (auto value = parse_u64(text)) return Json(*value);
  double value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{}) return invalid("a number that a double cannot hold");
  return Json(value);
}

Result<Json> plain(std::string_view text) {
  if (is_one_of(kNull, text)) return Json();
  if (is_one_of(kTrue, text)) return Json(true);
  if (is_one_of(kFalse, text)) return Json(false);
  if (text.starts_with("0o") && is_made_of("01234567", text.substr(2))) return integer(text.substr(2), 8);
  if (text.starts_with("0x") && is_made_of("0123456789abcdefABCDEF", text.substr(2)))
    return integer(text.substr(2), 16);
  bool is_signed = text.starts_with('-') || text.starts_with('+');
  std::string_view magnitude = text.substr(is_signed ? 1 : 0);
  if (is_one_of(kNotInJson, magnitude)) return invalid(fmt::format("JSON has no number {}", text));
  if (!is_number(magnitude)) return Json(text);
  return number(text.starts_with('+') ? magnitude : text);
}

}  // namespace

// `tag` is the full tag, or "!" for a scalar in quotes, or "?" or "" for a plain one without a tag. Whole numbers
// that 64 bits cannot hold become doubles, as in JSON. Refused are infinity and NaN, numbers too large for a
// double, a text that does not fit its tag, and tags that the schema does not have.
Result<Json> yaml_scalar(std::string_view tag, std::string_view text) {
  constexpr std::string_view kStandard = "tag:yaml.org,2002:";
  if (tag == "?" || tag.empty()) return plain(text);
  if (tag == "!") return Json(text);
  if (tag.starts_with(kStandard)) {
    std::string_view type = tag.substr(kStandard.size());
    if (type == "str") return Json(text);
    Json value = TRY(plain(text));
    if (type == "int" && value.is_number_integer()) return value;
    if (type == "float" && value.is_number()) return Json(value.get<double>());
    if (type == "bool" && value.is_boolean()) return value;
    if (type == "null" && value.is_null()) return value;
  }
  return invalid(fmt::format("{} does not go with the tag {}", in_quotes(text), in_quotes(tag)));
}

// ---- jobspec ----------------------------------------------------------------------------

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
  // As in flux-shell; nacre itself writes "on" if failures of all tasks count.
  auto failures = spec.options.find("exit-on-error");
  if (failures != spec.options.end() && (*failures == 1 || *failures == true)) *failures = "first";
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

// Variables of the task override those of the job.
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

// ---- jobspec resources ------------------------------------------------------------------
//
// The resources of a jobspec: those of version 1, and other parts of Flux RFC 14 that have a clear meaning for a
// shell, whose R already has the job's resources.

namespace {

// What is around a vertex.
struct Around {
  std::uint64_t levels = 1;         // of racks and the like around nodes or, in a node, of sockets and the like
  std::optional<CountRange> nodes;  // none: it is in no node
};

Result<std::uint32_t> in_all(const JsonAt& at, std::uint64_t each, std::uint64_t times, std::string_view what) {
  std::uint64_t all = 0;
  if (!__builtin_mul_overflow(each, times, &all) && all <= Jobspec::kMaxCount)
    return static_cast<std::uint32_t>(all);
  return at.error(fmt::format("{} {}; at most {}", all, what, Jobspec::kMaxCount));
}

Result<std::string> type_of(const JsonAt& vertex) { return TRY(vertex.at("type")).string(); }

Result<bool> exclusive(const JsonAt& vertex) {
  auto found = TRY(vertex.find("exclusive"));
  if (!found) return false;
  return found->boolean();
}

Result<void> check_vertex(const JsonAt& vertex) {
  CHECK_OK(vertex.only_keys({"type", "count", "unit", "with", "label", "exclusive", "id"}));
  for (std::string_view key : {"unit", "label", "id"}) {
    if (auto found = TRY(vertex.find(key))) CHECK_OK(found->string());
  }
  CHECK_OK(exclusive(vertex));
  CHECK_OK(TRY(vertex.at("type")).string());
  return {};
}

Result<CountRange> count_of(const JsonAt& vertex) { return CountRange::read(TRY(vertex.at("count"))); }

// A level that contains others: its count has to be known.
Result<std::uint32_t> fixed_count(const JsonAt& vertex) {
  CountRange count = TRY(count_of(vertex));
  if (count.is_fixed()) return count.min();
  return TRY(vertex.at("count")).expected("a positive integer, as the number of slots depends on it");
}

Result<std::size_t> slots_in(const JsonAt& vertices) {
  std::size_t slots = 0;
  for (const JsonAt& vertex : TRY(vertices.elements())) {
    if (TRY(type_of(vertex)) == "slot")
      ++slots;
    else if (auto with = TRY(vertex.find("with")))
      slots += TRY(slots_in(*with));
  }
  return slots;
}

class SlotContents {
 public:
  // `times`: of each vertex in a slot.
  Result<void> read(const JsonAt& with, std::uint64_t times) {
    for (const JsonAt& vertex : TRY(with.elements())) CHECK_OK(read_vertex(vertex, times));
    return {};
  }

  std::uint32_t cores = 0;
  std::uint32_t gpus = 0;
  std::optional<std::uint32_t> nodes;  // whole nodes in a slot

 private:
  Result<void> read_vertex(const JsonAt& vertex, std::uint64_t times) {
    CHECK_OK(check_vertex(vertex));
    std::string type = TRY(type_of(vertex));
    if (type == "slot") return vertex.error("a slot in a slot");
    CountRange count = TRY(count_of(vertex));
    bool is_core = type == "core";
    if (is_core || type == "gpu") {
      std::uint32_t& sum = is_core ? cores : gpus;
      if (sum > 0) return vertex.error(fmt::format("a second {}", type));
      sum = TRY(in_all(vertex, count.min(), times, fmt::format("{}s in a slot", type)));
      return {};
    }
    if (type == "node") {
      if (nodes) return vertex.error("a second node");
      nodes = count.min();
    }
    auto with = TRY(vertex.find("with"));
    if (!with) return {};
    return read(*with,
                type == "node" ? times : TRY(in_all(vertex, count.min(), times, "of its contents in a slot")));
  }
};

class Reader {
 public:
  explicit Reader(Jobspec& spec) : spec_(spec) {}

  // Finds the only slot in these vertices. Vertices without a slot have no effect.
  Result<void> read(const JsonAt& vertices, const Around& around) {
    for (const JsonAt& vertex : TRY(vertices.elements())) {
      CHECK_OK(check_vertex(vertex));
      if (TRY(type_of(vertex)) == "slot") return read_slot(vertex, around);
      auto with = TRY(vertex.find("with"));
      if (with && TRY(slots_in(*with)) > 0) return read_level(vertex, *with, around);
    }
    return vertices.error("no slot");
  }

  std::string label;

 private:
  Result<void> read_level(const JsonAt& vertex, const JsonAt& with, const Around& around) {
    Around inner = around;
    if (TRY(type_of(vertex)) != "node") {
      inner.levels = TRY(in_all(vertex, TRY(fixed_count(vertex)), around.levels, "of it in all"));
      return read(with, inner);
    }
    if (around.nodes) return vertex.error("a node in a node");
    CountRange count = TRY(count_of(vertex));
    if (!count.is_fixed() && around.levels > 1) return TRY(vertex.at("count")).expected("a positive integer");
    spec_.node_exclusive = TRY(exclusive(vertex));
    spec_.nodes = TRY(in_all(vertex, count.min(), around.levels, "nodes in all"));
    inner.nodes = count;
    inner.levels = 1;
    if (!count.is_fixed()) spec_.node_counts = count;
    return read(with, inner);
  }

  Result<void> read_slot(const JsonAt& vertex, const Around& around) {
    label = TRY(TRY(vertex.at("label")).string());
    CountRange count = TRY(count_of(vertex));
    std::uint64_t slots = TRY(in_all(vertex, count.min(), around.levels, "slots"));
    JsonAt with = TRY(vertex.at("with"));
    SlotContents contents;
    CHECK_OK(contents.read(with, 1));
    if (contents.nodes && around.nodes) return with.error("a node in a node");
    if (contents.cores == 0 && !contents.nodes) return with.error("no core; a slot needs one");
    if (!count.is_fixed()) {
      if (around.levels > 1) return TRY(vertex.at("count")).expected("a positive integer");
      spec_.slot_counts = count;
    }
    spec_.cores_per_slot = std::max(contents.cores, 1U);
    spec_.gpus_per_slot = contents.gpus;
    if (around.nodes) spec_.slots_per_node = static_cast<std::uint32_t>(slots);
    if (contents.nodes) spec_.node_exclusive = true;
    if (contents.nodes == 1U && count.is_fixed()) {
      spec_.nodes = static_cast<std::uint32_t>(slots);
      spec_.slots_per_node = 1;
    }
    std::uint64_t times = around.nodes ? *spec_.nodes : 1;
    std::uint64_t all = slots * times;
    if (all > Jobspec::kMaxCount)
      return vertex.error(fmt::format("{} slots on all nodes; at most {}", all, Jobspec::kMaxCount));
    spec_.slots = static_cast<std::uint32_t>(all);
    return {};
  }

  Jobspec& spec_;
};

}  // namespace

Result<std::string> read_resources(const JsonAt& resources, Jobspec& spec) {
  std::size_t slots = TRY(slots_in(resources));
  if (slots != 1)
    return resources.error(fmt::format("expected one slot, got {}{}", slots,
                                       slots > 1 ? "; the option multi-prog runs several programs" : ""));
  Reader reader(spec);
  CHECK_OK(reader.read(resources, {}));
  return std::move(reader.label);
}

Result<void> settle_counts(const Resources& resources, Jobspec& spec) {
  auto nodes = static_cast<std::uint32_t>(resources.nodes.size());
  if (spec.node_counts) {
    if (!spec.node_counts->contains(nodes))
      return invalid(fmt::format("R has {} nodes, which is not a number of them that the jobspec asks for", nodes));
    spec.nodes = nodes;
    spec.slots = nodes * spec.slots_per_node.value_or(1);
  }
  if (!spec.slot_counts) return {};
  if (!resources.slots)
    return invalid("the jobspec leaves the number of slots open; R has to have it as execution.nslots");
  std::uint32_t each = spec.nodes ? *resources.slots / *spec.nodes : *resources.slots;
  if (!spec.slot_counts->contains(each) || (spec.nodes && each * *spec.nodes != *resources.slots))
    return invalid(
        fmt::format("R has {} slots, which is not a number of them that the jobspec asks for", *resources.slots));
  if (spec.nodes) spec.slots_per_node = each;
  spec.slots = *resources.slots;
  return {};
}

// ---- count range ------------------------------------------------------------------------

namespace {

constexpr const char* kACount = "a positive integer, or a range as 2-8, 4+, 2-8:2 or 2-16:2:*";

Result<std::uint32_t> positive_number(const JsonAt& at) {
  const Json& json = at.json();
  std::uint64_t value = json.is_number_unsigned() ? json.get<std::uint64_t>() : 0;
  if (value == 0) value = static_cast<std::uint64_t>(TRY(at.integer(1)));
  if (value > Jobspec::kMaxCount) return at.error(fmt::format("at most {}, got {}", Jobspec::kMaxCount, value));
  return static_cast<std::uint32_t>(value);
}

std::optional<std::uint32_t> number_of(std::string_view text) {
  auto number = parse_u64(text);
  if (!number || *number == 0 || *number > Jobspec::kMaxCount) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

bool is_operator(std::string_view text) { return text == "+" || text == "*" || text == "^"; }

// The one after `count`, or more than all.
std::uint64_t next_count(std::uint64_t count, char how, std::uint32_t operand) {
  if (how == '+') return count + operand;
  if (how == '*') return count * operand;
  std::uint64_t power = 1;
  for (std::uint32_t i = 0; i < operand && power <= Jobspec::kMaxCount; ++i) power *= count;
  return power;
}

}  // namespace

bool CountRange::contains(std::uint32_t count) const {
  if (ids_) return ids_->contains(count);
  if (count < min_ || (max_ && count > *max_)) return false;
  if (operator_ == '+') return (count - min_) % operand_ == 0;
  std::uint64_t each = min_;
  while (each < count) each = next_count(each, operator_, operand_);
  return each == count;
}

std::optional<std::uint32_t> CountRange::largest(std::uint32_t most) const {
  for (std::uint32_t count = std::min(most, max_.value_or(most)); count >= min_ && count > 0; --count) {
    if (contains(count)) return count;
  }
  return std::nullopt;
}

std::string CountRange::str() const {
  if (ids_) return ids_->str();
  const std::string most = max_ ? fmt::format_int(*max_).str() : "";
  if (operator_ == '+' && operand_ == 1) return fmt::format("{}:{}", min_, most);
  return fmt::format("{}{}{}:{}:{}", min_, max_ ? "-" : "+", most, operand_, operator_);
}

Result<void> CountRange::check(const JsonAt& count, const CountRange& range) {
  if (range.max_ && *range.max_ < range.min_)
    return count.error(fmt::format("max {} is below min {}", *range.max_, range.min_));
  if (range.operator_ == '+') return {};
  if (range.operand_ < 2)
    return count.error(fmt::format("the operator {} needs an operand of at least 2", range.operator_));
  if (range.operator_ == '^' && range.min_ < 2) return count.error("the operator ^ needs a min of at least 2");
  return {};
}

Result<CountRange> CountRange::of_object(const JsonAt& count) {
  CHECK_OK(count.only_keys({"min", "max", "operator", "operand"}));
  CountRange range(TRY(positive_number(TRY(count.at("min")))), std::nullopt);
  if (auto max = TRY(count.find("max"))) range.max_ = TRY(positive_number(*max));
  auto how = TRY(count.find("operator"));
  auto operand = TRY(count.find("operand"));
  if (how.has_value() != operand.has_value()) return count.error("`operator` and `operand` go together");
  if (how) {
    std::string text = TRY(how->string());
    if (!is_operator(text)) return how->expected("one of +, *, ^");
    range.operator_ = text[0];
    range.operand_ = TRY(positive_number(*operand));
  }
  CHECK_OK(check(count, range));
  return range;
}

Result<CountRange> CountRange::of_text(const JsonAt& count) {
  std::string text = TRY(count.string());
  if (auto ids = value::Idset::parse(text)) {
    if (ids->empty() || ids->contains(0) || *ids->last() > Jobspec::kMaxCount) return count.expected(kACount);
    CountRange range(*ids->first(), *ids->last());
    if (ids->ranges().size() > 1) range.ids_ = *std::move(ids);
    return range;
  }
  std::vector<std::string_view> parts = split(text, ':');
  std::string_view span = parts[0];
  bool is_open = span.ends_with('+');
  std::size_t dash = is_open ? span.size() - 1 : span.find('-');
  auto min = number_of(span.substr(0, dash));
  auto max = is_open || dash == std::string_view::npos ? std::nullopt : number_of(span.substr(dash + 1));
  auto operand = parts.size() > 1 ? number_of(parts[1]) : std::optional<std::uint32_t>(1);
  bool is_good =
      min && (is_open || max) && operand && parts.size() <= 3 && (parts.size() < 3 || is_operator(parts[2]));
  if (!is_good) return count.expected(kACount);
  CountRange range(*min, max);
  range.operand_ = *operand;
  if (parts.size() == 3) range.operator_ = parts[2][0];
  CHECK_OK(check(count, range));
  return range;
}

Result<CountRange> CountRange::read(const JsonAt& count) {
  if (count.json().is_object()) return of_object(count);
  if (count.json().is_string()) return of_text(count);
  return CountRange(TRY(positive_number(count)));
}

// ---- yaml -------------------------------------------------------------------------------
//
// Converts YAML to JSON in two steps. The parser's events become a flat list of nodes, in which an alias is one
// more reference to a node; then the list is unrolled into JSON, and only there do aliases cost memory. yaml-cpp
// reports errors by exceptions, which end in read_nodes().

namespace {

constexpr std::size_t kValueWeight = 64;  // cost of a value besides its text, towards kMaxYamlWeight

Error at(const YAML::Mark& mark, std::string_view why) {
  return invalid(fmt::format("YAML: line {}, column {}: {}", mark.line + 1, mark.column + 1, why));
}

// ---- events to nodes -------------------------------------------------------

struct YamlNode {
  enum class Kind { scalar, sequence, map };
  Kind kind = Kind::scalar;
  YAML::Mark mark;
  Json value;                         // of a scalar
  std::string text;                   // the scalar's text, for a key
  std::vector<std::size_t> children;  // nodes; of a map: key, value, key, value...
  bool open = false;                  // its end has not come yet
};

// A handler can stop the parser only by an exception; it throws the parser's own.
class NodeReader : public YAML::EventHandler {
 public:
  explicit NodeReader(std::vector<YamlNode>& nodes) : nodes_(nodes) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) throw YAML::ParserException(mark, "a second document; expected one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, anchor, 0); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    auto typed = yaml_scalar(tag, value);
    if (!typed) throw YAML::ParserException(mark, typed.error().message);
    YamlNode& node = nodes_[add(mark, anchor, value.size())];
    node.value = *std::move(typed);
    node.text = value;
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    std::size_t target = anchors_[anchor];
    if (nodes_[target].open) throw YAML::ParserException(mark, "an alias to what it stands in");
    weigh(mark, 0);
    attach(target);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(YamlNode::Kind::sequence, mark, tag, "tag:yaml.org,2002:seq", anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(YamlNode::Kind::map, mark, tag, "tag:yaml.org,2002:map", anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  void weigh(const YAML::Mark& mark, std::size_t text_size) {
    weight_ += kValueWeight + text_size;
    if (weight_ > kMaxYamlWeight) throw YAML::ParserException(mark, "too many values");
  }

  std::size_t add(const YAML::Mark& mark, YAML::anchor_t anchor, std::size_t text_size) {
    weigh(mark, text_size);
    std::size_t index = nodes_.size();
    nodes_.emplace_back().mark = mark;
    if (anchor != YAML::NullAnchor) anchors_[anchor] = index;
    attach(index);
    return index;
  }

  void attach(std::size_t index) {
    if (!open_.empty()) nodes_[open_.back()].children.push_back(index);
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag, std::string_view own_tag,
            YAML::anchor_t anchor) {
    if (open_.size() >= static_cast<std::size_t>(kMaxJsonDepth)) {
      throw YAML::ParserException(mark, fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    }
    if (tag != "?" && tag != "!" && !tag.empty() && tag != own_tag) {
      throw YAML::ParserException(mark, fmt::format("the tag {} does not go with this value", in_quotes(tag)));
    }
    std::size_t index = add(mark, anchor, 0);
    nodes_[index].kind = kind;
    nodes_[index].open = true;
    open_.push_back(index);
  }

  void close() {
    nodes_[open_.back()].open = false;
    open_.pop_back();
  }

  std::vector<YamlNode>& nodes_;
  std::vector<std::size_t> open_;  // the collections that are open
  std::unordered_map<YAML::anchor_t, std::size_t> anchors_;
  std::size_t weight_ = 0;
  int documents_ = 0;
};

// The first node is the root; none if there is no document.
Result<std::vector<YamlNode>> read_nodes(std::string_view text) {
  std::vector<YamlNode> nodes;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    NodeReader reader(nodes);
    while (parser.HandleNextDocument(reader)) {
    }
  } catch (const YAML::Exception& error) {
    return at(error.mark, error.msg);
  } catch (const std::exception& error) {
    return invalid(fmt::format("YAML: {}", error.what()));
  }
  return nodes;
}

// ---- nodes to JSON ---------------------------------------------------------

class Unroller {
 public:
  explicit Unroller(const std::vector<YamlNode>& nodes) : nodes_(nodes) {}

  Result<Json> value(std::size_t index, int depth = 0) {
    const YamlNode& node = nodes_[index];
    CHECK_OK(weigh(node));
    if (node.kind == YamlNode::Kind::scalar) return node.value;
    if (depth == kMaxJsonDepth) return at(node.mark, fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    return node.kind == YamlNode::Kind::map ? map(node, depth + 1) : sequence(node, depth + 1);
  }

 private:
  Result<void> weigh(const YamlNode& node) {
    weight_ += kValueWeight + node.text.size();
    if (weight_ <= kMaxYamlWeight) return {};
    return at(node.mark, "too many values, aliases counted as what they stand for");
  }

  Result<Json> sequence(const YamlNode& node, int depth) {
    Json out = Json::array();
    for (std::size_t child : node.children) out.push_back(TRY(value(child, depth)));
    return out;
  }

  Result<Json> map(const YamlNode& node, int depth) {
    Json out = Json::object();
    for (std::size_t i = 0; i + 1 < node.children.size(); i += 2) {
      const YamlNode& key = nodes_[node.children[i]];
      if (key.kind != YamlNode::Kind::scalar || key.value.is_null()) {
        return at(key.mark, "a key must be text, neither null nor a collection");
      }
      if (out.contains(key.text)) return at(key.mark, fmt::format("the key {} is here twice", in_quotes(key.text)));
      CHECK_OK(weigh(key));
      out[key.text] = TRY(value(node.children[i + 1], depth));
    }
    return out;
  }

  const std::vector<YamlNode>& nodes_;
  std::size_t weight_ = 0;
};

// ---- bytes -----------------------------------------------------------------

// The length of the UTF-8 character at the start of `text`; 0 if there is none.
std::size_t character(std::string_view text) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // a form that is too long, a surrogate, or beyond U+10FFFF
  bool bad = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
             (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return bad ? 0 : size;
}

// yaml-cpp silently replaces what is no UTF-8, and takes the byte 4 for the end of the text: both are errors here.
Result<void> check_bytes(std::string_view text) {
  YAML::Mark mark;
  for (std::size_t i = 0; i < text.size();) {
    auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f) {
      return at(mark, fmt::format("the control character 0x{:02x}", byte));
    }
    std::size_t size = character(text.substr(i));
    if (size == 0) return at(mark, "not UTF-8");
    i += size;
    ++mark.column;
    if (byte == '\n') {
      ++mark.line;
      mark.column = 0;
    }
  }
  return {};
}

}  // namespace

Result<Json> yaml_to_json(std::string_view text) {
  if (text.size() > kMaxYaml) return invalid(fmt::format("YAML of {} bytes; at most {}", text.size(), kMaxYaml));
  CHECK_OK(check_bytes(text));
  std::vector<YamlNode> nodes = TRY(read_nodes(text));
  if (nodes.empty()) return Json();
  return Unroller(nodes).value(0);
}

}  // namespace nacre::job
