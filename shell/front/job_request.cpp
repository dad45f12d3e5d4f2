// SPDX-License-Identifier: Apache-2.0
#include "front/job_request.hpp"

#include <regex.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/program.hpp"
#include "exits/record.hpp"
#include "group/directory.hpp"
#include "io/format.hpp"
#include "job/environment.hpp"
#include "job/jobspec.hpp"
#include "task/command.hpp"
#include "usage/measure.hpp"
#include "value/duration.hpp"
#include "value/template.hpp"

namespace nacre::front {
namespace {

constexpr double kMinute = 60;
constexpr std::size_t kMaxList = std::size_t{256} << 20;  // bytes of a file

std::string counted_nodes(std::uint64_t nodes) { return fmt::format("{} node{}", nodes, nodes == 1 ? "" : "s"); }

Result<std::uint32_t> nodes_in_range(const SizeRequest& request, std::optional<std::uint32_t> places) {
  const std::string range = fmt::format("-N {}:{}", *request.least_nodes, *request.nodes);
  if (request.spares > 0)
    return invalid(fmt::format("{} and spares: hosts that join beyond {} are some; leave out one of them", range,
                               counted_nodes(*request.nodes)));
  if (request.tasks)
    return invalid(
        fmt::format("-n {}, but {}: the number of tasks follows that of nodes: give --tasks-per-node instead",
                    *request.tasks, range));
  if (places && *places < *request.least_nodes)
    return invalid(
        fmt::format("{}, but there {} {}: a smaller -N, more hosts (--hosts), or --local={} for all on "
                    "this one",
                    range, *places == 1 ? "is" : "are", counted_nodes(*places), *request.least_nodes));
  return std::min(*request.nodes, places.value_or(*request.nodes));
}

Result<std::uint32_t> nodes_for(const SizeRequest& request, std::optional<std::uint32_t> places) {
  if (request.least_nodes) return nodes_in_range(request, places);
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
  const std::string_view whole = text;
  std::optional<std::uint64_t> least;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    least = parse_u64(text.substr(0, colon));
    text.remove_prefix(colon + 1);
  }
  std::size_t plus = text.find('+');
  auto nodes = parse_u64(text.substr(0, plus));
  std::optional<std::uint64_t> spares;
  if (plus != std::string_view::npos) spares = parse_u64(text.substr(plus + 1));
  const bool is_range = colon != std::string_view::npos;
  if (!nodes || (plus != std::string_view::npos && !spares) || (is_range && (!least || spares)))
    return invalid(fmt::format("expected a number of nodes, NODES+SPARES as in 4+1, or MIN:MAX as in 2:8, got {}",
                               in_quotes(whole)));
  if (*nodes < 1 || (least && *least < 1)) return invalid("at least 1 node");
  if (least && *least > *nodes) return invalid(fmt::format("MIN is larger than MAX in {}", whole));
  text = whole;
  // Each is compared first, so that the sum cannot overflow.
  constexpr std::uint32_t kMost = group::Membership::kMaxShells;
  std::uint64_t more = spares.value_or(0);
  if (*nodes > kMost || more > kMost || *nodes + more > kMost)
    return invalid(fmt::format("at most {} nodes in all, got {}", kMost, text));
  NodeCounts out;
  out.nodes = static_cast<std::uint32_t>(*nodes);
  if (spares) out.spares = static_cast<std::uint32_t>(*spares);
  if (least && *least < *nodes) out.least = static_cast<std::uint32_t>(*least);
  return out;
}

Result<JobSize> size_of(const SizeRequest& request, std::optional<std::uint32_t> places) {
  JobSize out;
  out.nodes = TRY(nodes_for(request, places));
  out.spares = request.spares;
  if (request.least_nodes) out.range = {*request.least_nodes, *request.nodes};
  std::uint64_t each = request.tasks_per_node.value_or(1);
  std::uint64_t full = each * out.nodes;
  std::uint64_t tasks = request.tasks ? *request.tasks : request.nodes || request.tasks_per_node ? full : 1;
  if (tasks > job::Jobspec::kMaxCount)
    return invalid(fmt::format("{} tasks; at most {}", tasks, job::Jobspec::kMaxCount));
  const bool goes_round = request.goes_round && places && tasks > full;
  if (request.tasks_per_node && tasks > full && !goes_round)
    return invalid(
        fmt::format("-n {}, but {} of {} tasks are {}: a smaller -n, a larger --tasks-per-node, or more nodes",
                    tasks, counted_nodes(out.nodes), each, full));
  if (tasks < out.nodes) return invalid(fmt::format("-n {}, but -N {}: each node needs a task", tasks, out.nodes));
  out.tasks = static_cast<std::uint32_t>(tasks);
  if (request.tasks_per_node && !goes_round)
    out.tasks_per_node = request.tasks_per_node;
  else if (request.nodes && tasks % out.nodes == 0)
    out.tasks_per_node = static_cast<std::uint32_t>(tasks / out.nodes);
  return out;
}

std::string map_of_rounds(const JobSize& size, std::uint32_t each) {
  std::string out;
  for (std::uint32_t node = 0; node < size.nodes; ++node) {
    value::Idset ranks;
    for (std::uint64_t first = std::uint64_t{node} * each; first < size.tasks;
         first += std::uint64_t{size.nodes} * each)
      ranks.insert(static_cast<value::Idset::Id>(first),
                   static_cast<value::Idset::Id>(std::min<std::uint64_t>(first + each, size.tasks) - 1));
    out += (node == 0 ? "" : ";") + ranks.str();
  }
  return out;
}

std::vector<std::uint32_t> fill_slots(const std::vector<std::uint32_t>& slots, std::uint32_t tasks) {
  std::vector<std::uint32_t> out(slots.size(), 0);
  const bool all_known = std::find(slots.begin(), slots.end(), 0U) == slots.end();
  for (std::size_t i = 0; i < out.size() && all_known; ++i) {
    out[i] = std::min(tasks, slots[i]);
    tasks -= out[i];
  }
  const auto hosts = static_cast<std::uint32_t>(out.size());
  for (std::uint32_t i = 0; i < hosts; ++i) out[i] += tasks / hosts + (i < tasks % hosts ? 1 : 0);
  while (!out.empty() && out.back() == 0) out.pop_back();
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

Json written_options(Json options) {
  auto failures = options.find("exit-on-error");
  if (failures != options.end() && (*failures == 1 || *failures == true)) *failures = "on";
  return options;
}

namespace {

// A replacement for what is no UTF-8 would be another argument, or another file.
Result<void> check_utf8(const std::string& of, const std::string& text) {
  if (io::is_utf8(text)) return {};
  return Error{EILSEQ, fmt::format("{}: {} is no UTF-8, which a jobspec has to be", of, in_quotes(text))};
}

Result<void> check_utf8(const std::string& of, const Json& value) {
  if (value.is_string()) return check_utf8(of, value.get_ref<const std::string&>());
  if (!value.is_structured()) return {};
  for (const auto& [key, each] : value.items()) {
    if (value.is_object()) CHECK_OK(check_utf8(of, key));
    CHECK_OK(check_utf8(of, each));
  }
  return {};
}

}  // namespace

Result<Json> jobspec_of(const JobRequest& request) {
  for (std::size_t i = 0; i < request.command.size(); ++i)
    CHECK_OK(check_utf8(fmt::format("argument {}", i), request.command[i]));
  CHECK_OK(check_utf8("--name", request.name));
  for (const auto& [name, value] : request.options.items())
    CHECK_OK(check_utf8(name == "arguments" ? "the list" : "the option " + name, value));
  if (request.size.range && request.at_most)
    return invalid("--at-most, but -N is a range: tasks that start again together all run at once");
  Json contents = Json::array({{{"type", "core"}, {"count", request.cores_per_task}}});
  if (request.gpus_per_task > 0) contents.push_back({{"type", "gpu"}, {"count", request.gpus_per_task}});
  const JobSize& size = request.size;
  Json slot{{"type", "slot"}, {"label", "task"}, {"with", std::move(contents)}};
  Json count{{"per_slot", 1}};
  Json vertex;
  if (request.at_most) {
    const std::uint32_t each = (size.tasks + size.nodes - 1) / size.nodes;
    slot["count"] = std::min(*request.at_most, size.tasks_per_node.value_or(each));
    count = Json{{"total", size.tasks}};
    vertex = Json{{"type", "node"}, {"count", size.shells()}, {"with", Json::array({std::move(slot)})}};
  } else if (size.tasks_per_node) {
    slot["count"] = *size.tasks_per_node;
    bool is_full = std::uint64_t{size.nodes} * *size.tasks_per_node == size.tasks;
    if (!is_full) count = Json{{"total", size.tasks}};
    vertex = Json{{"type", "node"}, {"count", size.shells()}, {"with", Json::array({std::move(slot)})}};
    if (size.range)
      vertex["count"] =
          Json{{"min", size.range->first}, {"max", size.range->second}, {"operator", "+"}, {"operand", 1}};
  } else {
    slot["count"] = size.tasks;
    vertex = std::move(slot);
  }
  Json system{{"duration", request.duration},
              {"cwd", request.cwd},
              {"environment", request.environment},
              {"shell", {{"options", written_options(request.options)}}}};
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

// ---- environment rules ------------------------------------------------------------------

namespace {

// SLURM_JOB_* stays: it describes the allocation, and the job finds its hosts by it. The variables that sbatch sets
// for options of srun stay too.
constexpr std::string_view kDropped[] = {
    "PMI_*",
    "PMIX_*",
    "SLURM_STEP*",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_TASK_PID",
    "SLURM_GTIDS",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_SRUN_COMM_*",
    "SLURM_CPU_BIND*",
    "SLURM_DISTRIBUTION",
    "SLURM_MPI_TYPE",
    "SLURM_PMI*",
    "SLURM_UMASK",
    "SLURMD_TRES_*",
    "FLUX_TASK_*",
    "FLUX_JOB_*",
    "FLUX_KVS_NAMESPACE",
    "NACRE_TASK_*",
    "NACRE_JOB_*",
    "NACRE_SHELL_ID",
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
    "HYDI_*",
    "HYDRA_*",
    "OMPI_COMM_WORLD_*",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_FIRST_RANKS",
    "OMPI_FILE_LOCATION",
    "OMPI_MCA_ess*",
    "OMPI_MCA_orte_*",
    "OMPI_MCA_pmix",
    "OMPI_MCA_schizo",
    "PRTE_MCA_*",
    "PALS_*",
};

using Matcher = std::function<bool(const std::string&)>;

struct FreeRegex {
  void operator()(regex_t* regex) const {
    ::regfree(regex);
    delete regex;
  }
};

Result<Matcher> matcher_of_regex(const std::string& text) {
  auto* compiled = new regex_t;
  int code = ::regcomp(compiled, fmt::format("^({})$", text).c_str(), REG_EXTENDED | REG_NOSUB);
  if (code != 0) {
    char why[256];
    ::regerror(code, compiled, why, sizeof why);
    delete compiled;
    return invalid(fmt::format("{} is no regular expression: {}", in_quotes(text), why));
  }
  std::shared_ptr<regex_t> regex(compiled, FreeRegex());
  return Matcher(
      [regex](const std::string& name) { return ::regexec(regex.get(), name.c_str(), 0, nullptr, 0) == 0; });
}

Result<Matcher> matcher_of(std::string_view pattern) {
  if (pattern.empty()) return invalid("expected a name or a pattern, got nothing");
  if (pattern.find('\0') != std::string_view::npos) return invalid("a name cannot have a NUL");
  if (pattern.size() > 2 && pattern.front() == '/' && pattern.back() == '/')
    return matcher_of_regex(std::string(pattern.substr(1, pattern.size() - 2)));
  return Matcher([glob = std::string(pattern)](const std::string& name) { return glob_match(glob, name); });
}

bool is_name_byte(char c, bool first) {
  bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return letter || (!first && c >= '0' && c <= '9');
}

// What follows a dollar sign: the name, and the number of bytes that it takes with its braces. An empty name: no
// variable follows.
struct Reference {
  std::string_view name;
  std::size_t size = 0;
};

Reference reference_at(std::string_view text) {
  bool braced = text.starts_with('{');
  std::size_t begin = braced ? 1 : 0;
  std::size_t end = begin;
  while (end < text.size() && is_name_byte(text[end], end == begin)) ++end;
  if (end == begin || (braced && (end == text.size() || text[end] != '}'))) return {};
  return {text.substr(begin, end - begin), end + begin};
}

}  // namespace

Variables variables_of(const char* const* block) {
  Variables out;
  for (; block != nullptr && *block != nullptr; ++block) {
    std::string_view text = *block;
    std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    out.insert_or_assign(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
  }
  return out;
}

bool is_of_outer_launcher(std::string_view name) {
  return std::any_of(std::begin(kDropped), std::end(kDropped), [name](std::string_view pattern) {
    if (!pattern.ends_with('*')) return name == pattern;
    return name.starts_with(pattern.substr(0, pattern.size() - 1));
  });
}

void drop_outer_launcher(Variables& variables) {
  std::erase_if(variables, [](const auto& each) { return is_of_outer_launcher(each.first); });
}

std::vector<std::string> drop_no_utf8(Variables& variables) {
  std::vector<std::string> names;
  std::erase_if(variables, [&names](const auto& each) {
    bool is_text = io::is_utf8(each.first) && io::is_utf8(each.second);
    if (!is_text) names.push_back(each.first);
    return !is_text;
  });
  return names;
}

Result<void> EnvironmentRules::apply_file(const std::string& path) {
  return apply_text(TRY(read_file(path, kMaxFile)), path == "-" ? "standard input" : path);
}

Result<void> EnvironmentRules::apply_text(std::string_view text, std::string_view name) {
  std::size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line);
    if (line.empty() || line.starts_with('#')) continue;
    CHECK_OK(in(fmt::format("{}: line {}", name, number), apply_one(line, true)));
  }
  return {};
}

Result<void> EnvironmentRules::apply_one(std::string_view rule, bool in_file) {
  if (rule.empty()) return invalid("expected -PATTERN, PATTERN, NAME=TEXT or ^FILE, got nothing");
  if (rule.front() == '-') return remove(rule.substr(1));
  if (rule.front() == '^' && in_file) return invalid("a file of rules cannot name another: put its rules here");
  if (rule.front() == '^') return apply_file(std::string(rule.substr(1)));
  std::size_t equals = rule.find('=');
  if (equals == std::string_view::npos || rule.front() == '/') return take(rule);
  std::string_view name = rule.substr(0, equals);
  std::string value = TRY(in(in_quotes(rule), expand(rule.substr(equals + 1))));
  CHECK_OK(in(in_quotes(rule), job::Environment::check(name, value)));
  job_.insert_or_assign(std::string(name), std::move(value));
  return {};
}

Result<void> EnvironmentRules::remove(std::string_view pattern) {
  Matcher matches = TRY(matcher_of(pattern));
  std::erase_if(job_, [&matches](const auto& each) { return matches(each.first); });
  return {};
}

// A name that is not set is no error, and neither is a pattern that matches nothing.
Result<void> EnvironmentRules::take(std::string_view pattern) {
  Matcher matches = TRY(matcher_of(pattern));
  for (const auto& [name, value] : caller_) {
    if (matches(name)) job_.insert_or_assign(name, value);
  }
  return {};
}

Result<std::string> EnvironmentRules::expand(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    std::size_t dollar = text.find('$');
    out += text.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar + 1);
    if (text.starts_with('$')) {
      out += '$';
      text.remove_prefix(1);
      continue;
    }
    Reference reference = reference_at(text);
    if (reference.name.empty()) {
      out += '$';
      continue;
    }
    const std::string* value = find(reference.name);
    if (value == nullptr) return invalid(fmt::format("{} is not set; write $$ for a dollar sign", reference.name));
    out += *value;
    text.remove_prefix(reference.size);
  }
  return out;
}

const std::string* EnvironmentRules::find(std::string_view name) const {
  for (const Variables* each : {&job_, &caller_}) {
    if (auto found = each->find(name); found != each->end()) return &found->second;
  }
  return nullptr;
}

// ---- caller -----------------------------------------------------------------------------

Result<std::string> own_directory() {
  struct stat here {};
  struct stat there {};
  auto shown = own_variable("PWD");
  bool is_here = shown && shown->starts_with('/') && ::stat(shown->c_str(), &there) == 0 &&
                 ::stat(".", &here) == 0 && here.st_dev == there.st_dev && here.st_ino == there.st_ino;
  if (is_here && io::is_utf8(*shown)) return *shown;
  std::error_code failed;
  std::string path = std::filesystem::current_path(failed).native();
  if (failed) return system_error(failed.value(), "cannot find the working directory; give --cwd=DIR");
  if (io::is_utf8(path)) return path;
  return Error{EILSEQ, "the working directory's name is no UTF-8, which a jobspec has to be: give --cwd=DIR"};
}

Variables own_environment() { return variables_of(environ); }

std::vector<std::pair<std::string, Json>> own_limits() {
  std::vector<std::pair<std::string, Json>> out;
  for (const char* name : {"as", "core", "cpu", "data", "fsize", "nofile", "rss", "stack"}) {
    rlimit limit{};
    auto resource = static_cast<__rlimit_resource>(task::limit_resource(name).value_or(RLIMIT_CORE));
    if (::getrlimit(resource, &limit) < 0) continue;
    Json value = limit.rlim_cur == RLIM_INFINITY ? Json(-1) : Json(limit.rlim_cur);
    out.emplace_back(fmt::format("rlimit.{}", name), std::move(value));
  }
  return out;
}

void leave_out_no_utf8(Variables& variables) {
  for (const std::string& each : drop_no_utf8(variables))
    print_err("nacre: the variable {} is left out: it is no UTF-8, which a jobspec has to be\n", each);
}

Result<std::string> with_callers(Json jobspec) {
  Json& attributes = jobspec["attributes"];
  if (attributes.is_null()) attributes = Json::object();
  Json& system = attributes["system"];
  if (system.is_null()) system = Json::object();
  if (Json& cwd = system["cwd"]; cwd.is_null()) cwd = TRY(own_directory());
  if (Json& environment = system["environment"]; environment.is_null()) {
    Variables variables = own_environment();
    drop_outer_launcher(variables);
    leave_out_no_utf8(variables);
    environment = variables;
  }
  return dump_json(jobspec);
}

// ---- list -------------------------------------------------------------------------------

namespace {

constexpr std::string_view kElement = "{{task.argument}}";

Error empty_list(std::string_view of) {
  return invalid(fmt::format("{} is empty: expected an element of the list for each task", of));
}

// None: it has tags that only the shells know.
std::optional<std::string> command_of(const JoblogRequest& request, std::uint32_t rank) {
  auto tag = [&](std::string_view name) -> Result<std::optional<std::string>> {
    if (name == "task.argument" && rank < request.list.size()) return std::optional(request.list[rank]);
    bool is_rank = name == "task.rank" || name == "task.id" || name == "taskid";
    return is_rank ? std::optional(fmt::format("{}", rank)) : std::nullopt;
  };
  std::vector<std::string> words = request.command;
  bool is_known = true;
  for (std::string& word : words) {
    auto rendered = value::render(word, tag);
    std::size_t own = rank < request.list.size() ? request.list[rank].find("{{") : std::string::npos;
    is_known = is_known && rendered && (!value::has_tags(*rendered) || own != std::string::npos);
    if (rendered) word = *std::move(rendered);
  }
  return is_known ? std::optional(usage::command_line(words)) : std::nullopt;
}

// By Ctrl-C, the end of its job, a manager or a person: it did not come to its own end.
bool was_ended(const value::WaitStatus& status) {
  constexpr std::array kEnding{SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM};
  return std::find(kEnding.begin(), kEnding.end(), status.signal()) != kEnding.end();
}

}  // namespace

Result<std::optional<std::vector<std::string>>> take_list(std::vector<std::string>& words) {
  auto is_mark = [](const std::string& word) { return word == ":::" || word == "::::"; };
  auto mark = std::find_if(words.begin(), words.end(), is_mark);
  if (mark == words.end()) return std::optional<std::vector<std::string>>();
  if (std::find_if(mark + 1, words.end(), is_mark) != words.end())
    return invalid(fmt::format("{}: a second list: only one is taken", in_quotes(*mark)));
  std::vector<std::string> list(mark + 1, words.end());
  const std::string name = *mark;
  words.erase(mark, words.end());
  if (list.empty()) return empty_list(fmt::format("what is behind {}", in_quotes(name)));
  if (name == ":::") return std::optional(std::move(list));
  if (list.size() > 1) return invalid(in_quotes(name) + ": expected one file, whose lines are the list");
  return std::optional(TRY(in(in_quotes(name), read_list(list[0]))));
}

Result<std::vector<std::string>> read_list(const std::string& path) {
  std::string text = TRY(read_file(path, kMaxList));
  if (text.find('\0') != std::string::npos)
    return invalid(
        fmt::format("{} has a NUL, which no argument can have: its elements are lines (find -print, not -print0)",
                    path == "-" ? "standard input" : path));
  std::vector<std::string> out;
  for (std::string_view line : split(text, '\n')) {
    if (!line.empty()) out.emplace_back(line);
  }
  if (out.empty()) return empty_list(path == "-" ? "standard input" : path);
  return out;
}

void put_elements(std::vector<std::string>& command) {
  constexpr std::string_view kMark = "{}";
  bool has_one = false;
  for (std::string& word : command) {
    for (std::size_t at = 0; (at = word.find(kMark, at)) != std::string::npos; at += kElement.size()) {
      word.replace(at, kMark.size(), kElement);
      has_one = true;
    }
  }
  if (!has_one) command.emplace_back(kElement);
}

Result<Json> ended_before(std::string_view joblog, const JoblogRequest& request) {
  std::map<std::uint32_t, value::WaitStatus> ends;  // of several lines of a task the last one counts
  for (const usage::JoblogEntry& each : TRY(usage::parse_joblog(joblog))) {
    if (each.rank >= request.tasks)
      return invalid(fmt::format("it has a line of Seq {}, and the job has {} tasks: it is another job's",
                                 std::uint64_t{each.rank} + 1, request.tasks));
    auto command = request.command.empty() ? std::nullopt : command_of(request, each.rank);
    if (command && !each.is_of(*command))
      return invalid(fmt::format("Seq {} is of the command {}, and is to be {} now: it is another job's",
                                 std::uint64_t{each.rank} + 1, in_quotes(each.command), in_quotes(*command)));
    ends[each.rank] = each.status;
  }
  std::map<std::string, value::Idset> by_record;
  for (const auto& [rank, status] : ends) {
    if (was_ended(status) || (request.again && status.job_code() != 0)) continue;
    by_record[exits::Record::of(status).str()].insert(rank);
  }
  Json out = Json::object();
  for (const auto& [record, ranks] : by_record) out[record] = ranks.str();
  return out;
}

// ---- multi prog -------------------------------------------------------------------------

namespace {

using value::Idset;

// Splits one line into words.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  Result<std::vector<std::string>> split_all() {
    while (!text_.empty() && !ended_) CHECK_OK(take(next()));
    end_word();
    return std::move(words_);
  }

 private:
  char next() {
    char c = text_.front();
    text_.remove_prefix(1);
    return c;
  }

  Result<void> take(char c) {
    if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
    } else if (c == '#' && !in_word_) {
      ended_ = true;
    } else if (c == '\'' || c == '"') {
      return quoted(c);
    } else {
      add(c == '\\' && !text_.empty() ? next() : c);
    }
    return {};
  }

  // Within "" a backslash stands for itself, except before another backslash, a quote, a dollar sign or a
  // backquote.
  Result<void> quoted(char quote) {
    in_word_ = true;
    while (!text_.empty()) {
      char c = next();
      if (c == quote) return {};
      bool escapes = quote == '"' && c == '\\' && !text_.empty() &&
                     std::string_view("\\\"$`").find(text_.front()) != std::string_view::npos;
      add(escapes ? next() : c);
    }
    return invalid(fmt::format("the quote {} is not closed", quote));
  }

  void add(char c) {
    in_word_ = true;
    word_ += c;
  }

  void end_word() {
    if (std::exchange(in_word_, false)) words_.push_back(std::exchange(word_, {}));
  }

  std::string_view text_;
  std::string word_;
  std::vector<std::string> words_;
  bool in_word_ = false;
  bool ended_ = false;
};

// The lines with their numbers; a line that ends in a backslash includes the next one.
std::vector<std::pair<std::size_t, std::string>> logical_lines(std::string_view text) {
  std::vector<std::pair<std::size_t, std::string>> out;
  bool goes_on = false;
  std::size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    bool more = line.ends_with('\\') && !line.ends_with("\\\\");
    if (more) line.remove_suffix(1);
    if (goes_on)
      out.back().second += line;
    else
      out.emplace_back(number, line);
    goes_on = more;
  }
  return out;
}

Result<std::optional<Idset>> program_ranks(const std::string& word) {
  if (word == "*") return std::optional<Idset>();
  auto set = Idset::parse(word);
  if (!set || set->empty()) return invalid(fmt::format("expected ranks, as 0-3,7, or *, got {}", in_quotes(word)));
  return std::optional(*std::move(set));
}

}  // namespace

Result<std::vector<std::string>> words_of(std::string_view line) { return Words(line).split_all(); }

Result<MultiProg> MultiProg::parse(std::string_view text) {
  MultiProg out;
  Idset named;
  bool has_rest = false;
  for (const auto& [number, line] : logical_lines(text)) {
    std::string where = fmt::format("line {}", number);
    if (line.find('\0') != std::string::npos) return invalid(where + ": an argument cannot have a NUL");
    auto words = TRY(in(where, words_of(line)));
    if (words.empty()) continue;
    Program program;
    program.ranks = TRY(in(where, program_ranks(words[0])));
    if (words.size() < 2 || words[1].empty()) return invalid(where + ": expected a program behind the ranks");
    program.command.assign(words.begin() + 1, words.end());
    if (!program.ranks && std::exchange(has_rest, true)) return invalid(where + ": a second *");
    if (program.ranks) {
      if (Idset twice = named & *program.ranks; !twice.empty())
        return invalid(fmt::format("{}: a line before has rank {} too", where, twice.str()));
      named = named | *program.ranks;
    }
    if (out.programs.size() == kMaxPrograms)
      return Error{E2BIG, fmt::format("{}: more than {} programs", where, kMaxPrograms)};
    out.programs.push_back(std::move(program));
  }
  if (out.programs.empty()) return invalid("no program: expected lines of RANKS PROGRAM [ARG...]");
  return out;
}

std::optional<std::uint64_t> MultiProg::least_tasks() const {
  std::optional<std::uint64_t> out;
  for (const Program& each : programs) {
    if (each.ranks) out = std::max(out.value_or(0), std::uint64_t{*each.ranks->last()} + 1);
  }
  return out;
}

Result<void> MultiProg::check(std::uint64_t tasks) const {
  Idset all = Idset::range(0, static_cast<Idset::Id>(tasks - 1));
  Idset named;
  bool has_rest = false;
  for (const Program& each : programs) {
    if (each.ranks)
      named = named | *each.ranks;
    else
      has_rest = true;
  }
  if (Idset beyond = named - all; !beyond.empty())
    return invalid(fmt::format("rank {}, but the job has {} task{}: -n {}", beyond.str(), tasks,
                               tasks == 1 ? "" : "s", std::uint64_t{*named.last()} + 1));
  if (Idset left = all - named; !has_rest && !left.empty())
    return invalid(fmt::format("no program for rank {}: add a line for it, or *", left.short_str()));
  return {};
}

Json MultiProg::option() const {
  Json out = Json::array();
  for (const Program& each : programs) {
    Json entry{{"command", each.command}};
    if (each.ranks) entry["ranks"] = each.ranks->str();
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace nacre::front
