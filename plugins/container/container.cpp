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
// So they have the same descriptors, cpus, limits, cgroup, signals and exit codes as without a container. See
// container.hpp.
#include "plugins/container/container.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "event/children.hpp"
#include "event/clock.hpp"
#include "event/loop.hpp"
#include "job/job.hpp"
#include "plugins/builtins.hpp"
#include "task/subprocess.hpp"
#include "version.hpp"

namespace nacre::plugins {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKeeperInside = "/run/nacre/keeper";
constexpr const char* kSocketInside = "/run/nacre/socket";
constexpr std::string_view kDockerTransport = "docker://";  // podman's usual one

// Folders of / that are the image's. What users have is elsewhere.
constexpr std::array<std::string_view, 12> kOfSystem{"bin",   "boot",   "dev",  "etc",  "lib", "lib32",
                                                     "lib64", "libx32", "proc", "sbin", "sys", "usr"};

// Folders as those above, but what is below them is not the image's.
constexpr std::array<std::string_view, 3> kShared{"opt", "run", "var"};

// Variables whose values are places of this host, or that programs of this host need.
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

// Variables that come from podman, and not from the image.
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
  // Namespaces that are the host's: those for which podman would set up network, files or limits. A filter of
  // system calls would apply to the keeper only, and costs a sixth of podman's time.
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
  // Another job may have brought the image meanwhile.
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
  // While a container is being made or removed its process is 0, which means the shell's own group.
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
  // Whether neither nacre nor an initrc has set it.
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

namespace {

constexpr event::Seconds kFirstWord{1};
constexpr event::Seconds kBetweenWords{10};
constexpr event::Seconds kBetweenTries{0.05};  // for the lock
constexpr std::size_t kMostText = 64 << 10;    // of what a program writes
constexpr int kNoContainer = 125;              // podman itself has failed, not the program in the container

// podman's "Error: WHY", or a line of JSON of the OCI runtime's.
std::string last_line(std::string_view text) {
  constexpr std::string_view kError = "Error: ";
  std::string_view all = trim(text);
  std::string_view line = all.substr(all.find_last_of("\r\n") + 1);
  if (line.starts_with(kError)) line.remove_prefix(kError.size());
  const Json object = Json::parse(line, nullptr, false);
  const bool is_runtimes = object.is_object() && object.contains("msg") && object.at("msg").is_string();
  return escape_controls(is_runtimes ? object.at("msg").get<std::string>() : std::string(line));
}

// A file or the like, which `podman run` itself would load each time: "docker-archive:/x.tar".
bool is_transported(std::string_view image) {
  constexpr std::string_view kTransports[] = {
      "dir:", "docker-archive:", "docker-daemon:", "oci:", "oci-archive:", "containers-storage:"};
  return std::any_of(std::begin(kTransports), std::end(kTransports),
                     [&](std::string_view each) { return image.starts_with(each); });
}

std::string namespace_of(const std::string& process, const char* name) {
  std::error_code failed;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/ns/{}", process, name), failed);
}

// The namespaces that a task has to enter: a process cannot enter its own.
int other_namespaces(pid_t pid) {
  int out = 0;
  for (auto [name, flag] : {std::pair{"user", CLONE_NEWUSER}, std::pair{"mnt", CLONE_NEWNS}}) {
    if (namespace_of(fmt::format("{}", pid), name) != namespace_of("self", name)) out |= flag;
  }
  return out;
}

// podman raises its own limits to these values if it may, and gives them to the container.
std::uint64_t hard_limit(__rlimit_resource resource, std::uint64_t most) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) < 0) return most;
  return std::min<std::uint64_t>(limit.rlim_max, most);
}

Keeper keeper_of(const std::string& socket) {
  constexpr std::uint64_t kMostFiles = 1024;
  constexpr std::uint64_t kMostPids = 32768;
  const InstalledTree installed(kProgramDirectory);
  auto pids = read_file("/proc/sys/kernel/pid_max");
  const std::uint64_t most = pids ? parse_u64(trim(*pids)).value_or(kMostPids) : kMostPids;
  return {installed.path({kContainerKeeperOfBuild, kContainerKeeperFromHere}, kContainerKeeper), socket,
          hard_limit(RLIMIT_NOFILE, kMostFiles), hard_limit(RLIMIT_NPROC, most)};
}

// A lock of this user on this host, for all shells there. None: it cannot be made; then each shell brings the
// image.
UniqueFd lock_file() {
  const auto directory = own_variable("XDG_RUNTIME_DIR");
  std::string path = fmt::format("{}/nacre-container-{}.lock",
                                 directory && !directory->empty() ? *directory : "/tmp", ::geteuid());
  UniqueFd out(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat info {};
  if (out && (::fstat(out.get(), &info) < 0 || info.st_uid != ::geteuid())) out.reset();
  return out;
}

// The image on this node, which one process of the host at a time brings if it is not there. With podman also the
// container that tasks enter: its first process is the keeper (keeper.c), which ends when the socket is closed.
//
//   start -> podman run -> on_ready -> end -> on_gone
//              |  ^
//     no image v  | brought
//            podman pull
//
// Other runtimes make a container for each task, so that it is ready when the image is there.
class NodeContainer : Noncopyable {
 public:
  struct Callbacks {
    std::function<void(const ImageVariables&)> on_ready;
    std::function<void(const Error&)> on_failed;  // it will not be ready
    std::function<void()> on_gone;                // removed, or it has ended by itself; after on_ready only
    std::function<void(const std::string&)> on_progress;
  };
  // `loop` and `children` have to outlive it. `variables`: for podman, in addition to this process's own.
  NodeContainer(event::Loop& loop, event::Children& children, job::Environment variables, Callbacks callbacks)
      : loop_(loop), children_(children), variables_(std::move(variables)), callbacks_(std::move(callbacks)) {}
  ~NodeContainer() { end(); }

  struct Place {
    std::string directory;  // the job's, on this node
    std::string host;       // for messages
    std::string name;       // one that no other shell has
  };

  Result<void> start(job::ContainerRuntime runtime, ContainerSetup setup, const Place& place) {
    runtime_ = runtime;
    setup_ = std::move(setup);
    image_ = setup_.image;
    host_ = place.host;
    bring_words_ = bring_words(runtime, image_, place.directory, place.name);
    begun_ = event::clock_now().count();
    progress_ = TRY(event::Timer::create(loop_, [this] { tell(); }));
    progress_->start(kFirstWord, kBetweenWords);
    progress_->keeps_running(false);
    if (runtime != job::ContainerRuntime::podman) {
      if (!bring_words_.empty()) return lock_or_wait();
      if (image_.starts_with('/') && ::access(image_.c_str(), R_OK) < 0)
        return in(fmt::format("{} is not on {}", image_, host_), system_error(errno, "it is a file"));
      be_ready({});
      return {};
    }
    CHECK_OK(listen(place.directory));
    return is_transported(image_) ? lock_or_wait() : run();
  }

  [[nodiscard]] const std::string& image() const { return setup_.image; }  // as the runtime finds it, once ready

  // Ends the container, and kills what brings its image and the sweep. `on_gone` is called if the container was
  // ready. What podman leaves may be adopted by this process: conmon, which removes the container, the process that
  // keeps the user's namespaces for later containers, and what the sweep has started.
  void end() {
    if (std::exchange(is_ending_, true)) return;
    for (const auto* each : {&run_, &sweep_}) {
      if (!*each || (*each)->exited()) continue;
      for (pid_t pid : event::descendants_of((*each)->pid(), event::best_lookup())) children_.leave_alone(pid);
    }
    retry_.reset();
    progress_.reset();
    incoming_.reset();
    listener_.reset();
    connection_.reset();
    if (bring_ && !bring_->exited()) static_cast<void>(bring_->kill(SIGTERM));
    if (sweep_ && !sweep_->exited()) static_cast<void>(sweep_->kill(SIGKILL));  // the next job's does the rest
  }

  // Removes what earlier jobs have left, while the tasks run. If that fails the job is not harmed.
  void sweep() {
    task::Command command = command_of(podman_sweep());
    command.setup.ends_with_parent = true;
    auto started = task::Subprocess::start(loop_, children_, std::move(command), {.streams = {}}, {});
    if (started) sweep_ = *std::move(started);
  }

  // For a podman that hangs before there is a container. What it leaves the next job removes.
  void kill(int signum) {
    if (runs()) static_cast<void>(run_->kill(signum));
  }

  [[nodiscard]] bool runs() const { return run_ != nullptr && !run_->exited(); }
  [[nodiscard]] bool is_ready() const { return is_ready_; }
  // The container that tasks enter, once it is ready with podman; without variables and directory.
  [[nodiscard]] const task::Container& entry() const { return entry_; }

 private:
  // The socket's path may be too long for an address, so the socket is bound through its directory's descriptor.
  Result<void> listen(const std::string& directory) {
    constexpr const char* kName = "container";
    UniqueFd folder(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder) return system_error(errno, directory);
    keeper_ = keeper_of(fmt::format("{}/{}", directory, kName));
    if (::access(keeper_.program.c_str(), X_OK) < 0) return system_error(errno, keeper_.program);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    fmt::format_to_n(address.sun_path, sizeof address.sun_path - 1, "/proc/self/fd/{}/{}", folder.get(), kName);
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener_ || ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0 ||
        ::listen(listener_.get(), 1) < 0)
      return system_error(errno, fmt::format("cannot make the socket {}", keeper_.socket));
    incoming_ = TRY(event::Poll::create(loop_, listener_.get(), [this](int) { accept(); }));
    return incoming_->start(event::Poll::kReadable);
  }

  // podman goes on if this shell is killed, and then ends with the keeper; it ends its own processes itself.
  Result<void> run() {
    set_step(fmt::format("podman makes a container of {}", image_));
    run_ = TRY(start_program(podman_run(setup_, keeper_), true));
    children_.leave_alone(run_->pid());
    return {};
  }

  [[nodiscard]] task::Command command_of(std::vector<std::string> words) const {
    task::Command out{std::move(words), job::Environment::own(), {}};
    out.env.unset(job::kShellMark);
    for (const auto& [name, value] : variables_.all()) out.env.set(name, value);
    return out;
  }

  Result<std::unique_ptr<task::Subprocess>> start_program(std::vector<std::string> words, bool is_run) {
    out_.clear();
    err_.clear();
    task::Command command = command_of(std::move(words));
    command.setup.adopts = is_run;
    command.setup.ends_with_parent = !is_run;
    task::Subprocess::Callbacks on;
    on.on_ready = [this, is_run](const std::string&) {
      if (auto& process = is_run ? run_ : bring_) read(*process);
    };
    // Not called when the streams end, as conmon may keep them open.
    on.on_exit = [this, is_run] { is_run ? run_ended() : brought(); };
    auto started = task::Subprocess::start(loop_, children_, std::move(command), {}, std::move(on));
    if (!started) return Error(started.error().error);
    return *std::move(started);
  }

  void read(task::Subprocess& process) {
    for (auto [name, text] : {std::pair{"stdout", &out_}, std::pair{"stderr", &err_}}) {
      task::BufferedStream* stream = process.stream(name);
      if (stream == nullptr) continue;
      for (std::string_view some = stream->read(); !some.empty(); some = stream->read()) {
        text->append(some);
        if (text->size() > kMostText) text->erase(0, text->size() - kMostText);
      }
    }
  }

  // ---- ready ---------------------------------------------------------------------------

  void accept() {
    UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) return;
    incoming_.reset();
    listener_.reset();
    Result<ImageVariables> image = take(std::move(connection));
    image ? be_ready(*image) : fail(fmt::format("cannot be entered on {}", host_), image.error().message);
  }

  void be_ready(const ImageVariables& image) {
    progress_.reset();
    is_ready_ = true;
    callbacks_.on_ready(image);
  }

  Result<ImageVariables> take(UniqueFd connection) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 0)
      return system_error(errno, "the process at its socket is not known");
    UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
    if (!process) return system_error(errno, "pidfd_open");
    entry_.namespaces = other_namespaces(peer.pid);
    const std::string environ = TRY(read_file(fmt::format("/proc/{}/environ", peer.pid)));
    entry_.process = process.get();
    process_ = std::move(process);
    connection_ = std::move(connection);
    return image_variables(environ);
  }

  void run_ended() {
    read(*run_);
    if (is_ready()) return callbacks_.on_gone();
    if (is_ending_) return;
    const value::WaitStatus& status = run_->status();
    const bool may_lack_image = status == value::WaitStatus::exited(kNoContainer) && !was_brought_;
    if (!may_lack_image) {
      const std::string why = last_line(err_);
      return fail(fmt::format("cannot be started on {} by podman", host_), why.empty() ? status.str() : why);
    }
    if (Result<void> begun = lock_or_wait(); !begun) fail("cannot be brought", begun.error().message);
  }

  // ---- the image -----------------------------------------------------------------------

  // Another process of the host may be bringing it.
  Result<void> lock_or_wait() {
    if (!lock_) lock_ = lock_file();
    if (lock_ && ::flock(lock_.get(), LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
      set_step(fmt::format("waits for who brings an image to {}", host_));
      if (!retry_) {
        retry_ = TRY(event::Timer::create(loop_, [this] {
          if (Result<void> begun = lock_or_wait(); !begun) fail("cannot be brought", begun.error().message);
        }));
      }
      retry_->start(kBetweenTries);
      return {};
    }
    set_step(fmt::format("{} brings {}", name_of(runtime_), image_));
    bring_ = TRY(start_program(bring_words_, false));
    return {};
  }

  void brought() {
    read(*bring_);
    lock_.reset();
    if (is_ending_) return;
    if (!bring_->status().success()) {
      const std::string why = last_line(err_);
      return fail(fmt::format("is not on {}, and {} cannot bring it", host_, name_of(runtime_)),
                  fmt::format("{} (try there: {} {} {}; or bring it before the job)",
                              why.empty() ? bring_->status().str() : why, name_of(runtime_),
                              runtime_ == job::ContainerRuntime::enroot ? "import" : "pull", image_));
    }
    was_brought_ = true;
    const std::string_view name = trim(out_);
    setup_.image = name.substr(name.rfind('\n') + 1);
    if (runtime_ != job::ContainerRuntime::podman) return be_ready({});
    if (Result<void> again = run(); !again) fail("cannot be started", again.error().message);
  }

  // ---- what is told --------------------------------------------------------------------

  void fail(const std::string& what, const std::string& why) {
    end();
    if (!std::exchange(has_failed_, true))
      callbacks_.on_failed(invalid(fmt::format("{} {}: {}", image_, what, why)));
  }

  void set_step(std::string step) { step_ = std::move(step); }

  void tell() {
    const std::string last = last_line(err_);
    callbacks_.on_progress(fmt::format("{}: {}, {:.0f} s{}{}", host_, step_, event::clock_now().count() - begun_,
                                       last.empty() ? "" : ": ", last));
  }

  event::Loop& loop_;
  event::Children& children_;
  job::Environment variables_;
  Callbacks callbacks_;
  job::ContainerRuntime runtime_ = job::ContainerRuntime::podman;
  ContainerSetup setup_;
  std::vector<std::string> bring_words_;
  Keeper keeper_;
  std::string host_, image_;  // as the user has named it
  UniqueFd listener_, connection_, process_, lock_;
  std::optional<event::Poll> incoming_;
  std::unique_ptr<task::Subprocess> run_, bring_, sweep_;
  std::optional<event::Timer> progress_, retry_;
  std::string step_, out_, err_;  // the step, and what the program that runs has written
  double begun_ = 0;
  bool was_brought_ = false, is_ready_ = false, is_ending_ = false, has_failed_ = false;
  task::Container entry_;
};

using job::ContainerOption;
using job::ContainerRuntime;

constexpr ContainerRuntime kRuntimes[] = {ContainerRuntime::podman, ContainerRuntime::apptainer,
                                          ContainerRuntime::enroot, ContainerRuntime::docker};
constexpr event::Seconds kMostRemoval{10};
constexpr event::Seconds kMostEnd{1};  // from SIGTERM to SIGKILL
constexpr event::Seconds kBeforeSweep{2};
constexpr std::size_t kBitsOfWord = sizeof(unsigned long) * CHAR_BIT;
constexpr const char* kSharedMemory = "/dev/shm";
constexpr const char* kInfiniband = "/dev/infiniband";

// The job's variables that runtimes read, however this shell was started.
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

  // The name of the container that only this shell has; a container for one task has the task's rank and try behind
  // it.
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

  // Removes what docker's client has not removed because it was killed.
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

  // Longer jobs remove what short jobs leave.
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

  // A job that was ended before its tasks started has had no shell.finish.
  void end_now() {
    end();
    if (!container_ || !container_->runs() || host_.loop().running()) return;
    if (has_gone_within(kMostRemoval)) return;
    if (container_->is_ready())
      return log(host_, *this, Level::warn, "{}: podman has not removed the container yet", host_name());
    log(host_, *this, Level::warn, "{}: podman hangs, and is killed", host_name());
    container_->kill(SIGTERM);
    if (!has_gone_within(kMostEnd)) container_->kill(SIGKILL);
  }

  bool has_gone_within(event::Seconds time) {
    bool is_late = false;
    auto timer = event::Timer::create(host_.loop(), [&is_late] { is_late = true; });
    if (!timer) return false;
    timer->start_grace(time);
    host_.loop().run_until([&] { return is_late || !container_->runs(); });
    return !container_->runs();
  }

  void gone() {
    if (!is_ended_) log(host_, *this, Level::warn, "{}: the container has ended before the tasks", host_name());
    static_cast<void>(host_.release(name()));
  }

  plugin::Host& host_;
  std::optional<ContainerOption> option_;
  ContainerRuntime runtime_ = ContainerRuntime::podman;
  std::string directory_;  // the tasks', the same on the host and in the container
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
