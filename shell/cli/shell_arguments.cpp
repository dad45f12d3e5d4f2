// SPDX-License-Identifier: Apache-2.0
#include "cli/shell_arguments.hpp"

#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "job/option_table.hpp"
#include "job/options.hpp"
#include "version.hpp"

namespace nacre::cli {

// ---- option list ------------------------------------------------------------------------
//
// nacre-shell --list-options=FORMAT: the table of shell options, as JSON or as the beginning of a completion for
// bash, zsh or fish.

inline constexpr const char* kListFormats[] = {"json", "bash", "zsh", "fish"};

namespace {

using job::OptionEntry;

bool is_switch(const OptionEntry& option) { return std::string_view(option.type) == "switch"; }

// The text that completion inserts: "NAME=" if a value has to follow, "NAME" for a switch, and "rlimit." for
// "rlimit.<NAME>".
std::string word_of(const OptionEntry& option) {
  std::string name = option.name;
  if (std::size_t any = name.find('<'); any != std::string::npos) return name.substr(0, any);
  return is_switch(option) ? name : name + '=';
}

// `text` in single quotes, as sh(1) reads it.
std::string in_single_quotes(std::string_view text) {
  std::string out = "'";
  for (char each : text) {
    if (each == '\'') {
      out += "'\\''";
    } else {
      out += each;
    }
  }
  return out + "'";
}

std::string as_json() {
  Json options = Json::array();
  for (const OptionEntry& each : job::option_table()) {
    Json option{{"name", each.name}, {"type", each.type}, {"owner", each.owner}, {"help", each.help}};
    option["default"] = *each.default_value != '\0' ? Json(each.default_value) : Json();
    Json values = Json::array();
    for (std::string_view value : split(each.values, ' ')) {
      if (!value.empty()) values.push_back(value);
    }
    option["values"] = std::move(values);
    options.push_back(std::move(option));
  }
  return dump_json({{"version", 1}, {"options", std::move(options)}}) + '\n';
}

bool takes_any_name(const OptionEntry& option) {
  return std::string_view(option.name).find('<') != std::string_view::npos;
}

// The texts for completion, each once: all options like "rlimit.<NAME>" have one.
std::vector<std::pair<std::string, std::string>> words() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const OptionEntry& each : job::option_table()) {
    std::string word = word_of(each);
    if (out.empty() || out.back().first != word) out.emplace_back(std::move(word), each.help);
  }
  return out;
}

bool has_values(const OptionEntry& option) { return *option.values != '\0' && !takes_any_name(option); }

std::string bash_part() {
  std::string out = "_nacre_shell_options=(\n";
  for (const auto& [word, help] : words()) out += fmt::format("  {}\n", word);
  out += ")\n\n_nacre_shell_values() { # NAME: the values that the shell option NAME takes\n  case $1 in\n";
  for (const OptionEntry& each : job::option_table()) {
    if (has_values(each)) out += fmt::format("    {}) echo {} ;;\n", each.name, in_single_quotes(each.values));
  }
  return out + "  esac\n}\n\n";
}

// The format of zsh's _describe: WORD:HELP, with the colons of WORD quoted.
std::string zsh_part() {
  std::string out = "#compdef nacre-shell\n\nlocal -a _nacre_shell_options\n_nacre_shell_options=(\n";
  for (const auto& [word, help] : words())
    out += fmt::format("  {}\n", in_single_quotes(fmt::format("{}:{}", word, help)));
  out += ")\n\nlocal -A _nacre_shell_values\n_nacre_shell_values=(\n";
  for (const OptionEntry& each : job::option_table()) {
    if (has_values(each)) out += fmt::format("  {} {}\n", each.name, in_single_quotes(each.values));
  }
  return out + ")\n\n";
}

std::string fish_part() {
  std::string out = "function __nacre_shell_options\n";
  for (const auto& [word, help] : words())
    out += fmt::format("    printf '%s\\t%s\\n' {} {}\n", in_single_quotes(word), in_single_quotes(help));
  for (const OptionEntry& each : job::option_table()) {
    if (is_switch(each) || !has_values(each)) continue;
    for (std::string_view value : split(each.values, ' '))
      out += fmt::format("    echo {}\n", in_single_quotes(fmt::format("{}={}", each.name, value)));
  }
  return out + "end\n\n";
}

}  // namespace

// None: there is no such format.
std::optional<std::string> list_options(std::string_view format) {
  if (format == "json") return as_json();
  if (format == "bash") return bash_part();
  if (format == "zsh") return zsh_part();
  if (format == "fish") return fish_part();
  return std::nullopt;
}

// ---- shell arguments --------------------------------------------------------------------

namespace {

Reply misused(const std::string& message) { return usage_error("nacre-shell", message); }

std::optional<Reply> check(RawArguments& raw) {
  ShellArguments& out = raw.values;
  auto chosen = boot::parse_way(raw.way);
  if (!chosen) return misused(fmt::format("--boot: {}", chosen.error().message));
  out.way = *chosen;
  if (out.way == boot::Way::standalone) out.standalone = true;
  if (out.standalone && out.way != boot::Way::standalone && raw.has_way) {
    return misused(fmt::format("--standalone and --boot={} exclude each other", raw.way));
  }
  if (out.standalone && !raw.has_jobspec) return misused("--standalone needs --jobspec=FILE");
  if (out.standalone && !raw.has_resources) return misused("--standalone needs --resources=FILE");
  if (out.launch_record && (out.standalone || (out.way != boot::Way::automatic && out.way != boot::Way::index)))
    return misused("--launch-record is a way of its own: it excludes --standalone and --boot but --boot=index");
  if (!raw.rank.empty() && !out.standalone)
    return misused("--rank is for --standalone: elsewhere the manager gives the shell's rank");
  job::Options options;
  for (const std::string& each : out.options) {
    auto taken = options.set_from_argument(each);
    if (!taken) return misused(fmt::format("-o {}: {}", each, taken.error().message));
  }
  if (out.boot.jobspec_path == "-" && out.boot.resources_path == "-") {
    return misused("-j and -R cannot both be standard input");
  }
  if (!raw.jobid.empty()) {
    auto id = value::JobId::parse(raw.jobid);
    if (!id) return misused(fmt::format("JOBID: {}", id.error().message));
    out.boot.id = *id;
  }
  if (!raw.rank.empty()) {
    auto number = parse_u64(raw.rank);
    if (!number || *number > UINT32_MAX)
      return misused(fmt::format("--rank: expected a rank, got {}", in_quotes(raw.rank)));
    out.boot.broker_rank = static_cast<std::uint32_t>(*number);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Reply> read_all(int argc, char** argv, RawArguments& to) {
  ShellArguments& out = to.values;
  std::string list;
  bool version = false;
  CommandLine app(
      "nacre-shell",
      "Runs one node's share of a job: reads the jobspec and the resource set R, loads plugins, starts the\n"
      "tasks, carries their output, and exits with the largest of their exit codes.");
  app.add_help();
  app.add_option("JOBID", to.jobid, "The job's id, in any form of RFC 19 (default: a new one)");
  app.add_flag("-s,--standalone", out.standalone, "Run alone, without a job manager; needs -j and -R");
  app.add_option("--boot", to.way,
                 "How the job's shells find each other: auto (what the environment speaks of), pmi, pmix, slurm,\n"
                 "index, flux, hosts, standalone; see nacre-boot(7)")
      ->option_text("WAY");
  app.add_option("--secret-file", out.secret_file,
                 "Read the job's secret from FILE (mode 0600), for --boot=slurm and index")
      ->option_text("FILE");
  app.add_number("--launch-record", out.launch_record,
                 "Read the launch record from descriptor FD: the job is this shell alone, see nacre-boot(7)",
                 {3, INT32_MAX})
      ->option_text("FD");
  app.add_number("--arity", out.arity, "How many shells a shell of the tree has below it, of shell 0 (default: 16)",
                 {2, launch::LaunchRecord::kMaxArity})
      ->option_text("K");
  app.add_flag("--exit-local", out.exit_local, "Exit with the code of this shell's tasks, not with the job's");
  app.add_option("-j,--jobspec", out.boot.jobspec_path,
                 "Read the jobspec (JSON or YAML) from FILE, of shell 0; - is stdin")
      ->option_text("FILE");
  app.add_option("-R,--resources", out.boot.resources_path,
                 "Read the resource set R from FILE, of shell 0; - is stdin")
      ->option_text("FILE");
  app.add_option("-r,--rank", to.rank, "Be the shell of this rank of R (default: its lowest)")->option_text("RANK");
  app.add_option("-o,--setopt", out.options, "Set a shell option, see nacre-shell-options(7); may be repeated")
      ->option_text("OPT[=VAL]");
  app.add_option("--initrc", out.initrc, "Load the initrc from FILE; standalone loads none without it")
      ->option_text("FILE");
  app.add_option("--record-dir", out.record_directory, "Keep the job's record, its events and output, in DIR")
      ->option_text("DIR");
  app.add_option("--eventlog", out.eventlog, "Write the job's events (RFC 18) to FILE")->option_text("FILE");
  app.add_flag("--explain", to.explain,
               "Print the whole plan, or less of it, and start nothing; plugins: only those, as JSON", "plan")
      ->option_text("[=brief|env|plugins]")
      ->check(one_of({"brief", "env", "plugins"}));
  app.add_option("--list-options", list, "Print all shell options: json; or bash, zsh, fish: what completes them")
      ->option_text("FORMAT");
  app.add_counter("-v,--verbose", out.verbose, "Log more: once for debug messages, twice for a trace");
  app.add_flag("-q,--quiet", out.quiet, "Log only warnings and errors, and print no report")
      ->excludes({"--verbose"});
  app.add_flag("-V,--version", version, "Print the version")->suffices();
  if (auto read = app.read({argv + 1, argv + std::max(argc, 1)}); !read) return misused(read.error().message);
  if (app.count("--help") > 0) return Reply{0, app.help()};
  if (app.count("--version") > 0) return Reply{0, fmt::format("nacre-shell {}\n", kVersion)};
  if (app.count("--list-options") > 0) {
    if (auto options = list_options(list)) return Reply{0, *options};
    return misused(
        fmt::format("--list-options: expected {}, got {}", fmt::join(kListFormats, ", "), in_quotes(list)));
  }
  to.has_way = app.count("--boot") > 0;
  to.has_jobspec = app.count("--jobspec") > 0;
  to.has_resources = app.count("--resources") > 0;
  out.explain_plugins = to.explain == "plugins";
  out.explain = !to.explain.empty() && !out.explain_plugins;
  if (to.explain != "plan") out.explain_detail = to.explain;
  return std::nullopt;
}

std::variant<ShellArguments, Reply> parse_shell_arguments(int argc, char** argv) {
  RawArguments raw;
  bool has_name = argc > 0;
  if (!has_name || !read_usual({argv + 1, static_cast<std::size_t>(argc - 1)}, raw)) {
    if (auto reply = read_all(argc, argv, raw)) return *std::move(reply);
  }
  if (auto reply = check(raw)) return *std::move(reply);
  return std::move(raw.values);
}

// ---- usual arguments --------------------------------------------------------------------

namespace {

// An option with a value, which is given once.
struct UsualOption {
  std::string_view name;
  std::string_view letter;  // "": it has none
  bool (*take)(RawArguments& to, std::string&& value);
};

bool take_way(RawArguments& to, std::string&& value) {
  to.way = std::move(value);
  to.has_way = true;
  return true;
}

bool take_jobspec(RawArguments& to, std::string&& value) {
  to.values.boot.jobspec_path = std::move(value);
  to.has_jobspec = true;
  return true;
}

bool take_resources(RawArguments& to, std::string&& value) {
  to.values.boot.resources_path = std::move(value);
  to.has_resources = true;
  return true;
}

bool take_initrc(RawArguments& to, std::string&& value) {
  to.values.initrc = std::move(value);
  return true;
}

bool take_launch_record(RawArguments& to, std::string&& value) {
  auto number = parse_u64(value);
  if (!number || *number < 3 || *number > INT_MAX) return false;
  to.values.launch_record = static_cast<int>(*number);
  return true;
}

bool take_setopt(RawArguments& to, std::string&& value) {
  to.values.options.push_back(std::move(value));
  return true;
}

constexpr UsualOption kUsual[] = {
    {"--boot", "", take_way},        {"--jobspec", "-j", take_jobspec},
    {"--initrc", "", take_initrc},   {"--resources", "-R", take_resources},
    {"--setopt", "-o", take_setopt}, {"--launch-record", "", take_launch_record},
};

// The option that `word` is, or begins with before "=".
const UsualOption* find_usual(std::string_view word) {
  std::string_view name = word.substr(0, word.find('='));
  for (const UsualOption& each : kUsual) {
    if (name == each.name || (!each.letter.empty() && word == each.letter)) return &each;
  }
  return nullptr;
}

}  // namespace

bool read_usual(std::span<char* const> words, RawArguments& to) {
  RawArguments out;
  unsigned given = 0;  // a bit for each of kUsual
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (word == "-s" || word == "--standalone") {
      if (std::exchange(out.values.standalone, true)) return false;
      continue;
    }
    const UsualOption* option = find_usual(word);
    if (option == nullptr) return false;
    unsigned bit = 1U << (option - kUsual);
    bool again = (given & bit) != 0 && option->take != take_setopt;
    given |= bit;
    std::size_t equals = word.find('=');
    if (equals == std::string_view::npos && ++i == words.size()) return false;
    std::string value(equals == std::string_view::npos ? std::string_view(words[i]) : word.substr(equals + 1));
    if (again || value.empty() || !option->take(out, std::move(value))) return false;
  }
  to = std::move(out);
  return true;
}

}  // namespace nacre::cli
