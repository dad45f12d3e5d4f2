// SPDX-License-Identifier: Apache-2.0
#include "cli/plugin_verb_list.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/installed.hpp"
#include "base/json.hpp"
#include "base/print.hpp"
#include "base/text.hpp"
#include "cli/plugin_verb_run.hpp"
#include "job/jobspec.hpp"
#include "version.hpp"

namespace nacre::cli {
namespace {

constexpr std::string_view kListBegins = R"({"asked":)";

// Finds the list: an initrc may print lines of its own before it.
std::optional<std::string_view> list_line(std::string_view printed) {
  std::optional<std::string_view> found;
  for (std::string_view line : split(printed, '\n')) {
    if (line.starts_with(kListBegins)) found = line;
  }
  return found;
}

Result<ListedPlugin> listed_plugin(const JsonAt& entry) {
  ListedPlugin plugin;
  plugin.name = TRY(TRY(entry.at("name")).string());
  plugin.origin = TRY(TRY(entry.at("origin")).string());
  plugin.topics = TRY(TRY(entry.at("topics")).strings());
  plugin.replaces_builtin = TRY(TRY(entry.at("replaces_builtin")).boolean());
  return plugin;
}

// Whether an option of the job names the initrc.
Result<bool> names_initrc(const ListOptions& options) {
  auto is_initrc = [](const std::string& each) { return each == "initrc" || each.starts_with("initrc="); };
  if (std::any_of(options.options.begin(), options.options.end(), is_initrc)) return true;
  if (!options.jobspec) return false;
  auto spec = TRY(in(*options.jobspec, job::Jobspec::parse(TRY(read_file(*options.jobspec)))));
  return spec.options.contains("initrc");
}

std::string table(const std::vector<ListedPlugin>& plugins) {
  std::size_t name_width = 4;
  std::size_t origin_width = 4;
  auto origin = [](const ListedPlugin& each) {
    return each.replaces_builtin ? each.origin + ", replaces the builtin" : each.origin;
  };
  for (const ListedPlugin& each : plugins) {
    name_width = std::max(name_width, each.name.size());
    origin_width = std::max(origin_width, origin(each).size());
  }
  std::string out = fmt::format("{:<{}}  {:<{}}  TOPICS\n", "NAME", name_width, "FROM", origin_width);
  for (const ListedPlugin& each : plugins) {
    std::string line = fmt::format("{:<{}}  {:<{}}  {}", each.name, name_width, origin(each), origin_width,
                                   fmt::join(each.topics, " "));
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace

Result<std::vector<ListedPlugin>> listed_plugins(std::string_view printed) {
  auto line = list_line(printed);
  if (!line) return invalid("nacre-shell has printed no list of plugins; is it of another version?");
  Json document = TRY(parse_json(*line));
  std::vector<ListedPlugin> plugins;
  for (const JsonAt& each : TRY(TRY(JsonAt::root(document).at("plugins")).elements())) {
    plugins.push_back(TRY(listed_plugin(each)));
  }
  return plugins;
}

namespace {

Result<std::vector<std::string>> texts_of(std::string_view printed, std::string_view member) {
  auto line = list_line(printed);
  if (!line) return invalid("nacre-shell has printed no list of plugins; is it of another version?");
  Json document = TRY(parse_json(*line));
  return TRY(JsonAt::root(document).at(member)).strings();
}

}  // namespace

Result<std::vector<std::string>> read_files(std::string_view printed) { return texts_of(printed, "read"); }

Result<std::vector<std::string>> asked_options(std::string_view printed) { return texts_of(printed, "asked"); }

Result<int> list_plugins(const ListOptions& options) {
  ScratchDirectory scratch = TRY(ScratchDirectory::create());
  ShellRun run;
  if (options.jobspec) {
    run.arguments = {"-j", *options.jobspec, "-R", *options.resources};
  } else {
    run.arguments = TRY(write_smallest_job(scratch));
  }
  for (const std::string& each : options.options) run.arguments.insert(run.arguments.end(), {"-o", each});
  if (options.initrc) {
    run.arguments.push_back("--initrc=" + *options.initrc);
  } else if (!TRY(names_initrc(options))) {
    run.arguments.push_back(
        fmt::format("--initrc={}", InstalledTree(kProgramDirectory).path({kSystemInitrcFromHere}, kSystemInitrc)));
  }
  run.arguments.emplace_back("--explain=plugins");
  ShellOutcome outcome = TRY(run_shell(run));
  print_err(outcome.err);
  if (!outcome.status.success()) return 1;
  std::vector<ListedPlugin> plugins = TRY(listed_plugins(outcome.out));
  std::string text =
      options.json ? dump_json(TRY(parse_json(*list_line(outcome.out)))["plugins"]) + '\n' : table(plugins);
  print_out(text);
  return 0;
}

}  // namespace nacre::cli
