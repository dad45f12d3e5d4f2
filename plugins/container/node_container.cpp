// SPDX-License-Identifier: Apache-2.0
#include "plugins/container/node_container.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"
#include "job/job.hpp"
#include "version.hpp"

namespace nacre::plugins {
namespace {

constexpr event::Seconds kFirstWord{1};
constexpr event::Seconds kBetweenWords{10};
constexpr event::Seconds kBetweenTries{0.05};  // for the lock
constexpr std::size_t kMostText = 64 << 10;    // of what a program has written
constexpr int kNoContainer = 125;              // podman itself has failed, not what it runs

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

// A file or the like, which `podman run` would bring by itself, each time: "docker-archive:/x.tar".
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

// Those that a task has to enter: one's own cannot be.
int other_namespaces(pid_t pid) {
  int out = 0;
  for (auto [name, flag] : {std::pair{"user", CLONE_NEWUSER}, std::pair{"mnt", CLONE_NEWNS}}) {
    if (namespace_of(fmt::format("{}", pid), name) != namespace_of("self", name)) out |= flag;
  }
  return out;
}

// podman raises its limits to these if it may, and gives them to the container.
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

// Of this user and host, which all shells on it take. None: it cannot be had; then all bring the image.
UniqueFd lock_file() {
  const auto directory = own_variable("XDG_RUNTIME_DIR");
  std::string path = fmt::format("{}/nacre-container-{}.lock",
                                 directory && !directory->empty() ? *directory : "/tmp", ::geteuid());
  UniqueFd out(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat info {};
  if (out && (::fstat(out.get(), &info) < 0 || info.st_uid != ::geteuid())) out.reset();
  return out;
}

}  // namespace

Result<void> NodeContainer::start(job::ContainerRuntime runtime, ContainerSetup setup, const Place& place) {
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

// The socket's path may be longer than an address can hold, so it is bound by that of its directory's descriptor.
Result<void> NodeContainer::listen(const std::string& directory) {
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

// It goes on if this shell is killed, and then ends with the keeper; and what it leaves is its own to end.
Result<void> NodeContainer::run() {
  set_step(fmt::format("podman makes a container of {}", image_));
  run_ = TRY(start_program(podman_run(setup_, keeper_), true));
  children_.leave_alone(run_->pid());
  return {};
}

task::Command NodeContainer::command_of(std::vector<std::string> words) const {
  task::Command out{std::move(words), job::Environment::own(), {}};
  out.env.unset(job::kShellMark);
  for (const auto& [name, value] : variables_.all()) out.env.set(name, value);
  return out;
}

// If it fails the job is not harmed.
void NodeContainer::sweep() {
  task::Command command = command_of(podman_sweep());
  command.setup.ends_with_parent = true;
  auto started = task::Subprocess::start(loop_, children_, std::move(command), {.streams = {}}, {});
  if (started) sweep_ = *std::move(started);
}

Result<std::unique_ptr<task::Subprocess>> NodeContainer::start_program(std::vector<std::string> words,
                                                                       bool is_run) {
  out_.clear();
  err_.clear();
  task::Command command = command_of(std::move(words));
  command.setup.adopts = is_run;
  command.setup.ends_with_parent = !is_run;
  task::Subprocess::Callbacks on;
  on.on_ready = [this, is_run](const std::string&) {
    if (auto& process = is_run ? run_ : bring_) read(*process);
  };
  // Not once its streams have come to their end, which conmon may hold.
  on.on_exit = [this, is_run] { is_run ? run_ended() : brought(); };
  auto started = task::Subprocess::start(loop_, children_, std::move(command), {}, std::move(on));
  if (!started) return Error(started.error().error);
  return *std::move(started);
}

void NodeContainer::read(task::Subprocess& process) {
  for (auto [name, text] : {std::pair{"stdout", &out_}, std::pair{"stderr", &err_}}) {
    task::BufferedStream* stream = process.stream(name);
    if (stream == nullptr) continue;
    for (std::string_view some = stream->read(); !some.empty(); some = stream->read()) {
      text->append(some);
      if (text->size() > kMostText) text->erase(0, text->size() - kMostText);
    }
  }
}

// ---- ready ------------------------------------------------------------------------------

void NodeContainer::accept() {
  UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection) return;
  incoming_.reset();
  listener_.reset();
  Result<ImageVariables> image = take(std::move(connection));
  image ? be_ready(*image) : fail(fmt::format("cannot be entered on {}", host_), image.error().message);
}

void NodeContainer::be_ready(const ImageVariables& image) {
  progress_.reset();
  is_ready_ = true;
  callbacks_.on_ready(image);
}

Result<ImageVariables> NodeContainer::take(UniqueFd connection) {
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

// What podman leaves may be adopted by this process: conmon, which removes the container, and the process that
// keeps the user's namespaces for later containers.
void NodeContainer::end() {
  if (std::exchange(is_ending_, true)) return;
  if (run_ && !run_->exited()) {
    for (pid_t pid : event::descendants_of(run_->pid(), event::best_lookup())) children_.leave_alone(pid);
  }
  retry_.reset();
  progress_.reset();
  incoming_.reset();
  listener_.reset();
  connection_.reset();
  for (const auto* each : {&bring_, &sweep_}) {
    if (*each && !(*each)->exited()) static_cast<void>((*each)->kill(SIGTERM));
  }
}

void NodeContainer::run_ended() {
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

// ---- the image ---------------------------------------------------------------------------

// Another process of the host may be bringing it.
Result<void> NodeContainer::lock_or_wait() {
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

void NodeContainer::brought() {
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

// ---- what is told ------------------------------------------------------------------------

void NodeContainer::fail(const std::string& what, const std::string& why) {
  end();
  if (!std::exchange(has_failed_, true)) callbacks_.on_failed(invalid(fmt::format("{} {}: {}", image_, what, why)));
}

void NodeContainer::set_step(std::string step) { step_ = std::move(step); }

void NodeContainer::tell() {
  const std::string last = last_line(err_);
  callbacks_.on_progress(fmt::format("{}: {}, {:.0f} s{}{}", host_, step_, event::clock_now().count() - begun_,
                                     last.empty() ? "" : ": ", last));
}

}  // namespace nacre::plugins
