// SPDX-License-Identifier: Apache-2.0
#include "job/options.hpp"

#include <fmt/ranges.h>

#include "base/text.hpp"
#include "job/option_table.hpp"

namespace nacre::job {
namespace {

// Options that have one value, or an object with that value as a member, so that other members can be set as well.
struct OneValue {
  std::string_view option;
  std::string_view member;
};
constexpr OneValue kOneValue[] = {{"container", "image"},   {"cpu-affinity", "mode"},   {"epilog", "command"},
                                  {"exit-notify", "to"},    {"exit-on-error", "when"},  {"exit-timeout", "timeout"},
                                  {"gpu-affinity", "mode"}, {"health", "checks"},       {"pmi", "use"},
                                  {"prolog", "command"},    {"task-epilog", "command"}, {"task-prolog", "command"}};
// Switches that an object also turns on.
constexpr std::string_view kSwitches[] = {"fault-tolerance", "pty", "signal", "stage-in", "sysmon", "torch"};

// Empty: it is no such option.
std::string_view value_member(std::string_view option) {
  for (const OneValue& each : kOneValue) {
    if (each.option == option) return each.member;
  }
  return {};
}

// Whether `value` only turns on what the object `set` has turned on already.
bool is_said_by(const Json& set, std::string_view option, const Json& value) {
  if (!set.is_object() || std::find(std::begin(kSwitches), std::end(kSwitches), option) == std::end(kSwitches))
    return false;
  auto on = value.is_object() ? Result<bool>(false) : switch_of(JsonAt::root(value, std::string(option)));
  return on && *on;
}

}  // namespace

Result<bool> switch_of(const JsonAt& option) {
  const Json& json = option.json();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number()) return json.get<double>() != 0;
  if (json == "on") return true;
  if (json == "off") return false;
  if (json.is_string()) {
    auto inner = parse_json(json.get_ref<const std::string&>());
    if (inner && inner->is_boolean()) return inner->get<bool>();
    if (inner && inner->is_number()) return inner->get<double>() != 0;
  }
  return option.expected("on or off");
}

void Options::ask(std::string_view name) const {
  if (asked_.find(name) == asked_.end()) asked_.emplace(name);
}

const Json* Options::find(std::string_view path) const {
  ask(path.substr(0, path.find('.')));
  const Json* at = &object_;
  for (std::string_view name : split(path, '.')) {
    if (!at->is_object()) return nullptr;
    auto it = at->find(std::string(name));
    if (it == at->end()) return nullptr;
    at = &*it;
  }
  return at;
}

std::optional<JsonAt> Options::at(std::string_view path) const {
  const Json* found = find(path);
  if (found == nullptr) return std::nullopt;
  return JsonAt::root(*found, std::string(path));
}

Result<bool> Options::flag(std::string_view path) const {
  auto option = at(path);
  if (!option) return false;
  return switch_of(*option);
}

bool Options::is_switched_on(std::string_view name) const {
  auto option = at(name);
  return option && (option->json().is_object() || switch_of(*option).value_or(false));
}

void Options::set(std::string_view path, Json value) {
  Json* at = &object_;
  auto names = split(path, '.');
  std::string_view member = value_member(names[0]);
  auto top = object_.find(names[0]);
  if (top != object_.end() && names.size() == 1 && is_said_by(*top, names[0], value)) return;
  if (top != object_.end() && !member.empty()) {
    if (names.size() > 1 && !top->is_object()) *top = Json{{member, std::move(*top)}};
    if (names.size() == 1 && top->is_object() && !value.is_object()) names.push_back(member);
  }
  for (std::string_view name : names) {
    if (!at->is_object()) *at = Json::object();
    at = &(*at)[std::string(name)];
  }
  *at = std::move(value);
}

std::optional<JsonAt> Options::value_at(std::string_view name) const {
  auto option = at(name);
  std::string_view member = value_member(name);
  if (member.empty() || !option || !option->json().is_object()) return option;
  return at(fmt::format("{}.{}", name, member));
}

void Options::unset(std::string_view path) {
  Json* at = &object_;
  auto names = split(path, '.');
  for (std::size_t i = 0; at->is_object(); ++i) {
    std::string name(names[i]);
    if (i + 1 == names.size()) {
      at->erase(name);
      return;
    }
    auto it = at->find(name);
    if (it == at->end()) return;
    at = &*it;
  }
}

void Options::note_setter(std::string_view path, std::string setter) {
  setters_.insert_or_assign(std::string(path), std::move(setter));
}

bool Options::is_of_argument(std::string_view path) const {
  return std::any_of(arguments_.begin(), arguments_.end(), [path](const std::string& given) {
    return path.starts_with(given) && (path.size() == given.size() || path[given.size()] == '.');
  });
}

Result<void> Options::set_from_argument(std::string_view argument) {
  std::size_t equals = argument.find('=');
  std::string_view path = argument.substr(0, equals);
  auto names = split(path, '.');
  if (std::any_of(names.begin(), names.end(), [](std::string_view name) { return name.empty(); })) {
    return invalid(
        fmt::format("expected OPT or OPT=VAL, OPT being a name or "
                    "names joined by dots, got {}",
                    in_quotes(argument)));
  }
  if (names.size() > static_cast<std::size_t>(kMaxJsonDepth)) {
    return invalid(fmt::format("nested deeper than {} levels: {}", kMaxJsonDepth, in_quotes(argument)));
  }
  if (std::string missing = equals == std::string_view::npos ? missing_value(path) : ""; !missing.empty())
    return invalid(missing);
  arguments_.emplace_back(path);
  if (equals == std::string_view::npos) {
    set(path, 1);
    return {};
  }
  std::string_view text = argument.substr(equals + 1);
  auto json = parse_json(text);
  set(path, json ? *std::move(json) : Json(text));
  return {};
}

// ---- option types -----------------------------------------------------------------------

namespace {

constexpr std::string_view kUnits = "KMGT";
constexpr double kStep = 1024;
constexpr double kMost = 1e18;  // bytes
constexpr value::Idset::Id kMaxCode = 255;
constexpr double kAll = 100;  // percent

// "25%" of them.
std::optional<std::uint64_t> share_of(const std::string& text, std::uint64_t job_tasks) {
  double percent = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc() || std::string_view(end) != "%" || !(percent > 0 && percent <= kAll)) return {};
  // 7% of 100 is 7, although 7.0 / 100 * 100 is a little more.
  double tasks = std::ceil(percent * static_cast<double>(job_tasks) / kAll - 1e-9);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(tasks));
}

}  // namespace

Result<value::Duration> seconds_option(const JsonAt& option) {
  if (option.json().is_number()) {
    double seconds = TRY(option.number());
    if (seconds < 0) return option.expected("a time that is not negative");
    return value::Duration::of_seconds(seconds);
  }
  if (!option.json().is_string()) return option.expected("seconds or a duration such as \"30s\"");
  return in(option.path(), value::Duration::parse(TRY(option.string())));
}

Result<std::uint64_t> size_option(const JsonAt& option) {
  auto wrong = [&] { return option.expected("a number of bytes, such as 4096 or \"10M\""); };
  double size = 0;
  if (option.json().is_number()) {
    size = TRY(option.number());
  } else {
    if (!option.json().is_string()) return wrong();
    std::string text = TRY(option.string());
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    std::string_view unit = std::string_view(text).substr(static_cast<std::size_t>(end - text.data()));
    if (error != std::errc() || unit.size() > 1) return wrong();
    if (!unit.empty()) {
      std::size_t power = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
      if (power == std::string_view::npos) return wrong();
      for (std::size_t i = 0; i <= power; ++i) size *= kStep;
    }
  }
  if (!(size >= 0 && size <= kMost)) return wrong();
  return static_cast<std::uint64_t>(size);
}

Result<std::optional<value::Idset>> ranks_option(const JsonAt& option) {
  const Json& json = option.json();
  std::string text = json.is_string() ? json.get<std::string>() : dump_json(json);
  if (text == "all") return std::optional<value::Idset>();
  return std::optional<value::Idset>(TRY(in(option.path(), value::Idset::parse(text))));
}

Result<std::optional<value::Idset>> ranks_option(const JsonAt& option, std::uint64_t tasks) {
  auto ranks = TRY(ranks_option(option));
  CHECK_OK(check_ranks(option.path(), ranks, tasks));
  return ranks;
}

Result<void> check_ranks(const std::string& place, const std::optional<value::Idset>& ranks, std::uint64_t tasks) {
  if (!ranks || ranks->empty() || *ranks->last() < tasks) return {};
  std::string has = tasks == 1 ? "its only one is 0" : fmt::format("it has 0-{}", tasks - 1);
  return invalid(fmt::format("{}: the job has no task {}; {}", place, *ranks->last(), has));
}

Result<value::Idset> exit_codes_option(const JsonAt& option) {
  auto wrong = [&] { return option.expected(fmt::format("exit codes, 1 to {}, as 77 or 64-78,99", kMaxCode)); };
  auto codes = ranks_option(option);
  if (!codes || !*codes || (*codes)->empty()) return wrong();
  if ((*codes)->contains(0) || *(*codes)->last() > kMaxCode) return wrong();
  return **codes;
}

Result<FailureLimit> failure_limit_option(const JsonAt& option, std::uint64_t job_tasks) {
  if (option.json() == "first") return FailureLimit{1, true};
  std::string text = option.json().is_string() ? option.json().get<std::string>() : dump_json(option.json());
  if (auto number = parse_u64(text)) return FailureLimit{*number, false};
  if (option.json().is_string()) {
    if (auto share = share_of(text, job_tasks)) return FailureLimit{*share, false};
  }
  bool is_switch = option.json().is_boolean() || text == "on" || text == "off" || text == "true" || text == "false";
  if (!is_switch)
    return option.expected("on or off, a number of tasks, a share of the job's such as \"25%\", or \"first\"");
  bool is_on = TRY(switch_of(option));
  return FailureLimit{is_on ? 1U : 0U, false};
}

Result<std::vector<std::string>> list_option(const JsonAt& option) {
  if (option.json().is_array()) return option.strings();
  // the command line makes a number of a name of digits
  std::string text = option.json().is_number_integer() ? option.json().dump() : TRY(option.string());
  std::vector<std::string> names;
  for (std::string_view name : split(text, ',')) names.emplace_back(trim(name));
  return names;
}

Result<value::Duration> kill_timeout(const Options& options) {
  auto option = options.at("kill-timeout");
  if (!option) return value::Duration::of_seconds(kDefaultKillTimeout);
  return seconds_option(*option);
}

Result<bool> is_fault_tolerant(const Options& options) {
  auto option = options.at("fault-tolerance");
  if (!option || option->json().is_object()) return option.has_value();
  return switch_of(*option);
}

// ---- restart option ---------------------------------------------------------------------

namespace {

using When = RestartOption::When;
using Scope = RestartOption::Scope;
using Where = RestartOption::Where;

constexpr std::array<std::pair<std::string_view, When>, 4> kWhens{{{"never", When::never},
                                                                   {"on-request", When::on_request},
                                                                   {"on-failure", When::on_failure},
                                                                   {"always", When::always}}};
constexpr std::array<std::pair<std::string_view, Scope>, 3> kScopes{
    {{"task", Scope::task}, {"node", Scope::node}, {"job", Scope::job}}};
constexpr std::array<std::pair<std::string_view, Where>, 3> kWheres{
    {{"same", Where::same}, {"spare", Where::spare}, {"any", Where::any}}};

constexpr int kLimits = 5;  // so many of the members are

Error wrong(const JsonAt& option, std::string_view name, std::string_view value, std::string_view want) {
  return option.error(fmt::format("{}: expected {}, got {}", name, want, in_quotes(value)));
}

Result<std::uint64_t> count_of(const JsonAt& option, std::string_view name, std::string_view value) {
  auto count = parse_u64(value);
  if (count && *count >= 1 && *count <= RestartOption::kMost) return *count;
  return wrong(option, name, value,
               fmt::format("a number of restarts, 1 to {} (restart=never is none)", RestartOption::kMost));
}

Result<void> read_backoff(const JsonAt& option, std::string_view value, RestartOption& out) {
  std::size_t colon = value.find(':');
  auto first = value::Duration::parse(value.substr(0, colon));
  auto longest = colon == std::string_view::npos ? first : value::Duration::parse(value.substr(colon + 1));
  if (!first || !longest || longest->is_infinite() || *longest < *first)
    return wrong(option, "backoff", value, "a time, or two as 1s:60s, the first and the longest");
  out.first = *first;
  out.longest = colon == std::string_view::npos ? std::max(*first, out.longest) : *longest;
  return {};
}

// N[:FILE|:output[:WORD]|:!COMMAND]
Result<RestartOption::NoProgress> no_progress_of(const JsonAt& option, std::string_view value) {
  using Look = RestartOption::NoProgress::Look;
  RestartOption::NoProgress out;
  const std::size_t colon = std::min(value.find(':'), value.size());
  const auto count = parse_u64(value.substr(0, colon));
  std::string_view what = value.substr(std::min(colon + 1, value.size()));
  bool is_given = colon == value.size() || !what.empty();
  if (const auto word = counted_word(what)) {
    out.what = *word;
  } else if (!what.empty()) {
    out.look = what.starts_with('!') ? Look::command : Look::file;
    out.what = what.substr(what.starts_with('!') ? 1 : 0);
  }
  if (!count || *count < 1 || *count > RestartOption::kMost || !is_given || trim(out.what).empty())
    return wrong(option, "no-progress", value,
                 fmt::format("a number of restarts, 1 to {}, and perhaps what is to change meanwhile, as "
                             "3:checkpoints/latest, 3:output:step or 3:!COMMAND",
                             RestartOption::kMost));
  out.restarts = *count;
  return out;
}

Result<void> read_member(const JsonAt& option, std::string_view name, std::string_view value, RestartOption& out) {
  static const std::vector<std::string> kNames{"max",         "per-task", "backoff", "codes",
                                               "no-progress", "scope",    "where"};
  bool is_limit = std::find(kNames.begin(), kNames.begin() + kLimits, name) != kNames.begin() + kLimits;
  if (is_limit && out.when == When::on_request)
    return option.error(
        "on-request has no limits, as only nacre restart starts tasks again: it has scope and where only");
  if (name == "max") {
    out.max = TRY(count_of(option, name, value));
  } else if (name == "per-task") {
    out.per_task = TRY(count_of(option, name, value));
  } else if (name == "backoff") {
    return read_backoff(option, value, out);
  } else if (name == "codes") {
    Json codes(std::string{value});
    auto set = exit_codes_option(JsonAt::root(codes));
    if (!set) return wrong(option, name, value, "exit codes, 1 to 255, as 77 or 64-78,99 (128+N: signal N)");
    out.codes = *std::move(set);
  } else if (name == "no-progress") {
    out.no_progress = TRY(no_progress_of(option, value));
  } else if (name == "scope") {
    auto scope =
        std::find_if(kScopes.begin(), kScopes.end(), [&](const auto& each) { return each.first == value; });
    if (scope == kScopes.end()) return wrong(option, name, value, "task, node or job");
    out.scope = scope->second;
  } else if (name == "where") {
    auto where =
        std::find_if(kWheres.begin(), kWheres.end(), [&](const auto& each) { return each.first == value; });
    if (where == kWheres.end()) return wrong(option, name, value, "same, spare or any");
    out.where = where->second;
  } else {
    return option.error(fmt::format("there is no {}{}; restart has {}", in_quotes(name), did_you_mean(name, kNames),
                                    fmt::join(kNames, ", ")));
  }
  return {};
}

// What follows a comma, NAME=VALUE each; codes go on behind a comma.
Result<void> read_members(const JsonAt& option, std::string_view text, RestartOption& out) {
  std::string name, value;
  for (std::string_view part : split(text, ',')) {
    std::size_t equals = part.find('=');
    if (equals == std::string_view::npos && name == "codes") {
      value += fmt::format(",{}", part);
      continue;
    }
    if (!name.empty()) CHECK_OK(read_member(option, name, value, out));
    if (equals == std::string_view::npos)
      return option.error(fmt::format("expected NAME=VALUE behind a comma, got {}", in_quotes(part)));
    name = part.substr(0, equals);
    value = part.substr(equals + 1);
  }
  return read_member(option, name, value, out);
}

// With no-progress, or a limit for each task, the job's restarts have no limit of their own, unless max is set.
Result<void> settle_limit(const JsonAt& option, RestartOption& out) {
  const bool is_given = out.max != 0;
  if (!is_given) out.max = out.no_progress || out.per_task ? RestartOption::kMost : RestartOption().max;
  if (!is_given || !out.no_progress || out.no_progress->restarts < out.max) return {};
  return option.error(fmt::format(
      "no-progress: {} restarts are not fewer than max ({}), which ends the job before: give a larger max, or none",
      out.no_progress->restarts, out.max));
}

}  // namespace

std::optional<std::string> counted_word(std::string_view text) {
  constexpr std::string_view kOutput = "output";
  if (!text.starts_with(kOutput)) return std::nullopt;
  text.remove_prefix(kOutput.size());
  if (text.empty()) return RestartOption::NoProgress().what;
  return text.starts_with(':') ? std::optional<std::string>(text.substr(1)) : std::nullopt;
}

Result<std::optional<SlowWatchOption>> SlowWatchOption::read(const Options& options) {
  constexpr std::string_view kFactor = "factor=";
  constexpr double kLeastFactor = 1.1;
  constexpr double kMostFactor = 100;
  auto option = options.at("slow-watch");
  if (!option || option->json() == "off" || option->json() == false) return std::nullopt;
  SlowWatchOption out;
  if (option->json() == "on" || option->json() == true) return out;
  const std::string text = option->json().is_string() ? TRY(option->string()) : dump_json(option->json());
  bool is_first = true;
  for (std::string_view part : split(text, ',')) {
    const auto time = std::exchange(is_first, false) ? value::Duration::parse(part) : Error{EINVAL, ""};
    const auto word = counted_word(part);
    const auto factor =
        part.starts_with(kFactor) ? value::Duration::parse(part.substr(kFactor.size())) : Error{EINVAL, ""};
    const bool is_good = (time && !time->is_infinite() && time->seconds() >= kLeast) ||
                         (word && !trim(*word).empty()) ||
                         (factor && factor->seconds() >= kLeastFactor && factor->seconds() <= kMostFactor);
    if (!is_good)
      return option->expected(fmt::format(
          "DURATION of at least {:g} s, and perhaps output:WORD and factor=F ({:g} to {:g}) behind it, as "
          "30s,output:step",
          kLeast, kLeastFactor, kMostFactor));
    if (time) out.window = *time;
    if (word) out.word = *word;
    if (factor) out.factor = factor->seconds();
  }
  return out;
}

Result<RestartOption> RestartOption::read(const Options& options) {
  RestartOption out;
  auto option = options.at("restart");
  if (!option) return out;
  std::string text = option->json().is_string() ? TRY(option->string()) : "";
  std::size_t comma = text.find(',');
  std::string_view word = std::string_view(text).substr(0, comma);
  auto when = std::find_if(kWhens.begin(), kWhens.end(), [&](const auto& each) { return each.first == word; });
  if (when == kWhens.end())
    return option->expected(
        "never, on-request, on-failure or always, and perhaps more, as on-failure,max=5,backoff=1s:60s");
  out.when = when->second;
  if (comma == std::string::npos) return out;
  out.max = 0;  // not given
  CHECK_OK(read_members(*option, std::string_view(text).substr(comma + 1), out));
  CHECK_OK(settle_limit(*option, out));
  if (out.when == When::never) return option->error("never has no members: leave them out");
  if (out.when == When::on_request && out.where == Where::spare)
    return option->error("on-request starts tasks where they were: where=spare is for on-failure and always");
  if (out.when == When::always && !out.codes.empty())
    return option->error("codes chooses among failures, and always means each end: use on-failure with codes");
  return out;
}

// ---- at most ----------------------------------------------------------------------------

Result<AtMost> AtMost::read(const Options& options) {
  AtMost out;
  auto option = options.at("at-most");
  if (!option) return out;
  out.of_cores = option->json() == "cores";
  const Json& json = option->json();
  const bool is_count =
      json.is_number_integer() && json >= 1 && json <= static_cast<std::uint64_t>(Jobspec::kMaxCount);
  if (!out.of_cores && !is_count)
    return option->expected(fmt::format("a number of tasks, 1 to {}, or cores", Jobspec::kMaxCount));
  if (is_count) out.tasks = json.get<std::uint32_t>();
  return out;
}

std::optional<std::uint32_t> AtMost::on(std::uint64_t cores, std::uint32_t cores_per_slot) const {
  if (!of_cores) return tasks;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(cores / std::max(cores_per_slot, 1U), 1, Jobspec::kMaxCount));
}

Result<std::vector<std::pair<std::string, value::Idset>>> ended_before(const Options& options,
                                                                       std::uint64_t tasks) {
  std::vector<std::pair<std::string, value::Idset>> out;
  auto option = options.at("ended-before");
  if (!option) return out;
  value::Idset all;
  for (const auto& [record, ranks] : TRY(option->members())) {
    value::Idset these = TRY(in(ranks.path(), value::Idset::parse(TRY(ranks.string()))));
    CHECK_OK(check_ranks(ranks.path(), these, tasks));
    if (value::Idset twice = all & these; !twice.empty())
      return ranks.error(fmt::format("task {} has ended in another way, too", twice.str()));
    all = all | these;
    out.emplace_back(record, std::move(these));
  }
  return out;
}

// ---- on lost ----------------------------------------------------------------------------

namespace {

constexpr std::string_view kElse = "replace,else=";

Result<OnLost> of(const JsonAt& option) {
  std::string text = option.json().is_string() ? TRY(option.string()) : "";
  if (text == "end") return OnLost{};
  if (text == "go-on") return OnLost{false, true};
  if (text == "replace") return OnLost{true, false};
  if (std::string_view(text).starts_with(kElse)) {
    std::string_view otherwise = std::string_view(text).substr(kElse.size());
    if (otherwise == "end" || otherwise == "go-on") return OnLost{true, otherwise == "go-on"};
  }
  return option.expected("end, go-on, replace, replace,else=end or replace,else=go-on");
}

}  // namespace

Result<OnLost> OnLost::read(const Options& options) {
  auto option = options.at("on-lost");
  bool tolerates = TRY(options.flag("tolerate-loss"));
  if (!option) return OnLost{false, tolerates};
  OnLost out = TRY(of(*option));
  if (tolerates && out != OnLost{false, true}) {
    return option->error(
        "tolerate-loss is on-lost=go-on, and contradicts it: give one of them, or on-lost=replace,else=go-on");
  }
  return out;
}

Result<OnLeaderLost> OnLeaderLost::read(const Options& options) {
  auto option = options.at("on-leader-lost");
  if (!option || option->json() == "end") return OnLeaderLost{};
  const std::string text = option->json().is_string() ? option->json().get<std::string>() : "";
  auto words = split(text, ',');
  if (words[0] != "take-over" || (words.size() > 1 && words[1] != "followed"))
    return option->expected("end or take-over");
  OnLeaderLost out{true, words.size() > 1};
  for (std::size_t i = 2; i < words.size(); ++i) out.reports.emplace_back(words[i]);
  return out;
}

Result<bool> outlives_launcher(const Options& options) {
  auto option = options.at("on-launcher-lost");
  if (!option || option->json() == "end") return false;
  if (option->json() == "go-on") return true;
  return option->expected("end or go-on");
}

// ---- end time ---------------------------------------------------------------------------

namespace {

constexpr const char* kSlurm = "SLURM_JOB_END_TIME";
constexpr std::uint64_t kLatest = std::uint64_t{1} << 40;  // seconds since the Epoch

}  // namespace

Result<std::optional<EndTime>> manager_end(const Variables& variables) {
  auto text = variables(kSlurm);
  if (!text || text->empty() || *text == "0") return std::optional<EndTime>();
  auto seconds = parse_u64(*text);
  if (!seconds || *seconds > kLatest)
    return invalid(fmt::format("{}: expected seconds since the Epoch, got {}", kSlurm, in_quotes(*text)));
  return std::optional(EndTime{static_cast<double>(*seconds), "the time that Slurm has given is over"});
}

Result<std::optional<EndTime>> end_time(const Resources& resources, const Variables& variables) {
  if (resources.expiration > 0) return std::optional(EndTime{resources.expiration, "R has expired"});
  return manager_end(variables);
}

Result<std::optional<value::Duration>> time_limit(const Options& options) {
  auto option = options.at("time-limit");
  if (!option) return std::optional<value::Duration>();
  if (option->json() == "none") return std::optional(value::Duration::infinite());
  auto wanted = TRY(seconds_option(*option));
  if (wanted.seconds() <= 0) return option->expected("a time that is not 0, or none");
  return std::optional(wanted);
}

std::optional<EndTime> earliest_end(const Resources& resources, const std::optional<EndTime>& manager,
                                    const std::optional<value::Duration>& limit, double duration, double start) {
  std::optional<EndTime> out = manager;
  auto add = [&](double at, std::string over) {
    if (!out || at < out->at) out = EndTime{at, std::move(over)};
  };
  if (resources.expiration > 0) add(resources.expiration, "R has expired");
  if (limit && !limit->is_infinite())
    add(start + limit->seconds(), fmt::format("time-limit: {} are over", limit->str()));
  if (!limit && duration > 0)
    add(start + duration,
        fmt::format("the jobspec's duration of {} is over", value::Duration::of_seconds(duration).str()));
  return out;
}

Result<std::optional<double>> parse_slurm_time_left(std::string_view text) {
  constexpr std::uint64_t kMostTime = 1'000'000'000;  // seconds, or days; more than any job has
  text = trim(text);
  if (text == "UNLIMITED" || text == "NOT_SET") return std::optional<double>();
  Error wrong = invalid(fmt::format("expected [DAYS-]HOURS:MINUTES:SECONDS, got {}", in_quotes(text)));
  double seconds = 0;
  if (std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    auto days = parse_u64(text.substr(0, dash));
    if (!days || *days > kMostTime) return wrong;
    seconds = static_cast<double>(*days) * 86400;
    text.remove_prefix(dash + 1);
  }
  double clock = 0;
  auto parts = split(text, ':');
  for (std::string_view each : parts) {
    auto number = parse_u64(each);
    if (!number || *number > kMostTime || parts.size() > 3) return wrong;
    clock = clock * 60 + static_cast<double>(*number);
  }
  return std::optional(seconds + clock);
}

// ---- coprocess --------------------------------------------------------------------------

namespace {

constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

Result<std::vector<std::string>> read_command(const JsonAt& command) {
  std::vector<std::string> out;
  if (command.json().is_string()) {
    std::string text = TRY(command.string());
    if (!trim(text).empty()) out = {"/bin/sh", "-c", text};
  } else if (command.json().is_array()) {
    out = TRY(command.strings());
  }
  bool good = !out.empty() && !out.front().empty();
  if (!good)
    return command.expected("a program and its arguments, as an array of strings or as text for the shell");
  for (const std::string& each : out) {
    if (each.find('\0') != std::string::npos) return command.error("contains a NUL byte");
  }
  return out;
}

Result<std::optional<value::Idset>> read_ranks(const JsonAt& ranks) {
  if (ranks.json() == "all") return std::optional<value::Idset>();
  value::Idset set;
  if (ranks.json().is_string()) {
    set = TRY(in(ranks.path(), value::Idset::parse(TRY(ranks.string()))));
  } else if (ranks.json().is_number_integer()) {
    set.insert(static_cast<value::Idset::Id>(TRY(ranks.integer(0, value::Idset::kMaxId))));
  }
  if (set.empty()) return ranks.expected("an idset of shell ranks such as \"0-3\", or \"all\"");
  return std::optional(std::move(set));
}

}  // namespace

Result<void> Coprocess::check_name(std::string_view name) {
  if (!name.empty() && name.find_first_not_of(kNameCharacters) == std::string_view::npos) return {};
  return invalid(fmt::format("expected a name of letters, digits, '-' and '_', got {}", in_quotes(name)));
}

Result<Coprocess> Coprocess::read(std::string name, const JsonAt& entry) {
  CHECK_OK(entry.only_keys({"command", "output", "ranks"}));
  Coprocess out;
  out.command = TRY(read_command(TRY(entry.at("command"))));
  if (auto output = TRY(entry.find("output"))) {
    out.output = TRY(output->string());
    if (out.output.empty()) return output->error("is empty; expected the name of a file");
    if (out.output.find('\0') != std::string::npos) return output->error("contains a NUL byte");
  } else {
    out.output = fmt::format("coproc-{}-{{{{id}}}}.log", name);
  }
  if (auto ranks = TRY(entry.find("ranks"))) out.ranks = TRY(read_ranks(*ranks));
  out.name = std::move(name);
  return out;
}

Result<std::vector<Coprocess>> read_coprocesses(const JsonAt& option) {
  if (!option.json().is_object() || option.json().empty()) {
    return option.expected("an object of coprocesses by name that is not empty");
  }
  std::vector<Coprocess> out;
  for (const auto& [name, entry] : TRY(option.members())) {
    CHECK_OK(in(option.path(), Coprocess::check_name(name)));
    out.push_back(TRY(Coprocess::read(name, entry)));
  }
  return out;
}

}  // namespace nacre::job
