// SPDX-License-Identifier: Apache-2.0
//
// The messages between shells for commands beside the tasks, and where these run.
#include "plugins/control/exec_wire.hpp"

#include "catch.hpp"

#include "fake_host.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::plugins;  // NOLINT

namespace {

template <typename T>
std::string error_of(const Result<T>& result) {
  return result ? "" : result.error().message;
}

}  // namespace

TEST_CASE("an exec's command, records and notices are read as they were written") {
  ExecCommand command{{"sh", "-c", "a b"}, {{"A", "b"}}, "/tmp", true, 4096, true, winsize{24, 80, 0, 0}};
  ExecCommand read = ExecCommand::parse(command.text()).value();
  CHECK(read.argv == command.argv);
  CHECK(read.env == command.env);
  CHECK(read.cwd == command.cwd);
  CHECK(read.has_input);
  CHECK(read.window == 4096);
  CHECK(read.joins);
  CHECK(read.pty.value().ws_row == 24);
  CHECK(read.pty.value().ws_col == 80);
  ExecRecord record{ExecRecord::What::err, 7, 3, {"a\0b", 3}};
  std::string bytes = record.str();
  auto back = ExecRecord::parse(bytes);
  REQUIRE(back);
  CHECK(back->what == record.what);
  CHECK(back->number == 7);
  CHECK(back->target == 3);
  CHECK(back->body == record.body);
  ExecNotice notice;
  notice.number = 7;
  notice.may_write = {{3, 100}, {5, 200}};
  notice.signum = 15;
  notice.size = winsize{10, 65535, 0, 0};
  notice.ends = notice.drops = true;
  ExecNotice told = ExecNotice::parse(notice.text()).value();
  CHECK(told.number == 7);
  CHECK(told.may_write == notice.may_write);
  CHECK(told.signum == 15);
  CHECK(told.size.value().ws_row == 10);
  CHECK(told.size.value().ws_col == 65535);
  CHECK(told.ends);
  CHECK(told.drops);
}

TEST_CASE("an exec that is garbage is refused") {
  CHECK(error_of(ExecCommand::parse(R"({"command": []})")).find("expected a command") != std::string::npos);
  CHECK_FALSE(ExecCommand::parse(R"({"command": ["a", 1]})"));
  CHECK_FALSE(ExecCommand::parse(R"({"command": ["a\u0000b"]})"));
  CHECK_FALSE(ExecCommand::parse(R"({"command": ["a"], "env": {"A=B": "c"}})"));
  CHECK_FALSE(ExecCommand::parse(R"({"command": ["a"], "window": 0})"));
  CHECK_FALSE(ExecCommand::parse("no"));
  CHECK_FALSE(ExecRecord::parse("short"));
  CHECK_FALSE(ExecRecord::parse(std::string(13, '\0')));
  CHECK_FALSE(ExecRecord::parse('\x07' + std::string(12, '\0')));
  CHECK_FALSE(ExecNotice::parse(R"({"exec": 0})"));
  CHECK_FALSE(ExecNotice::parse(R"({"exec": 1, "may-write": [[1]]})"));
  CHECK_FALSE(ExecNotice::parse(R"({"exec": 1, "signal": 0})"));
  for (const char* size : {"0", "-1", "65536", "1.5", "1e99", "[]"}) {
    std::string text = fmt::format(R"({{"rows": {}, "columns": 80}})", size);
    CHECK_FALSE(ExecCommand::parse(fmt::format(R"({{"command": ["a"], "pty": {}}})", text)));
    CHECK_FALSE(ExecNotice::parse(fmt::format(R"({{"exec": 1, "size": {}}})", text)));
  }
}

TEST_CASE("where a command runs: shells, hosts and ranks") {
  kit::FakeHost host(kit::jobspec_of(6),
                     R"({"version":1,"execution":{"R_lite":[{"rank":"0-2","children":{"core":"0-1"}}],
    "nodelist":["n[0-1]","m.site"],"starttime":0,"expiration":0}})");
  host.make_tasks();
  auto shares = [&](const Json& request) {
    auto read = ExecTargets::read(JsonAt::root(request), host.job());
    if (!read) return read.error().message;
    std::string out = read->is_all ? "all:" : "";
    for (const auto& [shell, ranks] : read->shares) out += fmt::format(" {}({})", shell, ranks.str());
    return out;
  };
  CHECK(shares(Json::object()) == "all: 0() 1() 2()");
  CHECK(shares({{"exclude", "n1"}}) == "all: 0() 2()");
  CHECK(shares({{"shells", "1-2"}}) == " 1() 2()");
  CHECK(shares({{"hosts", "n0,m"}}) == " 0() 2()");
  CHECK(shares({{"hosts", "m.site"}}) == " 2()");
  CHECK(shares({{"ranks", "1-2,5"}}) == " 0(1) 1(2) 2(5)");
  CHECK(shares({{"ranks", "1-2,5"}, {"hosts", "n1"}}) == " 1(2)");
  CHECK(shares({{"hosts", "n1"}, {"exclude", "n1"}}).find("nothing of the job") != std::string::npos);
  CHECK(shares({{"hosts", "n7"}}).find("it has n[0-1],m.site") != std::string::npos);
  CHECK(shares({{"ranks", "6"}}).find("no rank 6: the job has 0-5") != std::string::npos);
  CHECK(shares({{"ranks", ""}}).find("names no rank") != std::string::npos);
  CHECK(shares({{"shells", "3"}}).find("no shell 3") != std::string::npos);
  CHECK(shares({{"shells", 3}}).find("expected") != std::string::npos);
}

TEST_CASE("the texts of an exec's command and notices") {
  CHECK(ExecCommand{{"a"}, {}, {}}.text() == R"({"command":["a"]})");
  CHECK(ExecCommand{{"sh", "-c"}, {{"A", "b"}}, "/tmp", true, 4096, true, winsize{24, 80, 0, 0}}.text() ==
        R"({"command":["sh","-c"],"cwd":"/tmp","env":{"A":"b"},"join":true,"pty":{"columns":80,"rows":24},")"
        R"(stdin":true,"window":4096})");
  ExecNotice notice;
  notice.number = 7;
  CHECK(notice.text() == R"({"exec":7})");
  notice.may_write = {{3, 100}, {5, 200}};
  notice.signum = 15;
  notice.size = winsize{10, 65535, 0, 0};
  notice.ends = notice.drops = true;
  CHECK(notice.text() ==
        R"({"drop":true,"end":true,"exec":7,"may-write":[[3,100],[5,200]],"signal":15,"size":{"columns":655)"
        R"(35,"rows":10}})");
  CHECK(error_of(ExecNotice::parse(R"({"exec": 1, "may-write": [[1]]})")) ==
        "may-write[0]: expected a target and a number, got an array");
  CHECK(error_of(ExecCommand::parse(R"({"command": ["a", "b\u0000"]})")) == "command[1]: a NUL in an argument");
}
