// SPDX-License-Identifier: Apache-2.0
//
// input: the tasks' stdin, from the shell's own or from files. A file is opened for each task anew, so that each reads
// it at its own pace. What can't be opened anew, a pipe or a terminal, is handed to the one task that reads it, and
// read here for several. Of a terminal the shell stays the reader, since a task in a process group of its own would
// be stopped when it reads.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/unique_fd.hpp"
#include "builtins.hpp"
#include "io/fanout.hpp"
#include "output_files.hpp"
#include "pipe_size.hpp"
#include "ranks_option.hpp"
#include "size_option.hpp"
#include "spill_directory.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kTypedAhead = std::size_t{64} << 10;  // bytes read of a terminal before the tasks want them
constexpr const char* kPath = "input.stdin.path";

struct InputOptions {
  std::string path;                    // a template; "": the shell's own stdin
  std::optional<value::Idset> ranks;   // who reads it; none: all
  std::optional<std::uint64_t> limit;  // bytes of the shell's stdin

  static Result<InputOptions> read(const job::Options& options);
};

Result<void> read_stdin(const JsonAt& option, InputOptions& out) {
  CHECK_OK(option.only_keys({"type", "path"}));
  auto path = TRY(option.find("path"));
  if (path) out.path = TRY(path->string());
  if (path && out.path.empty()) return path->expected("a file's name");
  auto type = TRY(option.find("type"));
  if (!type) return {};
  if (type->json() != "service" && type->json() != "file") return type->expected("service or file");
  bool file = type->json() == "file";
  if (file && !path) return option.error("the type is file, so `path` has to be given");
  if (!file && path) return option.error("the type is service, the shell's own stdin, which has no `path`");
  return {};
}

Result<InputOptions> InputOptions::read(const job::Options& options) {
  InputOptions out;
  auto input = options.at("input");
  if (!input) return out;
  CHECK_OK(input->only_keys({"stdin", "ranks", "limit"}));
  if (auto standard = TRY(input->find("stdin"))) CHECK_OK(read_stdin(*standard, out));
  if (auto limit = TRY(input->find("limit"))) out.limit = TRY(size_option(*limit));
  if (auto ranks = TRY(input->find("ranks"))) out.ranks = TRY(ranks_option(*ranks));
  return out;
}

class Input final : public plugin::Plugin {
 public:
  explicit Input(plugin::Host& host) : Plugin("input"), host_(host) {
    on("shell.init", [this](plugin::Call&) { return prepare(); });
    on("task.init", [this](plugin::Call&) { return give(*host_.current_task()); });
    on("task.fork", [this](plugin::Call&) { return connect(*host_.current_task()); });
    on("shell.start", [this](plugin::Call&) { return fanout_ ? fanout_->start() : Result<void>(); });
    on("shell.finish", [this](plugin::Call&) {
      fanout_.reset();
      return Result<void>();
    });
  }

 private:
  // How a task gets the shell's stdin.
  enum class Way {
    inherit,  // as it is
    reopen,   // a descriptor of its own of the same file
    relay,    // a pipe, which is filled from here
  };

  Result<void> prepare() {
    options_ = TRY(InputOptions::read(host_.options()));
    for (const auto& task : host_.tasks()) readers_ += reads(*task) ? 1 : 0;
    if (options_.path.empty()) way_ = own_stdin();
    return {};
  }

  [[nodiscard]] bool reads(const task::Task& task) const {
    return task.pty() == nullptr && (!options_.ranks || options_.ranks->contains(task.rank()));
  }

  [[nodiscard]] Way own_stdin() const {
    struct stat info {};
    if (::isatty(STDIN_FILENO) == 1) return Way::relay;
    if (::fstat(STDIN_FILENO, &info) < 0 || S_ISCHR(info.st_mode)) return Way::inherit;
    if (readers_ <= 1 && !options_.limit) return Way::inherit;
    return S_ISREG(info.st_mode) && !options_.limit && reopen() ? Way::reopen : Way::relay;
  }

  // The shell's stdin, from where it stands.
  static UniqueFd reopen() {
    UniqueFd fd = io::reopen(STDIN_FILENO, O_RDONLY);
    off_t at = ::lseek(STDIN_FILENO, 0, SEEK_CUR);
    return fd && at >= 0 && ::lseek(fd.get(), at, SEEK_SET) == at ? std::move(fd) : UniqueFd();
  }

  Result<void> give(task::Task& task) {
    if (task.pty() != nullptr) return {};
    UniqueFd& end = task_ends_[task.local_id()];
    bool has_stdin = host_.job().shell_rank == 0;  // the other shells' is nobody's
    if (!reads(task) || (options_.path.empty() && !has_stdin)) {
      // Nothing: /dev/null.
    } else if (!options_.path.empty()) {
      end = TRY(in(kPath, open_file(task)));
    } else if (way_ == Way::inherit) {
      task_ends_.erase(task.local_id());
      return {};
    } else if (way_ == Way::reopen) {
      end = reopen();
      if (!end) return system_error(errno, "cannot open stdin anew");
    } else {
      CHECK_OK(make_relay(task));
    }
    task.command().setup.fds.push_back({STDIN_FILENO, end.get()});
    return {};
  }

  Result<UniqueFd> open_file(const task::Task& task) {
    std::string path = TRY(output_path(host_, options_.path, &task));
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) < 0) return system_error(errno, path);
    if (S_ISDIR(info.st_mode)) return system_error(EISDIR, path);
    if (S_ISFIFO(info.st_mode) && readers_ > 1 && path == options_.path) {
      return invalid(
          fmt::format("{}: a FIFO, which each task would get a part of; give it as nacre-shell's own stdin", path));
    }
    CHECK_OK(make_blocking(fd.get(), path));
    return fd;
  }

  Result<void> make_relay(const task::Task& task) {
    if (!fanout_) {
      io::Fanout::Options options;
      options.spill_directory = spill_directory(host_);
      options.limit = options_.limit;
      if (::isatty(STDIN_FILENO) == 1) options.window = kTypedAhead;
      fanout_ = TRY(io::Fanout::create(host_.loop(), STDIN_FILENO, std::move(options), callbacks()));
    }
    Pipe pipe = TRY(make_pipe(O_CLOEXEC));
    widen_pipe(pipe.write.get(), readers_);
    task_ends_[task.local_id()] = std::move(pipe.read);
    relays_[task.local_id()] = std::move(pipe.write);
    return {};
  }

  io::Fanout::Callbacks callbacks() {
    io::Fanout::Callbacks callbacks;
    callbacks.on_error = [this](const Error& error) { log(host_, *this, Level::error, "{}", error.message); };
    callbacks.on_limit = [this] {
      log(host_, *this, Level::warn, "stdin is cut here: input.limit is {} bytes", *options_.limit);
    };
    callbacks.on_wait = [this](const std::vector<std::size_t>& slow, const std::optional<Error>& error) {
      std::vector<value::Idset::Id> ranks;
      for (std::size_t reader : slow) ranks.push_back(order_.at(reader));
      log(host_, *this, Level::warn,
          "task {}: does not read its stdin, and the others have to wait for it{}{}; input.ranks says who gets it",
          value::Idset::of(ranks).str(), error ? ": " : "", error ? error->message : "");
    };
    return callbacks;
  }

  Result<void> connect(const task::Task& task) {
    task_ends_.erase(task.local_id());
    auto relay = relays_.find(task.local_id());
    if (relay == relays_.end()) return {};
    order_.push_back(task.rank());
    CHECK_OK(fanout_->add(std::move(relay->second)));
    relays_.erase(relay);
    return {};
  }

  plugin::Host& host_;
  InputOptions options_;
  std::size_t readers_ = 0;
  Way way_ = Way::inherit;
  std::map<std::uint32_t, UniqueFd> task_ends_;  // by local id, until the task has it
  std::map<std::uint32_t, UniqueFd> relays_;     // by local id, until the task runs
  std::vector<value::Idset::Id> order_;          // ranks, by number of the fanout's readers
  std::unique_ptr<io::Fanout> fanout_;
};

}  // namespace

PluginPtr make_input(plugin::Host& host) { return std::make_unique<Input>(host); }

}  // namespace nacre::plugins
