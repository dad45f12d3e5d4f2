// SPDX-License-Identifier: Apache-2.0
#include "plugin/plan.hpp"

#include <sys/resource.h>

#include "base/text.hpp"
#include "task/command.hpp"
#include "task/cpus.hpp"

namespace nacre::plugin {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Variables variables(const job::Environment& environment) {
  Variables out;
  for (const auto& [name, value] : environment.all()) out.emplace(name, value);
  return out;
}

// "+NAME='value'" for each variable that `after` adds or changes, "-NAME" for each that it lacks. What `shows`
// keeps back is "+NAME, its value is left out".
std::vector<std::string> differences(const Variables& before, const Variables& after,
                                     const decltype(PlanPartOptions::shows)& shows) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : after) {
    auto old = before.find(name);
    if (old != before.end() && old->second == value) continue;
    bool is_shown = !shows || shows(name, value);
    lines.push_back(is_shown ? fmt::format("+{}={}", name, in_quotes(value))
                             : fmt::format("+{}, its value is left out", name));
  }
  for (const auto& [name, value] : before) {
    if (!after.contains(name)) lines.push_back("-" + name);
  }
  return lines;
}

std::string cpus_of(const task::CpuMask& mask) { return mask.empty() ? "inherited" : task::set_of(mask).str(); }

std::string limit_text(rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : fmt::format("{}", value); }

Json node_of(const Host& host) {
  const job::NodeResources& node = host.job().node();
  return {{"broker", node.broker_rank},
          {"cores", node.cores.empty() ? "none" : node.cores.str()},
          {"gpus", node.gpus.empty() ? "none" : node.gpus.str()},
          {"cwd", host.job().spec.cwd.value_or("inherited")}};
}

// What would be set for the task, a line each.
Json lines_of(const task::Task& task, const Variables& job_environment, const PlanPartOptions& options) {
  const task::ChildSetup& setup = task.command().setup;
  Json out = Json::array();
  out.push_back(fmt::format("cpus    {}", cpus_of(setup.cpus)));
  if (setup.memory) out.push_back(fmt::format("memory  {}", task::memory_policy_text(*setup.memory)));
  for (const std::string& note : task.command().notes) out.push_back("plan    " + note);
  for (const auto& limit : setup.limits) {
    auto name = task::limit_name(limit.resource);
    out.push_back(fmt::format("limit   {} {} (hard {})",
                              name ? std::string(*name) : fmt::format("limit {}", limit.resource),
                              limit_text(limit.value.rlim_cur), limit_text(limit.value.rlim_max)));
  }
  task::Settings::for_each([&](auto setting) {
    if (const auto& value = setup.settings.of(setting)) out.push_back(setting.plan_line(*value));
  });
  if (setup.new_session) out.push_back("session of its own");
  if (!setup.new_process_group && !setup.new_session) out.push_back("group   of the shell");
  if (setup.trace_me) out.push_back("stopped in exec");
  for (const std::string& line : differences(job_environment, variables(task.command().env), options.shows))
    out.push_back("env     " + line);
  return out;
}

Json plugins_of(const Stack& stack) {
  Json out = Json::array();
  for (const auto& plugin : stack.plugins()) {
    Json topics = Json::array();
    for (const auto& each : plugin->subscriptions()) {
      if (each.handler) topics.push_back(each.topic);
    }
    out.push_back({{"name", plugin->name()}, {"origin", plugin->origin()}, {"topics", std::move(topics)}});
  }
  return out;
}

}  // namespace

Json plan_part(Host& host, const std::vector<std::string>& files, const PlanPartOptions& options) {
  Variables given;
  for (const auto& [name, value] : host.job().spec.environment) given.insert_or_assign(name, value);
  Variables all = variables(host.environment());
  Json tasks = Json::array();
  for (const auto& task : host.tasks()) {
    if (tasks.size() == options.most_tasks) break;
    tasks.push_back(
        {{"rank", task->rank()}, {"local", task->local_id()}, {"lines", lines_of(*task, all, options)}});
  }
  return {{"node", node_of(host)},
          {"environment", differences(given, all, options.shows)},
          {"tasks", std::move(tasks)},
          {"options", host.options().json()},
          {"setters", host.options().setters()},
          {"plugins", plugins_of(host.stack())},
          {"files", files}};
}

std::string explain_plugins(Host& host, const std::set<std::string>& builtins,
                            const std::vector<std::string>& files) {
  Json list = plugins_of(host.stack());
  for (Json& each : list)
    each["replaces_builtin"] =
        each["origin"] != "builtin" && builtins.contains(each["name"].get_ref<const std::string&>());
  std::set<std::string, std::less<>> asked = host.options().asked();
  for (const char* own : {"initrc", "userrc", "lua-timeout"}) asked.erase(own);  // of the shell itself
  return dump_json({{"plugins", std::move(list)}, {"read", files}, {"asked", asked}}) + '\n';
}

// ---- merged plan ------------------------------------------------------------------------

namespace {

using Ranks = value::Idset;
using Setters = std::map<std::string, std::string>;
using Values = std::map<std::string, Json>;  // of options, by their dotted paths

// The values that are no objects.
void add_values(const Json& value, const std::string& path, Values& out) {
  if (!value.is_object() || value.empty()) {
    if (!path.empty()) out[path] = value;
    return;
  }
  for (const auto& [name, member] : value.items()) add_values(member, path.empty() ? name : path + '.' + name, out);
}

Values values_of(const Json& options) {
  Values out;
  add_values(options, "", out);
  return out;
}

bool has(const Values& values, const std::string& path, const Json& value) {
  auto found = values.find(path);
  return found != values.end() && found->second == value;
}

// Who has set an option, alone or with the object that it is in; "" is for all others.
std::string setter_of(const Setters& setters, std::string path) {
  for (;;) {
    auto found = setters.find(path);
    if (found != setters.end() || path.empty()) return found != setters.end() ? found->second : "";
    std::size_t dot = path.rfind('.');
    path.resize(dot == std::string::npos ? 0 : dot);
  }
}

// "cpus    0-1" without what makes it a column.
std::string without_columns(std::string_view line) {
  std::string out;
  for (char each : line) {
    if (each != ' ' || (!out.empty() && out.back() != ' ')) out += each;
  }
  return out;
}

class MergedPlan {
 public:
  MergedPlan(const job::Job& job, const PlanSources& sources, const std::map<std::uint32_t, Json>& parts,
             bool is_alone, PlanDetail detail)
      : job_(job),
        front_(sources.front),
        jobspec_(values_of(sources.jobspec)),
        given_(values_of(sources.given)),
        parts_(parts),
        is_alone_(is_alone),
        detail_(detail) {
    for (const auto& [rank, part] : parts_) {
      all_.insert(rank);
      const std::string& host = job_.resources.nodes[rank].hostname;
      names_hosts_ = names_hosts_ && !host.empty() && hosts_.insert(host).second;
    }
  }

  std::string text() {
    add_job();
    if (detail_ == PlanDetail::brief) return brief_text();
    add_section("\nenvironment, against the jobspec's\n", "environment");
    add_tasks();
    add_options("\noptions, and where they come from\n");
    if (detail_ == PlanDetail::env) return std::move(out_);
    out_ += "\nplugins, in order\n";
    add_plugins();
    add_section("\nfiles that were read\n", "files");
    return std::move(out_);
  }

 private:
  // A text, and which shells have it, or which tasks.
  struct Line {
    std::string text;
    Ranks of;
  };

  // In the order in which they come first.
  static void fold(std::vector<Line>& lines, std::map<std::string, std::size_t>& known, std::string text,
                   std::uint32_t rank) {
    auto [found, is_new] = known.try_emplace(text, lines.size());
    if (is_new) lines.push_back({std::move(text), {}});
    lines[found->second].of.insert(rank);
  }

  std::vector<Line> fold_parts(const std::function<std::vector<std::string>(const Json&)>& lines_of) const {
    std::vector<Line> out;
    std::map<std::string, std::size_t> known;
    for (const auto& [rank, part] : parts_) {
      for (std::string& each : lines_of(part)) fold(out, known, std::move(each), rank);
    }
    return out;
  }

  // "n[0-3]"; "shell 0-3" where names are missing, or stand for several shells.
  [[nodiscard]] std::string hosts_of(const Ranks& shells) const {
    if (!names_hosts_) return fmt::format("shell {}", shells.short_str());
    value::Hostlist names;
    for (Ranks::Id each : shells.ids()) names.append(job_.resources.nodes[each].hostname);
    return names.str();
  }

  [[nodiscard]] std::string mark_of(const Ranks& shells) const {
    return shells == all_ ? "" : hosts_of(shells) + ": ";
  }

  // Where tasks run, and what was asked for.
  std::string brief_text() {
    add_places();
    add_options("options, and where they come from\n");
    return std::move(out_) + "\nMore: --explain=env (variables), --explain=all (plugins and files, too).\n";
  }

  void add_options(const char* title) {
    const std::vector<Line> lines = fold_parts([this](const Json& part) { return options_of(part); });
    if (lines.empty() && detail_ == PlanDetail::brief) return;
    out_ += title;
    add_lines(lines);
  }

  // "tasks 0-1: cpus 0, memory 0", a line for all that are placed alike.
  void add_places() {
    constexpr std::size_t kMostPlaces = 8;
    std::vector<Line> lines;
    std::map<std::string, std::size_t> known;
    for (const auto& [shell, part] : parts_) {
      const std::string on = is_alone_ ? "" : " on " + hosts_of(Ranks::range(shell, shell));
      for (const Json& task : part.at("tasks")) {
        std::vector<std::string> words;
        for (const Json& each : task.at("lines")) {
          if (auto text = each.get<std::string>(); !text.starts_with("env "))
            words.push_back(without_columns(text));
        }
        fold(lines, known, fmt::format("{}: {}", on, fmt::join(words, ", ")), task.at("rank").get<std::uint32_t>());
      }
    }
    for (std::size_t i = 0; i < std::min(lines.size(), kMostPlaces); ++i) {
      const Ranks& tasks = lines[i].of;
      out_ += fmt::format("{:<9} task{} {}{}\n", i == 0 ? "places" : "", tasks.size() == 1 ? "" : "s",
                          tasks.short_str(), lines[i].text);
    }
    if (lines.size() > kMostPlaces)
      out_ += fmt::format("{:<9} and {} more places: --explain=env\n", "", lines.size() - kMostPlaces);
  }

  void add_section(const char* title, const char* name) {
    out_ += title;
    add_lines(fold_parts([name](const Json& part) { return part.at(name).get<std::vector<std::string>>(); }));
  }

  void add_lines(const std::vector<Line>& lines) {
    for (const Line& each : lines) out_ += fmt::format("  {}{}\n", mark_of(each.of), each.text);
  }

  [[nodiscard]] std::vector<std::string> options_of(const Json& part) const {
    auto setters = part.at("setters").get<Setters>();
    std::vector<std::string> out;
    for (const auto& [path, value] : values_of(part.at("options"))) {
      std::string by = setter_of(setters, path);
      bool is_given = has(given_, path, value);
      if (by.empty() && is_given) by = setter_of(front_, path);
      if (by.empty()) by = has(jobspec_, path, value) ? "jobspec" : is_given ? "command line" : "a plugin";
      out.push_back(fmt::format("{:<16} {}={}", by, path, dump_json(value)));
    }
    return out;
  }

  // A plugin has more topics on the leader: those of all shells are one line.
  void add_plugins() {
    std::map<std::string, std::vector<std::string>> topics;
    auto lines = fold_parts([&](const Json& part) {
      std::vector<std::string> out;
      for (const Json& each : part.at("plugins")) {
        out.push_back(
            fmt::format("{:<20} {:<8}", each.at("name").get<std::string>(), each.at("origin").get<std::string>()));
        std::vector<std::string>& all = topics[out.back()];
        for (const Json& topic : each.at("topics")) {
          const auto& name = topic.get_ref<const std::string&>();
          if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
        }
      }
      return out;
    });
    for (Line& each : lines) each.text += fmt::format(" {}", fmt::join(topics[each.text], " "));
    add_lines(lines);
  }

  void add_job() {
    out_ += fmt::format("job       {} ({})\ncommand  ", job_.f58(), job_.id.decimal());
    for (const std::string& argument : job_.spec.command) out_ += " " + in_quotes(argument);
    out_ += fmt::format("\ntasks     {} on {} node{}, taskmap {}\n", job_.tasks(), job_.nodes(),
                        job_.nodes() == 1 ? "" : "s", job_.taskmap.str());
    if (is_alone_) return add_own_node();
    auto node = [](const Json& part, const char* member) {
      return std::vector{part.at("node").at(member).get<std::string>()};
    };
    auto add = [&](const char* title, const char* member) {
      for (const Line& each : fold_parts([&](const Json& part) { return node(part, member); })) {
        if (detail_ != PlanDetail::brief || each.text != "none")
          out_ += fmt::format("{:<9} {}{}\n", title, mark_of(each.of), each.text);
      }
    };
    out_ += fmt::format("shells    {} of {}: {}\n", all_.size(), job_.shells(), hosts_of(all_));
    if (job_.spares > 0)
      out_ += fmt::format("{:<9} {} of them: {}\n", job_.spares == 1 ? "spare" : "spares", job_.spares,
                          hosts_of(job_.spare_shells()));
    for (auto [title, member] : {std::pair{"cores", "cores"}, {"gpus", "gpus"}, {"cwd", "cwd"}}) add(title, member);
  }

  // R may have others.
  void add_own_node() {
    const Json& node = parts_.begin()->second.at("node");
    const std::string& host = job_.node().hostname;
    out_ += fmt::format("shell     {} of {}, broker rank {}{}{}\n", job_.shell_rank, job_.shells(),
                        node.at("broker").get<std::uint64_t>(), host.empty() ? "" : ", host ", host);
    for (const char* each : {"cores", "gpus", "cwd"}) {
      auto text = node.at(each).get<std::string>();
      if (detail_ != PlanDetail::brief || text != "none") out_ += fmt::format("{:<9} {}\n", each, text);
    }
  }

  // What all tasks have comes once.
  void add_tasks() {
    std::vector<Line> lines;
    std::map<std::string, std::size_t> known;
    Ranks tasks;
    for (const auto& [shell, part] : parts_) {
      for (const Json& task : part.at("tasks")) {
        auto rank = task.at("rank").get<std::uint32_t>();
        tasks.insert(rank);
        for (const Json& each : task.at("lines")) fold(lines, known, each.get<std::string>(), rank);
      }
    }
    bool folds = tasks.size() > 1;
    auto is_common = [&](const Line& line) { return folds && line.of == tasks; };
    if (std::any_of(lines.begin(), lines.end(), is_common)) out_ += "\neach task\n";
    for (const Line& each : lines) {
      if (is_common(each)) out_ += fmt::format("  {}\n", each.text);
    }
    for (const auto& [shell, part] : parts_) {
      std::string on = is_alone_ ? "" : " on " + hosts_of(Ranks::range(shell, shell));
      for (const Json& task : part.at("tasks")) {
        out_ += fmt::format("\ntask {} (local {}){}\n", task.at("rank").get<std::uint32_t>(),
                            task.at("local").get<std::uint32_t>(), on);
        for (const Json& each : task.at("lines")) {
          const auto& text = each.get_ref<const std::string&>();
          if (!is_common(lines[known[text]])) out_ += fmt::format("  {}\n", text);
        }
      }
    }
  }

  const job::Job& job_;
  const Setters& front_;
  Values jobspec_, given_;
  const std::map<std::uint32_t, Json>& parts_;
  bool is_alone_;
  PlanDetail detail_;
  Ranks all_;                    // shells
  std::set<std::string> hosts_;  // their names
  bool names_hosts_ = true;      // each has one of its own
  std::string out_;
};

}  // namespace

std::string merged_plan(const job::Job& job, const PlanSources& sources, const std::map<std::uint32_t, Json>& parts,
                        bool is_alone, PlanDetail detail) {
  return MergedPlan(job, sources, parts, is_alone, detail).text();
}

}  // namespace nacre::plugin
