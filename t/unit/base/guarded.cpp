// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/current_call.hpp"
#include "base/file.hpp"
#include "base/guarded.hpp"
#include "base/invariant.hpp"
#include "base/signals.hpp"
#include "base/unique_fd.hpp"
#include "folder.hpp"

using namespace nacre;

namespace {

// What is reported, as "PART: WHAT".
struct Reports {
  Reports() {
    when_thrown([this](const Component* component, std::string_view what) {
      texts.push_back((component == nullptr ? "-" : component->name) + ": " + std::string(what));
    });
  }
  ~Reports() { when_thrown(nullptr); }
  std::vector<std::string> texts;
};

const Component kUsage{"usage", false};

void fail(bool for_memory) {
  if (for_memory) throw std::bad_alloc();
  throw std::runtime_error("broken");
}

}  // namespace

TEST_CASE("what a callback throws is reported, with its component, and its caller goes on") {
  Reports reports;
  guarded(&kUsage, [] { throw std::out_of_range("no such key"); });
  guarded(nullptr, [] { throw std::bad_alloc(); });
  CHECK(::alarm(0) > 0);  // otherwise this process would end in seconds
  CHECK(reports.texts == std::vector<std::string>{"usage: internal error: no such key", "-: out of memory"});
}

TEST_CASE("an invariant that does not hold is reported with its condition and its place") {
  Reports reports;
  int looks = 0;
  guarded(&kUsage, [&looks] { INVARIANT(++looks == 1); });
  CHECK(reports.texts.empty());
  guarded(&kUsage, [&looks] { INVARIANT(++looks == 1); });
  CHECK(looks == 2);
  REQUIRE(reports.texts.size() == 1);
  CHECK_THAT(reports.texts[0], Catch::Matchers::StartsWith("usage: internal error: guarded.cpp:") &&
                                   Catch::Matchers::EndsWith(": '++looks == 1' does not hold"));
}

TEST_CASE("the component that runs is known, also within another one") {
  CHECK(InComponent::current() == nullptr);
  guarded(&kUsage, [] {
    CHECK(InComponent::current() == &kUsage);
    guarded(nullptr, [] { CHECK(InComponent::current() == nullptr); });
    CHECK(InComponent::current() == &kUsage);
  });
  CHECK(InComponent::current() == nullptr);
}

TEST_CASE("what code throws becomes its error") {
  auto failed = caught([]() -> Result<int> { throw std::runtime_error("broken"); });
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message == "internal error: broken");
  CHECK(caught([]() -> Result<int> { return 3; }).value() == 3);
}

TEST_CASE(
    "what nobody catches for want of memory ends the process with a line and code 1, anything else as usual") {
  bool is_memory = GENERATE(true, false);
  Pipe err = make_pipe(O_CLOEXEC).value();
  pid_t child = ::fork();
  if (child == 0) {
    std::set_terminate([] { ::_exit(42); });  // as usual
    end_in_order_without_memory("program");
    ::dup2(err.write.get(), STDERR_FILENO);
    [is_memory]() noexcept { fail(is_memory); }();
  }
  err.write.reset();
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == (is_memory ? 1 : 42));
  CHECK(read_file(err.read.get(), "pipe").value() == (is_memory ? "program: out of memory\n" : ""));
}

TEST_CASE("the innermost call is named, and the outermost is one place") {
  const CallPage& page = CallPage::own();
  const std::string outer = "outer";
  const std::string inner = "inner";
  const std::string topic = "topic";
  const std::string other = "other";
  CallPage::Place before = page.place();
  CHECK_FALSE(before.within_call());
  {
    CurrentCall first(outer, topic);
    CallPage::Place within = page.place();
    CHECK(within.within_call());
    CHECK(page.plugin() == "outer");
    CHECK(page.topic() == "topic");
    {
      CurrentCall same(outer, topic);
      CurrentCall second(inner, other);
      CHECK(page.plugin() == "inner");
      CHECK(page.topic() == "other");
      CHECK(page.place() == within);
    }
    CHECK(page.plugin() == "outer");
    CHECK(page.topic() == "topic");
    CHECK(page.place() == within);
    std::int64_t began = page.moved_at();
    ::usleep(3000);
    CHECK(page.moved_at() == began);
    CallPage::own().turned();
    CHECK(page.moved_at() > began);
    CHECK(page.place() != within);
  }
  CHECK_FALSE(page.place().within_call());
  CHECK(page.place() != before);
  CHECK(page.moved_at() <= CallPage::clock());
}

TEST_CASE("names that are too long are cut") {
  const std::string plugin(CallPage::kPluginSize, 'p');
  const std::string topic(CallPage::kTopicSize, 't');
  CurrentCall call(plugin, topic);
  CHECK(CallPage::own().plugin() == plugin.substr(1));
  CHECK(CallPage::own().topic() == topic.substr(1));
}

TEST_CASE(
    "a forked process says in whose code it is, and what it leaves unfinished ends with the call of its parent") {
  const std::string waiting = "waiting";
  const std::string child = "child";
  {
    CurrentCall call(waiting, waiting);
    pid_t pid = ::fork();
    if (pid == 0) {
      CurrentCall own(child, child);
      ::_exit(0);
    }
    REQUIRE(::waitpid(pid, nullptr, 0) == pid);
    CHECK(CallPage::own().plugin() == "child");
    CHECK(CallPage::own().place().within_call());
  }
  CHECK_FALSE(CallPage::own().place().within_call());
}

namespace {

// The wait status of a child that calls `what`.
int status_of_child(const std::function<void()>& what) {
  pid_t child = ::fork();
  if (child == 0) {
    what();
    ::_exit(7);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("a signal that ends a process early removes its file and directory first, and ends it as ever") {
  for (int signum : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    kit::TemporaryFolder folder;
    std::string directory = folder.path("made");
    std::filesystem::create_directory(directory);
    std::ofstream(directory + "/s").put('\n');
    int status = status_of_child([&] {
      std::signal(signum, SIG_DFL);
      remove_when_ended_early(directory + "/s", directory);
      ::raise(signum);
    });
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signum);
    CHECK_FALSE(std::filesystem::exists(directory));
  }
}

TEST_CASE("a signal that is ignored or watched by then stays so") {
  kit::TemporaryFolder folder;
  std::string file = folder.file("s", "");
  int status = status_of_child([&] {
    std::signal(SIGHUP, SIG_IGN);
    remove_when_ended_early(file, folder.path("none"));
    std::signal(SIGTERM, [](int) {});
    ::raise(SIGHUP);
    ::raise(SIGTERM);
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(std::filesystem::exists(file));
}

TEST_CASE("signals that end a process wait while they are held") {
  int status = status_of_child([] {
    std::signal(SIGTERM, SIG_DFL);
    {
      EndingSignalsHeld held;
      ::raise(SIGTERM);
      std::signal(SIGTERM, [](int) { ::_exit(9); });
    }
    ::_exit(8);
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 9);
}
