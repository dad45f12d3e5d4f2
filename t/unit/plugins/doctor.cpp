// SPDX-License-Identifier: Apache-2.0
//
// The parts of the plugin doctor: looks at processes, orders, and examinations of several shells.
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <thread>
#include "catch.hpp"

#include "event/clock.hpp"
#include "fake_host.hpp"
#include "plugins/doctor/doctor.hpp"
#include "plugins/doctor/looks.hpp"
#include "plugins/doctor/nccl.hpp"
#include "plugins/doctor/stack_taker.hpp"

using namespace nacre;
using plugins::ExaminationOrder;
using plugins::HangWatchOption;

namespace {

// A child that does something for ever.
class Child {
 public:
  template <typename Do>
  explicit Child(Do what) : pid_(::fork()) {
    if (pid_ != 0) return;
    what();
    ::_exit(0);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool has_threads(std::size_t count) const {
    for (int i = 0; i < 3000; ++i) {
      auto look = plugins::look_at(pid_);
      if (look && look->threads.size() == count &&
          std::all_of(look->threads.begin(), look->threads.end(),
                      [](const auto& each) { return each.state == 'S'; }))
        return true;
      ::usleep(10 * 1000);
    }
    return false;
  }
  // Whether the child is in this system call.
  [[nodiscard]] bool is_in(std::string_view call) const {
    for (int i = 0; i < 3000; ++i) {
      if (plugins::current_call(pid_, pid_).call.name == call) return true;
      ::usleep(10 * 1000);
    }
    return false;
  }

 private:
  pid_t pid_;
};

// What tasks have counted, by rank.
struct Counts : plugin::TaskOutput {
  value::Idset come_out() override { return {}; }
  std::optional<Tail> tail(std::uint32_t /*rank*/) override { return std::nullopt; }
  void follow(plugin::OutputFollower* /*follower*/) override {}
  void redirect(plugin::OutputFile* /*to*/) override {}
  Written written(std::uint32_t /*rank*/) override { return {bytes, 0, 0}; }
  std::optional<Number> largest_number(std::uint32_t rank, std::string_view word) override {
    auto found = numbers.find(rank);
    return found != numbers.end() && word == "step" ? std::optional(found->second) : std::nullopt;
  }

  std::map<std::uint32_t, Number> numbers;
  std::uint64_t bytes = 0;
};

// The parsed option hang-watch with this value, beside this one of restart.
Result<std::optional<HangWatchOption>> watch_by(const Json& value, const char* restart = "never") {
  kit::FakeHost host;
  host.options().set("hang-watch", value);
  host.options().set("restart", restart);
  return HangWatchOption::read(host.options());
}

std::string refused(const Json& order) {
  auto parsed = ExaminationOrder::parse(order);
  return parsed ? "taken" : parsed.error().message;
}

}  // namespace

TEST_CASE("an order comes back from its JSON, and what is none is refused") {
  ExaminationOrder order;
  order.interval = 2.5;
  order.by_rank = true;
  order.stacks = plugins::StackWay::gdb;
  order.only_silence = true;
  auto back = ExaminationOrder::parse(order.json());
  REQUIRE(back);
  CHECK(back->json() == order.json());
  CHECK(ExaminationOrder::parse(Json::object())->json() == ExaminationOrder().json());
  CHECK(refused({{"interval", 0}}) == "interval: expected 0.05 to 60 seconds, got 0");
  CHECK(refused({{"interval", 61}}).starts_with("interval: expected"));
  CHECK(refused({{"interval", "1s"}}).starts_with("interval: expected"));
  CHECK(refused({{"stacks", "strace"}}) ==
        "stacks: expected one of none, auto, eu-stack, gdb, py-spy, got \"strace\"");
  CHECK(refused({{"by-rank", 1}}).starts_with("by-rank: expected"));
}

TEST_CASE("hang-watch is a time, perhaps with kill, or with restart where tasks start again") {
  using Then = HangWatchOption::Then;
  CHECK_FALSE(watch_by("off")->has_value());
  CHECK((*watch_by("10m"))->time.seconds() == 600);
  CHECK((*watch_by("10m"))->then == Then::nothing);
  CHECK((*watch_by("90,kill"))->time.seconds() == 90);
  CHECK((*watch_by("90,kill"))->then == Then::kill);
  CHECK((*watch_by("90,restart", "on-failure,scope=job"))->then == Then::restart);
  for (const char* restart : {"never", "on-request"})
    CHECK(
        watch_by("90,restart", restart).error().message ==
        "hang-watch: tasks that are killed start again by the option restart only: give --restart=on-failure too");
  CHECK((*watch_by(5))->time.seconds() == 5);
  for (const Json& wrong :
       {Json("infinity"), Json("0.5"), Json("10m,end"), Json("10m,"), Json(",kill"), Json(true)}) {
    auto read = watch_by(wrong);
    REQUIRE_FALSE(read);
    CHECK(read.error().message.starts_with(
        "hang-watch: expected DURATION, perhaps with ,restart or ,kill, of at least 1 s"));
  }
}

TEST_CASE("slow-watch is a time, or on, and perhaps what tasks count and a factor") {
  auto read = [](const Json& value) {
    kit::FakeHost host;
    host.options().set("slow-watch", value);
    return job::SlowWatchOption::read(host.options());
  };
  CHECK_FALSE(read("off")->has_value());
  CHECK((*read("on"))->window.seconds() == 30);
  CHECK((*read(20))->window.seconds() == 20);
  CHECK((*read("1m"))->word.empty());
  auto all = *read("2m,factor=2,output:epoch");
  CHECK(all->window.seconds() == 120);
  CHECK(all->word == "epoch");
  CHECK(all->factor == 2);
  CHECK((*read("output"))->word == "step");
  CHECK((*read("output"))->window.seconds() == 30);
  for (const Json& wrong : {Json("0.5"), Json("infinity"), Json(""), Json("30s,"), Json("30s,60s"),
                            Json("30s,outputs"), Json("30s,output:"), Json("30s,factor=1"), Json("30s,factor=x")}) {
    auto out = read(wrong);
    REQUIRE_FALSE(out);
    CHECK(
        out.error().message.starts_with("slow-watch: expected DURATION of at least 1 s, and perhaps output:WORD "
                                        "and factor=F (1.1 to 100) behind it"));
  }
}

TEST_CASE("a process that runs is seen to, and so is one whose child has run") {
  Child child([] {
    for (;;) {
    }
  });
  auto first = plugins::cpu_look_at(child.pid(), 64);
  REQUIRE(first);
  CHECK(first->ready.contains(child.pid()));
  for (int i = 0; i < 3000 && plugins::cpu_look_at(child.pid(), 64)->cpu < first->cpu + 0.05; ++i)
    ::usleep(10 * 1000);
  CHECK(plugins::cpu_look_at(child.pid(), 1)->cpu >= first->cpu + 0.05);
  CHECK_FALSE(plugins::cpu_look_at(-1, 64));
}

TEST_CASE("what a task counts is measured by when it has grown, and from its first growth on") {
  Child child([] { ::pause(); });
  Counts output;
  kit::FakeHost host(1);
  host.offer_output(&output);
  host.start_tasks({{0, child.pid()}});
  plugins::PaceMeter meter(host, "step");
  auto rate = [&](double number, double grown, double took) {
    output.numbers[0] = {number, event::wall_clock() + grown, took};
    auto window = meter.measure();
    return window.tasks.empty() ? std::nullopt : window.tasks[0].rate;
  };
  CHECK_FALSE(rate(7, -90, 0));  // the program has begun: the first window has no task
  CHECK_FALSE(rate(7, -90, 0));  // the count has not grown
  CHECK_FALSE(rate(8, -60, 30));
  CHECK(rate(12, -30, 5).value() == Approx(4. / 30 * 5 / 30).margin(0.001));  // late, as the last step took 5 s
  CHECK(rate(16, -2, 5).value() == Approx(4. / 28).margin(0.001));
  CHECK(rate(16, -2, 5).value() == Approx(4. / 28).margin(0.001));  // as long as it usually takes
  output.bytes = 100;
  auto window = meter.measure();
  REQUIRE(window.tasks.size() == 1);
  CHECK(window.tasks[0].bytes == 100);
  CHECK(window.tasks[0].cpu.value() < 0.5);
  // Such short windows cost more cpu than the meter may use.
  CHECK(meter.most_threads() < plugins::PaceMeter::kMostThreads);
}

TEST_CASE("a process that is no Python has no functions of it, and one that may not be read is told from it") {
  Child other([] {
    for (;;) ::pause();
  });
  auto none = plugins::python_stacks_of(other.pid(), "/usr/bin/other");
  REQUIRE(none);
  CHECK_FALSE(*none);
  Child forbids([] {
    ::prctl(PR_SET_DUMPABLE, 0);
    for (;;) ::pause();
  });
  if (::geteuid() == 0) return;  // root may
  std::string why;
  for (int i = 0; i < 3000 && why.empty(); ++i) {
    auto read = plugins::python_stacks_of(forbids.pid(), "/usr/bin/python3");
    if (!read) why = read.error().message;
    ::usleep(1000);
  }
  CHECK(why.starts_with("the shell may not read their memory"));
}

TEST_CASE("a variable in the text of an environment") {
  std::string text("A=1\0RANKS=2\0RANK=3\0B\0EMPTY=\0", 29);
  CHECK(plugins::variable_in(text, "RANK") == "3");
  CHECK(plugins::variable_in(text, "A") == "1");
  CHECK(plugins::variable_in(text, "EMPTY") == "");
  CHECK_FALSE(plugins::variable_in(text, "B"));
  CHECK_FALSE(plugins::variable_in("", "A"));
}

TEST_CASE("where NCCL's RAS is, in numbers") {
  for (const char* text : {"localhost:28028", "127.0.0.1:1", "[::1]:65535", "::1:7"})
    CHECK(plugins::RasAddress::parse(text));
  CHECK(plugins::RasAddress::parse("[::1]:28028")->size == sizeof(sockaddr_in6));
  for (const char* text : {"", "localhost", "n0:28028", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", ":28028"})
    CHECK_FALSE(plugins::RasAddress::parse(text));
}

TEST_CASE("the setting of Yama is named where it forbids to trace") {
  std::string path = "/tmp/nacre-unit-scope." + std::to_string(::getpid());
  auto with = [&](const char* text) {
    FILE* file = std::fopen(path.c_str(), "w");
    REQUIRE(file != nullptr);
    std::fputs(text, file);
    std::fclose(file);
    return plugins::trace_setting(path);
  };
  CHECK(with("0\n").empty());
  CHECK(with("1\n") == "kernel.yama.ptrace_scope is 1 there; -o doctor.trace=on allows it for a job");
  CHECK(with("2\n") == "kernel.yama.ptrace_scope is 2 there");
  ::unlink(path.c_str());
  CHECK(plugins::trace_setting(path).empty());
}

TEST_CASE("what a process waits for is guessed by its place in the kernel") {
  auto guess = [](const char* where) {
    auto out = plugins::call_by_place(where);
    return out.name + " " + out.object;
  };
  CHECK(guess("anon_pipe_read") == "read pipe");
  CHECK(guess("pipe_write") == "write pipe");
  CHECK(guess("wait_for_partner") == "openat FIFO");
  CHECK(guess("n_tty_read") == "read terminal");
  CHECK(guess("futex_wait_queue_me") == "futex ");
  CHECK(guess("do_wait") == "wait4 ");
  CHECK(guess("hrtimer_nanosleep") == "nanosleep ");
  CHECK(guess("folio_wait_bit") == " ");
}

TEST_CASE("a process that reads a pipe which only it has open") {
  Child child([] {
    int ends[2];
    char byte = 0;
    if (::pipe(ends) == 0) static_cast<void>(::read(ends[0], &byte, 1));
  });
  REQUIRE(child.is_in("read"));
  auto look = plugins::look_at(child.pid());
  REQUIRE(look);
  CHECK(look->pid == child.pid());
  CHECK(look->parent == ::getpid());
  CHECK(look->first().state == 'S');
  auto call = plugins::current_call(child.pid(), child.pid()).call;
  auto kind = plugins::kind_of_descriptor(child.pid(), call.fd);
  CHECK(kind.object == "pipe");
  CHECK(kind.path.empty());
  auto ends = plugins::pipe_ends({kind.link});
  CHECK(ends[kind.link].writers == std::set<pid_t>{child.pid()});
  CHECK(ends[kind.link].readers == std::set<pid_t>{child.pid()});
  CHECK(plugins::pipe_ends({}).empty());
}

TEST_CASE("a process that is gone") {
  CHECK_FALSE(plugins::look_at(INT32_MAX));
  CHECK(plugins::current_call(INT32_MAX, INT32_MAX).code != 0);
  CHECK(plugins::kind_of_descriptor(INT32_MAX, 0).object.empty());
  CHECK(plugins::bytes_moved_by(INT32_MAX) == 0);
}

TEST_CASE("a process whose threads wait for each other is locked, and one that a timer wakes is not") {
  auto deadlocks = [](void (*on_alarm)(int)) {
    for (int signum = 1; signum < NSIG; ++signum) std::signal(signum, SIG_DFL);  // not this program's handlers
    std::signal(SIGALRM, on_alarm);
    std::mutex one;
    one.lock();
    std::thread([&] { one.lock(); }).join();
  };
  Child locked([&] { deadlocks(SIG_DFL); });
  Child with_alarm([&] { deadlocks([](int) {}); });
  Child polls([] {
    for (;;) ::usleep(1000);
  });
  for (const Child* each : {&locked, &with_alarm}) REQUIRE(each->is_in("futex"));
  REQUIRE(polls.is_in("clock_nanosleep"));
  REQUIRE(locked.has_threads(2));
  REQUIRE(with_alarm.has_threads(2));
  auto before = plugins::look_at(locked.pid()), alarm_before = plugins::look_at(with_alarm.pid());
  auto polls_before = plugins::look_at(polls.pid());
  ::usleep(100 * 1000);
  auto now = plugins::look_at(locked.pid()), alarm_now = plugins::look_at(with_alarm.pid());
  REQUIRE((before && now && alarm_before && alarm_now && polls_before));
  CHECK(now->threads.size() == 2);
  CHECK(plugins::locked_threads(*before, *now) == 2);
  CHECK(plugins::waiting_threads(*before, *now).size() == 2);
  CHECK(plugins::locked_threads(*alarm_before, *alarm_now) == 0);
  auto change = plugins::change_of(*before, *now, 0.1);
  CHECK_FALSE(change.moves);
  CHECK_FALSE(change.wakes);
  auto woken = [&] {  // the child may just be about to sleep
    auto look = plugins::look_at(polls.pid());
    return look && plugins::change_of(*polls_before, *look, 0.1).wakes;
  };
  bool wakes = woken();
  for (int i = 0; i < 1000 && !wakes; ++i) {  // on a loaded machine it waits for a processor most of the time
    if (auto look = plugins::look_at(polls.pid())) polls_before = look;  // its cpu time has not moved on since then
    ::usleep(10 * 1000);
    wakes = woken();
  }
  CHECK(wakes);
}

TEST_CASE("a process that answers on a socket moves, though it sleeps and neither reads nor writes") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  Child answers([&] {
    char byte = 0;
    while (::recv(ends[1], &byte, 1, 0) == 1) ::send(ends[1], &byte, 1, 0);
  });
  REQUIRE(answers.is_in("recvfrom"));
  auto before = plugins::look_at(answers.pid());
  char byte = 'x';
  for (int i = 0; i < 3; ++i) {
    REQUIRE(::send(ends[0], &byte, 1, 0) == 1);
    REQUIRE(::recv(ends[0], &byte, 1, 0) == 1);
  }
  REQUIRE(answers.is_in("recvfrom"));
  auto now = plugins::look_at(answers.pid());
  REQUIRE((before && now));
  CHECK(before->moved == now->moved);
  CHECK(plugins::change_of(*before, *now, 1).moves);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("tasks by two looks at their processes") {
  Child sleeps([] { ::pause(); });
  Child stopped([] { ::raise(SIGSTOP); });
  REQUIRE(::waitpid(stopped.pid(), nullptr, WUNTRACED) == stopped.pid());
  kit::FakeHost host(3);
  host.start_tasks({{0, sleeps.pid()}, {1, stopped.pid()}});
  plugins::TaskLooks looks(host);
  auto all = looks.look_again();
  REQUIRE(all.size() == 3);
  CHECK(all[0].pid == sleeps.pid());
  CHECK(all[0].group.fact.doing == doctor::Doing::sleeps);
  CHECK(all[0].group.ranks.str() == "0");
  CHECK_FALSE(all[0].was_stopped);
  CHECK(all[1].group.fact.doing == doctor::Doing::stopped);
  CHECK(all[1].was_stopped);
  CHECK(all[2].pid == 0);
  CHECK(all[2].group.fact.doing == doctor::Doing::over);
}
