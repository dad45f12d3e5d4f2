// SPDX-License-Identifier: Apache-2.0
//
// The shell option `container`: in which image the tasks run, by which program, and what the container has of the
// host.
//
//   container=IMAGE[,bind=SOURCE:TARGET[:ro]]...[,env=NAME]...[,runtime=auto|podman|apptainer|enroot|docker]
//
// The same as members: container.image, .bind and .env (lists), .runtime. "off": no container.
#pragma once

#include "job/options.hpp"

namespace nacre::job {

// In the order in which `auto` looks for them.
enum class ContainerRuntime { podman, apptainer, enroot, docker };

[[nodiscard]] std::string_view name_of(ContainerRuntime runtime);  // also the name of its program

struct ContainerBind {
  std::string source, target;  // absolute paths: on the host, in the container
  bool is_read_only = false;

  bool operator==(const ContainerBind&) const = default;
};

struct ContainerOption {
  std::string image;                        // not empty
  std::vector<ContainerBind> binds;         // each target once
  std::vector<std::string> variables;       // variables that keep the job's value, whatever the image has
  std::optional<ContainerRuntime> runtime;  // none: the first that is installed

  // None: the tasks run in no container.
  static Result<std::optional<ContainerOption>> read(const Options& options);
};

}  // namespace nacre::job
