// SPDX-License-Identifier: Apache-2.0
//
// output: what the tasks write to stdout and stderr comes out on the shell's own, in whole lines. `label-io` puts
// the task's rank before each.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <unordered_map>

#include <fmt/format.h>

#include "base/unique_fd.hpp"
#include "builtins.hpp"
#include "line_writer.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kReadSize = std::size_t{64} << 10;  // bytes: a pipe's usual capacity
constexpr const char* kHold = "output";

class Output final : public plugin::Plugin {
 public:
  explicit Output(plugin::Host& host)
      : Plugin("output"), host_(host), writers_{LineWriter(STDOUT_FILENO), LineWriter(STDERR_FILENO)} {
    on("shell.init", [this](plugin::Call&) { return read_options(); });
    on("task.init", [this](plugin::Call&) { return make_pipes(*host_.current_task()); });
    on("task.fork", [this](plugin::Call&) { return watch(*host_.current_task()); });
  }

 private:
  // One stream of one task: the end of its pipe that we read.
  struct Stream {
    int number = 0;  // 0: stdout, 1: stderr
    UniqueFd fd;
    LineWriter::Source source;
    std::optional<event::Poll> poll;
  };
  struct Pipes {
    std::array<Stream, 2> streams;
    std::array<UniqueFd, 2> task_ends;  // until the task has them
  };

  Result<void> read_options() {
    bool all = TRY(host_.options().flag("label-io"));
    label_ = {all || TRY(host_.options().flag("output.stdout.label")),
              all || TRY(host_.options().flag("output.stderr.label"))};
    buffer_.resize(kReadSize);
    return {};
  }

  Result<void> make_pipes(task::Task& task) {
    Pipes& pipes = pipes_[task.local_id()];
    for (int number : {0, 1}) {
      auto index = static_cast<std::size_t>(number);
      Pipe pipe = TRY(make_pipe(O_CLOEXEC));
      Stream& stream = pipes.streams[index];
      stream.number = number;
      stream.fd = std::move(pipe.read);
      if (label_[index]) stream.source.label = fmt::format("{}: ", task.rank());
      task.command().setup.fds.push_back({number + 1, pipe.write.get()});
      pipes.task_ends[index] = std::move(pipe.write);
    }
    return {};
  }

  Result<void> watch(const task::Task& task) {
    Pipes& pipes = pipes_[task.local_id()];
    for (UniqueFd& end : pipes.task_ends) end.reset();
    for (Stream& stream : pipes.streams) {
      auto ready = [this, &stream](int /*events*/) { drain(stream); };
      stream.poll = TRY(event::Poll::create(host_.loop(), stream.fd.get(), ready));
      CHECK_OK(stream.poll->start(event::Poll::kReadable));
      host_.hold(kHold);
    }
    return {};
  }

  // One read for each time that the pipe is ready, so that a task that never stops writing cannot starve the
  // others.
  void drain(Stream& stream) {
    ssize_t got = ::read(stream.fd.get(), buffer_.data(), buffer_.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    LineWriter& writer = writers_[static_cast<std::size_t>(stream.number)];
    Result<void> written;
    if (got > 0) {
      written = writer.add(stream.source, {buffer_.data(), static_cast<std::size_t>(got)});
    } else {
      written = writer.end(stream.source);
    }
    if (!written) report(stream.number, written.error());
    // A reader that is gone is told to the tasks as the kernel would: their next write gets EPIPE.
    if (got <= 0 || !written) close(stream);
  }

  void close(Stream& stream) {
    stream.poll.reset();
    stream.fd.reset();
    if (Result<void> released = host_.release(kHold); !released) {
      log(host_, *this, Level::error, "{}", released.error().message);
    }
  }

  void report(int number, const Error& error) {
    if (reported_[static_cast<std::size_t>(number)]) return;
    reported_[static_cast<std::size_t>(number)] = true;
    if (error.code == EPIPE) {
      log(host_, *this, Level::debug, "{}", error.message);
    } else {
      host_.raise({"exec", 0, "output: " + error.message, std::nullopt});
    }
  }

  plugin::Host& host_;
  std::array<bool, 2> label_{};
  std::array<bool, 2> reported_{};
  std::array<LineWriter, 2> writers_;
  std::unordered_map<std::uint32_t, Pipes> pipes_;  // by local id
  std::string buffer_;
};

}  // namespace

PluginPtr make_output(plugin::Host& host) { return std::make_unique<Output>(host); }

}  // namespace nacre::plugins
