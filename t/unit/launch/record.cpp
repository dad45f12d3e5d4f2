// SPDX-License-Identifier: Apache-2.0
#include "launch/record.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <thread>

#include "catch.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "group/first_words.hpp"
#include "variables_of.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::kit;     // NOLINT
using namespace nacre::launch;  // NOLINT
using Ranks = std::vector<group::Rank>;

namespace {

LaunchRecord sample() {
  LaunchRecord record;
  record.version = "0.1.0";
  record.protocol = group::kProtocol;
  record.job = value::JobId(77);
  record.rank = 0;
  record.size = 7;
  record.arity = 2;
  record.hosts = value::Hostlist::parse("n[1-7]").value();
  record.agent = {"ssh", "-x"};
  record.shell = {"/opt/nacre-shell", "-o", "a b"};
  record.jobspec = "version: 1\nresources: []\n";
  record.resources = "{}";
  record.options = {"verbose=2"};
  record.sources = {{"", "nacre run"}, {"output.events", "command line"}};
  record.environment = {{"NACRE_JOBS_DIR", "/shared/jobs"}, {"XDG_DATA_HOME", ""}};
  record.input = record.remote = record.terminal = true;
  record.detaching = Detaching::on_request;
  record.umask = 0027;
  record.front = "nacre run";
  record.carriage = Carriage{"0123456789abcdef0123456789abcdef", {"exit-notify"}};
  return record;
}

// The error for the sample with this member changed; null removes the member.
std::string refused(const char* key, Json value) {
  Json json = Json::parse(sample().line());
  if (value.is_null()) {
    json.erase(key);
  } else {
    json[key] = std::move(value);
  }
  return error_of(LaunchRecord::parse(json.dump()));
}

// Both ends of a pipe that has these bytes in it, and is closed.
UniqueFd closed_pipe(const std::string& bytes) {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  REQUIRE(write_all(pipe.write.get(), bytes) == 0);
  return std::move(pipe.read);
}

}  // namespace

TEST_CASE("a launch record is one line, and reads back to the same") {
  LaunchRecord record = sample();
  std::string line = record.line();
  CHECK(line.find('\n') == line.size() - 1);
  LaunchRecord again = LaunchRecord::parse(line).value();
  CHECK(again.line() == line);
  CHECK(again.job == record.job);
  CHECK(again.rank == 0U);
  CHECK(again.hosts == record.hosts);
  CHECK(again.shell == record.shell);
  CHECK(again.jobspec == record.jobspec);
  CHECK(again.options == record.options);
  CHECK((again.input && again.remote && again.terminal));
  CHECK(again.detaching == Detaching::on_request);
  CHECK(again.front == "nacre run");
  CHECK(again.carriage == record.carriage);
  CHECK(again.environment == record.environment);
  CHECK(again.umask == 0027);
}

TEST_CASE("the records from which the fuzzing starts are read to their end") {
  for (const char* name : {"leader", "record", "srun"}) {
    INFO(name);
    std::string text =
        read_file(fmt::format("{}/t/fuzz/corpus/launch/{}", NACRE_SOURCE_DIR, name)).value().substr(1);
    const std::string placeholder = "PROTOCOL";  // as in t/fuzz/launch.cpp
    text.replace(text.find(placeholder), placeholder.size(), std::to_string(group::kProtocol));
    CHECK(error_of(LaunchRecord::parse(text)) == "no error");
  }
}

TEST_CASE("what a child is told: its rank, where those above it are, and nothing that is the leader's") {
  LaunchRecord record = sample();
  CHECK(record.children() == Ranks{1, 2});
  LaunchRecord child = record.of_child(2, "n1:70");
  CHECK(child.rank == 2U);
  CHECK_FALSE(child.jobspec);
  CHECK_FALSE(child.resources);
  CHECK(child.options.empty());
  CHECK_FALSE((child.input || child.remote || child.terminal));
  CHECK(child.detaching == Detaching::never);
  CHECK_FALSE(child.carriage);
  CHECK(child.environment == record.environment);
  CHECK(child.umask == record.umask);
  CHECK_FALSE(child.makes_resources);
  CHECK(child.children() == Ranks{5, 6});
  LaunchRecord leaf = child.of_child(5, "n3:71 10.0.0.3:71");
  CHECK(leaf.addresses == std::map<group::Rank, std::string>{{0, "n1:70"}, {2, "n3:71 10.0.0.3:71"}});
  CHECK(leaf.children().empty());
  CHECK(LaunchRecord::parse(leaf.line()).value().line() == leaf.line());
  record.arity = 16;
  CHECK(record.children() == Ranks{1, 2, 3, 4, 5, 6});
}

TEST_CASE("the lines of all children are those of their records") {
  LaunchRecord record = sample();
  for (std::uint32_t arity : {2U, 16U}) {
    record.arity = arity;
    std::vector<std::string> each;
    for (group::Rank child : record.children()) each.push_back(record.of_child(child, "n1:70").line());
    CHECK(record.lines_of_children("n1:70") == each);
  }
  record.rank = record.size - 1;
  CHECK(record.lines_of_children("n1:70").empty());
}

TEST_CASE("the record of a shell that joins later has its rank beyond the first shells, and the job") {
  LaunchRecord record = sample().of_child(1, "h:1");
  record.rank = 12;
  record.jobspec = "version: 1\n";
  record.resources = "{}";
  record.growth = "[]";
  for (bool is_made : {true, false}) {
    record.makes_resources = is_made;
    LaunchRecord read = LaunchRecord::parse(record.line()).value();
    CHECK(read.rank == 12U);
    CHECK(read.growth == "[]");
    CHECK(read.jobspec == record.jobspec);
    CHECK(read.resources == "{}");
    CHECK(read.makes_resources == is_made);
  }
  record.rank = 6;
  CHECK(error_of(LaunchRecord::parse(record.line())).find("rank: expected") != std::string::npos);
}

TEST_CASE("the record of a shell that joins later says who leads, and where, if that may change") {
  LaunchRecord record = sample().of_child(1, "h:1");
  record.rank = 12;
  record.growth = "[]";
  record.leader = 9;
  record.addresses[9] = "n9:70";
  LaunchRecord read = LaunchRecord::parse(record.line()).value();
  CHECK(read.leader == 9U);
  CHECK(read.addresses == record.addresses);
  record.leader = 8;
  CHECK(error_of(LaunchRecord::parse(record.line())).find("addresses: expected ranks below 7 as keys, got '9'") !=
        std::string::npos);
  record.addresses.erase(9);
  record.growth.reset();
  record.rank = 2;
  CHECK(error_of(LaunchRecord::parse(record.line())) ==
        "the launch record: leader: expected only where there is growth");
}

TEST_CASE("shells offer what their nodes have only where the leader is given no R") {
  LaunchRecord record = sample();
  CHECK_FALSE(LaunchRecord::parse(record.line()).value().makes_resources);
  CHECK_FALSE(LaunchRecord::parse(record.of_child(2, "n1:70").line()).value().makes_resources);
  CHECK_FALSE(LaunchRecord::parse(record.of_child(2, "n1:70").of_child(5, "n3:71").line()).value().makes_resources);
  record.resources.reset();
  CHECK(LaunchRecord::parse(record.line()).value().makes_resources);
  CHECK(LaunchRecord::parse(record.of_child(2, "n1:70").line()).value().makes_resources);
}

TEST_CASE("a record of another protocol is refused before anything else is looked at") {
  CHECK(error_of(LaunchRecord::parse(R"({"version": "9.9", "protocol": 99, "what": "ever"})")) ==
        fmt::format("the launch record: nacre '9.9' has started this shell and speaks protocol 99, this shell "
                    "speaks {}: the same version has to be installed on all hosts",
                    group::kProtocol));
}

TEST_CASE("a launch record is read strictly, and what is wrong is named") {
  const std::string front = "the launch record: ";
  CHECK_THAT(error_of(LaunchRecord::parse("")), Catch::Matchers::StartsWith(front + "not JSON: line 1"));
  for (const char* key :
       {"version", "protocol", "jobid", "size", "arity", "hosts", "agent", "shell", "timeout", "addresses"}) {
    CHECK(refused(key, nullptr) == fmt::format("{}missing key '{}'", front, key));
  }
  CHECK_THAT(refused("extra", 1), Catch::Matchers::ContainsSubstring("extra"));
  CHECK(refused("detach", "later") == front + R"(detach: expected request or start, got "later")");
  CHECK_THAT(refused("rank", 7), Catch::Matchers::StartsWith(front + "rank: "));
  CHECK_THAT(refused("rank", "0"), Catch::Matchers::StartsWith(front + "rank: "));
  CHECK_THAT(refused("size", 0), Catch::Matchers::StartsWith(front + "size: "));
  CHECK_THAT(refused("size", 1048577), Catch::Matchers::StartsWith(front + "size: "));
  CHECK(refused("size", 6) == front + "hosts: 7 hosts for 6 shells");
  CHECK_THAT(refused("arity", 1), Catch::Matchers::StartsWith(front + "arity: "));
  CHECK_THAT(refused("arity", 1025), Catch::Matchers::StartsWith(front + "arity: "));
  CHECK_THAT(refused("hosts", "n[1-"), Catch::Matchers::StartsWith(front + "hosts: "));
  CHECK_THAT(refused("jobid", "?"), Catch::Matchers::StartsWith(front + "jobid: "));
  CHECK_THAT(refused("shell", Json::array()), Catch::Matchers::ContainsSubstring("the path of nacre-shell"));
  CHECK_THAT(refused("shell", Json::array({""})), Catch::Matchers::ContainsSubstring("the path of nacre-shell"));
  CHECK_THAT(refused("shell", Json::array({std::string("a\0b", 3)})),
             Catch::Matchers::ContainsSubstring("without NUL"));
  CHECK_THAT(refused("agent", std::vector<std::string>(4097, "a")),
             Catch::Matchers::ContainsSubstring("more than 4096 words"));
  CHECK_THAT(refused("options", Json::array({std::string(131073, 'a')})),
             Catch::Matchers::ContainsSubstring("131072 bytes"));
  CHECK_THAT(refused("carriage", {{"token", "short"}, {"channels", {"a"}}}),
             Catch::Matchers::StartsWith(front + "carriage: token: "));
  CHECK_THAT(refused("carriage", {{"token", sample().carriage->token}, {"channels", {"A"}}}),
             Catch::Matchers::StartsWith(front + "carriage: channels: "));
  CHECK_THAT(refused("carriage", Json::object()), Catch::Matchers::StartsWith(front + "carriage: missing key"));
  CHECK_THAT(refused("timeout", 0), Catch::Matchers::StartsWith(front + "timeout: "));
  CHECK_THAT(refused("timeout", 86401), Catch::Matchers::StartsWith(front + "timeout: "));
  CHECK_THAT(refused("addresses", {{"7", "a:1"}}), Catch::Matchers::ContainsSubstring("ranks below 7"));
  CHECK_THAT(refused("addresses", {{"01", "a:1"}}), Catch::Matchers::ContainsSubstring("ranks below 7"));
  CHECK_THAT(refused("addresses", {{"0", "a"}}),
             Catch::Matchers::ContainsSubstring("addresses.0: expected HOST:PORT"));
  CHECK_THAT(refused("addresses", {{"0", std::string(1025, ' ')}}),
             Catch::Matchers::ContainsSubstring("more than 1024 bytes"));
  CHECK(refused("umask", 512).starts_with(front + "umask: expected"));
  CHECK(refused("environment", {{"PATH", "/"}}) ==
        front +
            "environment.PATH: expected one of NACRE_ARCHIVE_DIR, NACRE_JOBS_DIR, XDG_CACHE_HOME, XDG_CONFIG_HOME, "
            "XDG_DATA_HOME, XDG_STATE_HOME, FLUX_SHELL_RC_PATH, FLUX_F58_FORCE_ASCII, FLUX_LOAD_WITH_DEEPBIND");
  CHECK_THAT(refused("environment", {{"NACRE_JOBS_DIR", std::string("/\0", 2)}}),
             Catch::Matchers::ContainsSubstring("without NUL"));
  CHECK_THAT(refused("environment", {{"XDG_DATA_HOME", std::string(131073, '/')}}),
             Catch::Matchers::ContainsSubstring("131072"));
  CHECK_THAT(refused("environment", Json::array()), Catch::Matchers::StartsWith(front + "environment: "));
  CHECK_THAT(refused("jobspec", Json::object()), Catch::Matchers::StartsWith(front + "jobspec: "));
}

TEST_CASE("secret and record are taken from a descriptor, and what stands behind them is handed over") {
  transport::Secret secret = transport::Secret::generate().value();
  std::string lines = launch_lines(secret, sample().line());
  UniqueFd input = closed_pipe(lines + "what follows\n");
  LaunchInput read = read_launch_input(input.get(), 60).value();
  CHECK(read.secret.hex() == secret.hex());
  REQUIRE(read.record);
  CHECK(read.record->line() == sample().line());
  char rest[64];
  auto got = ::read(input.get(), rest, sizeof rest);
  CHECK(read.behind + std::string(rest, got > 0 ? static_cast<std::size_t>(got) : 0) == "what follows\n");
}

TEST_CASE("a secret alone is taken too; a record that is cut off is not") {
  transport::Secret secret = transport::Secret::generate().value();
  UniqueFd alone = closed_pipe(secret.hex() + "\n");
  CHECK_FALSE(read_launch_input(alone.get(), 60).value().record);
  UniqueFd cut = closed_pipe(secret.hex() + "\n" + sample().line().substr(0, 100));
  CHECK(error_of(read_launch_input(cut.get(), 60)) == "the launch record: standard input has ended within it");
  UniqueFd none = closed_pipe("");
  CHECK_THAT(error_of(read_launch_input(none.get(), 60)),
             Catch::Matchers::StartsWith("standard input: a secret has 64"));
}

TEST_CASE("a launcher that says nothing is given up") {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  Result<LaunchInput> read = read_launch_input(pipe.read.get(), 0.02);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ETIMEDOUT);
  CHECK_THAT(read.error().message, Catch::Matchers::ContainsSubstring("--standalone"));
}

TEST_CASE("a large record comes whole through a pipe") {
  std::signal(SIGPIPE, SIG_IGN);
  LaunchRecord record = sample();
  record.jobspec = std::string(3 << 20, 'j');
  transport::Secret secret = transport::Secret::generate().value();
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  std::string lines = launch_lines(secret, record.line());
  std::thread writer([&] { CHECK(write_all(pipe.write.get(), lines) == 0); });
  auto read = read_launch_input(pipe.read.get(), 60);
  writer.join();
  REQUIRE(read);
  CHECK(read->record->jobspec == record.jobspec);
}

TEST_CASE("standard input is taken away from whoever reads it later") {
  UniqueFd input = closed_pipe("the launcher's");
  UniqueFd taken = take_input(input.get()).value();
  CHECK((::fcntl(taken.get(), F_GETFD) & FD_CLOEXEC) != 0);
  char bytes[32];
  CHECK(::read(input.get(), bytes, sizeof bytes) == 0);
  CHECK(::read(taken.get(), bytes, sizeof bytes) == 14);
}

TEST_CASE("the texts of a launch record") {
  LaunchRecord record = sample();
  record.protocol = 11;
  CHECK(record.line() ==
        R"({"R":"{}","addresses":{},"agent":["ssh","-x"],"arity":2,"carriage":{"channels":["exit-notify"],")"
        R"(token":"0123456789abcdef0123456789abcdef"},"detach":"request","environment":{"NACRE_JOBS_DIR":"/)"
        R"(shared/jobs","XDG_DATA_HOME":""},"front":"nacre run","hosts":"n[1-7]","input":true,"jobid":"f2L")"
        R"(,"jobspec":"version: 1\nresources: []\n","options":["verbose=2"],"protocol":11,"rank":0,"remote")"
        R"(:true,"shell":["/opt/nacre-shell","-o","a b"],"size":7,"sources":{"":"nacre run","output.events")"
        R"(:"command line"},"terminal":true,"timeout":30.0,"umask":23,"version":"0.1.0"})"
        "\n");
  LaunchRecord child = record.of_child(2, "n1:70");
  CHECK(child.line() ==
        R"({"addresses":{"0":"n1:70"},"agent":["ssh","-x"],"arity":2,"environment":{"NACRE_JOBS_DIR":"/shar)"
        R"(ed/jobs","XDG_DATA_HOME":""},"front":"nacre run","hosts":"n[1-7]","jobid":"f2L","offer":false,"p)"
        R"(rotocol":11,"rank":2,"shell":["/opt/nacre-shell","-o","a b"],"size":7,"timeout":30.0,"umask":23,)"
        R"("version":"0.1.0"})"
        "\n");
  child.growth = "[]";
  child.resources = "{}";
  child.detaching = Detaching::at_start;
  child.umask.reset();
  child.front = LaunchRecord().front;
  child.environment.clear();
  CHECK(child.line() ==
        R"({"R":"{}","addresses":{"0":"n1:70"},"agent":["ssh","-x"],"arity":2,"detach":"start","growth":"[])"
        R"(","hosts":"n[1-7]","jobid":"f2L","offer":false,"protocol":11,"rank":2,"shell":["/opt/nacre-shell)"
        R"(","-o","a b"],"size":7,"timeout":30.0,"version":"0.1.0"})"
        "\n");
}

TEST_CASE("a member that no launch record has is refused, and all that it may have are named") {
  CHECK(refused("more", 1) ==
        "the launch record: more: unknown key; known: version, protocol, jobid, size, arity, growth, leader, rank, "
        "hosts, "
        "agent, "
        "shell, timeout, addresses, environment, umask, jobspec, R, offer, options, sources, input, remote, "
        "terminal, "
        "front, detach, carriage");
}
