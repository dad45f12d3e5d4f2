// SPDX-License-Identifier: Apache-2.0
//
// nacre plugin new|list|check; see nacre-plugin(1).

#include "cli/plugin_verb.hpp"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/program.hpp"
#include "cli/command_line.hpp"
#include "cli/verbs.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "job/jobspec.hpp"
#include "job/option_table.hpp"
#include "task/subprocess.hpp"
#include "version.hpp"

namespace nacre::cli {

// ---- plugin verb check ------------------------------------------------------------------
//
// nacre plugin check: loads one plugin in a shell of its own, a child process with a time limit and in a directory
// of its own. If the plugin crashes only the child does.

inline constexpr double kCheckTimeLimit = 10;       // seconds, for loading and again for the job
inline constexpr double kMaxCheckTimeLimit = 3600;  // seconds

struct CheckOptions {
  double time_limit = kCheckTimeLimit;
  std::vector<std::string> options;  // OPT[=VAL], of the job
};

struct CheckResult {
  std::vector<Finding> findings;
  std::string summary;  // "NAME: TOPIC TOPIC" for the plugins in the file, as far as it could be loaded
};

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeaderBytes = 64;
constexpr const char* kDebug = "gdb --args nacre-shell --standalone ... shows where";
constexpr const char* kLoading = "loading";  // in the trace, in the place of a topic

std::string first_bytes(const std::string& path) {
  std::string bytes(kHeaderBytes, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  return bytes;
}

// `text` as a Lua string.
std::string lua_string(std::string_view text) {
  std::string out = "\"";
  for (char each : text) out += fmt::format("\\{:03}", static_cast<unsigned char>(each));
  return out + '"';
}

// The name of a file as a glob that matches only this file.
std::string as_glob(const std::string& path) {
  if (!is_glob(path)) return path;
  std::string out;
  for (char each : path) {
    if (std::string_view("*?[\\").find(each) != std::string_view::npos) out += '\\';
    out += each;
  }
  return out;
}

void erase_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part)) text.erase(at, part.size());
}

// Removes "FILE:LINE: ", once.
void erase_place(std::string& text, const std::string& file) {
  std::size_t at = text.find(file + ":");
  if (at == std::string::npos) return;
  std::size_t end = text.find(": ", at);
  if (end != std::string::npos) text.erase(at, end + 2 - at);
}

// An initrc that loads the plugin between two others, which write a line for each call of a topic before the plugin
// is called and after.
constexpr std::string_view kInitrc = R"(local function write (sign, topic)
  local trace = io.open ({trace}, "a") -- anew: task.exec is called in a process that has no files open
  if trace then
    trace:write (sign, " ", topic, "\n")
    trace:close ()
  end
end
local function note (sign)
  plugin.register {{ name = "nacre plugin check " .. sign, handlers = {{
    {{ topic = "*", fn = function (topic) write (sign, topic) end }} }} }}
end
note ">"
write (">", "loading")
{load} {file}
write ("<", "loading")
note "<"
)";

class Check {
 public:
  Check(std::string path, const CheckOptions& options, ScratchDirectory scratch, std::vector<std::string> job)
      : path_(std::move(path)),
        is_lua_(path_.ends_with(".lua")),
        options_(options),
        scratch_(std::move(scratch)),
        job_(std::move(job)) {}

  Result<CheckResult> run() {
    if (!is_lua_) CHECK_OK(look_at_object());
    bool can_load = std::none_of(result_.findings.begin(), result_.findings.end(),
                                 [](const Finding& each) { return each.is_problem; });
    if (can_load && TRY(load())) CHECK_OK(run_job());
    return std::move(result_);
  }

 private:
  void found(std::string what, std::string remedy, bool is_problem = true) {
    result_.findings.push_back({is_problem, std::move(what), std::move(remedy)});
  }

  // Checks a shared object without running any of its code.
  Result<void> look_at_object() {
    if (auto finding = judge_object(first_bytes(path_), first_bytes("/proc/self/exe"))) {
      result_.findings.push_back(*std::move(finding));
      return {};
    }
    // The dynamic loader loads the object as a part of the shell, prints what is missing, and exits.
    ShellRun run;
    std::string name = "plugin.so";  // LD_PRELOAD is a list, with blanks and colons between
    std::error_code failed;
    fs::create_symlink(path_, scratch_.path() + "/" + name, failed);
    bool listable = path_.find_first_of(" :") == std::string::npos;
    run.environment = {{"LD_PRELOAD", listable ? path_ : "./" + name},
                       {"LD_TRACE_LOADED_OBJECTS", "1"},
                       {"LD_WARN", "1"},
                       {"LD_BIND_NOW", "1"},
                       {"LD_DEBUG", "bindings"}};
    run.directory = scratch_.path();
    run.time_limit = options_.time_limit;
    ShellOutcome outcome = TRY(run_shell(run));
    result_.findings = missing_in(outcome.err + "\n" + outcome.out);
    if (uses_environ(outcome.err, listable ? path_ : "./" + name)) {
      found("uses environ: the shell's own environment, which no task gets",
            "flux_shell_getenv and flux_shell_setenvf are for that of the tasks", false);
    }
    return {};
  }

  // Runs a shell with these arguments besides those of every run, and reads its trace.
  Result<ShellOutcome> run_traced(const std::string& phase, const std::vector<std::string>& more) {
    std::string trace = scratch_.path() + "/trace." + phase;
    std::string load = is_lua_ ? "source" : "plugin.load";
    initrc_ = TRY(scratch_.write(phase + ".lua",
                                 fmt::format(kInitrc, fmt::arg("trace", lua_string(trace)), fmt::arg("load", load),
                                             fmt::arg("file", lua_string(as_glob(path_))))));
    ShellRun run;
    run.arguments = job_;
    for (const char* each : {"-o", "cpu-affinity=off", "-o", "gpu-affinity=off"}) run.arguments.emplace_back(each);
    for (const std::string& each : options_.options) run.arguments.insert(run.arguments.end(), {"-o", each});
    run.arguments.push_back("--initrc=" + initrc_);
    run.arguments.insert(run.arguments.end(), more.begin(), more.end());
    run.environment = {{"TMPDIR", scratch_.path()}};
    run.directory = scratch_.path();
    run.time_limit = options_.time_limit;
    ShellOutcome outcome = TRY(run_shell(run));
    trace_ = read_file(trace).value_or("");
    return outcome;
  }

  // Checks whether the plugin can be loaded.
  Result<bool> load() {
    ShellOutcome outcome = TRY(run_traced("load", {"--explain=plugins"}));
    if (!ended_well(outcome)) return false;
    std::vector<ListedPlugin> own;
    for (ListedPlugin& each : TRY(listed_plugins(outcome.out))) {
      if (each.origin != kBuiltin && each.origin != initrc_) own.push_back(std::move(each));
    }
    if (own.empty() && is_lua_) {
      found("registers no plugin", "right for an initrc; a plugin is made with plugin.register", false);
    }
    std::vector<std::string> asked = TRY(asked_options(outcome.out));
    for (const ListedPlugin& each : own) look_at(each, asked);
    return true;
  }

  void look_at(const ListedPlugin& plugin, const std::vector<std::string>& asked) {
    result_.summary +=
        fmt::format("{}{}: {}", result_.summary.empty() ? "" : "; ", plugin.name, fmt::join(plugin.topics, " "));
    if (plugin.topics.empty() && !asked.empty()) {
      found(fmt::format("plugin {} listens to no topic; it has asked for the option {}", in_quotes(plugin.name),
                        fmt::join(asked, ", ")),
            fmt::format("give what it waits for: nacre plugin check -o {}=... {}", asked.front(),
                        fs::path(path_).filename().string()),
            false);
    } else if (plugin.topics.empty()) {
      found(fmt::format("plugin {} listens to no topic", in_quotes(plugin.name)),
            "subscribe in flux_plugin_init with flux_plugin_register or flux_plugin_add_handler");
    }
    for (const std::string& topic : plugin.topics) {
      if (auto finding = judge_topic(topic)) result_.findings.push_back(*std::move(finding));
    }
    if (plugin.replaces_builtin) {
      found(fmt::format("takes the place of the builtin plugin {}", in_quotes(plugin.name)),
            "take another name if that is not meant", false);
    }
  }

  Result<void> run_job() {
    ShellOutcome outcome = TRY(run_traced("job", {}));
    static_cast<void>(ended_well(outcome));
    return {};
  }

  // Which code is running, as a text for people.
  [[nodiscard]] std::string place(const std::string& topic) const {
    if (topic != kLoading && topic != "flux_plugin_init") return topic;
    return is_lua_ ? "the file itself" : "flux_plugin_init or a constructor";
  }

  bool ended_well(const ShellOutcome& outcome) {
    std::optional<std::string> in = open_call(trace_);
    if (outcome.timed_out) {
      timed_out(in);
    } else if (auto crash = crash_in(outcome.err)) {
      found(fmt::format("crashes in {} ({})", place(crash->topic), crash->signal), kDebug);
    } else if (outcome.status.is_signal()) {
      found(fmt::format("the shell was {} {}", outcome.status.str(),
                        in ? "in " + place(*in) : "outside of its handlers"),
            kDebug);
    } else if (std::string reason = reason_in(outcome.err); !outcome.status.success() && !reason.empty()) {
      failed(reason);
    } else if (in) {
      found(fmt::format("ends the shell's process in {}", place(*in)),
            "return -1 to fail, or call shell_die; exit(3) is not for plugins");
    } else if (!outcome.status.success()) {
      found(fmt::format("the job of /bin/true {} after {}", outcome.status.str(), last_call(trace_)),
            "a plugin that changes how a job ends logs why");
    } else {
      return true;
    }
    return false;
  }

  void timed_out(const std::optional<std::string>& in) {
    if (in) {
      found(fmt::format("has not come back from {} after {} s", place(*in), options_.time_limit),
            "a handler must not wait: use watchers and timers, or completion references");
    } else {
      found(fmt::format("the job does not end: nothing happens after {}, {} s long", last_call(trace_),
                        options_.time_limit),
            "release each completion reference (flux_shell_remove_completion_ref)");
    }
  }

  void failed(std::string reason) {
    std::string directory = fs::path(path_).parent_path().string();
    erase_place(reason, initrc_);  // first: it may be below that directory
    if (directory.size() > 1) erase_all(reason, directory + "/");
    erase_all(reason, "plugin.load: ");
    erase_all(reason, fs::path(path_).filename().string() + ": ");
    if (reason.find("no symbol flux_plugin_init") != std::string::npos) reason = "is no plugin: " + reason;
    found(reason, remedy_for(reason));
  }

  static std::string remedy_for(std::string_view reason) {
    auto has = [&](std::string_view text) { return reason.find(text) != std::string_view::npos; };
    if (has("no symbol flux_plugin_init")) {
      return "define int flux_plugin_init (flux_plugin_t *p), in C++ outside of any namespace";
    }
    if (has("flux_plugin_init failed")) return "it returned a negative value: log why with shell_log_error";
    if (has("the plugin's handler failed")) return "it returned a negative value: log why with shell_log_error";
    return "correct what the error names";
  }

  std::string path_;
  bool is_lua_;
  const CheckOptions& options_;
  ScratchDirectory scratch_;
  std::vector<std::string> job_;
  std::string initrc_;
  std::string trace_;
  CheckResult result_;
};

}  // namespace

// An error: the check could not be made.
Result<CheckResult> check_plugin(const std::string& file, const CheckOptions& options) {
  std::error_code failed;
  auto path = fs::absolute(file, failed).lexically_normal();
  auto status = fs::status(path, failed);
  if (status.type() != fs::file_type::regular) {
    bool there = fs::exists(status);
    return CheckResult{
        {{true, there ? "is not a regular file" : "there is no such file", "name a .so or a .lua file"}}, ""};
  }
  ScratchDirectory scratch = TRY(ScratchDirectory::create());
  std::vector<std::string> job = TRY(write_smallest_job(scratch));
  return Check(path.string(), options, std::move(scratch), std::move(job)).run();
}

// ---- plugin verb ------------------------------------------------------------------------

namespace {

namespace fs = std::filesystem;

Result<void> make_directory(const fs::path& path) {
  std::error_code failed;
  if (fs::create_directory(path, failed)) return {};
  return system_error(failed ? failed.value() : EEXIST, path.string());
}

Result<void> write_file(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) return system_error(errno != 0 ? errno : EIO, path.string());
  return {};
}

class PluginVerb final : public Verb {
 public:
  void add_to(CommandLine& verb) override {
    verb_ = &verb;
    add_new();
    add_list();
    add_check();
  }

  Result<void> check_usage() override {
    if (new_->parsed()) return check_plugin_name(name_);
    if (listing_.jobspec == "-" || listing_.resources == "-")
      return invalid("-j and -R have to be files here, not standard input");
    return {};
  }

  Result<int> run() override {
    if (new_->parsed()) return make_new();
    if (list_->parsed()) return list_plugins(listing_);
    return check();
  }

 private:
  void add_new() {
    new_ = verb_->add_subcommand("new", "Write a plugin that works, with a test, to start from");
    new_->add_option("NAME", name_, "The plugin's name")->required();
    new_->add_option("-l,--lang", language_, "c, c++ or lua")
        ->option_text("LANG")
        ->required()
        ->check(one_of({"c", "c++", "lua"}));
    new_->add_option("--dir", directory_, "Make the directory NAME in DIR (default: here)")->option_text("DIR");
  }

  void add_list() {
    list_ = verb_->add_subcommand("list", "Print the plugins that a job would load, in order");
    list_->add_option("--initrc", listing_.initrc, "Of a job with this initrc (default: the installed one)")
        ->option_text("FILE");
    add_setopt(list_, listing_.options);
    list_->add_option("-j,--jobspec", listing_.jobspec, "Of the job of this jobspec; needs -R")
        ->option_text("FILE")
        ->needs({"--resources"});
    list_->add_option("-R,--resources", listing_.resources, "The job's resource set R")
        ->option_text("FILE")
        ->needs({"--jobspec"});
    list_->add_flag("--json", listing_.json, "Print JSON");
  }

  void add_check() {
    check_ =
        verb_->add_subcommand("check", "Load a plugin in a process of its own, and print what is wrong with it");
    check_->add_option("FILE", files_, "Plugins: shared objects, or Lua files")->option_text("...")->required();
    check_
        ->add_number("-t,--timeout", checking_.time_limit, "How long it may take (default: 10)",
                     {0.001, kMaxCheckTimeLimit})
        ->option_text("SECONDS");
    add_setopt(check_, checking_.options);
  }

  static void add_setopt(CommandLine* app, std::vector<std::string>& options) {
    app->add_option("-o,--setopt", options, "Set a shell option of the job; may be repeated")
        ->option_text("OPT[=VAL]");
  }

  [[nodiscard]] Result<int> make_new() const {
    fs::path top = fs::path(directory_) / name_;
    CHECK_OK(make_directory(top));
    CHECK_OK(make_directory(top / "test"));
    for (const SkeletonFile& each : skeleton(*language_named(language_), name_)) {
      CHECK_OK(write_file(top / each.path, each.text));
    }
    std::string shown = top.lexically_normal().string();
    print_out("{}: ready; try it: make -C {} check\n", shown, shown);
    return 0;
  }

  Result<int> check() {
    int code = 0;
    for (const std::string& file : files_) {
      CheckResult checked = TRY(in(file, check_plugin(file, checking_)));
      bool fine = true;
      for (const Finding& each : checked.findings) {
        print_out("{}: {}{}: {}\n", file, each.is_problem ? "" : "note: ", each.what, each.remedy);
        fine = fine && !each.is_problem;
      }
      if (fine) print_out("{}: fine{}{}\n", file, checked.summary.empty() ? "" : ": ", checked.summary);
      CHECK_OK(flush_out());
      if (!fine) code = 1;
    }
    return code;
  }

  CommandLine* verb_ = nullptr;
  CommandLine* new_ = nullptr;
  CommandLine* list_ = nullptr;
  CommandLine* check_ = nullptr;

  std::string name_;
  std::string language_;
  std::string directory_ = ".";
  ListOptions listing_;
  CheckOptions checking_;
  std::vector<std::string> files_;
};

}  // namespace

VerbPtr make_plugin() { return std::make_unique<PluginVerb>(); }

// ---- plugin verb list -------------------------------------------------------------------

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

// ---- plugin verb run --------------------------------------------------------------------

namespace {

constexpr const char* kShell = "nacre-shell";
constexpr int kKillRounds =
    1000;  // of a millisecond each: a process that survives SIGKILL for longer is left alone
constexpr int kInterrupting[] = {SIGINT, SIGTERM, SIGHUP};

constexpr std::string_view kJobspec = R"({"version": 1,
 "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
 "tasks": [{"command": ["/bin/true"], "slot": "task", "count": {"per_slot": 1}}],
 "attributes": {"system": {"duration": 0, "environment": {"PATH": "/usr/bin:/bin"}}}}
)";
constexpr std::string_view kResources = R"({"version": 1, "execution": {
 "R_lite": [{"rank": "0", "children": {"core": "0"}}], "nodelist": ["localhost"], "starttime": 0, "expiration": 0}}
)";

std::string shell_program() {
  std::string beside = beside_own_program(kShell);
  return ::access(beside.c_str(), X_OK) == 0 ? beside : kShell;
}

task::Command command_of(const ShellRun& run) {
  task::Command command;
  command.argv = {shell_program(), "--standalone"};
  command.argv.insert(command.argv.end(), run.arguments.begin(), run.arguments.end());
  command.env = job::Environment::own();
  for (const auto& [name, value] : run.environment) command.env.set(name, value);
  command.setup.cwd = run.directory;
  command.setup.limits.push_back({RLIMIT_CORE, {0, 0}});
  return command;
}

// Kills all descendants. They may start others meanwhile; this process becomes the parent of those whose parents
// have ended.
void end_descendants(event::Children& children) {
  for (int round = 0; round < kKillRounds; ++round) {
    std::vector<pid_t> left = event::Children::descendants();
    for (pid_t pid : left) ::kill(pid, SIGKILL);
    children.reap();
    if (left.empty()) return;
    ::poll(nullptr, 0, 1);
  }
}

void keep(std::string& kept, task::BufferedStream& stream) {
  for (std::string_view text = stream.read(); !text.empty(); text = stream.read()) {
    kept += text.substr(0, kMaxShellOutput - kept.size());
  }
}

}  // namespace

Result<ScratchDirectory> ScratchDirectory::create() {
  const char* base = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/nacre-plugin-XXXXXX", base != nullptr && *base != '\0' ? base : "/tmp");
  if (::mkdtemp(path.data()) == nullptr) return system_error(errno, path);
  return ScratchDirectory(std::filesystem::absolute(path).lexically_normal().string());
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<std::string> ScratchDirectory::write(const std::string& name, std::string_view text) const {
  std::string path = path_ + "/" + name;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return system_error(errno, path);
  if (int failed = write_all(fd.get(), text); failed != 0) return system_error(failed, path);
  return path;
}

Result<std::vector<std::string>> write_smallest_job(const ScratchDirectory& directory) {
  std::string jobspec = TRY(directory.write("jobspec.json", kJobspec));
  std::string resources = TRY(directory.write("R.json", kResources));
  return std::vector<std::string>{"-j", jobspec, "-R", resources};
}

Result<ShellOutcome> run_shell(const ShellRun& run) {
  auto loop = TRY(event::Loop::create());
  auto children = TRY(event::Children::create(*loop, [](const event::ChildExit&) {}));
  CHECK_OK(event::Children::become_subreaper());
  ShellOutcome outcome;
  int interrupted = 0;
  std::vector<event::SignalWatcher> signals;
  for (int signum : kInterrupting) {
    signals.push_back(
        TRY(event::SignalWatcher::create(*loop, signum, [&](int received) { interrupted = received; })));
    signals.back().keeps_running(false);
  }
  auto timer = TRY(event::Timer::create(*loop, [&] { outcome.timed_out = true; }));
  timer.unref();

  std::unique_ptr<task::Subprocess> process;
  task::Subprocess::Callbacks callbacks;
  callbacks.on_ready = [&](const std::string& name) {
    keep(name == "stdout" ? outcome.out : outcome.err, *process->stream(name));
  };
  auto started = task::Subprocess::start(*loop, *children, command_of(run), {}, std::move(callbacks));
  if (!started) return std::move(started).error().error;
  process = *std::move(started);
  if (run.time_limit) timer.start(event::Seconds(*run.time_limit));
  loop->run_until([&] { return process->exited() || outcome.timed_out || interrupted != 0; });
  if (process->exited()) outcome.timed_out = false;
  end_descendants(*children);
  loop->run_until([&] { return process->complete(); });
  if (interrupted != 0) return Error{EINTR, "interrupted by " + value::signal_name(interrupted)};
  outcome.status = process->status();
  return outcome;
}

// ---- plugin verb findings ---------------------------------------------------------------

namespace {

std::string machine_name(unsigned machine) {
  switch (machine) {
    case EM_386: return "i386";
    case EM_X86_64: return "x86-64";
    case EM_ARM: return "ARM";
    case EM_AARCH64: return "AArch64";
    case EM_PPC64: return "PowerPC 64";
    case EM_S390: return "S/390";
    case EM_RISCV: return "RISC-V";
    default: return fmt::format("machine {}", machine);
  }
}

// The headers of 32-bit and 64-bit objects begin with the same fields.
struct Header {
  unsigned char ident[EI_NIDENT];
  std::uint16_t type;
  std::uint16_t machine;
};

std::optional<Header> header_of(std::string_view file) {
  Header header{};
  if (file.size() < sizeof header || !file.starts_with(ELFMAG)) return std::nullopt;
  std::memcpy(&header, file.data(), sizeof header);
  return header;
}

std::string kind_of(const Header& header) {
  unsigned machine = header.machine;
  bool swapped = header.ident[EI_DATA] != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB);
  if (swapped) machine = (machine >> 8 | machine << 8) & 0xffff;
  return fmt::format("{}, {} bits{}", machine_name(machine), header.ident[EI_CLASS] == ELFCLASS32 ? 32 : 64,
                     swapped ? ", other byte order" : "");
}

std::vector<std::string> open_calls(std::string_view trace, std::string* last) {
  std::vector<std::string> open;
  for (std::string_view line : split(trace, '\n')) {
    if (line.starts_with("> ")) open.emplace_back(line.substr(2));
    if (!line.starts_with("< ")) continue;
    // If the tracing itself has failed the end of a call may be missing: the end of the call around it closes it.
    auto begun = std::find(open.rbegin(), open.rend(), line.substr(2));
    if (begun == open.rend()) continue;
    open.erase(begun.base() - 1, open.end());
    if (last != nullptr) *last = line.substr(2);
  }
  return open;
}

}  // namespace

std::optional<Finding> judge_topic(const std::string& topic) {
  job::TopicJudgement judged = job::judge_topic(topic);
  std::string listens = fmt::format("listens to {}, which ", in_quotes(topic));
  switch (judged.kind) {
    case job::TopicJudgement::Kind::called: return std::nullopt;
    case job::TopicJudgement::Kind::never_called:
      return Finding{false, listens + "this version never calls", "no harm is done"};
    case job::TopicJudgement::Kind::misspelt:
      return Finding{true, listens + "no shell ever calls", judged.advice()};
    case job::TopicJudgement::Kind::matches_none:
      return Finding{false, listens + "matches no topic of the shell", "right only if a plugin calls such topics"};
    case job::TopicJudgement::Kind::unknown: break;
  }
  return Finding{false, listens + "is no topic of the shell", "right only if a plugin calls it"};
}

std::optional<Finding> judge_object(std::string_view file, std::string_view program) {
  auto header = header_of(file);
  if (!header)
    return Finding{true, "is no plugin: neither an ELF object nor named *.lua", "build it with cc -shared -fPIC"};
  auto own = header_of(program);
  if (own && kind_of(*header) != kind_of(*own)) {
    return Finding{true, fmt::format("is built for {}, this shell for {}", kind_of(*header), kind_of(*own)),
                   "build it on this machine"};
  }
  if (header->type != ET_DYN) {
    return Finding{true,
                   header->type == ET_REL ? "is no plugin: an object file, not a shared object"
                                          : "is no plugin: not a shared object",
                   "link it with cc -shared"};
  }
  return std::nullopt;
}

std::vector<Finding> missing_in(std::string_view trace) {
  constexpr std::string_view kSymbol = "undefined symbol: ";
  constexpr std::string_view kNotFound = " => not found";
  std::vector<Finding> libraries;
  std::vector<Finding> symbols;
  for (std::string_view line : split(trace, '\n')) {
    std::string_view text = trim(line);
    if (text.ends_with(kNotFound)) {
      text.remove_suffix(kNotFound.size());
      libraries.push_back({true, fmt::format("needs the library {}, which is not found", text),
                           "install it, or set its directory with -Wl,-rpath when linking"});
    } else if (text.starts_with(kSymbol)) {
      text.remove_prefix(kSymbol.size());
      symbols.push_back({true, fmt::format("undefined symbol {}", text.substr(0, text.find_first_of("\t ,"))),
                         "neither nacre-shell nor a library that it is linked with has it"});
    }
  }
  return libraries.empty() ? symbols : libraries;  // the missing symbols may be in the missing libraries
}

bool uses_environ(std::string_view trace, const std::string& object) {
  std::string from = fmt::format("binding file {} [", object);
  for (std::string_view line : split(trace, '\n')) {
    if (line.find(from) == line.npos) continue;
    if (line.find("symbol `environ'") != line.npos || line.find("symbol `__environ'") != line.npos) return true;
  }
  return false;
}

std::optional<std::string> open_call(std::string_view trace) {
  std::vector<std::string> open = open_calls(trace, nullptr);
  return open.empty() ? std::nullopt : std::optional(open.back());
}

std::string last_call(std::string_view trace) {
  std::string last;
  static_cast<void>(open_calls(trace, &last));
  return last;
}

std::optional<Crash> crash_in(std::string_view output) {
  constexpr std::string_view kCrashed = " crashed in ";
  for (std::string_view line : split(output, '\n')) {
    std::size_t at = line.rfind(kCrashed);
    // A shell that knows its rank prints it: nacre-shell[0].
    bool is_shells = line.starts_with("nacre-shell: plugin '") || line.starts_with("nacre-shell[0]: plugin '");
    if (!is_shells || at == std::string_view::npos) continue;
    std::string_view rest = line.substr(at + kCrashed.size());
    std::size_t open = rest.rfind(" (");
    if (open == std::string_view::npos || !rest.ends_with(')')) continue;
    return Crash{std::string(rest.substr(0, open)), std::string(rest.substr(open + 2, rest.size() - open - 3))};
  }
  return std::nullopt;
}

std::string reason_in(std::string_view output) {
  std::string_view first;
  std::string_view last;
  std::string_view final;
  for (std::string_view line : split(output, '\n')) {
    if (line.starts_with("nacre-shell: ")) final = line.substr(line.find(' ') + 1);
    if (!line.starts_with("nacre-shell[")) continue;
    for (std::string_view level : {"]: error: ", "]: fatal: "}) {
      std::size_t at = line.find(level);
      if (at == std::string_view::npos) continue;
      last = line.substr(at + level.size());
      if (first.empty()) first = last;
    }
  }
  std::string reason;
  for (std::string_view each : {first, last == first ? "" : last, final}) {
    if (!each.empty()) reason += fmt::format("{}{}", reason.empty() ? "" : "; ", each);
  }
  return reason;
}

}  // namespace nacre::cli
