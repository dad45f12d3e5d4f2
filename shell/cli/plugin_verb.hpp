// SPDX-License-Identifier: Apache-2.0
//
// What the verb `nacre plugin` does. It runs nacre-shell as a child process, so it looks at plugins without loading
// any itself.
#pragma once

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "value/wait_status.hpp"

namespace nacre::cli {

// What `nacre plugin check` concludes from files and from what a shell has printed: pure functions.
struct Finding {
  bool is_problem = true;  // else a note
  std::string what;
  std::string remedy;
};

// Judges a subscription to `topic` (a glob): none if some shell calls it. For a name that looks misspelt the
// finding names the nearest one. Other unknown names are only notes, as plugins may call topics of their own.
[[nodiscard]] std::optional<Finding> judge_topic(const std::string& topic);

// Compares the first bytes of a file with those of a program of this machine.
[[nodiscard]] std::optional<Finding> judge_object(std::string_view file, std::string_view program);

// Symbols and libraries that the dynamic loader does not find, by what glibc's loader prints when it traces with
// LD_WARN.
[[nodiscard]] std::vector<Finding> missing_in(std::string_view trace);

// Whether `object` takes the variable environ from libc, by what the loader prints with LD_DEBUG=bindings.
[[nodiscard]] bool uses_environ(std::string_view trace, const std::string& object);

// The sandbox writes a line for each call of a topic, "> TOPIC" before the plugin's turn and "< TOPIC" after it.
// The innermost call that has not returned; none if all have.
[[nodiscard]] std::optional<std::string> open_call(std::string_view trace);
// The call that has returned last; "" if none has.
[[nodiscard]] std::string last_call(std::string_view trace);

// Finds "plugin 'NAME' crashed in TOPIC (SIGNAL)" in what a shell has printed: {TOPIC, SIGNAL}.
struct Crash {
  std::string topic;
  std::string signal;
};
[[nodiscard]] std::optional<Crash> crash_in(std::string_view output);

// Why a shell has failed, by what it has printed: the first error in its log (the plugin's own text, if it has
// logged one), the last one, and the last line that is not of the log; "" if there are none.
[[nodiscard]] std::string reason_in(std::string_view output);

// nacre plugin list: the plugins that a job would load, as nacre-shell --explain=plugins prints them.

inline constexpr const char* kBuiltin = "builtin";  // the origin of builtin plugins

struct ListedPlugin {
  std::string name;
  std::string origin;  // kBuiltin, or a file
  std::vector<std::string> topics;
  bool replaces_builtin = false;
};

// Reads the plugins from what the shell has printed, in the order of its stack. An error: it has printed no list.
Result<std::vector<ListedPlugin>> listed_plugins(std::string_view printed);

// The options that plugins have asked for as they were loaded.
Result<std::vector<std::string>> asked_options(std::string_view printed);

// The Lua files that the shell has run, in order.
Result<std::vector<std::string>> read_files(std::string_view printed);

struct ListOptions {
  std::optional<std::string> initrc;   // none: the option `initrc`, else the installed one
  std::vector<std::string> options;    // OPT[=VAL]
  std::optional<std::string> jobspec;  // with `resources`; none: a job of one task
  std::optional<std::string> resources;
  bool json = false;
};

// Prints the list, and passes on what the shell has written to standard error; returns the exit code.
Result<int> list_plugins(const ListOptions& options);

inline constexpr std::size_t kMaxShellOutput = std::size_t{1} << 20;  // bytes kept of each stream; the rest is lost

// A temporary directory. The destructor removes it with all that is in it.
class ScratchDirectory {
 public:
  static Result<ScratchDirectory> create();  // in $TMPDIR, else /tmp
  ScratchDirectory(ScratchDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchDirectory& operator=(ScratchDirectory&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~ScratchDirectory();

  [[nodiscard]] const std::string& path() const { return path_; }
  // Makes a file, and returns its path.
  [[nodiscard]] Result<std::string> write(const std::string& name, std::string_view text) const;

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Writes the files of a job of one task, /bin/true, on one core; returns "-j FILE -R FILE".
Result<std::vector<std::string>> write_smallest_job(const ScratchDirectory& directory);

struct ShellRun {
  std::vector<std::string> arguments;                            // of nacre-shell --standalone
  std::vector<std::pair<std::string, std::string>> environment;  // in addition to this process's
  std::optional<std::string> directory;                          // the working directory
  std::optional<double> time_limit;                              // seconds
};

struct ShellOutcome {
  bool timed_out = false;
  value::WaitStatus status;
  std::string out;
  std::string err;
};

// Runs the nacre-shell in this program's directory, else that in PATH, with /dev/null as its input. When it has
// ended, or its time is over, all its descendants are killed; likewise when a signal comes that ends this program
// (SIGINT, SIGTERM, SIGHUP): then the error is EINTR.
Result<ShellOutcome> run_shell(const ShellRun& run);

// What `nacre plugin new` writes: plugins that work and have a test, for people to start from.

inline constexpr std::size_t kMaxPluginName = 64;  // bytes

enum class Language { c, cpp, lua };

// "c", "c++", "lua".
[[nodiscard]] std::optional<Language> language_named(std::string_view name);

// A name: letters a to z, digits, '_' and '-'; the first is a letter or a digit.
Result<void> check_plugin_name(std::string_view name);

struct SkeletonFile {
  std::string path;  // relative; its directory is `test` or the plugin's own
  std::string text;
};
[[nodiscard]] std::vector<SkeletonFile> skeleton(Language language, const std::string& name);

}  // namespace nacre::cli
