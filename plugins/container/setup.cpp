// SPDX-License-Identifier: Apache-2.0
#include "plugins/container/setup.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::plugins {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKeeperInside = "/run/nacre/keeper";
constexpr const char* kSocketInside = "/run/nacre/socket";
constexpr std::string_view kDockerTransport = "docker://";  // podman's usual one

// Below /, those that are the image's. What users have is elsewhere.
constexpr std::array<std::string_view, 12> kOfSystem{"bin",   "boot",   "dev",  "etc",  "lib", "lib32",
                                                     "lib64", "libx32", "proc", "sbin", "sys", "usr"};

// Likewise, but not what is below them.
constexpr std::array<std::string_view, 3> kShared{"opt", "run", "var"};

// Variables whose values are places of this host, or which its programs need.
constexpr std::array<std::string_view, 14> kOfHost{"PATH",
                                                   "HOME",
                                                   "SHELL",
                                                   "TMPDIR",
                                                   "LD_LIBRARY_PATH",
                                                   "LD_PRELOAD",
                                                   "LD_AUDIT",
                                                   "XDG_RUNTIME_DIR",
                                                   "XDG_CONFIG_HOME",
                                                   "XDG_DATA_HOME",
                                                   "XDG_CACHE_HOME",
                                                   "XDG_STATE_HOME",
                                                   "SSH_AUTH_SOCK",
                                                   "DBUS_SESSION_BUS_ADDRESS"};

// Of podman, and not of the image.
constexpr std::array<std::string_view, 2> kOfPodman{"TERM", "HOSTNAME"};

template <typename List>
bool has(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool is_of_system(std::string_view path) {
  while (path.starts_with('/')) path.remove_prefix(1);
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::string_view top = path.substr(0, path.find('/'));
  return top.empty() || has(kOfSystem, top) || (path == top && has(kShared, top));
}

bool exists(const std::string& path) {
  std::error_code failed;
  return fs::exists(path, failed);
}

}  // namespace

std::vector<job::ContainerBind> binds_of(const job::ContainerOption& option, const std::string& directory,
                                         const std::vector<std::string>& paths) {
  std::vector<job::ContainerBind> out = option.binds;
  auto add = [&](const std::string& path) {
    auto is_it = [&](const job::ContainerBind& each) { return each.target == path; };
    if (std::none_of(out.begin(), out.end(), is_it)) out.push_back({path, path});
  };
  if (!is_of_system(directory)) add(directory);
  for (const std::string& each : paths) {
    if (!each.empty() && exists(each)) add(each);
  }
  return out;
}

std::vector<std::string> gpu_devices(const std::string& root) {
  std::error_code failed;
  for (const char* folder : {"/etc/cdi", "/run/cdi"}) {
    for (const auto& each : fs::directory_iterator(root + folder, failed)) {
      auto text = read_file(each.path());
      if (text && text->find("nvidia.com/gpu") != std::string::npos) return {"nvidia.com/gpu=all"};
    }
  }
  std::vector<std::string> out;
  for (const auto& each : fs::directory_iterator(root + "/dev", failed)) {
    const std::string name = each.path().filename();
    const bool is_gpu = name.starts_with("nvidia") || name == "kfd" || name == "dri";
    if (is_gpu) out.push_back("/dev/" + name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

namespace {

// As one word of podman's and docker's command lines.
std::string volume(const job::ContainerBind& bind) {
  const bool is_plain = bind.source.find(':') == std::string::npos && bind.target.find(':') == std::string::npos;
  if (is_plain) return fmt::format("--volume={}:{}{}", bind.source, bind.target, bind.is_read_only ? ":ro" : "");
  return fmt::format("--mount=type=bind,source={},target={}{}", bind.source, bind.target,
                     bind.is_read_only ? ",readonly" : "");
}

}  // namespace

std::vector<std::string> podman_run(const ContainerSetup& setup, const Keeper& keeper) {
  std::vector<std::string> out{"podman", "run", "--rm", "--pull=never", "--log-driver=none", "--sdnotify=ignore"};
  auto add = [&out](std::string word) { out.push_back(std::move(word)); };
  // Made in the host's: those for which podman would make network, files or limits. A filter of system calls would
  // be the keeper's only, and takes a sixth of podman's time.
  for (const char* each : {"--network=host", "--pid=host", "--security-opt=label=disable",
                           "--security-opt=seccomp=unconfined", "--workdir=/"})
    add(each);
  if (setup.uid != 0) add("--userns=keep-id");
  add(fmt::format("--user={}:{}", setup.uid, setup.gid));
  add(fmt::format("--ulimit=nofile={0}:{0}", keeper.most_files));
  add(fmt::format("--ulimit=nproc={0}:{0}", keeper.most_processes));
  add("--label=nacre.job=" + setup.job);
  for (const auto& each : setup.binds) add(volume(each));
  for (const std::string& each : setup.devices) add("--device=" + each);
  add(volume({keeper.program, kKeeperInside, true}));
  add(volume({keeper.socket, kSocketInside}));
  add(fmt::format("--entrypoint={}", kKeeperInside));
  std::string_view image = setup.image;
  if (image.starts_with(kDockerTransport)) image.remove_prefix(kDockerTransport.size());
  add(std::string(image));
  add(kSocketInside);
  return out;
}

// ---- the image ---------------------------------------------------------------------------

namespace {

// "docker://REGISTRY#IMAGE:TAG".
std::string enroot_name(const std::string& image) {
  if (image.starts_with('/') || image.find('#') != std::string::npos) return image;
  const bool is_docker = image.starts_with(kDockerTransport);
  if (!is_docker && image.find("://") != std::string::npos) return image;
  std::string name = is_docker ? image.substr(kDockerTransport.size()) : image;
  const std::size_t slash = name.find('/');
  const bool has_registry =
      slash != std::string::npos && name.substr(0, slash).find_first_of(".:") != std::string::npos;
  if (has_registry) name[slash] = '#';
  return fmt::format("{}{}", kDockerTransport, name);
}

}  // namespace

std::vector<std::string> bring_words(job::ContainerRuntime runtime, const std::string& image,
                                     const std::string& directory, const std::string& name) {
  // Another job may have brought it meanwhile.
  constexpr const char* kPodman = R"(podman image exists "$1" && echo "$1" || exec podman pull "$1")";
  constexpr const char* kDocker =
      R"({ docker image inspect "$1" >/dev/null 2>&1 || docker pull "$1" >&2; } && echo "$1")";
  constexpr const char* kApptainer = R"(apptainer pull --force "$2" "$1" >&2 && echo "$2")";
  constexpr const char* kEnroot =
      R"(case $1 in /*) file=$1 ;; *) file=$2 && enroot import --output "$2" "$1" >&2 ;; esac &&
enroot create --name "$3" "$file" >&2 && rm -f "$2" && echo "$3")";
  auto script = [](const char* text, std::vector<std::string> arguments) {
    std::vector<std::string> out{"/bin/sh", "-c", text, "sh"};
    out.insert(out.end(), arguments.begin(), arguments.end());
    return out;
  };
  switch (runtime) {
    case job::ContainerRuntime::podman: return script(kPodman, {image});
    case job::ContainerRuntime::docker: return script(kDocker, {image});
    case job::ContainerRuntime::enroot:
      return script(kEnroot, {enroot_name(image), directory + "/image.sqsh", name});
    case job::ContainerRuntime::apptainer: break;
  }
  const bool is_file = image.find("://") == std::string::npos;
  return is_file ? std::vector<std::string>() : script(kApptainer, {image, directory + "/image.sif"});
}

// ---- a task ------------------------------------------------------------------------------

namespace {

using Words = std::vector<std::string>;

Words apptainer_words(const ContainerSetup& setup) {
  Words out{"apptainer", "exec", "--pwd=" + setup.directory};
  for (const auto& each : setup.binds)
    out.push_back(fmt::format("--bind={}:{}{}", each.source, each.target, each.is_read_only ? ":ro" : ""));
  auto is_nvidia = [](const std::string& each) { return each.find("nvidia") != std::string::npos; };
  if (std::any_of(setup.devices.begin(), setup.devices.end(), is_nvidia)) out.emplace_back("--nv");
  if (has(setup.devices, "/dev/kfd")) out.emplace_back("--rocm");
  out.push_back(setup.image);
  return out;
}

Words enroot_words(const ContainerSetup& setup, const TaskWords& task) {
  Words out{"enroot", "start", "--rw"};
  for (const auto& each : setup.binds)
    out.push_back(fmt::format("--mount={}:{}:none:rbind,x-create=auto{}", each.source, each.target,
                              each.is_read_only ? ",ro" : ""));
  for (const std::string& each : task.variables) out.push_back("--env=" + each);
  const Words from_there{setup.image, "sh", "-c", R"(cd "$0" && exec "$@")", setup.directory};
  out.insert(out.end(), from_there.begin(), from_there.end());
  return out;
}

Words docker_words(const ContainerSetup& setup, const TaskWords& task) {
  Words out{"docker",     "run",        "--rm",           "--interactive",       "--init",
            "--pid=host", "--ipc=host", "--network=host", "--name=" + task.name, "--workdir=" + setup.directory};
  out.push_back(fmt::format("--user={}:{}", setup.uid, setup.gid));
  if (task.has_terminal) out.emplace_back("--tty");
  if (!task.cpus.empty()) out.push_back("--cpuset-cpus=" + task.cpus);
  for (const auto& each : setup.binds) out.push_back(volume(each));
  for (const std::string& each : setup.devices) out.push_back("--device=" + each);
  for (const std::string& each : task.variables) out.push_back("--env=" + each);
  out.push_back("--entrypoint=" + task.command.front());
  out.push_back(setup.image);
  return out;
}

}  // namespace

std::vector<std::string> task_words(job::ContainerRuntime runtime, const ContainerSetup& setup,
                                    const TaskWords& task) {
  const bool is_docker = runtime == job::ContainerRuntime::docker;
  Words out = is_docker                                  ? docker_words(setup, task)
              : runtime == job::ContainerRuntime::enroot ? enroot_words(setup, task)
                                                         : apptainer_words(setup);
  out.insert(out.end(), task.command.begin() + (is_docker ? 1 : 0), task.command.end());
  return out;
}

std::vector<std::string> remove_words(job::ContainerRuntime runtime, const std::string& name) {
  if (runtime == job::ContainerRuntime::docker) return {"docker", "rm", "--force", name};
  if (runtime == job::ContainerRuntime::enroot) return {"enroot", "remove", "--force", name};
  return {};
}

std::vector<std::string> passed_variables(const job::ContainerOption& option, const job::Environment& environment) {
  std::vector<std::string> out;
  for (const auto& [name, value] : environment.all()) {
    if (has(option.variables, name) || !has(kOfHost, name)) out.emplace_back(name);
  }
  return out;
}

// ---- podman's leftovers, variables ---------------------------------------------------------

std::vector<std::string> podman_sweep() {
  // Of one that is being made or removed the process is 0, the shell's own group.
  constexpr const char* kScript =
      "podman ps -a --filter label=nacre.job --format '{{.ID}} {{.Pid}}' | while read -r id pid; do "
      "kill -0 \"$pid\" || podman rm -f \"$id\"; done";
  return {"/bin/sh", "-c", kScript};
}

ImageVariables image_variables(std::string_view environ) {
  ImageVariables out;
  for (std::string_view each : split(environ, '\0')) {
    const std::size_t equals = each.find('=');
    if (equals == std::string_view::npos || equals == 0 || has(kOfPodman, each.substr(0, equals))) continue;
    out.emplace_back(each.substr(0, equals), each.substr(equals + 1));
  }
  return out;
}

std::vector<task::Container::Variable> changed_variables(const job::ContainerOption& option,
                                                         const ImageVariables& image, const job::Jobspec& spec,
                                                         const job::Environment& job) {
  std::vector<task::Container::Variable> out;
  auto of_job = [&](std::string_view name) -> std::optional<std::string> {
    auto value = job.get(name);
    return value ? std::optional(std::string(*value)) : std::nullopt;
  };
  // Neither nacre nor an initrc has set it.
  auto is_inherited = [&](const std::string& name, const std::optional<std::string>& value) {
    auto given = std::find_if(spec.environment.begin(), spec.environment.end(),
                              [&](const auto& each) { return each.first == name; });
    return given != spec.environment.end() ? value == given->second : !value;
  };
  for (const auto& [name, value] : image) {
    auto outside = of_job(name);
    if (has(option.variables, name) || (!has(kOfHost, name) && !is_inherited(name, outside))) continue;
    out.push_back({name, outside, value});
  }
  for (std::string_view name : kOfHost) {
    auto outside = of_job(name);
    const bool is_of_image =
        std::any_of(image.begin(), image.end(), [&](const auto& each) { return each.first == name; });
    if (outside && !is_of_image && !has(option.variables, name)) out.push_back({std::string(name), outside, {}});
  }
  return out;
}

}  // namespace nacre::plugins
