// SPDX-License-Identifier: Apache-2.0
//
// container: the tasks run in a container of an image (job/container_option.hpp has the option).
//
//   shell.init       the option, its paths on this host, and the runtime, which has to be installed
//   shell.post-init  makes the container of this node; no task of the job starts before all nodes have theirs
//   task.init        the task's command becomes one in there
//   shell.finish     the container is removed; the job's end waits for that
//
// With podman a node has one container, whose user and mount namespaces the tasks enter as children of the shell.
// So they have their descriptors, cpus, limits, cgroup, signals and exit codes as without. See setup.hpp.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <filesystem>

#include <fmt/format.h>

#include "base/program.hpp"
#include "base/text.hpp"
#include "job/container_option.hpp"
#include "plugins/builtins.hpp"
#include "plugins/container/node_container.hpp"
#include "plugins/container/setup.hpp"

namespace nacre::plugins {
namespace {

using job::ContainerOption;
using job::ContainerRuntime;

constexpr ContainerRuntime kRuntimes[] = {ContainerRuntime::podman, ContainerRuntime::apptainer,
                                          ContainerRuntime::enroot, ContainerRuntime::docker};
constexpr event::Seconds kMostRemoval{10};
constexpr event::Seconds kBeforeSweep{2};
constexpr std::size_t kBitsOfWord = sizeof(unsigned long) * CHAR_BIT;
constexpr const char* kSharedMemory = "/dev/shm";
constexpr const char* kInfiniband = "/dev/infiniband";

// The job's variables that runtimes go by, whoever has started this shell.
constexpr std::string_view kOfRuntimes[] = {"APPTAINER_",         "ENROOT_",     "DOCKER_",     "CONTAINERS_",
                                            "REGISTRY_AUTH_FILE", "HTTP_PROXY",  "HTTPS_PROXY", "NO_PROXY",
                                            "http_proxy",         "https_proxy", "no_proxy"};

Result<ContainerRuntime> runtime_of(const ContainerOption& option) {
  if (option.runtime) {
    const std::string name(name_of(*option.runtime));
    if (is_in_path(name)) return *option.runtime;
    return invalid(fmt::format("{} is not installed, or not in the shell's PATH", name));
  }
  std::string names;
  for (ContainerRuntime each : kRuntimes) {
    if (is_in_path(name_of(each))) return each;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(each));
  }
  return invalid(fmt::format("none of {} is installed, or in the shell's PATH", names));
}

class ContainerPlugin final : public plugin::Plugin {
 public:
  explicit ContainerPlugin(plugin::Host& host) : Plugin("container"), host_(host) {
    on("shell.init", [this] { return read(); });
    on("shell.post-init", [this] { return begin(); });
    on("task.init", [this] {
      if (option_) enter(*host_.current_task());
    });
    on("task.exit", [this] {
      if (option_) look_at_end(*host_.current_task());
    });
    on("shell.start", [this] { return sweep_later(); });
    on("shell.finish", [this] { end(); });
    on("shell.exit", [this] { end_now(); });
  }

 private:
  [[nodiscard]] std::string host_name() const {
    const std::string& name = host_.job().node().hostname;
    return name.empty() ? nacre::host_name() : name;
  }

  Result<void> read() {
    option_ = TRY(ContainerOption::read(host_.options()));
    if (!option_) return {};
    runtime_ = TRY(in(fmt::format("container: {}", host_name()), runtime_of(*option_)));
    for (const job::ContainerBind& each : option_->binds) {
      if (::access(each.source.c_str(), F_OK) < 0)
        return in(fmt::format("container: {}: bind={}:{}", host_name(), each.source, each.target),
                  system_error(errno, each.source));
    }
    host_.start_after_all();
    return {};
  }

  Result<void> begin() {
    if (!option_) return {};
    auto job_directory = host_.environment().get("NACRE_JOB_TMPDIR");
    if (!job_directory)
      return invalid("container: the job has no NACRE_JOB_TMPDIR: leave the plugin tmpdir in place");
    std::error_code failed;
    directory_ = std::filesystem::current_path(failed);
    if (failed) return in("container", system_error(failed.value(), "cannot find the working directory"));
    NodeContainer::Callbacks on;
    on.on_ready = [this](const ImageVariables& image) { ready(image); };
    on.on_failed = [this](const Error& error) { fail(error); };
    on.on_gone = [this] { gone(); };
    on.on_progress = [this](const std::string& text) { log(host_, *this, Level::notice, "{}", text); };
    setup_ = setup_of(std::string(*job_directory));
    container_.emplace(host_.loop(), host_.children(), variables_of_runtime(), std::move(on));
    const std::string own(*job_directory);
    host_.hold_start(name());
    is_starting_ = true;
    return in("container", container_->start(runtime_, setup_, {own, host_name(), shell_name()}));
  }

  [[nodiscard]] job::Environment variables_of_runtime() const {
    job::Environment out;
    for (const auto& [name, value] : host_.environment().all()) {
      for (std::string_view front : kOfRuntimes) {
        if (name.starts_with(front)) out.set(name, value);
      }
    }
    return out;
  }

  [[nodiscard]] ContainerSetup setup_of(const std::string& job_directory) const {
    ContainerSetup out;
    out.image = option_->image;
    out.binds = binds_of(*option_, directory_, {job_directory, kSharedMemory, kInfiniband});
    if (!host_.job().node().gpus.empty()) out.devices = gpu_devices("");
    out.uid = ::geteuid();
    out.gid = ::getegid();
    out.job = host_.job().id.f58_plain();
    out.directory = directory_;
    return out;
  }

  // Of the container that only this shell has, or with a task's rank and try behind it of one that only that has.
  [[nodiscard]] std::string shell_name() const {
    return fmt::format("nacre-{}-{}", host_.job().id.f58_plain(), host_.job().shell_rank);
  }
  [[nodiscard]] std::string name_of_task(const task::Task& task) const {
    return fmt::format("{}-{}-{}", shell_name(), task.rank(), task.attempt());
  }

  void ready(const ImageVariables& image) {
    setup_.image = container_->image();
    log(host_, *this, Level::debug, "{} has {}", host_name(), option_->image);
    if (runtime_ != ContainerRuntime::podman) return release_start();
    entry_ = container_->entry();
    entry_.directory = directory_;
    entry_.variables = changed_variables(*option_, image, host_.job().spec, host_.environment());
    host_.hold(name());
    release_start();
  }

  void fail(const Error& error) {
    if (!host_.ending()) host_.die(1, name(), error.message);
    release_start();
  }

  void release_start() {
    if (std::exchange(is_starting_, false)) static_cast<void>(host_.release_start(name()));
  }

  void enter(task::Task& task) {
    task.command().notes.push_back(
        fmt::format("in a container of {}, made by {}", option_->image, name_of(runtime_)));
    if (!container_ || !container_->is_ready()) return;
    runtime_ == ContainerRuntime::podman ? task::enter(task.command(), entry_) : run_by_runtime(task);
  }

  void run_by_runtime(task::Task& task) {
    task::Command& command = task.command();
    if (runtime_ == ContainerRuntime::docker) command.env.unset("PMI_FD");  // its daemon passes no descriptors on
    value::Idset cpus;
    for (std::size_t cpu = 0; cpu < command.setup.cpus.size() * kBitsOfWord; ++cpu) {
      if ((command.setup.cpus[cpu / kBitsOfWord] >> cpu % kBitsOfWord & 1) != 0)
        cpus.insert(static_cast<value::Idset::Id>(cpu));
    }
    TaskWords words{command.argv, passed_variables(*option_, command.env), name_of_task(task), cpus.str(),
                    task.pty() != nullptr};
    command.argv = task_words(runtime_, setup_, words);
  }

  // What docker's client does not remove, as it has been killed.
  void look_at_end(const task::Task& task) {
    if (runtime_ == ContainerRuntime::docker && task.status().is_signal()) remove(name_of_task(task));
  }

  void remove(const std::string& container) {
    task::Subprocess::Callbacks on;
    on.on_exit = [this] { static_cast<void>(host_.release(name())); };
    task::Command command{remove_words(runtime_, container), job::Environment::own(), {}};
    auto started =
        task::Subprocess::start(host_.loop(), host_.children(), std::move(command), {.streams = {}}, std::move(on));
    if (!started)
      return log(host_, *this, Level::warn, "{}: {} stays: {}", host_name(), container,
                 started.error().error.message);
    host_.hold(name());
    removals_.push_back(*std::move(started));
  }

  // Of what short jobs leave longer ones take care.
  Result<void> sweep_later() {
    if (!container_ || !container_->is_ready() || runtime_ != ContainerRuntime::podman) return {};
    sweep_ = TRY(event::Timer::create(host_.loop(), [this] { container_->sweep(); }));
    sweep_->keeps_running(false);
    sweep_->start(kBeforeSweep);
    return {};
  }

  void end() {
    if (std::exchange(is_ended_, true)) return;
    if (runtime_ == ContainerRuntime::enroot && container_ && container_->is_ready()) remove(shell_name());
    sweep_.reset();
    if (container_) container_->end();
  }

  // A job that has been ended before its tasks has had no shell.finish.
  void end_now() {
    end();
    if (!container_ || !container_->runs() || host_.loop().running()) return;
    bool is_late = false;
    auto timer = event::Timer::create(host_.loop(), [&is_late] { is_late = true; });
    if (!timer) return;
    timer->start_grace(kMostRemoval);
    host_.loop().run_until([&] { return is_late || !container_->runs(); });
    if (is_late) log(host_, *this, Level::warn, "{}: podman has not removed the container yet", host_name());
  }

  void gone() {
    if (!is_ended_) log(host_, *this, Level::warn, "{}: the container has ended before the tasks", host_name());
    static_cast<void>(host_.release(name()));
  }

  plugin::Host& host_;
  std::optional<ContainerOption> option_;
  ContainerRuntime runtime_ = ContainerRuntime::podman;
  std::string directory_;  // the tasks', here and in there
  ContainerSetup setup_;
  std::optional<NodeContainer> container_;
  std::vector<std::unique_ptr<task::Subprocess>> removals_;
  task::Container entry_;
  std::optional<event::Timer> sweep_;
  bool is_starting_ = false, is_ended_ = false;
};

}  // namespace

PluginPtr make_container(plugin::Host& host) { return std::make_unique<ContainerPlugin>(host); }

}  // namespace nacre::plugins
