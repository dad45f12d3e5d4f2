// SPDX-License-Identifier: Apache-2.0
#include "record/places.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/program.hpp"
#include "folder.hpp"
#include "samples.hpp"

using namespace nacre::record;  // NOLINT
using nacre::kit::TemporaryFolder;
using nacre::value::JobId;

namespace {

// A witness for the host `here`, on which process 100 runs.
Witness witness() {
  Witness out;
  out.here = sample_entry(1).place;
  out.start_of = [](std::int64_t pid) { return pid == 100 ? std::optional<std::uint64_t>(5000) : std::nullopt; };
  return out;
}

EntryDirectory directory_in(const TemporaryFolder& folder, std::string_view name = "jobs") {
  auto made = EntryDirectory::make(folder.path(name));
  REQUIRE(made);
  return *std::move(made);
}

JobList list_of(const TemporaryFolder& folder, double now = 2000) {
  return JobList::read({folder.path("jobs"), folder.path("other")}, witness(), now);
}

JobEntry ended_entry(std::uint64_t id, double time, int code = 0) {
  JobEntry out = sample_entry(id);
  out.started = time - 1;
  out.end = EntryEnd{};
  out.end->time = time;
  out.end->code = code;
  return out;
}

std::string found(const JobList& list, std::string_view text) {
  auto job = list.find(text);
  return job ? (*job)->entry.id.decimal() : job.error().message;
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

}  // namespace

TEST_CASE("places: the one that is asked for, or all that are set", "[record]") {
  TemporaryFolder folder;
  std::string home = folder.path("home"), run = folder.path("run");
  std::map<std::string, std::string> set{{"HOME", home}, {"XDG_RUNTIME_DIR", run + "/"}};
  auto variables = [&](const char* name) {
    auto it = set.find(name);
    return it == set.end() ? std::nullopt : std::optional<std::string>(it->second);
  };
  std::string last = nacre::shared_directory() + "/nacre-" + std::to_string(::geteuid()) + "/jobs";
  CHECK(places(variables) == std::vector<std::string>{last});  // neither is there
  std::filesystem::create_directory(home);
  std::filesystem::create_directory(run);
  CHECK(places(variables) ==
        std::vector<std::string>{home + "/.local/state/nacre/jobs", run + "/nacre/jobs", last});
  set["XDG_STATE_HOME"] = "/state";
  set.erase("XDG_RUNTIME_DIR");
  CHECK(places(variables) == std::vector<std::string>{"/state/nacre/jobs", last});
  set["NACRE_JOBS_DIR"] = "/mine";
  CHECK(places(variables) == std::vector<std::string>{"/mine"});
  set = {{"HOME", "relative"}};
  CHECK(places(variables) == std::vector<std::string>{last});
}

TEST_CASE("an entry is for its owner only, and is replaced as a whole", "[record]") {
  TemporaryFolder folder;
  EntryDirectory directory = directory_in(folder, "a/b/jobs");
  CHECK(mode_of(directory.path()) == 0700);
  REQUIRE(directory.write(sample_entry(7)));
  CHECK(mode_of(directory.path_of(JobId(7))) == 0600);
  REQUIRE(directory.write(ended_entry(7, 1500, 3)));
  auto read = directory.read(JobId(7));
  REQUIRE(read);
  CHECK(read->end->code == 3);
  CHECK(directory.names().size() == 1);  // no temporary file is left
  REQUIRE(directory.remove(JobId(7)));
  CHECK(directory.read(JobId(7)).error().code == ENOENT);
}

TEST_CASE("a place that lets others in, or is none, is passed over with its remedy", "[record]") {
  TemporaryFolder folder;
  REQUIRE(::mkdir(folder.path("open").c_str(), 0755) == 0);
  REQUIRE(::chmod(folder.path("open").c_str(), 0755) == 0);
  auto opened = EntryDirectory::open(folder.path("open"));
  REQUIRE_FALSE(opened);
  CHECK(opened.error().message.find("chmod 700") != std::string::npos);
  static_cast<void>(folder.file("file", ""));
  REQUIRE(::symlink(folder.path("open").c_str(), folder.path("link").c_str()) == 0);
  std::vector<std::string> skipped;
  auto chosen = EntryDirectory::choose(
      {folder.path("open"), folder.path("file"), folder.path("link"), folder.path("good")}, &skipped);
  REQUIRE(chosen);
  CHECK(chosen->path() == folder.path("good"));
  CHECK(skipped.size() == 3);
}

TEST_CASE("entries that are garbage are named, and hide no others", "[record]") {
  TemporaryFolder folder;
  EntryDirectory directory = directory_in(folder);
  REQUIRE(directory.write(sample_entry(7)));
  static_cast<void>(folder.file("jobs/f1.json", "{\"entry\": 1"));
  static_cast<void>(folder.file("jobs/f2.json", std::string(100000, ' ')));
  static_cast<void>(folder.file("jobs/f3.json", sample_entry(9).text()));  // this file is of another job
  static_cast<void>(folder.file("jobs/.f4.json.17", "left by a leader that was killed"));
  REQUIRE(::mkfifo(folder.path("jobs/f5.json").c_str(), 0600) == 0);
  REQUIRE(::symlink("/etc/passwd", folder.path("jobs/f6.json").c_str()) == 0);
  JobList list = list_of(folder);
  CHECK(list.jobs.size() == 1);
  REQUIRE(list.warnings.size() == 5);
  for (const std::string& each : list.warnings) CHECK(each.starts_with(folder.path("jobs/f")));
}

TEST_CASE("a job whose leader is gone has vanished; one of another host is not judged", "[record]") {
  TemporaryFolder folder;
  EntryDirectory directory = directory_in(folder);
  JobEntry gone = sample_entry(1);
  gone.pid = 101;
  JobEntry reused = sample_entry(2);
  reused.pid_start = 4999;
  JobEntry booted = sample_entry(3);
  booted.place.boot = "other";
  JobEntry elsewhere = sample_entry(4);
  elsewhere.place.host = "there";
  elsewhere.pid = 101;
  JobEntry contained = sample_entry(5);
  contained.place.pids = 1;
  contained.pid = 101;
  JobEntry runs = sample_entry(6);
  JobEntry without_proc = sample_entry(7);
  without_proc.place.boot.clear();
  JobEntry without_start = sample_entry(8);
  without_start.pid_start = 0;
  for (const JobEntry& each : {gone, reused, booted, elsewhere, contained, runs, without_proc, without_start})
    REQUIRE(directory.write(each));
  JobList list = list_of(folder, 1234);
  std::map<std::uint64_t, std::string_view> states;
  for (const Listed& each : list.jobs) states[each.entry.id.value()] = each.status();
  CHECK(states == std::map<std::uint64_t, std::string_view>{
                      {1, "V"}, {2, "V"}, {3, "V"}, {4, "U"}, {5, "U"}, {6, "R"}, {7, "U"}, {8, "U"}});
  auto written = directory.read(JobId(1));
  REQUIRE(written);
  CHECK(written->end->vanished);
  CHECK(written->end->time == 1234);
  CHECK_FALSE(directory.read(JobId(4))->ended());
}

TEST_CASE("how long a job runs is by its leader's start, where that is known", "[record]") {
  Witness seen = witness();
  seen.since_boot = 1e6;
  JobEntry entry = sample_entry(1);
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  CHECK(time_of(entry, seen, entry.started + 5) == 1e6 - static_cast<double>(entry.pid_start) / ticks);
  entry.pid_start = 0;
  CHECK(time_of(entry, seen, entry.started + 5) == 5);
}

TEST_CASE("this process is there, one that has ended is not", "[record]") {
  Witness own = own_witness();
  JobEntry mine = sample_entry(1);
  mine.place = own.here;
  mine.pid = ::getpid();
  auto start = start_of(::getpid());
  REQUIRE(start);
  mine.pid_start = *start;
  CHECK(leader_of(mine, own) == Leader::there);
  mine.pid_start += 1;
  CHECK(leader_of(mine, own) == Leader::gone);
  pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(start_of(child));  // a zombie
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED) == 0);
}

TEST_CASE("what a leader that was killed has half written is removed after an hour", "[record]") {
  TemporaryFolder folder;
  EntryDirectory directory = directory_in(folder);
  for (const char* each : {".f7.json.17", ".f8.json.18", ".f9.json.19", ".mine.json", "mine.17"})
    static_cast<void>(folder.file(fmt::format("jobs/{}", each), ""));
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  for (const char* each : {".f8.json.18", ".mine.json", "mine.17"})
    REQUIRE(::utimensat(AT_FDCWD, folder.path(fmt::format("jobs/{}", each)).c_str(), old, 0) == 0);
  auto is_there = [&](const char* name) {
    return std::filesystem::exists(folder.path(fmt::format("jobs/{}", name)));
  };
  directory.remove_temporary("f7.json", 17);
  CHECK_FALSE(is_there(".f7.json.17"));
  SECTION("by who lists them") { static_cast<void>(list_of(folder)); }
  SECTION("by who writes") { prune(directory, 2000); }
  CHECK_FALSE(is_there(".f8.json.18"));
  for (const char* each : {".f9.json.19", ".mine.json", "mine.17"}) CHECK(is_there(each));
}

TEST_CASE("jobs that ended long ago, and more than 200, are forgotten", "[record]") {
  TemporaryFolder folder;
  EntryDirectory directory = directory_in(folder);
  double now = 10 * JobList::kKeptFor;
  REQUIRE(directory.write(ended_entry(1, now - JobList::kKeptFor - 1)));
  REQUIRE(directory.write(ended_entry(2, now - JobList::kKeptFor + 1)));
  REQUIRE(directory.write(sample_entry(3)));
  CHECK(list_of(folder, now).jobs.size() == 2);
  CHECK(directory.names().size() == 2);
  for (std::uint64_t id = 10; id < 10 + JobList::kKept; ++id)
    REQUIRE(directory.write(ended_entry(id, now - 1000 + static_cast<double>(id))));
  SECTION("by who lists them") { CHECK(list_of(folder, now).jobs.size() == JobList::kKept + 1); }
  SECTION("by who writes") { prune(directory, now); }
  CHECK(directory.names().size() == JobList::kKept + 1);
  CHECK(directory.read(JobId(2)).error().code == ENOENT);
  CHECK(directory.read(JobId(3)));
}

TEST_CASE("a job that has failed is kept beside 200 that have succeeded since", "[record]") {
  TemporaryFolder folder;
  EntryDirectory directory = directory_in(folder);
  double now = 10 * JobList::kKeptFor;
  REQUIRE(directory.write(ended_entry(1, now - 5000)));
  REQUIRE(directory.write(ended_entry(2, now - 4000, 3)));
  for (std::uint64_t id = 10; id < 10 + JobList::kKept; ++id)
    REQUIRE(directory.write(ended_entry(id, now - 1000 + static_cast<double>(id))));
  SECTION("by who lists them") { CHECK(list_of(folder, now).jobs.size() == JobList::kKept + 1); }
  SECTION("by who writes") { prune(directory, now); }
  CHECK(directory.names().size() == JobList::kKept + 1);
  CHECK(directory.read(JobId(1)).error().code == ENOENT);
  CHECK(directory.read(JobId(2)));
}

TEST_CASE("a job is found by each of its names", "[record]") {
  TemporaryFolder folder;
  EntryDirectory directory = directory_in(folder);
  JobEntry first = sample_entry(0x1234567890abcdef);
  first.started = 1;
  first.name = "train";
  JobEntry second = sample_entry(0x1234567890abcdee);
  second.started = 2;
  second.name = "train";
  second.place.host = "there.cluster";
  second.manager = {"slurm", "12", "4"};
  JobEntry third = ended_entry(0xff, 1999, 1);
  third.name = "other";
  third.manager = {};
  for (const JobEntry& each : {first, second, third}) REQUIRE(directory.write(each));
  JobList list = list_of(folder);
  std::string one = first.id.decimal();
  std::string two = second.id.decimal();
  for (const std::string& form : {first.id.f58(), first.id.f58_plain(), first.id.hex(), first.id.dothex(),
                                  first.id.words(), first.id.emoji(), one})
    CHECK(found(list, form) == one);
  CHECK(found(list, "last") == "255");
  CHECK(found(list, "slurm:12.4") == two);
  CHECK(found(list, "slurm:12").find("any of 2 jobs") != std::string::npos);
  CHECK(found(list, "there/" + second.id.f58_plain()) == two);
  CHECK(found(list, "there.cluster/" + second.id.f58_plain()) == two);
  CHECK(found(list, "here/" + second.id.f58_plain()).find("no such job") != std::string::npos);
  CHECK(found(list, third.id.f58_plain().substr(0, 2)) == "255");
  CHECK(found(list, first.id.f58_plain().substr(0, 6)).find("any of 2 jobs") != std::string::npos);
  CHECK(found(list, "train").find("any of 2 jobs") != std::string::npos);
  CHECK(found(list, "other") == "255");
  CHECK(found(list, "nothing").find("no such job") != std::string::npos);
  CHECK(found(list, "").find("is empty") != std::string::npos);
}

TEST_CASE("a name is that of the job that runs, else of the one that has ended last", "[record]") {
  TemporaryFolder folder;
  EntryDirectory directory = directory_in(folder);
  JobEntry last = ended_entry(0x1234567890abcdee, 1990);
  JobEntry short_one = ended_entry(0x1234567890abcdef, 1980);
  short_one.started = 1985;  // the first to end is not the first to start
  JobEntry other = sample_entry(0x0fff);
  other.name = "other";
  for (const JobEntry& each : {last, short_one, other}) REQUIRE(directory.write(each));
  CHECK(found(list_of(folder), "job") == last.id.decimal());
  JobEntry gone = ended_entry(4, 1995);
  gone.end->vanished = true;
  REQUIRE(directory.write(gone));
  CHECK(found(list_of(folder), "job") == "4");
  JobEntry of_its_id = ended_entry(5, 1900);
  of_its_id.name = other.id.f58_plain().substr(0, 3);  // its name is the beginning of another job's id
  REQUIRE(directory.write(of_its_id));
  CHECK(found(list_of(folder), of_its_id.name) == "5");
  REQUIRE(directory.write(sample_entry(6)));
  CHECK(found(list_of(folder), "job") == "6");
  JobEntry unseen = sample_entry(7);
  unseen.place.host = "there";
  REQUIRE(directory.write(unseen));
  CHECK(found(list_of(folder), "job").find("any of 2 jobs") != std::string::npos);
  CHECK(found(list_of(folder), "there/job") == "7");
  REQUIRE(directory.write(ended_entry(6, 1996)));
  CHECK(found(list_of(folder), "job") == "7");
  CHECK(found(list_of(folder), "here/job") == "6");
}

TEST_CASE("without a name the only job that runs is meant", "[record]") {
  TemporaryFolder folder;
  EntryDirectory directory = directory_in(folder);
  CHECK(list_of(folder).only_one().error().message.starts_with("no job runs"));
  REQUIRE(directory.write(ended_entry(1, 1999)));
  REQUIRE(directory.write(sample_entry(2)));
  auto only = list_of(folder).only_one();
  REQUIRE(only);
  REQUIRE(directory.write(sample_entry(3)));
  CHECK(list_of(folder).only_one().error().message.starts_with("2 jobs run: name one of "));
}

TEST_CASE("a job whose leader is lost runs on, for as long as another one may be chosen", "[record]") {
  TemporaryFolder folder;
  EntryDirectory directory = directory_in(folder);
  JobEntry entry = sample_entry(2);
  entry.takes_over = true;
  entry.pid = 5;  // which has gone
  REQUIRE(directory.write(entry));
  auto lost_at = [&](time_t seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    REQUIRE(::utimensat(AT_FDCWD, directory.path_of(JobId(2)).c_str(), times, 0) == 0);
    return list_of(folder);
  };
  JobList list = lost_at(1990);
  auto only = list.only_one();
  REQUIRE(only);
  CHECK((*only)->status() == "L");
  CHECK_FALSE(directory.read(JobId(2))->ended());  // the next leader writes it
  list = lost_at(1900);
  CHECK(list.only_one().error().message.starts_with("no job runs"));
  CHECK(list.jobs.at(0).status() == "V");
  directory.note_lost(JobId(2));
  CHECK(directory.noted_at("f3.json") > 1e9);
  CHECK(directory.noted_at("none") == 0);
}

TEST_CASE("an end that is written down counts, in whichever place", "[record]") {
  TemporaryFolder folder;
  EntryDirectory directory = directory_in(folder);
  EntryDirectory other = directory_in(folder, "other");
  JobEntry left_behind = sample_entry(2);
  SECTION("its leader is still there") {}
  SECTION("its leader has gone") { left_behind.pid = 101; }
  REQUIRE(directory.write(left_behind));
  REQUIRE(other.write(ended_entry(2, 1999, 4)));
  JobList list = list_of(folder);
  REQUIRE(list.jobs.size() == 1);
  CHECK(list.jobs[0].status() == "F");
}

TEST_CASE("a job's file of output goes with its entry; one without an entry goes when it is old", "[record]") {
  TemporaryFolder folder;
  EntryDirectory directory = directory_in(folder);
  double now = 1e9;
  auto add = [&](const JobId& id) {
    auto file = directory.open_output(id);
    REQUIRE(file);
    REQUIRE(::write(file->get(), "some", 4) == 4);
  };
  JobEntry old = ended_entry(1, now - JobList::kKeptFor - 1);
  JobEntry kept = ended_entry(2, now - JobList::kKeptFor + 1);
  for (const JobEntry& each : {old, kept}) {
    REQUIRE(directory.write(each));
    add(each.id);
  }
  JobId lone(3);
  add(lone);
  add(lone);  // to what is there
  CHECK(mode_of(folder.path("jobs/" + lone.f58_plain() + ".out")) == 0600);
  CHECK(list_of(folder, now).jobs.size() == 1);
  CHECK(directory.read_output(old.id).error().code == ENOENT);
  CHECK(directory.read_output(kept.id));
  auto file = directory.read_output(lone);
  REQUIRE(file);
  CHECK(::lseek(file->get(), 0, SEEK_END) == 8);
  directory.remove_outputs(3600);
  CHECK(directory.read_output(lone));
  directory.remove_outputs(-1);
  CHECK(directory.read_output(lone).error().code == ENOENT);
  CHECK(directory.read_output(kept.id));
  REQUIRE(directory.remove(kept.id));
  CHECK(directory.read_output(kept.id).error().code == ENOENT);
}

TEST_CASE("what is in the place of a file of output is not followed", "[record]") {
  TemporaryFolder folder;
  EntryDirectory directory = directory_in(folder);
  JobId id(7);
  std::string path = folder.path("jobs/" + id.f58_plain() + ".out");
  REQUIRE(::symlink(folder.file("others", "precious").c_str(), path.c_str()) == 0);
  CHECK_FALSE(directory.open_output(id));
  CHECK_FALSE(directory.read_output(id));
}
