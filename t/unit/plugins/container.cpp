// SPDX-License-Identifier: Apache-2.0
//
// The command lines of runtimes, the parts of the host in a container, and its variables.
#include "plugins/container/container.hpp"

#include <filesystem>
#include <fstream>

#include "folder.hpp"

using namespace nacre;
using plugins::ContainerSetup;
using Words = std::vector<std::string>;

namespace {

bool has(const Words& words, const char* word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

const ContainerSetup kSetup{
    "docker://x/y:1", {{"/a", "/b"}, {"/c", "/d", true}, {"/e:f", "/e:f"}}, {}, 1001, 1002, "job1", "/b/dir"};

}  // namespace

TEST_CASE("podman makes a container of the user's own, with the host's network and processes") {
  const plugins::Keeper keeper{"/lib/keeper", "/tmp/job/container", 10, 20};
  CHECK(plugins::podman_run(kSetup, keeper) == Words{"podman",
                                                     "run",
                                                     "--rm",
                                                     "--pull=never",
                                                     "--log-driver=none",
                                                     "--sdnotify=ignore",
                                                     "--network=host",
                                                     "--pid=host",
                                                     "--security-opt=label=disable",
                                                     "--security-opt=seccomp=unconfined",
                                                     "--workdir=/",
                                                     "--userns=keep-id",
                                                     "--user=1001:1002",
                                                     "--ulimit=nofile=10:10",
                                                     "--ulimit=nproc=20:20",
                                                     "--label=nacre.job=job1",
                                                     "--volume=/a:/b",
                                                     "--volume=/c:/d:ro",
                                                     "--mount=type=bind,source=/e:f,target=/e:f",
                                                     "--volume=/lib/keeper:/run/nacre/keeper:ro",
                                                     "--volume=/tmp/job/container:/run/nacre/socket",
                                                     "--entrypoint=/run/nacre/keeper",
                                                     "x/y:1",
                                                     "/run/nacre/socket"});
  ContainerSetup of_root = kSetup;
  of_root.uid = of_root.gid = 0;
  of_root.devices = {"nvidia.com/gpu=all"};
  const Words words = plugins::podman_run(of_root, keeper);
  CHECK(has(words, "--user=0:0"));
  CHECK(has(words, "--device=nvidia.com/gpu=all"));
  CHECK_FALSE(has(words, "--userns=keep-id"));
}

TEST_CASE("other runtimes run a task's command themselves") {
  using job::ContainerRuntime;
  const plugins::TaskWords task{{"run", "-x"}, {"A", "B"}, "task1", "0-1", true};
  ContainerSetup setup = kSetup;
  setup.devices = {"/dev/nvidia0"};
  CHECK(plugins::task_words(ContainerRuntime::apptainer, setup, task) ==
        Words{"apptainer", "exec", "--pwd=/b/dir", "--bind=/a:/b", "--bind=/c:/d:ro", "--bind=/e:f:/e:f", "--nv",
              "docker://x/y:1", "run", "-x"});
  CHECK(plugins::task_words(ContainerRuntime::enroot, setup, task) ==
        Words{"enroot", "start", "--rw", "--mount=/a:/b:none:rbind,x-create=auto",
              "--mount=/c:/d:none:rbind,x-create=auto,ro", "--mount=/e:f:/e:f:none:rbind,x-create=auto", "--env=A",
              "--env=B", "docker://x/y:1", "sh", "-c", R"(cd "$0" && exec "$@")", "/b/dir", "run", "-x"});
  CHECK(plugins::task_words(ContainerRuntime::docker, setup, task) ==
        Words{"docker",
              "run",
              "--rm",
              "--interactive",
              "--init",
              "--pid=host",
              "--ipc=host",
              "--network=host",
              "--name=task1",
              "--workdir=/b/dir",
              "--user=1001:1002",
              "--tty",
              "--cpuset-cpus=0-1",
              "--volume=/a:/b",
              "--volume=/c:/d:ro",
              "--mount=type=bind,source=/e:f,target=/e:f",
              "--device=/dev/nvidia0",
              "--env=A",
              "--env=B",
              "--entrypoint=run",
              "docker://x/y:1",
              "-x"});
  CHECK(plugins::remove_words(ContainerRuntime::docker, "a") == Words{"docker", "rm", "--force", "a"});
  CHECK(plugins::remove_words(ContainerRuntime::enroot, "a") == Words{"enroot", "remove", "--force", "a"});
  CHECK(plugins::remove_words(ContainerRuntime::apptainer, "a").empty());
  job::Environment environment;
  for (const char* each : {"PATH", "HOME", "A", "LD_PRELOAD"}) environment.set(each, "x");
  job::ContainerOption option;
  option.variables = {"HOME"};
  CHECK(plugins::passed_variables(option, environment) == Words{"HOME", "A"});
}

TEST_CASE("an image is brought under the name that its runtime has for it") {
  using job::ContainerRuntime;
  auto arguments = [](ContainerRuntime runtime, const char* image) {
    Words out = plugins::bring_words(runtime, image, "/job", "mine");
    if (out.size() > 4) out.erase(out.begin(), out.begin() + 4);  // /bin/sh -c SCRIPT sh
    return out;
  };
  CHECK(arguments(ContainerRuntime::podman, "x:1") == Words{"x:1"});
  CHECK(arguments(ContainerRuntime::docker, "x:1") == Words{"x:1"});
  CHECK(arguments(ContainerRuntime::apptainer, "/x.sif").empty());
  CHECK(arguments(ContainerRuntime::apptainer, "docker://x") == Words{"docker://x", "/job/image.sif"});
  for (auto [image, name] :
       {std::pair{"/x.sqsh", "/x.sqsh"}, std::pair{"debian:12", "docker://debian:12"},
        std::pair{"docker://debian", "docker://debian"}, std::pair{"a/b:1", "docker://a/b:1"},
        std::pair{"nvcr.io/a/b:1", "docker://nvcr.io#a/b:1"},
        std::pair{"docker://nvcr.io#a/b", "docker://nvcr.io#a/b"}, std::pair{"dockerd://x", "dockerd://x"}})
    CHECK(arguments(ContainerRuntime::enroot, image) == Words{name, "/job/image.sqsh", "mine"});
}

TEST_CASE("the working directory is in a container, unless it is one of the system's") {
  using Binds = std::vector<job::ContainerBind>;
  job::ContainerOption option;
  auto binds = [&](const char* directory) { return plugins::binds_of(option, directory, {}); };
  for (const char* each : {"/", "/usr", "/usr/local/x", "/etc", "/proc/1", "/dev/shm", "/run", "/var/", "/opt"})
    CHECK(binds(each).empty());
  for (const char* each : {"/home/user", "/tmp", "/var/tmp/x", "/opt/x", "/data"})
    CHECK(binds(each) == Binds{{each, each}});
  option.binds = {{"/mine", "/data", true}};
  CHECK(binds("/data") == Binds{{"/mine", "/data", true}});
  CHECK(plugins::binds_of(option, "/data", {"/proc/self", "/no/such", ""}) ==
        Binds{{"/mine", "/data", true}, {"/proc/self", "/proc/self"}});
}

TEST_CASE("gpus are devices by the Container Device Interface, or files") {
  const kit::TemporaryFolder folder;
  const std::string top = folder.path("");
  CHECK(plugins::gpu_devices(top).empty());
  std::filesystem::create_directories(top + "/dev/dri");
  std::filesystem::create_directories(top + "/etc/cdi");
  for (const char* each : {"/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd", "/dev/null"})
    std::ofstream(top + each) << "";
  CHECK(plugins::gpu_devices(top) == Words{"/dev/dri", "/dev/kfd", "/dev/nvidia0", "/dev/nvidiactl"});
  std::ofstream(top + "/etc/cdi/other.yaml") << "kind: vendor.com/nic";
  CHECK(plugins::gpu_devices(top).size() == 4);
  std::ofstream(top + "/etc/cdi/nvidia.yaml") << "kind: nvidia.com/gpu";
  CHECK(plugins::gpu_devices(top) == Words{"nvidia.com/gpu=all"});
}

TEST_CASE("variables of the image take the place of what the job has only inherited") {
  constexpr char kEnviron[] = "PATH=/image\0TERM=xterm\0A=image\0B=image\0C=image\0NEW=1\0no variable";
  const auto image = plugins::image_variables({kEnviron, sizeof kEnviron});
  CHECK(image.size() == 5);
  job::Jobspec spec;
  spec.environment = {{"PATH", "/host"}, {"LD_PRELOAD", "x"}, {"A", "host"},
                      {"B", "host"},     {"C", "host"},       {"D", "host"}};
  job::Environment job;
  for (const auto& [name, value] : spec.environment) job.set(name, value);
  job.set("B", "nacre");
  job::ContainerOption option;
  option.variables = {"C"};
  task::Container container;
  container.variables = plugins::changed_variables(option, image, spec, job);
  task::Command command{{"x"}, job::Environment::over(job), {}};
  task::enter(command, container);
  auto is = [&](const char* name) { return std::string(command.env.get(name).value_or("none")); };
  CHECK(is("PATH") == "/image");
  CHECK(is("LD_PRELOAD") == "none");
  CHECK(is("A") == "image");
  CHECK(is("B") == "nacre");
  CHECK(is("C") == "host");
  CHECK(is("D") == "host");
  CHECK(is("NEW") == "1");
  CHECK(is("TERM") == "none");

  SECTION("what a task's own plugins have set stays") {
    task::Command other{{"x"}, job::Environment::over(job), {}};
    other.env.set("A", "gpu");
    task::enter(other, container);
    CHECK(*other.env.get("A") == "gpu");
  }
}
