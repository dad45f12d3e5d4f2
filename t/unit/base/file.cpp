// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "catch.hpp"

#include "base/unique_fd.hpp"

using namespace nacre;  // NOLINT

namespace {

// A file that is gone at the end.
class Scratch {
 public:
  Scratch() : fd_(::mkstemp(path_)) {}
  ~Scratch() { ::unlink(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/nacre-unit-XXXXXX";
  UniqueFd fd_;
};

}  // namespace

TEST_CASE("what is written to a file is read from it, byte by byte") {
  std::string text(100'000, 'x');
  text[5] = '\0';
  text += "\n\xff";
  Scratch file;
  CHECK(write_all(file.fd(), text) == 0);
  CHECK((read_file(file.path()).value() == text));
}

TEST_CASE("a file that could not be made or replaced is refused, with its name") {
  Scratch file;
  CHECK(check_replaceable(file.path()));
  CHECK(check_replaceable(std::string(file.path()) + ".other"));
  CHECK(check_replaceable("in-this-directory"));
  CHECK(check_replaceable("/dev/null"));
  CHECK(check_replaceable("/no/such/file").error().message == "/no/such/file: No such file or directory");
  CHECK(check_replaceable("/tmp").error().message == "/tmp: Is a directory");
}

TEST_CASE("files without a size are read to their end") {
  CHECK(read_file("/proc/self/comm").value() == "unit_base\n");
  CHECK(read_file("/dev/null").value().empty());
}

TEST_CASE("a file that cannot be read is named") {
  CHECK(read_file("/no/such").error().message == "/no/such: No such file or directory");
  CHECK(read_file("/tmp").error().message == "/tmp: Is a directory");
}

TEST_CASE("a file may have as many bytes as the limit says") {
  Scratch file;
  REQUIRE(write_all(file.fd(), std::string(5000, 'x')) == 0);
  CHECK(read_file(file.path(), 5000).value().size() == 5000);
  CHECK(read_file(file.path(), 4999).error().message ==
        std::string(file.path()) + ": larger than the limit of 4999 bytes");
}

TEST_CASE("more than a pipe holds is written as its reader takes it") {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  std::string text(1 << 20, 'x');
  std::thread writer([&] {
    CHECK(write_all(pipe.write.get(), text) == 0);
    pipe.write.reset();
  });
  std::size_t total = 0;
  char bytes[4096];
  for (ssize_t got; (got = ::read(pipe.read.get(), bytes, sizeof bytes)) > 0;)
    total += static_cast<std::size_t>(got);
  writer.join();
  CHECK(total == text.size());
}

TEST_CASE("a write that fails half way gives its errno") {
  Scratch file;
  pid_t pid = ::fork();
  if (pid == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit small{8192, 8192};
    bool limited = ::setrlimit(RLIMIT_FSIZE, &small) == 0;
    ::_exit(limited && write_all(file.fd(), std::string(10'000, 'x')) == EFBIG ? 0 : 1);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a descriptor that does not block is waited for") {
  Pipe pipe = make_pipe(O_CLOEXEC | O_NONBLOCK).value();
  REQUIRE(::fcntl(pipe.read.get(), F_SETFL, 0) == 0);
  std::string text(1 << 20, 'x');
  std::size_t total = 0;
  std::thread reader([&] {
    char bytes[4096];
    for (ssize_t got; (got = ::read(pipe.read.get(), bytes, sizeof bytes)) > 0;)
      total += static_cast<std::size_t>(got);
  });
  CHECK(write_all(pipe.write.get(), text) == 0);
  pipe.write.reset();
  reader.join();
  CHECK(total == text.size());
}
