// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

#include "base/file.hpp"
#include "folder.hpp"
#include "group/codec.hpp"
#include "group/first_words.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::group;  // NOLINT
using nacre::exits::Record;
using nacre::kit::TemporaryFolder;
using nacre::value::Idset;
using nacre::value::WaitStatus;

namespace {

JobException sent(const JobException& exception) { return decode(encode(exception)); }

}  // namespace

TEST_CASE("an exception arrives as it was sent") {
  JobException out = sent({"exec", 0, "it fails", 42, 7, true});
  CHECK(out.type == "exec");
  CHECK(out.severity == 0);
  CHECK(out.message == "it fails");
  CHECK(out.exit_code == 42);
  CHECK(out.origin == 7);
  CHECK(out.of_shell);
  CHECK_FALSE(sent({"exec", 2, "it fails", std::nullopt, 7}).exit_code);
}

TEST_CASE("a code that a process cannot exit with arrives as the one that it counts as") {
  CHECK(sent({"exec", 0, "", 300, 0}).exit_code == 44);
  CHECK(sent({"exec", 0, "", 256, 0}).exit_code == 255);
  CHECK(sent({"exec", 0, "", -1, 0}).exit_code == 255);
  CHECK(sent({"exec", 0, "", 0, 0}).exit_code == 1);
}

TEST_CASE("of a note that no shell wrote, what can be understood is taken") {
  JobException out = decode(overlay::ExceptionEntry{"exec", 0, "no JSON"});
  CHECK(out.message == "no JSON");
  CHECK_FALSE(out.exit_code);
  CHECK_FALSE(decode(overlay::ExceptionEntry{"exec", 0, R"({"message": "m", "exit_code": 256})"}).exit_code);
}

TEST_CASE("how tasks ended arrives as it was sent") {
  Ended out{Idset::range(3, 5), Record::victim(WaitStatus::killed(15))};
  auto back = decode(overlay::TaskReport{out.tasks, encode(out)});
  REQUIRE(back);
  CHECK(back->tasks == out.tasks);
  CHECK(back->record == out.record);
  CHECK_FALSE(decode(overlay::TaskReport{out.tasks, "y3"}));
}

namespace {

// The file's lines, each of which ends with a newline, parsed one by one.
std::vector<Json> entries(const std::string& path) {
  std::string text = read_file(path).value();
  if (!text.empty()) CHECK(text.back() == '\n');
  std::vector<Json> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    auto entry = parse_json(line);
    REQUIRE(entry);
    out.push_back(*entry);
  }
  return out;
}

// No file can grow beyond this as long as it lives, and that is an error, not a signal.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : action_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit lower{bytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &lower) == 0);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, action_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*action_)(int);
  rlimit before_{};
};

}  // namespace

TEST_CASE("an eventlog has a line for each event, in their order") {
  TemporaryFolder folder;
  auto log = EventLog::create(folder.path("log")).value();
  CHECK(entries(folder.path("log")).empty());
  REQUIRE(log.append(1552593348.073045, "submit", {{"urgency", 16}, {"flags", 0}}));
  REQUIRE(log.append(1552593349, "free", Json::object()));
  REQUIRE(log.append(1552593350.5, "release", {{"ranks", "all"}, {"final", true}}));
  CHECK(read_file(folder.path("log")).value() ==
        R"({"context":{"flags":0,"urgency":16},"name":"submit","timestamp":1552593348.073045})"
        "\n"
        R"({"name":"free","timestamp":1552593349.0})"
        "\n"
        R"({"context":{"final":true,"ranks":"all"},"name":"release","timestamp":1552593350.5})"
        "\n");
}

TEST_CASE("an event is one line, whatever its context has") {
  TemporaryFolder folder;
  auto log = EventLog::create(folder.path("log")).value();
  Json context{{"note", "two\nlines\r\n\"quoted\"\t\x01"}, {"deep", {{"list", {1, "\n", nullptr}}}}};
  REQUIRE(log.append(1, "exception", context));
  REQUIRE(log.append(2, "bad bytes", {{"note", "a\xff z"}}));
  auto written = entries(folder.path("log"));
  REQUIRE(written.size() == 2);
  CHECK(written[0] == Json{{"timestamp", 1.0}, {"name", "exception"}, {"context", context}});
  CHECK(written[1]["context"]["note"] == "a\xef\xbf\xbd z");
}

TEST_CASE("each event is in the file as soon as it is appended, and readers see whole ones") {
  TemporaryFolder folder;
  auto log = EventLog::create(folder.path("log")).value();
  Json context{{"filler", std::string(1 << 20, 'x')}};
  for (std::size_t count = 1; count <= 3; ++count) {
    REQUIRE(log.append(1, "large", context));
    CHECK(entries(folder.path("log")).size() == count);
  }
}

TEST_CASE("an eventlog is made anew, for others to read") {
  TemporaryFolder folder;
  std::string path = folder.file("log", "what was there before\n");
  REQUIRE(EventLog::create(path));
  CHECK(read_file(path).value().empty());
  mode_t mask = ::umask(022);
  auto log = EventLog::create(folder.path("new"));
  ::umask(mask);
  REQUIRE(log);
  struct stat info {};
  REQUIRE(::stat(folder.path("new").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0644);
}

TEST_CASE("an eventlog is not inherited by what the shell starts") {
  TemporaryFolder folder;
  int lowest_free = ::dup(STDOUT_FILENO);
  ::close(lowest_free);
  auto log = EventLog::create(folder.path("log"));
  REQUIRE(log);
  CHECK((::fcntl(lowest_free, F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("an eventlog whose file cannot be made is an error with the option and the path") {
  TemporaryFolder folder;
  auto missing = EventLog::create(folder.path("none/log"));
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ENOENT);
  CHECK(missing.error().message == "--eventlog: " + folder.path("none/log") + ": No such file or directory");
  auto directory = EventLog::create(folder.path(""));
  REQUIRE_FALSE(directory);
  CHECK(directory.error().message == "--eventlog: " + folder.path("") + ": Is a directory");
  auto unnamed = EventLog::create("");
  REQUIRE_FALSE(unnamed);
  CHECK(unnamed.error().message == "--eventlog: : No such file or directory");
}

TEST_CASE("an event that cannot be written is an error with the option and the path") {
  auto log = EventLog::create("/dev/full").value();
  auto appended = log.append(1, "shell.init", Json::object());
  REQUIRE_FALSE(appended);
  CHECK(appended.error().code == ENOSPC);
  CHECK(appended.error().message == "--eventlog: /dev/full: No space left on device");
}

TEST_CASE("an event that does not fit leaves no part of its line") {
  TemporaryFolder folder;
  auto log = EventLog::create(folder.path("log")).value();
  REQUIRE(log.append(1, "first", Json::object()));
  {
    FileSizeLimit limit(100);
    auto appended = log.append(2, "second", {{"filler", std::string(200, 'x')}});
    REQUIRE_FALSE(appended);
    CHECK(appended.error().code == EFBIG);
    CHECK(appended.error().message == "--eventlog: " + folder.path("log") + ": File too large");
  }
  REQUIRE(log.append(3, "third", Json::object()));
  auto written = entries(folder.path("log"));
  REQUIRE(written.size() == 2);
  CHECK(written[0]["name"] == "first");
  CHECK(written[1]["name"] == "third");
}

// The bytes of an exception's note, and of the first words on a link.

TEST_CASE("the texts of an exception's note") {
  CHECK(encode(JobException{"exec", 0, "m", std::nullopt, 7}).note == R"({"message":"m","origin":7})");
  JobException full{"exec", 0, "it \"fails\"", 300, 7, true};
  full.task = nacre::exits::TaskEnd{3, Record::of(WaitStatus::killed(9))};
  CHECK(encode(full).note ==
        R"({"exit_code":44,"message":"it \"fails\"","of_shell":true,"origin":7,"task":{"rank":3,"record":"s)"
        R"(9"}})");
  CHECK(decode(encode(full)).task == full.task);
  // Wrong members are ignored.
  JobException odd = decode(overlay::ExceptionEntry{
      "exec", 0, R"({"message":1,"origin":"x","of_shell":2,"task":{"rank":1},"exit_code":3})"});
  CHECK(odd.origin == 0);
  CHECK_FALSE(odd.of_shell);
  CHECK_FALSE(odd.task);
  CHECK(odd.exit_code == 3);
}

TEST_CASE("the text of the first words") {
  FirstWords words;
  words.version = "1.2";
  words.protocol = 9;
  words.from = 1;
  words.to = 2;
  CHECK(words.text() == R"({"from":1,"nacre":"1.2","protocol":9,"to":2})");
  CHECK(FirstWords::parse(words.text()).value().text() == words.text());
  auto why = [](const char* text) {
    auto read = FirstWords::parse(text);
    return read ? "fine" : read.error().message;
  };
  CHECK(why(R"({"nacre":"1","protocol":1,"from":0,"to":1,"later":[]})") == "fine");
  CHECK(why(R"({"nacre":"1","protocol":1,"from":-1,"to":1})") ==
        "first words.from: expected an integer from 0 to 4294967294, got -1");
  CHECK(why(R"({"nacre":"1","protocol":1,"to":1})") == "first words: missing key 'from'");
  CHECK(why("x").starts_with("first words: not JSON"));
  CHECK(why(fmt::format(R"({{"nacre":"{}","protocol":1,"from":0,"to":1}})", std::string(257, 'x')).c_str()) ==
        "first words: the version is too long");
}
