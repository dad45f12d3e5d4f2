// SPDX-License-Identifier: Apache-2.0
//
// coprocess: programs beside the tasks, see job/options.hpp. Each runs in the job's directory and environment and
// in a process group of its own, and gets none of the job's signals. It is there before the first task starts; one
// that cannot be started fails the job, one that ends early does not. After the last task it gets SIGTERM, then has
// the time of the option `coprocess-kill-timeout`, 10 s by default, before SIGKILL.
//
// The file of its output is emptied at the start, and written by the coprocess itself: what it has written is there
// however the shell ends. A file that shells of several nodes share is not emptied, since another may have begun to
// write it.
#include <fcntl.h>

#include "job/options.hpp"
#include "plugin/tags.hpp"
#include "plugins/builtins.hpp"
#include "plugins/output/options.hpp"
#include "task/subprocess.hpp"

namespace nacre::plugins {
namespace {

using job::Coprocess;

constexpr double kGraceBeforeKill = 10;  // seconds

// A pipe that nobody reads is an error: to wait for its reader would hang the job.
Result<UniqueFd> open_output(const std::string& path, bool empties) {
  UniqueFd file = open_to_append(path, empties);
  if (!file) return system_error(errno, "cannot write " + path);
  CHECK_OK(make_blocking(file.get(), "cannot write " + path));
  return file;
}

// The member of the option that an error is about.
std::string key(const std::string& coprocess, std::string_view member) {
  return fmt::format("coprocess.{}.{}", coprocess, member);
}

class CoprocessPlugin final : public plugin::Plugin {
 public:
  explicit CoprocessPlugin(plugin::Host& host) : Plugin("coprocess"), host_(host) {
    on("shell.init", [this] { return read(); });
    on("shell.post-init", [this] { return launch(); });
    on("shell.finish", [this] { return end(); });
  }
  // If another plugin replaces this one: the shell ends what runs, as it ends all that tasks leave behind.
  ~CoprocessPlugin() override {
    for (const Running& each : running_) {
      if (!each.ended()) release();
    }
  }

 private:
  struct Running {
    std::string name;
    std::unique_ptr<task::Subprocess> process;

    [[nodiscard]] bool ended() const { return process->exited(); }
    [[nodiscard]] std::string str() const { return fmt::format("{} (process {})", name, process->pid()); }
  };
  struct Prepared {
    std::string name;
    task::Command command;
    std::string output;  // the file's name
  };
  using Files = std::map<std::string, UniqueFd>;  // by name, until the coprocesses have them

  Result<void> read() {
    if (auto timeout = host_.options().at("coprocess-kill-timeout")) timeout_ = TRY(job::seconds_option(*timeout));
    auto option = host_.options().at("coprocess");
    if (!option) return {};
    std::uint32_t shells = host_.job().shells();
    for (Coprocess& each : TRY(job::read_coprocesses(*option))) {
      if (each.ranks && *each.ranks->first() >= shells) {
        return in(key(each.name, "ranks"),
                  invalid(fmt::format("the job has no shell {}, but {}", each.ranks->str(),
                                      shells == 1 ? "0 only" : fmt::format("0-{}", shells - 1))));
      }
      if (each.runs_on(host_.job().shell_rank)) wanted_.push_back(std::move(each));
    }
    if (!wanted_.empty()) host_.start_after_all();
    return {};
  }

  // No program starts before all files are open.
  Result<void> launch() {
    std::vector<Prepared> all;
    Files files;
    for (const Coprocess& each : wanted_) all.push_back(TRY(prepare(each, files)));
    for (Prepared& each : all) {
      Result<void> started = start(std::move(each));
      ending_ = !started;  // the shell ends the coprocesses that run
      if (!started) return started;
    }
    return {};
  }

  Result<Prepared> prepare(const Coprocess& wanted, Files& files) {
    Prepared out{wanted.name, {{}, job::Environment::over(host_.environment()), {}}, {}};
    for (const std::string& each : wanted.command) {
      out.command.argv.push_back(TRY(in(key(wanted.name, "command"), plugin::render_tags(host_, each))));
    }
    std::string where = key(wanted.name, "output");
    CHECK_OK(in(where, plugin::check_tags(host_, wanted.output)));
    out.output = TRY(in(where, plugin::render_tags(host_, wanted.output)));
    UniqueFd& file = files[out.output];
    if (!file) {
      bool shared = host_.job().shells() > 1 && !TRY(in(where, plugin::differs_by_rank(host_, wanted.output)));
      file = TRY(in(where, open_output(out.output, !shared)));
    }
    out.command.setup.ends_with_parent = true;
    out.command.setup.fds = {{STDOUT_FILENO, file.get()}, {STDERR_FILENO, file.get()}};
    return out;
  }

  Result<void> start(Prepared prepared) {
    Running& running = running_.emplace_back();
    running.name = std::move(prepared.name);
    task::Subprocess::Callbacks callbacks;
    callbacks.on_exit = [this, &running] { exited(running); };
    auto started = task::Subprocess::start(host_.loop(), host_.children(), std::move(prepared.command),
                                           {.streams = {}}, std::move(callbacks));
    if (!started) {
      Error error = in(key(running.name, "command"), Error(started.error().error));
      running_.pop_back();
      return error;
    }
    running.process = *std::move(started);
    host_.hold(name());
    log(host_, *this, Level::debug, "{}: launched, its output goes to {}", running.str(), prepared.output);
    return {};
  }

  // Called after the last task.
  Result<void> end() {
    ending_ = true;
    std::string names;
    for (const Running& each : running_) {
      if (each.ended()) continue;
      names += (names.empty() ? "" : ", ") + each.str();
      kill(each, SIGTERM);
      kill(each, SIGCONT);  // a stopped process takes the SIGTERM only once it runs
    }
    if (names.empty()) return {};
    log(host_, *this, Level::debug, "SIGTERM to {}; waiting up to {} before SIGKILL", names, timeout_.str());
    if (timeout_.is_infinite()) return {};
    timer_ = TRY(event::Timer::create(host_.loop(), [this] { expired(); }));
    timer_->start_grace(event::Seconds(timeout_.seconds()));
    return {};
  }

  void expired() {
    for (const Running& each : running_) {
      if (each.ended()) continue;
      log(host_, *this, Level::warn, "{} still runs {} after SIGTERM: sending SIGKILL", each.str(), timeout_.str());
      kill(each, SIGKILL);
    }
  }

  // The process may have ended without having been reaped.
  static void kill(const Running& running, int signum) { static_cast<void>(running.process->kill(signum)); }

  void exited(const Running& running) {
    const value::WaitStatus& status = running.process->status();
    if (ending_) {
      log(host_, *this, Level::debug, "{} {}", running.str(), status.str());
    } else {
      log(host_, *this, status.success() ? Level::debug : Level::warn, "{} {} before the tasks ended",
          running.str(), status.str());
    }
    if (std::all_of(running_.begin(), running_.end(), [](const Running& each) { return each.ended(); })) {
      timer_.reset();
    }
    release();
  }

  void release() {
    if (Result<void> released = host_.release(name()); !released) {
      log(host_, *this, Level::error, "{}", released.error().message);
    }
  }

  plugin::Host& host_;
  value::Duration timeout_ = value::Duration::of_seconds(kGraceBeforeKill);
  std::vector<Coprocess> wanted_;  // on this node
  std::deque<Running> running_;    // also those that have ended; their addresses are stable
  bool ending_ = false;
  std::optional<event::Timer> timer_;
};

}  // namespace

PluginPtr make_coprocess(plugin::Host& host) { return std::make_unique<CoprocessPlugin>(host); }

}  // namespace nacre::plugins
