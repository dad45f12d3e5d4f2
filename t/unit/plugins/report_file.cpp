// SPDX-License-Identifier: Apache-2.0
//
// The plugin exit-report: where its report goes, and what its options take.
#include <fcntl.h>
#include <unistd.h>

#include "base/file.hpp"
#include "exits/job_end.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;
using Lines = std::vector<std::string>;

TEST_CASE("a report that cannot be written is refused; one that cannot be any more is a warning") {
  kit::TemporaryFolder folder;
  const std::string path = folder.path("sub") + "/report.json";
  kit::FakeHost host(1);
  host.stack().push(plugins::make_exit_report(host));
  host.options().set("report", path);
  auto called = host.call("shell.init");
  REQUIRE_FALSE(called);
  CHECK(called.error().message ==
        "plugin 'exit-report': shell.init: report: " + path + ": No such file or directory");
  std::filesystem::create_directory(folder.path("sub"));
  REQUIRE(host.call("shell.init"));
  std::filesystem::remove(folder.path("sub"));
  host.ended(exits::summary({}, {}, exits::Policy::max(), 0));
  CHECK(host.logged ==
        Lines{"warn exit-report: report: " + path + ": No such file or directory: the report is not written"});
}

TEST_CASE("a report to a link is written to what it names, and the link stays") {
  kit::TemporaryFolder folder;
  std::filesystem::create_symlink("there", folder.path("link"));
  kit::FakeHost host(1);
  host.stack().push(plugins::make_exit_report(host));
  host.options().set("report", folder.path("link"));
  REQUIRE(host.call("shell.init"));
  host.ended(exits::summary({}, {}, exits::Policy::max(), 0));
  CHECK(std::filesystem::is_symlink(folder.path("link")));
  CHECK(parse_json(*read_file(folder.path("there"))).value()["exit"]["code"] == 0);
}

TEST_CASE(
    "a leader that is cut off leaves the report that the next one has written, and writes its own where there is "
    "none") {
  kit::TemporaryFolder folder;
  const std::string path = folder.path("report.json");
  for (const bool is_there : {false, true}) {
    kit::FakeHost host(1);
    host.stack().push(plugins::make_exit_report(host));
    host.options().set("report", path);
    std::filesystem::rename(folder.file("old", "of a job before"), path);
    REQUIRE(host.call("shell.init"));
    if (is_there) std::filesystem::rename(folder.file("new", "of the next leader"), path);
    host.cut_off = true;
    host.ended(exits::summary({}, {}, exits::Policy::max(), 1));
    CHECK(read_file(path).value().starts_with(is_there ? "of the next leader" : "{"));
    CHECK(host.logged == (is_there ? Lines{"warn exit-report: report: " + path +
                                           ": another shell, which has led the job since, has written it: the "
                                           "report is not written"}
                                   : Lines{}));
  }
}

TEST_CASE("a report to a descriptor is read by who is slow, and held for that") {
  Pipe pipe = *make_pipe(O_CLOEXEC);
  kit::FakeHost host(1);
  host.stack().push(plugins::make_exit_report(host));
  host.options().set("report", pipe.write.release());
  REQUIRE(host.call("shell.init"));
  exits::Outcomes outcomes;
  for (std::uint32_t rank = 0; rank < 20000; ++rank)
    outcomes.add(value::Idset::range(2 * rank, 2 * rank),
                 *exits::Record::parse("x" + std::to_string(1 + rank % 200)));
  host.ended(exits::summary({}, outcomes, exits::Policy::max(), 200));
  CHECK(host.holds == std::map<std::string, int>{{"report", 1}});
  std::string text;
  char bytes[4096];
  auto read_some = [&] {
    ssize_t got = ::read(pipe.read.get(), bytes, sizeof bytes);
    if (got > 0) text.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  };
  REQUIRE(::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK) == 0);
  REQUIRE(host.serve([&] { return !read_some() && host.holds.empty(); }));
  while (read_some()) {
  }
  Json report = parse_json(text).value();
  CHECK(report["exit"]["code"] == 200);
  CHECK_FALSE(report.contains("file"));
}

TEST_CASE("exit-report and report take what they say") {
  for (const Json& option : {Json("much"), Json::array()}) {
    kit::FakeHost host;
    host.stack().push(plugins::make_exit_report(host));
    host.options().set("exit-report", option);
    auto called = host.call("shell.init");
    REQUIRE_FALSE(called);
    CHECK(called.error().message.find("expected off, line or full") != std::string::npos);
  }
  for (const Json& option : {Json(999), Json(-1), Json(""), Json::array()}) {
    kit::FakeHost host;
    host.stack().push(plugins::make_exit_report(host));
    host.options().set("report", option);
    CHECK_FALSE(host.call("shell.init"));
  }
}
