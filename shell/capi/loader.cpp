// SPDX-License-Identifier: Apache-2.0
#include "capi/loader.hpp"

#include <dlfcn.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "capi/capi.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NACRE_ASAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define NACRE_ASAN
#endif

namespace nacre::capi {

using namespace plugin;  // NOLINT: what it makes for C
namespace {

// With RTLD_DEEPBIND a plugin's own libraries take precedence over ours, so that two versions of one do not mix.
bool deepbind() {
#ifdef NACRE_ASAN
  return false;  // its malloc could not replace that of the object's libraries
#else
  const char* wish = std::getenv("FLUX_LOAD_WITH_DEEPBIND");
  return wish == nullptr || std::strcmp(wish, "0") != 0;
#endif
}

// The functions of libflux-core that this shell has take what this shell has made: with RTLD_DEEPBIND the plugin
// would call those of a libflux-core that it is linked with.
bool needs_flux(const std::string& path) {
  std::vector<std::string> names = needed_libraries(path);
  return std::any_of(names.begin(), names.end(), [](const auto& each) { return each.starts_with("libflux-"); });
}

// Whether it, or a library that it needs, has these functions, as one that is linked with libflux-core.
bool has_flux(const Dso& object) { return object.symbol("flux_plugin_add_handler") != nullptr; }

// `flags`: FLUX_PLUGIN_RTLD_*, becomes what it is mapped with.
Result<Dso> map_object(const std::string& path, int& flags) {
  auto open = [&] {
    return Dso::open(path, RTLD_NOW | RTLD_LOCAL | ((flags & FLUX_PLUGIN_RTLD_DEEPBIND) != 0 ? RTLD_DEEPBIND : 0));
  };
  if (needs_flux(path)) flags &= ~FLUX_PLUGIN_RTLD_DEEPBIND;
  {
    Dso object = TRY(open());
    if ((flags & FLUX_PLUGIN_RTLD_DEEPBIND) == 0 || !has_flux(object)) return object;
  }
  flags &= ~FLUX_PLUGIN_RTLD_DEEPBIND;
  return open();
}

// Maps the object and runs its flux_plugin_init. Errors start with the path.
Result<void> load_object(Host& host, const std::string& path, const Json& conf) {
  ShellRef shell = TRY(ShellRef::of(host));
  std::vector<Dso>& objects = shell->objects;
  int flags = FLUX_PLUGIN_RTLD_NOW | (deepbind() ? FLUX_PLUGIN_RTLD_DEEPBIND : 0);
  auto plugin = std::make_unique<flux_plugin>(std::move(shell), path, flags);
  if (!conf.is_null() && flux_plugin_set_conf(plugin.get(), dump_json(conf).c_str()) < 0) {
    return in(path, invalid(plugin->error));
  }

  const std::string loading = "loading";  // constructors are also code of the plugin
  auto object = [&] {
    CrashScope scope(plugin->name(), loading);
    return map_object(path, plugin->flags);
  }();
  objects.push_back(TRY(std::move(object)));
  auto* init = reinterpret_cast<flux_plugin_init_f>(objects.back().symbol("flux_plugin_init"));
  if (init == nullptr) return invalid(path + ": no symbol flux_plugin_init: is this a shell plugin?");

  errno = 0;
  int returned = TRY(in(path, plugin->run("flux_plugin_init", [&] { return init(plugin.get()); })));
  if (returned < 0) {
    std::string why = errno != 0 ? fmt::format(" ({})", std::strerror(errno)) : "";
    return Error{errno != 0 ? errno : EINVAL, fmt::format("{}: flux_plugin_init failed{}", path, why)};
  }
  host.stack().push(std::move(plugin));
  return {};
}

// `directory` for use at the start of a glob: its characters have no special meaning.
std::string escaped(std::string_view directory) {
  std::string text;
  for (char each : directory) {
    if (std::strchr("*?[\\", each) != nullptr) text += '\\';
    text += each;
  }
  return text;
}

bool is_directory(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

Result<std::vector<std::string>> find_objects(const std::string& pattern, const std::string& searchpath) {
  std::vector<std::string> found;
  if (pattern.starts_with('/')) {
    found = TRY(glob_files(pattern));
  } else {
    for (std::string_view directory : split(searchpath, ':')) {
      if (directory.empty()) continue;
      std::string front = is_glob(pattern) ? escaped(directory) : std::string(directory);
      std::vector<std::string> files = TRY(glob_files(front + "/" + pattern));
      found.insert(found.end(), files.begin(), files.end());
      if (!is_glob(pattern) && !found.empty()) break;
    }
  }
  if (!found.empty() || is_glob(pattern)) return found;
  if (pattern.starts_with('/')) return system_error(ENOENT, pattern);
  return Error{ENOENT, fmt::format("{}: no such file in plugin.searchpath {}", pattern, in_quotes(searchpath))};
}

Result<std::vector<std::string>> glob_files(const std::string& pattern) {
  std::vector<std::string> files;
  if (!is_glob(pattern)) {
    if (::access(pattern.c_str(), F_OK) == 0) files.push_back(pattern);
    return files;
  }
  glob_t matches{};
  int failed = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  for (std::size_t i = 0; failed == 0 && i < matches.gl_pathc; ++i) {
    if (!is_directory(matches.gl_pathv[i])) files.emplace_back(matches.gl_pathv[i]);
  }
  ::globfree(&matches);
  if (failed == GLOB_NOSPACE) return system_error(ENOMEM, pattern);
  // by bytes: glob(3) itself would sort by the user's locale
  std::sort(files.begin(), files.end());
  return files;
}

Result<int> load(Host& host, const std::string& pattern, const Json& conf) {
  if (pattern.empty()) return invalid("plugin.load: no file given");
  int loaded = 0;
  for (const std::string& path : TRY(find_objects(pattern, host.plugin_searchpath()))) {
    CHECK_OK(load_object(host, path, conf));
    ++loaded;
  }
  return loaded;
}

}  // namespace nacre::capi
