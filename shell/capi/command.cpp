// SPDX-License-Identifier: Apache-2.0
//
// <flux/command.h>.

#include <fmt/ranges.h>

#include "base/text.hpp"
#include "capi/capi.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

bool has_argument(const flux_cmd_t* cmd, int n) {
  return n >= 0 && static_cast<std::size_t>(n) < of(cmd)->argv.size();
}

// The variables of a NULL-terminated list; an error if an entry is not one.
Result<job::Environment> environment_of(char** env) {
  job::Environment made;
  for (; env != nullptr && *env != nullptr; ++env) {
    std::string_view entry = *env;
    std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) return invalid("no '=' in an environment entry");
    std::string_view name = entry.substr(0, equals);
    std::string_view value = entry.substr(equals + 1);
    CHECK_OK(job::Environment::check(name, value));
    made.set(name, value);
  }
  return made;
}

}  // namespace

flux_cmd_t* flux_cmd_create(int argc, char* argv[], char** env) noexcept {
  if (argc < 0 || (argc > 0 && argv == nullptr)) return none(EINVAL);
  auto made = std::make_unique<task::Command>();
  for (int i = 0; i < argc; ++i) {
    if (argv[i] == nullptr) return none(EINVAL);
    made->argv.emplace_back(argv[i]);
  }
  Result<job::Environment> environment = environment_of(env);
  if (!environment) return none(EINVAL);
  made->env = *std::move(environment);
  return handle(made.release());
}

flux_cmd_t* flux_cmd_copy(const flux_cmd_t* cmd) noexcept {
  if (cmd == nullptr) return none(EINVAL);
  // Copies each variable: the copy must not depend on the job's environment, over which the original may be a
  // layer.
  auto made = std::make_unique<task::Command>();
  made->argv = of(cmd)->argv;
  made->setup = of(cmd)->setup;
  made->channels = of(cmd)->channels;
  made->stream_options = of(cmd)->stream_options;
  made->label = of(cmd)->label;
  for (const auto& [name, value] : of(cmd)->env.all()) made->env.set(name, value);
  return handle(made.release());
}

void flux_cmd_destroy(flux_cmd_t* cmd) noexcept { delete of(cmd); }

int flux_cmd_argc(const flux_cmd_t* cmd) noexcept {
  return cmd != nullptr ? static_cast<int>(of(cmd)->argv.size()) : fail(EINVAL);
}

const char* flux_cmd_arg(const flux_cmd_t* cmd, int n) noexcept {
  if (cmd == nullptr || !has_argument(cmd, n)) return none(EINVAL);
  return of(cmd)->argv[static_cast<std::size_t>(n)].c_str();
}

int flux_cmd_argv_append(flux_cmd_t* cmd, const char* arg) noexcept {
  if (cmd == nullptr || arg == nullptr) return fail(EINVAL);
  of(cmd)->argv.emplace_back(arg);
  return 0;
}

int flux_cmd_argv_appendf(flux_cmd_t* cmd, const char* fmt, ...) noexcept {
  if (cmd == nullptr || fmt == nullptr) return fail(EINVAL);
  va_list args;
  va_start(args, fmt);
  std::optional<std::string> text = format(fmt, args);
  va_end(args);
  if (!text) return fail(EINVAL);
  of(cmd)->argv.push_back(*std::move(text));
  return 0;
}

int flux_cmd_argv_insert(flux_cmd_t* cmd, int n, const char* arg) noexcept {
  if (cmd == nullptr || arg == nullptr) return fail(EINVAL);
  if (n != flux_cmd_argc(cmd) && !has_argument(cmd, n)) return fail(EINVAL);
  of(cmd)->argv.emplace(of(cmd)->argv.begin() + n, arg);
  return 0;
}

int flux_cmd_argv_delete(flux_cmd_t* cmd, int n) noexcept {
  if (cmd == nullptr || !has_argument(cmd, n)) return fail(EINVAL);
  of(cmd)->argv.erase(of(cmd)->argv.begin() + n);
  return 0;
}

char* flux_cmd_stringify(const flux_cmd_t* cmd) noexcept {
  if (cmd == nullptr) return none(EINVAL);
  return c_string(fmt::format("{}", fmt::join(of(cmd)->argv, " ")));
}

const char* flux_cmd_getenv(const flux_cmd_t* cmd, const char* name) noexcept {
  if (cmd == nullptr || name == nullptr) return none(EINVAL);
  auto value = of(cmd)->env.get(name);
  return value ? value->data() : none(ENOENT);  // the end of "NAME=value", with its NUL
}

int flux_cmd_setenvf(flux_cmd_t* cmd, int overwrite, const char* name, const char* fmt, ...) noexcept {
  if (cmd == nullptr || name == nullptr || fmt == nullptr) return fail(EINVAL);
  va_list args;
  va_start(args, fmt);
  std::optional<std::string> value = format(fmt, args);
  va_end(args);
  if (!value || !job::Environment::check(name, *value)) return fail(EINVAL);
  if (overwrite != 0 || !of(cmd)->env.get(name)) of(cmd)->env.set(name, *value);
  return 0;
}

void flux_cmd_unsetenv(flux_cmd_t* cmd, const char* name) noexcept {
  if (cmd == nullptr || name == nullptr) return;
  if (!is_glob(name)) return of(cmd)->env.unset(name);
  std::vector<std::string> matches;
  for (const auto& [each, value] : of(cmd)->env.all()) {
    if (std::string text(each); glob_match(name, text)) matches.push_back(std::move(text));
  }
  for (const std::string& each : matches) of(cmd)->env.unset(each);
}

int flux_cmd_env_replace(flux_cmd_t* cmd, char** env) noexcept {
  if (cmd == nullptr) return fail(EINVAL);
  Result<job::Environment> environment = environment_of(env);
  if (!environment) return fail(EINVAL);
  of(cmd)->env = *std::move(environment);
  return 0;
}

const char* flux_cmd_getcwd(const flux_cmd_t* cmd) noexcept {
  if (cmd == nullptr) return none(EINVAL);
  const auto& cwd = of(cmd)->setup.cwd;
  return cwd ? cwd->c_str() : nullptr;
}

int flux_cmd_setcwd(flux_cmd_t* cmd, const char* cwd) noexcept {
  if (cmd == nullptr || cwd == nullptr || *cwd == '\0') return fail(EINVAL);
  of(cmd)->setup.cwd = cwd;
  return 0;
}

int flux_cmd_add_channel(flux_cmd_t* cmd, const char* name) noexcept {
  if (cmd == nullptr || name == nullptr || !job::Environment::check(name, "")) return fail(EINVAL);
  auto& channels = of(cmd)->channels;
  if (std::find(channels.begin(), channels.end(), name) != channels.end()) return fail(EEXIST);
  channels.emplace_back(name);
  return 0;
}

int flux_cmd_setopt(flux_cmd_t* cmd, const char* var, const char* val) noexcept {
  if (cmd == nullptr || var == nullptr || *var == '\0' || val == nullptr) return fail(EINVAL);
  of(cmd)->stream_options[var] = val;
  return 0;
}

const char* flux_cmd_getopt(flux_cmd_t* cmd, const char* var) noexcept {
  if (cmd == nullptr || var == nullptr) return none(EINVAL);
  auto it = of(cmd)->stream_options.find(var);
  return it != of(cmd)->stream_options.end() ? it->second.c_str() : nullptr;
}

int flux_cmd_set_label(flux_cmd_t* cmd, const char* label) noexcept {
  if (cmd == nullptr || label == nullptr || *label == '\0') return fail(EINVAL);
  of(cmd)->label = label;
  return 0;
}

const char* flux_cmd_get_label(const flux_cmd_t* cmd) noexcept {
  if (cmd == nullptr) return none(EINVAL);
  return of(cmd)->label.empty() ? nullptr : of(cmd)->label.c_str();
}
