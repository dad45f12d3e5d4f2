// SPDX-License-Identifier: Apache-2.0
//
// What a container of a job consists of, pure: what it has of the host, the words for a runtime's program, and
// which variables differ in it.
#pragma once

#include <sys/types.h>

#include "job/container_option.hpp"
#include "job/environment.hpp"
#include "job/jobspec.hpp"
#include "task/command.hpp"

namespace nacre::plugins {

struct ContainerSetup {
  std::string image;
  std::vector<job::ContainerBind> binds;
  std::vector<std::string> devices;  // paths, or names of the Container Device Interface
  uid_t uid = 0;
  gid_t gid = 0;
  std::string job;        // its id, for people
  std::string directory;  // the tasks'
};

// What the container has of the host: the user's binds and, unless one of these has the same target, the working
// directory and those of `paths` that exist. A directory of the system, such as /usr, is the image's.
[[nodiscard]] std::vector<job::ContainerBind> binds_of(const job::ContainerOption& option,
                                                       const std::string& directory,
                                                       const std::vector<std::string>& paths);

// The devices of gpus: by the Container Device Interface, if `root` has a specification for them in etc/cdi or
// run/cdi; otherwise their files. `root`: "", except in tests.
[[nodiscard]] std::vector<std::string> gpu_devices(const std::string& root);

// A container that keeps to itself the namespaces that tasks do not use: tasks enter its user and mount namespaces,
// and stay in the host's other ones. `most_processes`: its limit, as podman would raise it, and may not.
struct Keeper {
  std::string program, socket;  // on the host
  std::uint64_t most_files = 0, most_processes = 0;
};
[[nodiscard]] std::vector<std::string> podman_run(const ContainerSetup& setup, const Keeper& keeper);

// Brings the image to this host if it is not there, and prints the name by which it is found then. `directory`: the
// job's on this host; `name`: one that no other shell has. Empty: there is nothing to bring.
[[nodiscard]] std::vector<std::string> bring_words(job::ContainerRuntime runtime, const std::string& image,
                                                   const std::string& directory, const std::string& name);

// For the runtimes that run each task's command themselves, all but podman: the words for a task of `command`.
struct TaskWords {
  std::vector<std::string> command;    // not empty
  std::vector<std::string> variables;  // names of the variables that the task has from the job
  std::string name;                    // its container's, if it gets one of its own
  std::string cpus;                    // the cpus that it is bound to, "0-3,8"; "": to none
  bool has_terminal = false;
};
[[nodiscard]] std::vector<std::string> task_words(job::ContainerRuntime runtime, const ContainerSetup& setup,
                                                  const TaskWords& task);
// Removes the container of a task; with enroot, that of the node. Empty: there is none to remove.
[[nodiscard]] std::vector<std::string> remove_words(job::ContainerRuntime runtime, const std::string& name);
// The job's variables, except those that name places of the host, and those that the user names.
[[nodiscard]] std::vector<std::string> passed_variables(const job::ContainerOption& option,
                                                        const job::Environment& environment);

// Removes containers of jobs whose keeper has gone without removing them, for instance because a manager has killed
// all.
[[nodiscard]] std::vector<std::string> podman_sweep();

// "NAME=value", with a NUL behind each, as in /proc/PID/environ.
using ImageVariables = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] ImageVariables image_variables(std::string_view environ);

// What is different in the container: it has variables of the image in place of those that the job has only
// inherited, and none that name places of the host (PATH, HOME, LD_LIBRARY_PATH, ...). Variables of
// `option.variables` are never among these.
[[nodiscard]] std::vector<task::Container::Variable> changed_variables(const job::ContainerOption& option,
                                                                       const ImageVariables& image,
                                                                       const job::Jobspec& spec,
                                                                       const job::Environment& job);

}  // namespace nacre::plugins
