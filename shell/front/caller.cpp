// SPDX-License-Identifier: Apache-2.0
#include "front/caller.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/print.hpp"
#include "base/variable.hpp"
#include "task/limits.hpp"

namespace nacre::front {

Result<std::string> own_directory() {
  struct stat here {};
  struct stat there {};
  auto shown = own_variable("PWD");
  bool is_here = shown && shown->starts_with('/') && ::stat(shown->c_str(), &there) == 0 &&
                 ::stat(".", &here) == 0 && here.st_dev == there.st_dev && here.st_ino == there.st_ino;
  if (is_here && is_utf8(*shown)) return *shown;
  std::error_code failed;
  std::string path = std::filesystem::current_path(failed).native();
  if (failed) return system_error(failed.value(), "cannot find the working directory; give --cwd=DIR");
  if (is_utf8(path)) return path;
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

}  // namespace nacre::front
