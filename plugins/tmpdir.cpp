// SPDX-License-Identifier: Apache-2.0
//
// tmpdir: a directory of the job's own on this node, FLUX_JOB_TMPDIR and {{tmpdir}}, which exists before any task
// starts and is removed after all have ended. It is below the shell's $TMPDIR, or /tmp. What earlier shells have
// left there is also removed. In an instance of Flux it is the same as flux-shell's, in the broker's directory; if
// this shell may not write there, as a guest's, it is below the tasks' $TMPDIR.
//
// If the $TMPDIR of the shell or of the tasks is missing it is made, as the jobspec may have that of another host;
// if that fails, /tmp is used with a warning.

#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/owned_directory.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "broker/instance.hpp"
#include "plugin/host.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {

// ---- sweep ------------------------------------------------------------------------------
//
// Removes what earlier shells of this user have left in a folder because they were killed or their host went down:
// the directories of jobs and of sockets whose owner is gone (base/owned_directory.hpp). It looks from the loop,
// once the tasks run, at a few names at a time. The removal may take long, so a process of its own does it, which
// ends with the shell. One line in the log names what is removed.

namespace {

constexpr std::size_t kMostNamed = 3;

// Runs in a forked child, with all signals blocked. It ends with the shell, or when the shell ends leftover
// processes.
[[noreturn]] void remove_all(const std::vector<OwnedDirectory>& directories, pid_t shell) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != shell) ::_exit(1);
  for (int signum = 1; signum < NSIG; ++signum) std::signal(signum, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const OwnedDirectory& each : directories) static_cast<void>(remove_tree(each.path()));
  ::_exit(0);
}

std::string names_of(const std::vector<OwnedDirectory>& directories) {
  std::string out;
  for (std::size_t i = 0; i < directories.size() && i < kMostNamed; ++i)
    out += (i == 0 ? "" : ", ") + directories[i].path();
  if (directories.size() > kMostNamed) out += fmt::format(" and {} more", directories.size() - kMostNamed);
  return out;
}

}  // namespace

class Sweep {
 public:
  // Both have to outlive it.
  Sweep(plugin::Host& host, const plugin::Plugin& plugin) : host_(host), plugin_(plugin) {}

  // `own`: this shell's directory in `parent`; newer directories belong to shells that are starting.
  Result<void> start(const std::string& parent, LeftDirectories::OthersLook others_look,
                     const OwnedDirectory& own) {
    left_.emplace(TRY(LeftDirectories::in(parent, std::move(others_look), &own)));
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { look(); }));
    timer_->unref();
    timer_->start(event::Seconds::zero());
    return {};
  }

 private:
  void look() {
    if (left_->look()) return timer_->start(event::Seconds::zero());
    if (!left_->found().empty()) remove();
    left_.reset();
  }

  void remove() {
    log(host_, plugin_, Level::notice, "removes what a shell that was killed has left: {}",
        names_of(left_->found()));
    pid_t shell = ::getpid();
    pid_t pid = -1;
    {
      SignalsBlocked blocked;
      pid = ::fork();
      if (pid == 0) remove_all(left_->found(), shell);
    }
    if (pid < 0) log(host_, plugin_, Level::warn, "{}", system_error(errno, "cannot start a process").message);
  }

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  std::optional<event::Timer> timer_;
  std::optional<LeftDirectories> left_;
};

// ---- tmpdir -----------------------------------------------------------------------------

namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultParent = "/tmp";
constexpr int kRounds = 100;  // of removal: a library's thread, such as libpmix's, may still add files

bool is_there(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 || errno != ENOENT;
}

// Like mkdir(1): makes the directory alone, not those above it.
bool is_or_becomes_directory(const std::string& path) {
  constexpr mode_t kPrivate = 0700;
  return is_there(path) || ::mkdir(path.c_str(), kPrivate) == 0 || errno == EEXIST;
}

bool wants_descriptors(const Result<void>& result) {
  return !result && (result.error().code == EMFILE || result.error().code == ENFILE);
}

class Tmpdir final : public plugin::Plugin {
 public:
  explicit Tmpdir(plugin::Host& host) : Plugin("tmpdir"), host_(host), sweep_(host, *this) {
    on("shell.init", [this] { return make(); });
    on("shell.start", [this] { sweep(); });
    on("mustache.render.tmpdir", [this](plugin::Call& call) -> Result<void> {
      if (!path_.empty()) call.out["result"] = path_;
      return {};
    });
    on("shell.exit", [this] { remove(); });
  }
  ~Tmpdir() override { remove(); }

 private:
  [[nodiscard]] std::string name_front() const { return fmt::format("-{}-", host_.job().id.f58_plain()); }

  // `path`, or /tmp if it cannot be used; `whose`: for the warning.
  [[nodiscard]] std::string usable(const std::string& path, std::string_view whose) {
    if (is_or_becomes_directory(path)) return path;
    log(host_, *this, Level::warn, "{}: {}; /tmp takes its place", whose,
        system_error(errno, "cannot make " + path).message);
    return kDefaultParent;
  }

  void set_tasks_tmpdir() {
    auto given = host_.environment().get("TMPDIR");
    if (!given || given->empty()) return;
    std::string path(*given);
    std::string found = usable(path, "the tasks' TMPDIR");
    if (found != path) host_.environment().set("TMPDIR", found);
  }

  Result<void> find_parent() {
    const char* own = std::getenv("TMPDIR");
    std::string base = own != nullptr ? own : "";
    if (host_.instance() != nullptr) base = host_.environment().get("TMPDIR").value_or("");
    std::error_code error;
    // Absolute, as the shell and the tasks change to other working directories.
    auto below = fs::absolute(base.empty() ? kDefaultParent : base, error);
    if (error) return in("tmpdir", system_error(error.value(), "cannot find the working directory"));
    parent_ = usable(below.native(), "TMPDIR");
    return {};
  }

  Result<OwnedDirectory> make_directory() {
    auto guard = [this](const std::string& path, bool there) { host_.children().guard_directory(path, there); };
    const job::Job& job = host_.job();
    const broker::Instance* instance = host_.instance();
    if (instance != nullptr && !instance->run_directory.empty()) {
      const std::string path = fmt::format("{}/jobtmp-{}-{}", instance->run_directory, job.shell_rank, job.f58());
      auto made = OwnedDirectory::create_at(path, guard);
      if (made) return made;
      log(host_, *this, Level::debug, "{}; it is made in {}", made.error().message, parent_);
    }
    return OwnedDirectory::create(parent_, fmt::format("{}{}", name_front(), job.shell_rank), guard);
  }

  Result<void> make() {
    set_tasks_tmpdir();
    CHECK_OK(find_parent());
    auto made = make_directory();
    if (!made) {
      std::string what =
          fmt::format("cannot make a directory in {} (set TMPDIR to a directory with room)", parent_);
      return in("tmpdir", system_error(made.error().code, what));
    }
    directory_ = *std::move(made);
    path_ = directory_.path();
    host_.environment().set("FLUX_JOB_TMPDIR", path_);
    host_.environment().set("NACRE_JOB_TMPDIR", path_);
    return {};
  }

  void remove() {
    if (path_.empty()) return;
    Result<void> removed = remove_tree(path_);
    directory_ = {};  // let go only now, as other shells would take it for left over; its descriptor may be needed
                      // below
    for (int round = 1; !removed && is_there(path_) && round < kRounds; ++round) removed = remove_tree(path_);
    // The guard has descriptors of its own
    bool left_to_guard = host_.children().is_guarded() && wants_descriptors(removed);
    if (removed || !is_there(path_)) {
      host_.children().guard_directory(path_, false);
    } else if (!left_to_guard) {
      log(host_, *this, Level::warn, "cannot remove {}", removed.error().message);
    }
    path_.clear();
  }

  // If several shells of a job are on one host, only the first looks, so that the cost does not grow with their
  // square.
  static bool is_of_earlier_shell(std::string_view name, std::string_view front, std::int64_t rank) {
    if (!name.starts_with(front)) return false;
    name.remove_prefix(front.size());
    return parse_i64(name.substr(0, name.find('-'))).value_or(rank) < rank;
  }

  // Shells of one host follow one another in R.
  [[nodiscard]] bool is_first_of_host() const {
    const std::uint32_t rank = host_.job().shell_rank;
    const auto& nodes = host_.job().resources.nodes;
    return rank == 0 || nodes[rank].hostname.empty() || nodes[rank - 1].hostname != nodes[rank].hostname;
  }

  // If the sweep fails this job is not harmed.
  void sweep() {
    if (!is_first_of_host()) return;
    auto others_look = [front = name_front(), rank = host_.job().shell_rank](std::string_view name) {
      return is_of_earlier_shell(name, front, rank);
    };
    if (Result<void> started = sweep_.start(parent_, others_look, directory_); !started)
      log(host_, *this, Level::debug, "{}", started.error().message);
  }

  plugin::Host& host_;
  Sweep sweep_;
  std::string parent_;        // absolute; of the directory, unless an instance of Flux has a place for it
  OwnedDirectory directory_;  // none: it could not be made
  std::string path_;          // empty: there is none
};

}  // namespace

PluginPtr make_tmpdir(plugin::Host& host) { return std::make_unique<Tmpdir>(host); }

}  // namespace nacre::plugins
