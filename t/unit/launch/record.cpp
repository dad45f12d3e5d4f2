// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "catch.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "group/first_words.hpp"
#include "launch/record.hpp"
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

namespace {

const std::string kToken = "0123456789abcdef0123456789abcdef";

struct Reader {
  explicit Reader(bool is_labelled = false) : reader(kToken, callbacks(), is_labelled) {}
  CarriageReader::Callbacks callbacks() {
    CarriageReader::Callbacks out;
    out.on_other = [this](std::string_view bytes) { other += bytes; };
    out.on_message = [this](std::string_view channel, std::string_view message) {
      messages.push_back(std::string(channel) + ":" + std::string(message));
    };
    out.on_loss = [this] { ++losses; };
    return out;
  }

  std::string other;
  std::vector<std::string> messages;
  int losses = 0;
  CarriageReader reader;
};

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& each : lines) out += each;
  return out;
}

std::string all_bytes(std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < size; ++i) out += static_cast<char>(i * 7 % 256);
  return out;
}

}  // namespace

TEST_CASE("a message comes as it was sent, in lines of at most 900 bytes") {
  for (std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{800}, std::size_t{5000}, std::size_t{100000}}) {
    CarriageWriter writer(kToken);
    std::string message = all_bytes(size);
    std::vector<std::string> lines = writer.lines("exit-notify", message);
    for (const std::string& each : lines) {
      CHECK(each.size() <= CarriageWriter::kMaxLine);
      CHECK(each.find('\n') == each.size() - 1);
      CHECK(each.find('\x1e') == 0);
    }
    Reader reader;
    reader.reader.take(joined(lines));
    CHECK(reader.messages == std::vector<std::string>{"exit-notify:" + message});
    CHECK(reader.other.empty());
  }
}

TEST_CASE("lines may begin anywhere, and all else is passed on unchanged, however the bytes come") {
  std::mt19937 random(7);
  CarriageWriter writer(kToken);
  std::string stream;
  std::string other;
  std::vector<std::string> messages;
  for (int i = 0; i < 200; ++i) {
    std::string text = i % 3 == 0 ? all_bytes(random() % 300) : std::string(random() % 50, 'x');
    if (i % 5 == 0) text += "\x1e" + kToken.substr(0, random() % kToken.size()) + "!";
    other += text;
    stream += text;
    std::string message = all_bytes(random() % 2000);
    stream += joined(writer.lines("c", message));
    messages.push_back("c:" + message);
  }
  for (std::size_t most : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, stream.size()}) {
    Reader reader;
    for (std::size_t at = 0; at < stream.size(); at += most) reader.reader.take(stream.substr(at, most));
    reader.reader.end();
    CHECK(reader.other == other);
    CHECK(reader.messages == messages);
    CHECK(reader.losses == 0);
  }
}

TEST_CASE("what is no line is passed on at once, but for the start of one, at the end too") {
  Reader reader;
  reader.reader.take("prompt> ");
  CHECK(reader.other == "prompt> ");
  reader.reader.take(
      "a\x1e"
      "0123x");
  CHECK(reader.other ==
        "prompt> a\x1e"
        "0123x");
  reader.reader.take("\x1e" + kToken + " 1 c ");
  CHECK(reader.other.size() == 15);
  reader.reader.end();
  CHECK(reader.other.substr(15) == "\x1e" + kToken + " 1 c ");
}

TEST_CASE("lines of another token are no lines") {
  CarriageWriter forger("f123456789abcdef0123456789abcdef");
  std::string forged = joined(forger.lines("c", "forged"));
  Reader reader;
  reader.reader.take(forged);
  CHECK(reader.other == forged);
  CHECK(reader.messages.empty());
}

TEST_CASE("the next leader's line begins anew, and is no loss; of another one it would be") {
  for (const char* channel : {"leads", "report"}) {
    Reader reader;
    CarriageWriter lost(kToken), next(kToken);
    reader.reader.take(joined(lost.lines("joined", "")));
    reader.reader.take(lost.lines("report", all_bytes(5000)).front());  // the rest of this message never comes
    const NextLeader leader{"node1", "12"};
    reader.reader.take(joined(next.lines(channel, leader.message())));
    const bool is_leads = std::string_view(channel) == Carriage::kLeads;
    CHECK(reader.losses == (is_leads ? 0 : 1));
    CHECK(reader.messages.size() == (is_leads ? 2 : 1));
    if (is_leads) CHECK(reader.messages[1] == R"(leads:{"allocation":"12","host":"node1"})");
  }
  Reader reader;  // one that would lead says so between the lines of the leader
  CarriageWriter leader(kToken), other(kToken);
  const std::vector<std::string> parts = leader.lines("report", all_bytes(5000));
  reader.reader.take(parts.front());
  reader.reader.take(joined(other.lines("wanted", "{}")));
  for (std::size_t i = 1; i < parts.size(); ++i) reader.reader.take(parts[i]);
  CHECK(reader.messages == std::vector<std::string>{"wanted:{}", "report:" + all_bytes(5000)});
  CHECK(reader.losses == 0);
  CHECK(NextLeader::parse(R"({"allocation":"12","host":"node1"})").value().host == "node1");
  for (const char* wrong : {R"({"allocation":"12","host":"-w"})", R"({"allocation":"","host":"n"})", "{", "[]"})
    CHECK_FALSE(NextLeader::parse(wrong));
}

TEST_CASE("messages of two channels do not mix, and follow each other") {
  CarriageWriter writer(kToken);
  Reader reader;
  reader.reader.take(joined(writer.lines("a", "one")));
  reader.reader.take(joined(writer.lines("b", all_bytes(3000))));
  reader.reader.take(joined(writer.lines("a", "two")));
  CHECK(reader.messages == std::vector<std::string>{"a:one", "b:" + all_bytes(3000), "a:two"});
}

TEST_CASE("a line that is missing or broken is noticed, and the next message comes whole") {
  CarriageWriter writer(kToken);
  std::vector<std::string> first = writer.lines("c", std::string(3000, 'm'));
  std::string second = joined(writer.lines("c", "second"));
  std::string third = joined(writer.lines("c", "third"));
  REQUIRE(first.size() == 4);
  for (std::size_t broken = 0; broken < first.size(); ++broken) {
    for (int how = 0; how < 3; ++how) {
      std::vector<std::string> lines = first;
      std::string& line = lines[broken];
      if (how == 0) line.clear();
      if (how == 1) line.insert(line.size() / 2, "nacre-shell[2]: error\n");
      if (how == 2) line[line.size() / 2] ^= 1;
      Reader reader;
      reader.reader.take(joined(lines) + second + third);
      INFO(broken << ", " << how);
      CHECK(reader.losses >= 1);
      CHECK(reader.messages.back() == "c:third");
      CHECK(std::count(reader.messages.begin(), reader.messages.end(), "c:" + std::string(3000, 'm')) == 0);
      for (const std::string& each : reader.messages) CHECK((each == "c:second" || each == "c:third"));
      if (how == 1) CHECK(reader.other.find("nacre-shell[2]: error\n") != std::string::npos);
    }
  }
}

TEST_CASE("a carriage in the launch record is checked") {
  Carriage carriage = Carriage::with_new_token().value();
  CHECK(carriage.token != Carriage::with_new_token()->token);
  CHECK(carriage.check());
  carriage.channels.assign(Carriage::kMaxChannels, "exit-notify");
  CHECK(carriage.check());
  carriage.channels.emplace_back("one-more");
  CHECK_FALSE(carriage.check());
  carriage.channels = {"exit-notify"};
  for (const char* bad : {"", "a b", "A", "x\n", "a-name-that-is-longer-than-32-bytes"}) {
    Carriage wrong = carriage;
    wrong.channels.push_back(bad);
    CHECK_FALSE(wrong.check());
  }
  carriage.token[3] = 'g';
  CHECK_FALSE(carriage.check());
}

TEST_CASE("of labelled lines, those of messages leave nothing, and what precedes one is a line of its own") {
  CarriageWriter writer(kToken);
  const auto message = [&](const std::string& text) {
    std::string out;
    for (const std::string& each : writer.lines("c", text)) out += " 3: " + each;
    return out;
  };
  std::string stream = " 3: one\n" + message("first") + " 3: cut" + writer.lines("c", "").front();
  stream += "12: \n" + message(all_bytes(2000)) + "srun: error: 7: 8\n 3: 4: 5\n 3:x\n  :\n 12 : 1\n\n" +
            message("last") + "12: ";
  const std::string other = " 3: one\n 3: cut\n12: \nsrun: error: 7: 8\n 3: 4: 5\n 3:x\n  :\n 12 : 1\n\n12: ";
  for (std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{100}, stream.size()}) {
    Reader reader(true);
    for (std::size_t at = 0; at < stream.size(); at += size)
      reader.reader.take(std::string_view(stream).substr(at, size));
    reader.reader.end();
    CHECK(reader.other == other);
    CHECK(reader.messages == std::vector<std::string>{"c:first", "c:", "c:" + all_bytes(2000), "c:last"});
    CHECK(reader.losses == 0);
  }
}

TEST_CASE("what may be a label waits for the next byte, all else of labelled lines comes at once") {
  Reader reader(true);
  reader.reader.take("3: ");
  CHECK(reader.other.empty());
  reader.reader.take("a");
  CHECK(reader.other == "3: a");
  reader.reader.take("12");
  CHECK(reader.other == "3: a12");
}
