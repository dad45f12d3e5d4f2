// SPDX-License-Identifier: Apache-2.0
//
// With scripts as shells and as agents.
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "folder.hpp"
#include "launch/launcher.hpp"
#include "launch/own_sockets.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::kit;     // NOLINT
using namespace nacre::launch;  // NOLINT
using launch::AlikeLines;

using Words = std::vector<std::string>;

namespace {

struct LauncherFixture {
  TemporaryFolder folder;
  std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  std::unique_ptr<event::Children> children = event::Children::create(*loop, {}).value();
  std::vector<std::string> failed;  // "RANK HOST: why"
  std::vector<std::string> ended;   // "RANK how"
  std::string said;
  std::unique_ptr<Launcher> launcher;

  LauncherFixture() { std::signal(SIGPIPE, SIG_IGN); }

  std::string script(const std::string& name, const std::string& text) {
    std::string path = folder.file(name, "#!/bin/sh\n" + text + "\n");
    REQUIRE(::chmod(path.c_str(), 0755) == 0);
    return path;
  }
  void make(Launcher::Options options) {
    Launcher::Callbacks callbacks;
    callbacks.on_failed = [this](group::Rank rank, const std::string& host, const std::string& why) {
      failed.push_back(fmt::format("{} {}: {}", rank, host, why));
    };
    callbacks.on_ended = [this](group::Rank rank, const value::WaitStatus& status) {
      ended.push_back(fmt::format("{} {}", rank, status.str()));
    };
    callbacks.on_line = [this](const std::string& line) { said += line; };
    launcher = std::make_unique<Launcher>(*loop, *children, std::move(options), std::move(callbacks));
  }
  void until(const std::function<bool()>& done) {
    bool is_late = false;
    auto limit = event::Timer::create(*loop, [&] { is_late = true; }).value();
    limit.start(event::Seconds(60));
    loop->run_until([&] { return is_late || done(); });
    REQUIRE(done());
  }
  [[nodiscard]] bool there(const std::string& name) const { return ::access(folder.path(name).c_str(), F_OK) == 0; }
  [[nodiscard]] std::string content(const std::string& name) const {
    return read_file(folder.path(name)).value_or("no " + name);
  }
  // Runs the loop until the file is there.
  void until_there(const std::string& name) {
    until_others([&] { return there(name); });
  }
  // Runs the loop until the file is there, and has its only line.
  void until_written(const std::string& name) {
    until_others([&] { return content(name).ends_with('\n'); });
  }
  void until_others(const std::function<bool()>& done) {
    auto look = event::Timer::create(*loop, [] {}).value();
    look.start(event::Seconds(0.005), event::Seconds(0.005));
    until(done);
  }
  void finish(event::Seconds grace = event::Seconds(60)) {
    bool done = false;
    launcher->finish(grace, [&] { done = true; });
    until([&] { return done; });
  }
};

}  // namespace

// ---- the command lines -----------------------------------------------------------

TEST_CASE("an agent's command line names the host, then the words as a shell reads them") {
  Words words{"/opt/n s", "-o", "a='b'", "", "plain-1.0_@%+=:,/"};
  CHECK(agent_command({"ssh", "-x"}, "n9", words).value().argv ==
        Words{"ssh", "-x", "n9", "'/opt/n s'", "-o", "'a='\\''b'\\'''", "''", "plain-1.0_@%+=:,/"});
  CHECK(agent_command({}, "n9", words).value().argv == words);
  CHECK(agent_command({"ssh"}, "localhost", words).value().argv == words);
  CHECK_FALSE(agent_command({"ssh"}, "-oProxyCommand=x", words));
  CHECK_FALSE(agent_command({"ssh"}, "", words));
  CHECK(agent_command({"ssh"}, "n9", words).value().env.get("PATH") == std::string_view(::getenv("PATH")));
}

TEST_CASE("this host is known by its names") {
  CHECK(is_this_host("localhost"));
  CHECK_FALSE(is_this_host("no-such-host"));
  std::string own = own_host_name();
  CHECK(is_this_host(own) == !own.empty());
  if (own.find('.') == std::string::npos && !own.empty()) CHECK(is_this_host(own + ".site"));
}

TEST_CASE("this host is known by its addresses") {
  for (const char* each : {"127.0.0.1", "127.0.1.1"}) CHECK(is_this_host(each));
  for (const std::string& each : numeric_addresses()) {
    if (each.find(':') == std::string::npos) CHECK(is_this_host(each));
  }
  for (const char* each : {"192.0.2.7", "127.site", "", "."}) CHECK_FALSE(is_this_host(each));
}

// ---- shells -----------------------------------------------------------------------

TEST_CASE_METHOD(LauncherFixture,
                 "a shell gets its lines on standard input, which stays open, and no command line has them") {
  // Waits for the end of its input, which comes only with the launcher's end.
  std::string shell =
      script("shell", "read line; echo \"$# $1 $line\" > " + folder.path("got") + "; cat > /dev/null; exit 3");
  make({.shell = {shell, "--boot=hosts"}});
  launcher->start(4, "n4", "the secret\n");
  until_written("got");
  CHECK(content("got") == "1 --boot=hosts the secret\n");
  launcher->joined(4);
  CHECK(launcher->running() == 1);
  finish();
  CHECK(ended == Words{"4 exited with code 3"});
  CHECK(failed.empty());
}

TEST_CASE_METHOD(LauncherFixture, "an agent starts the shell on another host, by words that a shell reads there") {
  std::string agent = script("agent", "echo \"$1\" > " + folder.path("host") + "; shift; exec sh -c \"$*\"");
  std::string shell = script("shell", "echo \"$1,$2\" > " + folder.path("got") + "; cat > " + folder.path("input"));
  make({.agent = {agent}, .shell = {shell, "a  b", "it's"}});
  std::string large(3 << 20, 'x');
  launcher->start(1, "no-such-host", large);
  until_written("got");
  launcher->joined(1);
  finish();
  CHECK(content("host") == "no-such-host\n");
  CHECK(content("got") == "a  b,it's\n");
  CHECK(content("input") == large);
}

TEST_CASE_METHOD(LauncherFixture, "a shell can have an agent of its own") {
  std::string agent = script("agent", "echo \"$1\" > " + folder.path("host") + "; shift; exec sh -c \"$*\"");
  std::string shell = script("shell", "cat > " + folder.path("input"));
  make({.agent = {"/no/such/agent"}, .shell = {shell}});
  launcher->start(1, "no-such-host", "lines", {agent});
  until_there("input");
  launcher->joined(1);
  finish();
  CHECK(content("host") == "no-such-host\n");
  CHECK(content("input") == "lines");
  CHECK(failed.empty());
}

TEST_CASE_METHOD(LauncherFixture, "a shell that does not come is told with the host and the agent's last words") {
  std::string agent =
      script("ssh", "echo first >&2; echo \"ssh: connect to host $1 port 22: No route to host\" >&2; exit 255");
  make({.agent = {agent}, .shell = {"nacre-shell"}});
  launcher->start(7, "no-such-host", "");
  until([&] { return launcher->running() == 0; });
  CHECK(failed == Words{"7 no-such-host: ssh: connect to host no-such-host port 22: No route to host (ssh exited "
                        "with code 255)"});
  CHECK(said == "first\n");  // the last line is not repeated
  CHECK(ended.empty());
}

TEST_CASE_METHOD(LauncherFixture, "an agent that ends without a word, or cannot be started, is told too") {
  make({.agent = {script("mute", "exit 1")}, .shell = {"nacre-shell"}});
  launcher->start(1, "no-such-host", "");
  until([&] { return launcher->running() == 0; });
  CHECK(failed == Words{"1 no-such-host: it has printed nothing (mute exited with code 1)"});
  make({.shell = {folder.path("none")}});
  launcher->start(2, "n2", "");
  CHECK(launcher->running() == 0);
  CHECK(failed.back() == fmt::format("2 n2: {}: No such file or directory", folder.path("none")));
}

TEST_CASE_METHOD(LauncherFixture, "of several that are started together each gets its own lines, or its error") {
  std::string shell =
      script("shell", "read line; echo $line > " + folder.path("new.") + "$line; mv " + folder.path("new.") +
                          "$line " + folder.path("got.") + "$line; cat > /dev/null");
  make({.shell = {shell}, .at_once = 8});
  std::vector<Launcher::Shell> shells;
  const Words missing{folder.path("none")};
  for (group::Rank rank = 0; rank < 12; ++rank)
    shells.push_back({rank, "no-such-host", fmt::format("{}\n", rank), rank % 4 == 1 ? missing : Words{}});
  launcher->start(std::move(shells));
  auto why = [&](int rank) {
    return fmt::format("{} no-such-host: {}: No such file or directory", rank, folder.path("none"));
  };
  CHECK(failed == Words{why(1), why(5), why(9)});
  CHECK(launcher->running() == 8);
  for (int rank : {0, 2, 3, 4, 6, 7, 8, 10}) {
    const std::string name = fmt::format("got.{}", rank);
    until_there(name);
    CHECK(content(name) == fmt::format("{}\n", rank));
  }
  CHECK_FALSE(there("got.11"));
  launcher->joined(0);
  CHECK(launcher->running() == 9);
  finish();
}

TEST_CASE_METHOD(LauncherFixture, "whoever is told of one that cannot be started may end all that run") {
  make({.shell = {script("shell", "cat > /dev/null")}});
  bool done = false;
  Launcher::Callbacks callbacks;
  callbacks.on_failed = [&](group::Rank rank, const std::string& /*host*/, const std::string& /*why*/) {
    CHECK(rank == 1);
    launcher->dismiss(2);
    launcher->finish(event::Seconds(0), [&] { done = true; });
  };
  launcher = std::make_unique<Launcher>(*loop, *children, Launcher::Options{.shell = {folder.path("shell")}},
                                        std::move(callbacks));
  launcher->start({{0, "n", ""}, {1, "no-such-host", "", {folder.path("none")}}, {2, "n", ""}});
  until([&] { return done; });
  CHECK(launcher->running() == 0);
}

TEST_CASE_METHOD(LauncherFixture, "a shell that has not joined in time is given up, and ended") {
  // It ignores SIGTERM.
  std::string shell = script("shell", "trap '' TERM; echo 'I wait' >&2; while :; do sleep 1; done");
  make({.shell = {shell}, .timeout = event::Seconds(0.3)});
  launcher->start(3, "n3", "");
  until([&] { return launcher->running() == 0; });
  REQUIRE(failed.size() == 1);
  CHECK_THAT(failed[0], Catch::Matchers::StartsWith("3 n3: its shell has not joined within 0.3 s; "));
  CHECK(ended.empty());
}

TEST_CASE_METHOD(LauncherFixture, "what agents say comes out in whole lines") {
  std::string shell = script("shell", "printf 'a' >&2; printf 'b\\nlast' >&2; read line");
  make({.shell = {shell}});
  launcher->start(1, "n1", "");
  launcher->joined(1);
  finish();
  CHECK(said == "ab\nlast\n");
}

TEST_CASE_METHOD(LauncherFixture,
                 "only so many are started at once; a place is free once one has joined or failed") {
  std::string shell = script("shell", "read line; touch " + folder.path("began.") + "$line; cat > /dev/null");
  make({.shell = {shell}, .at_once = 2});
  for (group::Rank rank = 0; rank < 5; ++rank) launcher->start(rank, "n", fmt::format("{}\n", rank));
  CHECK(launcher->running() == 2);
  until_there("began.0");
  until_there("began.1");
  CHECK_FALSE(there("began.2"));
  launcher->joined(1);
  launcher->joined(1);  // a second call has no effect
  CHECK(launcher->running() == 3);
  until_there("began.2");
  launcher->joined(0);
  launcher->joined(2);
  until_there("began.4");
  CHECK(launcher->running() == 5);
  finish();
  CHECK(failed.empty());
}

TEST_CASE_METHOD(LauncherFixture, "at the end agents that stay are told to go, and then made to") {
  std::string mild =
      script("mild", "trap 'exit 5' TERM; touch " + folder.path("mild.began") + "; while :; do sleep 0.1; done");
  std::string hard =
      script("hard", "trap '' TERM; touch " + folder.path("hard.began") + "; while :; do sleep 0.1; done");
  std::string agent = script("agent", "exec " + folder.path() + "/$1");
  make({.agent = {agent}, .shell = {"x"}});
  launcher->start(1, "mild", "");
  launcher->start(2, "hard", "");
  until_there("mild.began");
  until_there("hard.began");
  launcher->joined(1);
  launcher->joined(2);
  finish(event::Seconds(0.05));
  CHECK(ended == Words{"1 exited with code 5", "2 killed by SIGKILL"});
}

TEST_CASE_METHOD(LauncherFixture,
                 "a lost shell of this host gets the end of its input, and is killed if it stays") {
  make({.agent = {}, .shell = {script("mild", "touch " + folder.path("mild.began") + "; cat; exit 5")}});
  launcher->start(1, "localhost", "");
  until_there("mild.began");
  launcher->joined(1);
  launcher->lost(1);
  until([&] { return !ended.empty(); });
  make({.agent = {},
        .shell = {
            script("hard", "trap '' TERM; touch " + folder.path("hard.began") + "; while :; do sleep 0.1; done")}});
  launcher->start(2, "localhost", "");
  until_there("hard.began");
  launcher->joined(2);
  launcher->lost(2);
  until([&] { return ended.size() == 2; });
  CHECK(ended == Words{"1 exited with code 5", "2 killed by SIGKILL"});
}

TEST_CASE_METHOD(LauncherFixture, "a shell that has left is over once its agent has ended, which is made to") {
  make({.agent = {script("agent", "touch " + folder.path() + "/$1; exec \"$2\"")},
        .shell = {script("shell", "until [ -e " + folder.path("go") + " ]; do sleep 0.02; done")}});
  std::string over;
  auto note = [&](const char* which) { return [&over, which] { over += which; }; };
  launcher->left(7, note("none "));
  CHECK(over == "none ");
  launcher->start(1, "obeys", "");
  launcher->joined(1);
  launcher->left(1, note("one "));
  until_there("obeys");
  CHECK(over == "none ");
  script("go", "");
  until([&] { return over == "none one "; });
  CHECK(launcher->running() == 0);
  make({.agent = {script("stays", "trap '' TERM; touch " + folder.path() + "/$1; while :; do sleep 0.1; done")},
        .shell = {"x"}});
  launcher->start(2, "there", "");
  until_there("there");
  launcher->joined(2);
  launcher->left(2, note("two"));
  until([&] { return over == "none one two"; });
  CHECK(ended == Words{"1 exited with code 0", "2 killed by SIGKILL"});
}

TEST_CASE_METHOD(LauncherFixture, "an agent that others kill, or that fails, says nothing of its shell") {
  std::string agent =
      script("agent", "while [ ! -e " + folder.path("go") + " ]; do sleep 0.02; done; eval \"eval $2\"");
  for (const char* act : {"kill -TERM $$", "exit 255", "exit 7"}) {
    make({.agent = {agent}, .shell = {act}});
    launcher->start(1, "some-host", "");
    launcher->joined(1);
    script("go", "");
    bool done = false;
    launcher->finish(event::Seconds(60), [&] { done = true; });
    until([&] { return done; });
  }
  CHECK(ended == Words{"1 exited with code 7"});
}

TEST_CASE_METHOD(LauncherFixture, "with nothing started the end is at once") {
  make({.shell = {"x"}});
  bool done = false;
  launcher->finish(event::Seconds(60), [&] { done = true; });
  CHECK(done);
}

TEST_CASE_METHOD(LauncherFixture, "a launcher that is destroyed leaves no agent behind") {
  std::string shell = script("shell", "echo $$ > " + folder.path("tmp") + "; mv " + folder.path("tmp") + " " +
                                          folder.path("pid") + "; while :; do sleep 1; done");
  make({.shell = {shell}});
  launcher->start(1, "n1", "");
  until_there("pid");
  launcher.reset();
  auto pid = static_cast<pid_t>(std::stol(content("pid")));
  auto look = event::Timer::create(*loop, [] {}).value();
  look.start(event::Seconds(0.005), event::Seconds(0.005));
  until([&] { return ::kill(pid, 0) < 0; });
}

TEST_CASE_METHOD(LauncherFixture,
                 "what a launcher that is destroyed has started may tidy up, and what stays is killed") {
  // Its own stderr: dash writes that its sleep was terminated, and the pipe to the launcher is closed then.
  std::string tidy = script("tidy", "exec 2>/dev/null; trap 'rm " + folder.path("held") + "; exit' TERM; touch " +
                                        folder.path("held") + "; while :; do sleep 0.01; done");
  std::string stay = script("stay", "trap '' TERM; echo $$ > " + folder.path("tmp") + "; mv " + folder.path("tmp") +
                                        " " + folder.path("pid") + "; while :; do sleep 1; done");
  make({.agent = {script("agent", "shift; \"$@\"")}, .shell = {tidy}});
  launcher->start(1, "n1", "");
  until_there("held");
  launcher.reset();
  auto look = event::Timer::create(*loop, [] {}).value();
  look.start(event::Seconds(0.005), event::Seconds(0.005));
  until([&] { return !there("held"); });
  make({.shell = {stay}});
  launcher->start(1, "n1", "");
  until_there("pid");
  launcher.reset();
  auto pid = static_cast<pid_t>(std::stol(content("pid")));
  until([&] { return ::kill(pid, 0) < 0; });
}

namespace {

using Lines = std::vector<std::string>;

struct Folded {
  Lines out;
  AlikeLines lines{[this](const std::string& line) { out.push_back(line); }};

  Folded& operator<<(const char* line) {
    lines.add(std::string(line) + '\n');
    return *this;
  }
  Lines all() {
    lines.flush();
    return out;
  }
};

}  // namespace

TEST_CASE("what several shells print alike comes once, with their ranks") {
  Folded folded;
  folded << "nacre-shell[2]: warn: x"
         << "nacre-shell[0]: warn: x"
         << "nacre-shell[1]: warn: y"
         << "nacre-shell[3]: warn: x";
  CHECK(folded.out.empty());
  CHECK(folded.all() == Lines{"nacre-shell[0,2-3]: warn: x\n", "nacre-shell[1]: warn: y\n"});
  CHECK(folded.lines.empty());
}

TEST_CASE("what has been put together below is put together further") {
  Folded folded;
  folded << "nacre-shell[3-4]: error: x"
         << "nacre-shell[1,5]: error: x";
  CHECK(folded.all() == Lines{"nacre-shell[1,3-5]: error: x\n"});
}

TEST_CASE("a shell that repeats itself is repeated") {
  Folded folded;
  folded << "nacre-shell[1]: warn: x"
         << "nacre-shell[2]: warn: x"
         << "nacre-shell[1]: warn: x";
  CHECK(folded.all() == Lines{"nacre-shell[1-2]: warn: x\n", "nacre-shell[1]: warn: x\n"});
}

TEST_CASE("all else passes at once, behind what is held") {
  for (const char* line : {"of a task", "nacre-shell: no rank", "nacre-shell[]: warn: x", "nacre-shell[x]: warn: y",
                           "nacre-shell[1] warn: x", "nacre-shell[2]: a notice", ""}) {
    Folded folded;
    folded << "nacre-shell[1]: warn: x" << line;
    CHECK(folded.out == Lines{"nacre-shell[1]: warn: x\n", std::string(line) + '\n'});
  }
}

TEST_CASE("what is held is bounded, and nothing is lost at the end") {
  Lines out;
  {
    AlikeLines lines([&](const std::string& line) { out.push_back(line); });
    for (std::size_t i = 0; i <= AlikeLines::kMostHeld; ++i)
      lines.add("nacre-shell[1]: fatal: " + std::to_string(i) + '\n');
    CHECK(out.size() == AlikeLines::kMostHeld);
  }
  CHECK(out.size() == AlikeLines::kMostHeld + 1);
  CHECK(out.back() == "nacre-shell[1]: fatal: 64\n");
}
