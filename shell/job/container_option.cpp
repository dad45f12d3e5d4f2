// SPDX-License-Identifier: Apache-2.0
#include "job/container_option.hpp"

#include "base/text.hpp"
#include "job/environment.hpp"

namespace nacre::job {
namespace {

constexpr std::array<std::string_view, 4> kRuntimes{"podman", "apptainer", "enroot", "docker"};
constexpr std::string_view kAuto = "auto";
const std::vector<std::string> kMembers{"bind", "env", "runtime"};

Result<void> read_bind(const JsonAt& option, std::string_view text, ContainerOption& out) {
  constexpr std::string_view kReadOnly = ":ro";
  auto wrong = [&](std::string_view why) { return option.error(fmt::format("bind={}: {}", in_quotes(text), why)); };
  ContainerBind bind;
  std::string_view paths = text;
  if ((bind.is_read_only = paths.ends_with(kReadOnly))) paths.remove_suffix(kReadOnly.size());
  const std::size_t colon = paths.find(':');
  if (colon == std::string_view::npos) return wrong("expected SOURCE:TARGET, two paths with a colon between");
  bind.source = paths.substr(0, colon);
  bind.target = paths.substr(colon + 1);
  if (bind.target.find(':') != std::string::npos) return wrong("expected SOURCE:TARGET or SOURCE:TARGET:ro");
  if (!bind.source.starts_with('/') || !bind.target.starts_with('/'))
    return wrong("both paths have to be absolute");
  if (bind.target.find_first_not_of('/') == std::string::npos) return wrong("the target may not be the root");
  if (text.find('\0') != std::string_view::npos) return wrong("there is a NUL in it");
  while (bind.target.size() > 1 && bind.target.back() == '/') bind.target.pop_back();
  const bool is_there = std::any_of(out.binds.begin(), out.binds.end(),
                                    [&](const ContainerBind& each) { return each.target == bind.target; });
  if (is_there) return wrong(fmt::format("another one has {} as its target, too", bind.target));
  out.binds.push_back(std::move(bind));
  return {};
}

Result<void> read_variable(const JsonAt& option, std::string_view name, ContainerOption& out) {
  Result<void> is_name = Environment::check(name, "");
  if (!is_name) return option.error(fmt::format("env={}: expected the name of a variable", in_quotes(name)));
  out.variables.emplace_back(name);
  return {};
}

Result<void> read_runtime(const JsonAt& option, std::string_view name, ContainerOption& out) {
  auto found = std::find(kRuntimes.begin(), kRuntimes.end(), name);
  if (found == kRuntimes.end() && name != kAuto) {
    return option.error(
        fmt::format("runtime={}: expected {} or {}{}", in_quotes(name), kAuto, fmt::join(kRuntimes, ", "),
                    did_you_mean(name, std::vector<std::string>(kRuntimes.begin(), kRuntimes.end()))));
  }
  out.runtime = std::nullopt;
  if (name != kAuto) out.runtime = static_cast<ContainerRuntime>(found - kRuntimes.begin());
  return {};
}

// IMAGE and what follows a comma, NAME=VALUE each.
Result<void> read_text(const JsonAt& option, std::string_view text, ContainerOption& out) {
  std::vector<std::string_view> parts = split(text, ',');
  out.image = parts.front();
  if (trim(out.image).empty() || out.image.starts_with('-') || out.image.find('\0') != std::string::npos)
    return option.expected("the name of an image");
  parts.erase(parts.begin());
  for (std::string_view part : parts) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return option.error(fmt::format("expected NAME=VALUE behind a comma, got {}", in_quotes(part)));
    const std::string_view name = part.substr(0, equals), value = part.substr(equals + 1);
    if (name == "bind") {
      CHECK_OK(read_bind(option, value, out));
    } else if (name == "env") {
      CHECK_OK(read_variable(option, value, out));
    } else if (name == "runtime") {
      CHECK_OK(read_runtime(option, value, out));
    } else {
      return option.error(fmt::format("there is no {}{}; container has {}", in_quotes(name),
                                      did_you_mean(name, kMembers), fmt::join(kMembers, ", ")));
    }
  }
  return {};
}

// A list may be missing.
template <typename Read>
Result<void> read_list(const JsonAt& option, std::string_view name, ContainerOption& out, Read read) {
  auto list = TRY(option.find(name));
  if (!list) return {};
  for (const std::string& each : TRY(list_option(*list))) CHECK_OK(read(*list, each, out));
  return {};
}

bool is_off(const Json& value) { return value.is_null() || value == false || value == "off"; }

}  // namespace

std::string_view name_of(ContainerRuntime runtime) { return kRuntimes[static_cast<std::size_t>(runtime)]; }

Result<std::optional<ContainerOption>> ContainerOption::read(const Options& options) {
  auto option = options.at("container");
  if (!option || is_off(option->json())) return std::optional<ContainerOption>();
  ContainerOption out;
  if (!option->json().is_object()) {
    CHECK_OK(read_text(*option, TRY(option->string()), out));
    return std::optional(std::move(out));
  }
  CHECK_OK(option->only_keys({"image", "bind", "env", "runtime"}));
  JsonAt image = TRY(option->at("image"));
  if (is_off(image.json())) return std::optional<ContainerOption>();
  CHECK_OK(read_text(image, TRY(image.string()), out));
  CHECK_OK(read_list(*option, "bind", out, read_bind));
  CHECK_OK(read_list(*option, "env", out, read_variable));
  if (auto runtime = TRY(option->find("runtime"))) CHECK_OK(read_runtime(*runtime, TRY(runtime->string()), out));
  return std::optional(std::move(out));
}

}  // namespace nacre::job
