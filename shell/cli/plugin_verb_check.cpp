// SPDX-License-Identifier: Apache-2.0
#include "cli/plugin_verb_check.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/plugin_verb_list.hpp"
#include "cli/plugin_verb_run.hpp"

namespace nacre::cli {
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

}  // namespace nacre::cli
