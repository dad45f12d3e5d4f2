// SPDX-License-Identifier: Apache-2.0
#include "base/guarded.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <stdexcept>

#include "base/file.hpp"
#include "base/invariant.hpp"
#include "base/unique_fd.hpp"
#include "catch.hpp"

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
