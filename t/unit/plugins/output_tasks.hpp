// SPDX-License-Identifier: Apache-2.0
//
// Tasks before the plugin `output`, for its tests.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "catch.hpp"

#include "base/unique_fd.hpp"
#include "fake_host.hpp"
#include "plugins/builtins.hpp"
#include "redirection.hpp"

namespace nacre::kit {

inline constexpr int kOut = STDOUT_FILENO;
inline constexpr int kErr = STDERR_FILENO;

inline std::string contents(const UniqueFd& file) {
  std::string text(static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_END)), '\0');
  ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  return text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
}

// Tasks that are this test: it has the ends of their pipes, and the shell's stdout and stderr in files.
struct Tasks {
  explicit Tasks(std::uint32_t count) : host(count), ends(count) {
    host.stack().push(plugins::make_output(host));
    host.make_tasks();
  }
  ~Tasks() { std::signal(SIGPIPE, before); }

  std::string init() {
    Redirection redirect_out(kOut, out.get());
    Redirection redirect_err(kErr, err.get());
    for (const char* topic : {"shell.init", "shell.post-init"}) {
      if (Result<int> called = host.call(topic); !called) return called.error().message;
    }
    return "";
  }

  // All of them; a task keeps its descriptors as by fork.
  void start() {
    REQUIRE(init().empty());
    for (std::size_t id = 0; id < ends.size(); ++id) {
      REQUIRE(host.call_task("task.init", id));
      for (const auto& fd : host.tasks()[id]->command().setup.fds) {
        ends[id][static_cast<std::size_t>(fd.target - 1)] = UniqueFd(::fcntl(fd.source, F_DUPFD_CLOEXEC, 3));
      }
      REQUIRE(host.call_task("task.fork", id));
    }
  }

  UniqueFd& end(std::size_t id, int fd) { return ends[id][static_cast<std::size_t>(fd - 1)]; }

  // False if the pipe takes no more, with the reason in errno.
  bool write(std::size_t id, int fd, std::string_view text) {
    return ::write(end(id, fd).get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }

  void exit(std::size_t id) {
    end(id, kOut).reset();
    end(id, kErr).reset();
  }

  // What the shell does with what is there now.
  void poll() {
    Redirection redirect_out(kOut, out.get());
    Redirection redirect_err(kErr, err.get());
    host.loop().poll();
  }

  // The same, until all tasks have ended their output.
  void run() {
    Redirection redirect_out(kOut, out.get());
    Redirection redirect_err(kErr, err.get());
    host.loop().run();
  }

  void run_to_end() {
    for (std::size_t id = 0; id < ends.size(); ++id) exit(id);
    run();
  }

  void (*before)(int) = std::signal(SIGPIPE, SIG_IGN);
  kit::FakeHost host;
  std::vector<std::array<UniqueFd, 2>> ends;
  UniqueFd out{::memfd_create("out", MFD_CLOEXEC)};
  UniqueFd err{::memfd_create("err", MFD_CLOEXEC)};
};

}  // namespace nacre::kit
