// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "plugins/builtins.hpp"
#include "quiet_port.hpp"
#include "redirected.hpp"

// Tasks before the plugin `output`, for its tests.

namespace nacre::kit {

inline constexpr int kOut = STDOUT_FILENO;
inline constexpr int kErr = STDERR_FILENO;

inline std::string contents(const UniqueFd& file) {
  std::string text(static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_END)), '\0');
  ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  return text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
}

// This test plays the tasks: it has the ends of their pipes, and the shell's stdout and stderr in files.
struct Tasks {
  explicit Tasks(std::uint32_t count) : host(count), ends(count) {
    host.stack().push(plugins::make_output(host));
    host.make_tasks();
  }
  ~Tasks() { std::signal(SIGPIPE, before); }

  std::string init() {
    Redirected redirect_out(kOut, out.get());
    Redirected redirect_err(kErr, err.get());
    for (const char* topic : {"shell.init", "shell.post-init"}) {
      if (Result<int> called = host.call(topic); !called) return called.error().message;
    }
    return "";
  }

  // Starts all tasks; a task keeps its descriptors as by fork.
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

  // Lets the shell handle what is there now.
  void poll() {
    Redirected redirect_out(kOut, out.get());
    Redirected redirect_err(kErr, err.get());
    host.loop().poll();
  }

  // As above, until all tasks have ended their output.
  void run() {
    Redirected redirect_out(kOut, out.get());
    Redirected redirect_err(kErr, err.get());
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

using namespace nacre;
using kit::contents;
using kit::kErr;
using kit::kOut;
using kit::Redirected;
using kit::Tasks;

namespace {

using Holds = std::map<std::string, int>;

// The output of both streams of two tasks with these options.
std::pair<std::string, std::string> with_options(const std::vector<std::pair<std::string, Json>>& options) {
  Tasks tasks(2);
  for (const auto& [name, value] : options) tasks.host.options().set(name, value);
  tasks.start();
  for (std::size_t id : {0U, 1U}) {
    REQUIRE(tasks.write(id, kOut, fmt::format("out of {}\n", id)));
    tasks.poll();
    REQUIRE(tasks.write(id, kErr, fmt::format("err of {}\n", id)));
    tasks.poll();
  }
  tasks.run_to_end();
  return {contents(tasks.out), contents(tasks.err)};
}

using Streams = std::pair<std::string, std::string>;

}  // namespace

// ---- streams ---------------------------------------------------------------

TEST_CASE("what the tasks write comes out on the shell's streams, each on its own") {
  CHECK(with_options({}) == Streams{"out of 0\nout of 1\n", "err of 0\nerr of 1\n"});
}

TEST_CASE("a task gets two pipes, of which nothing else is left in it, and which block") {
  Tasks tasks(1);
  REQUIRE(tasks.init().empty());
  REQUIRE(tasks.host.call_task("task.init", 0));
  const auto& fds = tasks.host.tasks()[0]->command().setup.fds;
  REQUIRE(fds.size() == 2);
  CHECK(fds[0].target == kOut);
  CHECK(fds[1].target == kErr);
  CHECK(fds[0].source != fds[1].source);
  for (const auto& fd : fds) {
    CHECK((::fcntl(fd.source, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK((::fcntl(fd.source, F_GETFL) & O_NONBLOCK) == 0);
    CHECK((::fcntl(fd.source, F_GETFL) & O_ACCMODE) == O_WRONLY);
  }
}

TEST_CASE("lines of different tasks are never mixed") {
  Tasks tasks(3);
  tasks.start();
  for (const char* piece : {"b", "e", "g", "in\n", "end"}) {
    for (std::size_t id : {0U, 1U, 2U}) REQUIRE(tasks.write(id, kOut, piece));
    tasks.poll();
  }
  tasks.exit(0);
  tasks.poll();
  tasks.exit(1);
  tasks.poll();
  tasks.run_to_end();
  CHECK(contents(tasks.out) == "begin\nbegin\nbegin\nend\nend\nend");
}

TEST_CASE("a task writes more than a pipe holds") {
  Tasks tasks(1);
  tasks.start();
  std::string text;
  for (int i = 0; text.size() < (1U << 20); ++i) text += fmt::format("line {}\n", i);
  bool all = false;
  std::thread task([&] {
    all = tasks.write(0, kOut, text);
    tasks.exit(0);
  });
  tasks.run();
  task.join();
  CHECK(all);
  CHECK((contents(tasks.out) == text));  // not to be shown: it is long
}

TEST_CASE("a task that has much to write does not keep the others waiting") {
  Tasks tasks(2);
  tasks.start();
  REQUIRE(::fcntl(tasks.end(0, kOut).get(), F_SETPIPE_SZ, 1 << 20) == 1 << 20);
  std::string much;
  while (much.size() < (1U << 19)) much += "much\n";
  REQUIRE(tasks.write(0, kOut, much));
  REQUIRE(tasks.write(1, kOut, "little\n"));
  tasks.poll();
  CHECK(contents(tasks.out).find("little\n") != std::string::npos);
  CHECK(contents(tasks.out).size() < much.size());
  tasks.run_to_end();
  CHECK(contents(tasks.out).size() == much.size() + 7);
}

TEST_CASE("what a task writes fast, in small pieces, comes out whole, and at once when it ends") {
  Tasks tasks(2);
  tasks.start();
  std::string text;
  for (int piece = 0; piece < 300; ++piece) {
    std::string line = fmt::format("line {}\n", piece);
    REQUIRE(tasks.write(0, kOut, line));
    text += line;
    if (piece < 250) tasks.poll();
  }
  {
    Redirected redirect(kOut, tasks.out.get());
    REQUIRE(tasks.host.end_task(0, value::WaitStatus::exited(0)));
  }
  CHECK(contents(tasks.out) == text);
  REQUIRE(tasks.write(0, kOut, "of a process that it left\n"));
  tasks.run_to_end();
  CHECK(contents(tasks.out) == text + "of a process that it left\n");
}

// ---- the end ---------------------------------------------------------------

TEST_CASE("the shell waits for both streams of each task that runs") {
  Tasks tasks(2);
  REQUIRE(tasks.init().empty());
  REQUIRE(tasks.host.call_task("task.init", 0));
  CHECK(tasks.host.holds.empty());
  tasks.start();
  CHECK(tasks.host.holds == Holds{{"output", 4}});
  tasks.end(0, kOut).reset();
  tasks.poll();
  CHECK(tasks.host.holds == Holds{{"output", 3}});
  tasks.end(0, kErr).reset();
  tasks.end(1, kErr).reset();
  tasks.poll();
  CHECK(tasks.host.holds == Holds{{"output", 1}});
  REQUIRE(tasks.write(1, kOut, "still here\n"));
  tasks.poll();
  CHECK(tasks.host.holds == Holds{{"output", 1}});
  tasks.run_to_end();
  CHECK(tasks.host.holds.empty());
  CHECK(tasks.host.logged.empty());
  CHECK(contents(tasks.out) == "still here\n");
}

TEST_CASE("what a task wrote before its end comes out") {
  Tasks tasks(1);
  tasks.start();
  REQUIRE(tasks.write(0, kOut, "last words"));
  REQUIRE(tasks.write(0, kErr, std::string("\0x", 2)));
  tasks.run_to_end();
  CHECK(contents(tasks.out) == "last words");
  CHECK(contents(tasks.err) == std::string("\0x", 2));
}

TEST_CASE(
    "lines that wait for a block are out at the task's end, though a process that it has left holds its output") {
  Tasks tasks(1);
  tasks.host.options().set("output.stdout.buffer.type", "block");
  tasks.start();
  REQUIRE(tasks.write(0, kOut, "last words\nhalf"));
  tasks.poll();
  CHECK(contents(tasks.out).empty());
  {
    Redirected redirect(kOut, tasks.out.get());
    REQUIRE(tasks.host.end_task(0, value::WaitStatus::exited(0)));
  }
  CHECK(contents(tasks.out) == "last words\n");
  REQUIRE(tasks.write(0, kOut, " a line\n"));
  tasks.run_to_end();
  CHECK(contents(tasks.out) == "last words\nhalf a line\n");
}

TEST_CASE("what a process that a task has left wrote before it is given up comes out") {
  Tasks tasks(1);
  tasks.host.options().set("output.drain-timeout", "0s");
  tasks.start();
  REQUIRE(tasks.host.end_task(0, value::WaitStatus::exited(0)));
  REQUIRE(tasks.host.call("shell.finish"));
  REQUIRE(tasks.write(0, kOut, "last words"));
  tasks.run();
  CHECK(contents(tasks.out) == "last words");
  CHECK(tasks.host.holds.empty());
  CHECK(tasks.host.logged.size() == 2);  // each stream is held open
}

TEST_CASE("a release that another has made already is logged") {
  Tasks tasks(1);
  tasks.start();
  tasks.host.holds.clear();
  tasks.run_to_end();
  std::string line = "error output: no completion reference 'output'";
  CHECK(tasks.host.logged == std::vector<std::string>{line, line});
}

// ---- labels ----------------------------------------------------------------

TEST_CASE("label-io labels both streams with the task's rank") {
  Streams labelled{"0: out of 0\n1: out of 1\n", "0: err of 0\n1: err of 1\n"};
  CHECK(with_options({{"label-io", 1}}) == labelled);
  CHECK(with_options({{"label-io", true}}) == labelled);
  CHECK(with_options({{"output.stdout.label", true}}) == labelled);
}

TEST_CASE("each stream can be labelled alone") {
  CHECK(with_options({{"label-io", 1}, {"output.stderr.label", false}}) ==
        Streams{"0: out of 0\n1: out of 1\n", "err of 0\nerr of 1\n"});
  CHECK(with_options({{"output.stderr.label", 1}}) ==
        Streams{"out of 0\nout of 1\n", "0: err of 0\n1: err of 1\n"});
  CHECK(with_options({{"label-io", false}, {"output.stdout.label", 0}}) ==
        Streams{"out of 0\nout of 1\n", "err of 0\nerr of 1\n"});
}

TEST_CASE("the label is the rank in the job, not the number on the node") {
  kit::FakeHost host(kit::jobspec_of(22), kit::fake_nodes(2, 11), 1);
  host.options().set("label-io", true);
  host.stack().push(plugins::make_output(host));
  host.make_tasks();
  UniqueFd out(::memfd_create("out", MFD_CLOEXEC));
  Redirected redirection(kOut, out.get());
  REQUIRE(host.call("shell.init"));
  REQUIRE(host.call("shell.post-init"));
  REQUIRE(host.call_task("task.init", 1));
  UniqueFd task(::fcntl(host.tasks()[1]->command().setup.fds[0].source, F_DUPFD_CLOEXEC, 3));
  REQUIRE(host.call_task("task.fork", 1));
  REQUIRE(::write(task.get(), "x\n", 2) == 2);
  task.reset();
  host.loop().run();
  CHECK(contents(out) == "12: x\n");
}

TEST_CASE("a label is a template, too") {
  CHECK(with_options({{"label-io", "<{{task.rank}}> "}}).first == "<0> out of 0\n<1> out of 1\n");
}

// ---- processes of another shell's task ---------------------------------------

namespace {

// The output of two processes of shell 0, in a job of two shells with a task each, that write as the task `rank`;
// or an error.
std::string written_elsewhere(job::Options options, std::int64_t rank) {
  kit::FakeHost host(kit::jobspec_of(2), kit::fake_nodes(2, 1));
  host.options() = std::move(options);
  host.stack().push(plugins::make_output(host));
  host.make_tasks();
  UniqueFd out(::memfd_create("out", MFD_CLOEXEC));
  Redirected redirection(kOut, out.get());
  REQUIRE(host.call("shell.init"));
  REQUIRE(host.call("shell.post-init"));
  for (const char* text : {"one\n", "two\n"}) {
    plugin::Call call("output.open");
    call.in["rank"] = rank;
    if (Result<int> called = host.stack().call(call); !called) return called.error().message;
    UniqueFd process(call.out["stdout"].get<int>());
    UniqueFd err(call.out["stderr"].get<int>());
    REQUIRE(::write(process.get(), text, 4) == 4);
  }
  host.loop().run();
  return contents(out);
}

}  // namespace

TEST_CASE("a process of this shell writes as a task of another shell does") {
  CHECK(written_elsewhere({}, 1) == "one\ntwo\n");
  job::Options labelled;
  labelled.set("label-io", true);
  CHECK(written_elsewhere(labelled, 1) == "1: one\n1: two\n");
  CHECK_THAT(written_elsewhere({}, 2), Catch::Matchers::ContainsSubstring("there is no task 2"));
  CHECK_THAT(written_elsewhere({}, -1), Catch::Matchers::ContainsSubstring("there is no task -1"));
}

TEST_CASE("what such a process writes is appended to the task's own file") {
  kit::TemporaryFolder folder;
  job::Options options;
  options.set("output.stdout.type", "file");
  options.set("output.stdout.path", folder.path("out.{{task.rank}}"));
  const std::string file = folder.file("out.1", "before\n");
  CHECK(written_elsewhere(options, 1).empty());
  CHECK(read_file(file).value() == "before\none\ntwo\n");
}

// ---- streams that cannot be written ----------------------------------------

TEST_CASE("when the reader is gone the tasks get EPIPE, and the other stream goes on") {
  Tasks tasks(2);
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  pipe.read.reset();
  tasks.out = std::move(pipe.write);
  tasks.start();
  for (std::size_t id : {0U, 1U}) REQUIRE(tasks.write(id, kOut, "to nobody\n"));
  tasks.poll();
  for (std::size_t id : {0U, 1U}) {
    CHECK_FALSE(tasks.write(id, kOut, "again\n"));
    CHECK(errno == EPIPE);
    REQUIRE(tasks.write(id, kErr, "still\n"));
  }
  CHECK(tasks.host.holds == Holds{{"output", 2}});
  tasks.run_to_end();
  CHECK(contents(tasks.err) == "still\nstill\n");
  CHECK(tasks.host.exceptions.empty());
  CHECK(tasks.host.logged == std::vector<std::string>{"debug output: cannot write stdout: Broken pipe"});
}

TEST_CASE("any other error ends the job, once for a stream") {
  Tasks tasks(2);
  tasks.out = UniqueFd(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  tasks.start();
  for (std::size_t id : {0U, 1U}) REQUIRE(tasks.write(id, kOut, "too much\n"));
  tasks.poll();
  REQUIRE(tasks.host.exceptions.size() == 1);
  CHECK(tasks.host.exceptions[0].type == "exec");
  CHECK(tasks.host.exceptions[0].severity == 0);
  CHECK(tasks.host.exceptions[0].message ==
        "output: cannot write stdout: No space left on device; 0 bytes had been written");
  CHECK_FALSE(tasks.host.exceptions[0].status);
  for (std::size_t id : {0U, 1U}) CHECK_FALSE(tasks.write(id, kOut, "again\n"));
  tasks.err = UniqueFd(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(tasks.write(1, kErr, "no newline"));
  tasks.run_to_end();
  REQUIRE(tasks.host.exceptions.size() == 2);
  CHECK(tasks.host.exceptions[1].message ==
        "output: cannot write stderr: No space left on device; 0 bytes had been written");
  CHECK(tasks.host.holds.empty());
}

// ---- numbers in it ---------------------------------------------------------

TEST_CASE("with no-progress of restart the largest number of each task is known, of both streams") {
  Tasks tasks(2);
  tasks.host.options().set("restart", "on-failure,no-progress=3");
  tasks.start();
  REQUIRE(tasks.write(0, kOut, "step 7\nst"));
  REQUIRE(tasks.write(1, kErr, "Step: 9\n"));
  tasks.poll();
  REQUIRE(tasks.write(0, kOut, "ep 40\nstep 3\n"));
  tasks.poll();
  plugin::TaskOutput* output = tasks.host.task_output();
  auto first = output->largest_number(0, "step");
  REQUIRE(first);
  CHECK(first->value == 40);
  CHECK(first->grown > 0);
  CHECK(first->took > 0);
  CHECK(output->largest_number(1, "step")->value == 9);
  CHECK(output->largest_number(1, "step")->took == 0);
  CHECK_FALSE(output->largest_number(2, "step"));
  CHECK_FALSE(output->largest_number(0, "epoch"));
  REQUIRE(tasks.write(0, kOut, "step 5\n"));
  tasks.poll();
  CHECK(output->largest_number(0, "step")->grown == first->grown);
  tasks.run_to_end();
  Tasks others(1);
  others.host.options().set("restart", "on-failure,no-progress=3:file");
  others.start();
  REQUIRE(others.write(0, kOut, "step 7\n"));
  others.poll();
  CHECK_FALSE(others.host.task_output()->largest_number(0, "step"));
  others.run_to_end();
  Tasks slow(1);
  slow.host.options().set("restart", "on-failure,no-progress=3");
  slow.host.options().set("slow-watch", "30s,output:epoch");
  slow.start();
  REQUIRE(slow.write(0, kOut, "step 7 epoch 2\n"));
  slow.poll();
  CHECK(slow.host.task_output()->largest_number(0, "step")->value == 7);
  CHECK(slow.host.task_output()->largest_number(0, "epoch")->value == 2);
  slow.run_to_end();
}

// The plugin `output`: when all of a task's output has come out, and its last bytes.

TEST_CASE("it is known of failed tasks whether all that they have written has come out") {
  Tasks tasks(4);
  auto left = [&] { return tasks.host.task_output()->come_out().str(); };
  tasks.start();
  CHECK(left().empty());
  tasks.exit(0);
  tasks.poll();
  CHECK(left().empty());
  REQUIRE(tasks.host.end_task(0, value::WaitStatus::exited(3)));
  CHECK(left() == "0");
  tasks.end(1, kOut).reset();  // a process that the task has left behind holds the other stream
  REQUIRE(tasks.host.end_task(1, value::WaitStatus::killed(SIGSEGV)));
  tasks.poll();
  CHECK(left() == "0");
  tasks.exit(1);
  tasks.poll();
  CHECK(left() == "0-1");
  tasks.exit(2);
  REQUIRE(tasks.host.end_task(2, value::WaitStatus::exited(0)));
  tasks.poll();
  CHECK(left() == "0-1");
  tasks.run_to_end();
}

TEST_CASE("what a failed task has written has not come out while its reader does not read") {
  Tasks tasks(2);
  Pipe pipe = *make_pipe(O_CLOEXEC);
  tasks.out = std::move(pipe.write);
  auto left = [&] { return tasks.host.task_output()->come_out().str(); };
  tasks.start();
  std::string line(60001, 'x');
  line.back() = '\n';
  for (int i = 0; i < 3; ++i) {
    REQUIRE(tasks.write(0, kOut, line));
    tasks.poll();
  }
  tasks.exit(0);
  tasks.poll();
  REQUIRE(tasks.host.end_task(0, value::WaitStatus::exited(3)));
  CHECK(left().empty());
  REQUIRE(tasks.write(1, kOut, line));  // waits behind it
  tasks.poll();
  std::string text;
  while (text.size() < 3 * 60001) {
    char bytes[4096];
    ssize_t got = ::read(pipe.read.get(), bytes, sizeof bytes);
    REQUIRE(got > 0);
    text.append(bytes, static_cast<std::size_t>(got));
    tasks.poll();
  }
  CHECK(left() == "0");
  pipe.read.reset();
  tasks.run_to_end();
}

TEST_CASE("the last bytes of what a task has written are kept") {
  Tasks tasks(2);
  auto tail = [&](std::uint32_t rank) { return tasks.host.task_output()->tail(rank).value(); };
  tasks.start();
  CHECK(tail(1).err.empty());
  for (int i = 0; i < 2000; ++i) {
    REQUIRE(tasks.write(0, kOut, fmt::format("out {}\n", i)));
    REQUIRE(tasks.write(0, kErr, fmt::format("err {}\n", i)));
    tasks.poll();
  }
  REQUIRE(tasks.write(1, kErr, "why\n"));
  tasks.exit(0);
  tasks.exit(1);
  tasks.run();  // fast output may have been left in the pipe for a moment
  REQUIRE(tasks.host.end_task(1, value::WaitStatus::exited(3)));
  CHECK(tail(0).out.size() == 1024);
  CHECK(tail(0).err.size() == 4096);
  CHECK(tail(0).err.ends_with("err 1998\nerr 1999\n"));
  CHECK_FALSE(tail(0).is_complete);
  CHECK(tail(1).err == "why\n");
  CHECK(tail(1).is_complete);
  CHECK_FALSE(tasks.host.task_output()->tail(7));
}

TEST_CASE("of a file that the task itself writes the last bytes are read") {
  kit::TemporaryFolder folder;
  Tasks tasks(1);
  tasks.host.options().set("output.stderr.type", "file");
  tasks.host.options().set("output.stderr.path", folder.path("{{taskid}}.err"));
  tasks.start();
  REQUIRE(tasks.write(0, kErr, std::string(5000, 'x') + "why\n"));
  CHECK(tasks.host.task_output()->tail(0)->err == std::string(4092, 'x') + "why\n");
  tasks.run_to_end();
  // Output of an earlier job in the file does not count.
  Tasks next(1);
  next.host.options() = tasks.host.options();
  next.host.options().set("output.mode", "append");
  next.start();
  CHECK(next.host.task_output()->tail(0)->err.empty());
  REQUIRE(next.write(0, kErr, "what\n"));
  CHECK(next.host.task_output()->tail(0)->err == "what\n");
  REQUIRE(::ftruncate(next.end(0, kErr).get(), 0) == 0);
  REQUIRE(next.write(0, kErr, "else\n"));
  CHECK(next.host.task_output()->tail(0)->err == "else\n");
  next.run_to_end();
}

namespace {

// Records that shell 1 has sent before the leader serves the channel: they come at once.
class EarlyPort final : public kit::QuietPort {
 public:
  void serve(bulk::Channel channel, Upward owner) override {
    if (channel == bulk::up::kOutput) owner.on_record(1, 1, records());
  }
  using QuietPort::serve;

 private:
  // doc/protocol.md, "Output": a source of task 1, then a batch.
  static std::string records() {
    std::string out;
    auto head = [&out](char kind, std::uint32_t size) {
      out += kind;
      append_number<std::uint32_t>(out, 0);
      append_number<std::uint32_t>(out, size);
    };
    head(1, 5);
    append_number<std::uint32_t>(out, 1);
    out += '\0';
    head(2, 15);
    append_number<std::uint64_t>(out, 0);
    out += '\0';
    return out + "early\n";
  }
};

struct Follower final : plugin::OutputFollower {
  void put(const io::Batch& batch) override { text += std::string(batch.head) + std::string(batch.body); }
  void all_out() override {}
  std::string text;
};

}  // namespace

TEST_CASE("who follows the output from shell.init on gets what other shells have sent before the places are open") {
  EarlyPort port;
  Follower follower;
  kit::FakeHost host(kit::jobspec_of(2), kit::fake_nodes(2, 1));
  host.port = &port;
  host.stack().push(plugins::make_output(host));
  host.make_tasks();
  REQUIRE(host.call("shell.init"));
  REQUIRE(host.task_output() != nullptr);
  CHECK(host.task_output()->come_out().str() == "0-1");
  host.task_output()->follow(&follower);
  UniqueFd out(::memfd_create("out", MFD_CLOEXEC));
  {
    kit::Redirected redirect(kOut, out.get());
    REQUIRE(host.call("shell.post-init"));
  }
  CHECK(follower.text == "early\n");
  host.task_output()->follow(nullptr);
}
