// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/unique_fd.hpp"
#include "folder.hpp"

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

using nacre::Fingerprint;

namespace {

std::string of(std::initializer_list<std::string_view> pieces) {
  Fingerprint print;
  for (std::string_view each : pieces) print.add(each);
  return print.str();
}

}  // namespace

TEST_CASE("a fingerprint tells other bytes, other pieces and another order") {
  CHECK(of({}) == "-");
  CHECK(of({"a"}) == of({"a"}));
  CHECK(of({"a"}).size() == 16);
  CHECK(of({"a"}) != of({"b"}));
  CHECK(of({""}) != of({}));
  CHECK(of({"ab", "c"}) != of({"a", "bc"}));
  CHECK(of({"a", "b"}) != of({"b", "a"}));
}

using nacre::remove_tree;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() { fs::create_directory(doomed()); }
  [[nodiscard]] fs::path doomed() const { return path / "doomed"; }

  kit::TemporaryFolder own;
  fs::path path = own.path();
};

void write(const fs::path& path) { std::ofstream(path) << "text"; }

}  // namespace

TEST_CASE("all that is in a directory is removed, and it too") {
  Folder folder;
  fs::create_directories(folder.doomed() / "a/b/c");
  fs::create_directories(folder.doomed() / "a/d");
  write(folder.doomed() / "a/b/file");
  write(folder.doomed() / "a/b/c/file");
  write(folder.doomed() / "file");
  REQUIRE(::mkfifo((folder.doomed() / "a/fifo").c_str(), 0600) == 0);
  CHECK(remove_tree(folder.doomed()));
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("what a link points to stays") {
  Folder folder;
  fs::create_directory(folder.path / "kept");
  write(folder.path / "kept/file");
  fs::create_directory_symlink(folder.path / "kept", folder.doomed() / "link");
  CHECK(remove_tree(folder.doomed()));
  CHECK_FALSE(fs::exists(folder.doomed()));
  CHECK(fs::exists(folder.path / "kept/file"));
  fs::create_directory_symlink(folder.path / "kept", folder.doomed());
  CHECK_FALSE(remove_tree(folder.doomed()));
  CHECK(fs::exists(folder.path / "kept/file"));
}

TEST_CASE("directories that their owner may not write to are opened up, for a user whom modes bind") {
  uid_t user = ::geteuid();
  Folder folder;
  fs::permissions(folder.path, fs::perms::all);
  fs::remove(folder.doomed());
  if (user == 0) REQUIRE(::seteuid(65534) == 0);
  fs::create_directories(folder.doomed() / "a/b");
  write(folder.doomed() / "a/b/file");
  fs::permissions(folder.doomed() / "a/b", fs::perms::owner_read);
  fs::permissions(folder.doomed() / "a", fs::perms::none);
  CHECK(remove_tree(folder.doomed()));
  REQUIRE(::seteuid(user) == 0);
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("what belongs to another user stays, and is told; the rest goes") {
  if (::geteuid() != 0) return;  // only root can make it
  Folder folder;
  fs::create_directories(folder.doomed() / "theirs");
  write(folder.doomed() / "theirs/file");
  write(folder.doomed() / "ours");
  REQUIRE(::chown((folder.doomed() / "theirs").c_str(), 65534, 65534) == 0);
  auto removed = remove_tree(folder.doomed());
  REQUIRE_FALSE(removed);
  CHECK(removed.error().code == EPERM);
  CHECK(fs::exists(folder.doomed() / "theirs/file"));
  CHECK_FALSE(fs::exists(folder.doomed() / "ours"));
}

TEST_CASE("a tree that is deeper than there are descriptors is removed") {
  Folder folder;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  int at = ::open(folder.doomed().c_str(), O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < 3000; ++i) {
    REQUIRE(::mkdirat(at, "deeper", 0700) == 0);
    int below = ::openat(at, "deeper", O_RDONLY | O_DIRECTORY);
    REQUIRE(below >= 0);
    ::close(at);
    at = below;
  }
  ::close(at);
  rlimit few{64, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  CHECK(remove_tree(folder.doomed()));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("a directory that is not there is an error") { CHECK(remove_tree("/no/such").error().code == ENOENT); }

namespace {

rlim_t table_size() {
  const std::string status = read_file("/proc/self/status").value();
  return std::stoull(status.substr(status.find("FDSize:") + 7));
}

}  // namespace

TEST_CASE("the table of descriptors has room ahead, beyond the limit too, which stays as it is") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE(before.rlim_max >= 4096);
  const rlimit few{256, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  const UniqueFd next(::dup(STDERR_FILENO));
  reserve_descriptors(4096);
  CHECK(table_size() >= 4096);
  rlimit after{};
  CHECK((::getrlimit(RLIMIT_NOFILE, &after) == 0 && after.rlim_cur == 256));
  CHECK(UniqueFd(::dup(STDERR_FILENO)).get() == next.get() + 1);
  reserve_descriptors(1);
  CHECK(table_size() >= 4096);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}
