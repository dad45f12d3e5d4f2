// SPDX-License-Identifier: Apache-2.0
//
// Which processes a guard takes for members of the shell's process groups: numbers are used again.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process_stat.hpp"
#include "event/children.hpp"
#include "folder.hpp"
#include "join/guard.hpp"
#include "record/places.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::join;  // NOLINT

namespace {

// Starts a process that leads a new session and group, and only waits; after SIGUSR1 it has a child there.
pid_t start_leader() {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  pid_t pid = ::fork();
  if (pid == 0) {
    ::setsid();
    std::signal(SIGUSR1, [](int) { static_cast<void>(::fork()); });
    pipe.write.reset();
    for (;;) ::pause();
  }
  pipe.write.reset();
  char byte = 0;
  static_cast<void>(::read(pipe.read.get(), &byte, 1));  // until the child has closed its end
  return pid;
}

pid_t ended_process() {
  pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  return pid;
}

// The guard of a shell that ends when this does.
class ShellsGuard {
 public:
  ShellsGuard() : pipe_(make_pipe(O_CLOEXEC).value()) {
    GuardDuty duty;
    duty.records = pipe_.read.get();
    duty.shell = ended_process();  // an ended process, so that the guard need not wait
    duty.session = ::getsid(0);
    duty.calls = &CallPage::own();
    pid_ = ::fork();
    if (pid_ == 0) {
      pipe_.write.reset();
      run_guard(duty);
    }
    pipe_.read.reset();
  }
  ~ShellsGuard() {
    pipe_.write.reset();
    ::waitpid(pid_, nullptr, 0);
  }
  ShellsGuard(const ShellsGuard&) = delete;
  ShellsGuard& operator=(const ShellsGuard&) = delete;

  void send(GuardKind kind, pid_t group) { send(kind, {reinterpret_cast<const char*>(&group), sizeof group}); }
  void send(GuardKind kind, std::string_view body) {
    std::string record = guard_record(kind, body);
    REQUIRE(::write(pipe_.write.get(), record.data(), record.size()) == static_cast<ssize_t>(record.size()));
  }

 private:
  Pipe pipe_;
  pid_t pid_ = 0;
};

bool has_ended(pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) == pid; }

void end(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

}  // namespace

TEST_CASE("the guard ends the groups of its shell, and none that has only the number of one") {
  using Kind = GuardKind;
  struct Row {
    std::vector<Kind> records;
    bool kills;
  };
  for (const Row& row : {Row{{Kind::group}, true}, Row{{Kind::group, Kind::left_group}, true},
                         Row{{Kind::group, Kind::no_group}, false}, Row{{}, false},
                         Row{{Kind::group, Kind::no_group, Kind::group}, true}}) {
    pid_t pid = start_leader();
    {
      ShellsGuard guard;
      for (Kind each : row.records) guard.send(each, pid);
    }
    CHECK(has_ended(pid) == row.kills);
    if (!row.kills) end(pid);
  }
}

TEST_CASE("of a group whose leader was reaped, what began later may be another's") {
  REQUIRE(event::Children::become_subreaper());
  pid_t leader = start_leader();
  ::usleep(50000);  // so that the next process has another start time
  pid_t younger = 0;
  {
    ShellsGuard guard;
    guard.send(GuardKind::left_group, leader);
    ::usleep(100000);
    ::kill(leader, SIGUSR1);
    for (int look = 0; younger == 0 && look < 10000; ++look, ::usleep(1000)) {
      for (pid_t each : event::Children::descendants()) {
        auto stat = ProcessStat::of(each);
        if (stat && stat->parent == leader) younger = each;
      }
    }
  }
  REQUIRE(younger != 0);
  CHECK(has_ended(leader));
  CHECK_FALSE(has_ended(younger));
  end(younger);
}

TEST_CASE("the guard removes what is too old in the list of jobs, once its shell has ended") {
  kit::TemporaryFolder folder;
  auto directory = record::EntryDirectory::make(folder.path("jobs")).value();
  for (std::uint64_t id : {1, 2}) {
    record::JobEntry entry;
    entry.id = value::JobId(id);
    entry.pid = 1;
    if (id == 1) entry.end.emplace().time = 1;
    REQUIRE(directory.write(entry));
  }
  {
    ShellsGuard guard;
    guard.send(GuardKind::pruning, directory.path());
  }
  CHECK(directory.names() == std::vector{value::JobId(2).f58_plain() + ".json"});
}
