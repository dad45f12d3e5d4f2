// SPDX-License-Identifier: Apache-2.0
//
// How processes end, and the effects on others.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "served.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::pmix;  // NOLINT

namespace {

using Texts = std::vector<std::string>;
const Json kTolerant = {{"fault-tolerance", 1}};
constexpr const char* kRemedy = "; -o fault-tolerance lets the others go on";

bool has(const Texts& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// A child that waits to be ended, in a process group of its own as tasks are.
struct Sleeper {
  Sleeper() : pid(::fork()) {
    if (pid == 0) {
      ::signal(SIGTERM, SIG_DFL);
      for (;;) ::pause();
    }
    ::setpgid(pid, pid);
  }
  ~Sleeper() {
    if (pid > 0) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
  }
  // The signal that has ended it; 0 if it is not going to end.
  int signal() {
    int status = 0;
    for (int i = 0; i < 3000 && ::waitpid(pid, &status, WNOHANG) == 0; ++i) ::usleep(10000);
    pid = WIFSIGNALED(status) ? 0 : pid;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  bool runs() const { return ::waitpid(pid, nullptr, WNOHANG) == 0; }
  pid_t pid;
};

}  // namespace

// ---- without fault tolerance -----------------------------------------------------------------

TEST_CASE("who never was a client, or has finalized, may end as it likes, but by a signal") {
  Served job(3);
  job.start();
  job.exit(0, 3);
  job.connect(1);
  job.finalize(1);
  job.exit(1, 5);
  CHECK(job.raised().empty());
  CHECK(job.answers.statuses == std::vector<pmix_status_t>{PMIX_SUCCESS, PMIX_SUCCESS});
  job.connect(2);
  job.finalize(2);
  job.die(2, SIGSEGV);
  CHECK(job.raised() == Texts{std::string("139: rank 2 on fake0 was killed by signal 11 (Segmentation fault) after "
                                          "PMIx_Finalize") +
                              kRemedy});
}

TEST_CASE("who ends as a client ends the job with its status, and never with 0; by a signal at any time") {
  struct Case {
    bool connects;
    value::WaitStatus status;
    std::string raised;
  };
  for (const Case& each :
       {Case{true, value::WaitStatus::exited(0),
             "1: rank 1 on fake0 exited with code 0 after PMIx_Init, without PMIx_Finalize"},
        Case{true, value::WaitStatus::exited(3),
             "3: rank 1 on fake0 exited with code 3 after PMIx_Init, without PMIx_Finalize"},
        Case{true, value::WaitStatus::killed(SIGKILL),
             "137: rank 1 on fake0 was killed by signal 9 (Killed) after PMIx_Init, without PMIx_Finalize"},
        Case{false, value::WaitStatus::killed(SIGTERM),
             "143: rank 1 on fake0 was killed by signal 15 (Terminated) before PMIx_Init"}}) {
    Served job(2);
    job.start();
    job.connect(each.connects ? 1 : 0);
    job.end(1, each.status);
    CHECK(job.raised() == Texts{each.raised + kRemedy});
    CHECK(job.server->notices.empty());
  }
}

TEST_CASE("one that is killed before any has called PMIx_Init is no loss, unless another calls it later") {
  Served job(3);
  job.start();
  job.end(1, value::WaitStatus::killed(SIGKILL));
  job.exit(2, 3);
  CHECK(job.raised().empty());
  job.connect(0);
  CHECK(job.raised() ==
        Texts{std::string("137: rank 1 on fake0 was killed by signal 9 (Killed) before PMIx_Init") + kRemedy});
}

TEST_CASE("fault-tolerance: one that is killed before PMIx_Init is no loss, also if another calls it later") {
  Served tolerant(2, kTolerant);
  tolerant.start();
  tolerant.end(1, value::WaitStatus::killed(SIGKILL));
  tolerant.connect(0);
  CHECK(tolerant.raised().empty());
}

TEST_CASE("what a client has said before its end counts also where the service looks only then") {
  Served job(2);
  job.start();
  job.post_connected(0);
  job.post_finalized(0);
  job.exit(0, 0);
  CHECK(job.raised().empty());
  job.post_connected(1);
  job.exit(1, 0);
  CHECK(job.raised().size() == 1);
}

TEST_CASE("of several that end at once the first is the reason; the others are its consequence") {
  Served job(3);
  job.start();
  for (pmix_rank_t rank : {0, 1, 2}) job.connect(rank);
  job.die(2, SIGSEGV);
  job.die(0, SIGTERM);
  job.exit(1, 0);
  REQUIRE(job.raised().size() == 1);
  CHECK(job.raised()[0].starts_with("139: rank 2 "));
}

// ---- abort -----------------------------------------------------------------------------------

TEST_CASE("an abort ends the job with the client's code and words, with fault-tolerance too, and never with 0") {
  struct Case {
    int code;
    const char* message;
    std::string raised;
  };
  for (const Json& options : {Json::object(), kTolerant}) {
    for (const Case& each :
         {Case{7, "cannot go on", "7: rank 1 on fake0 called PMIx_Abort with code 7: cannot go on"},
          Case{0, "N/A", "1: rank 1 on fake0 called PMIx_Abort with code 0"},
          Case{256, "", "255: rank 1 on fake0 called PMIx_Abort with code 256"},
          Case{300, nullptr, "44: rank 1 on fake0 called PMIx_Abort with code 300"},
          Case{-1, "N/A", "255: rank 1 on fake0 called PMIx_Abort with code -1"}}) {
      Served job(2, options);
      job.start();
      job.connect(1);
      job.abort(1, each.code, each.message);
      CHECK(job.raised() == Texts{each.raised});
      CHECK(job.answers.statuses.back() == PMIX_SUCCESS);
      // Its end after that is not reported.
      job.exit(1, 3);
      CHECK(job.raised().size() == 1);
    }
  }
}

TEST_CASE("an abort by a process that is none of the job's is refused") {
  Served job(1);
  job.start();
  job.abort(5, 3);
  CHECK(job.raised().empty());
  CHECK(job.answers.statuses == std::vector<pmix_status_t>{PMIX_ERR_NOT_FOUND});
}

TEST_CASE("fault-tolerance: an abort of some ends those, the others go on; without it, all") {
  bool tolerant = GENERATE(true, false);
  Sleeper named, other;
  Served job(3, tolerant ? kTolerant : Json::object());
  job.pids = {{1, named.pid}, {2, other.pid}};
  job.start();
  for (pmix_rank_t rank : {0, 1, 2}) job.connect(rank);
  job.abort(0, 4, "enough", {1});
  CHECK(job.answers.statuses.back() == PMIX_SUCCESS);
  CHECK(other.runs());
  if (tolerant) {
    CHECK(named.signal() == SIGKILL);
    CHECK(job.raised().empty());
    CHECK(has(job.logged("notice"), "rank 0 on fake0 called PMIx_Abort for 1 others with code 4: enough"));
  } else {
    CHECK(named.runs());  // the shell ends the tasks, in order
    CHECK(job.raised() == Texts{"4: rank 0 on fake0 called PMIx_Abort with code 4: enough"});
  }
}

TEST_CASE("fault-tolerance: an abort that names all others ends the job") {
  Served job(3, kTolerant);
  job.start();
  for (pmix_rank_t rank : {0, 1, 2}) job.connect(rank);
  job.abort(0, 4, "enough", {1, 2});
  CHECK(job.raised() == Texts{"4: rank 0 on fake0 called PMIx_Abort with code 4: enough"});
}

// ---- fault tolerance -------------------------------------------------------------------------

TEST_CASE("fault-tolerance: the others are told of one that is lost, by the codes that they may ask for") {
  Served job(3, kTolerant);
  job.start();
  for (pmix_rank_t rank : {0, 1, 2}) job.connect(rank);
  job.exit(1, 3);
  using Notices = std::vector<FakeServer::Notice>;
  CHECK(job.server->notices == Notices{{PMIX_EVENT_PROC_TERMINATED, 1, 3}, {PMIX_ERR_PROC_TERM_WO_SYNC, 1, 3}});
  job.server->notices.clear();
  job.die(2, SIGKILL);
  CHECK(job.server->notices == Notices{{PMIX_EVENT_PROC_TERMINATED, 2, 137},
                                       {PMIX_ERR_PROC_TERM_WO_SYNC, 2, 137},
                                       {PMIX_ERR_PROC_ABORTED_BY_SIG, 2, 137},
                                       {PMIX_ERR_PROC_ABORTED, 2, 137}});
  job.server->notices.clear();
  job.finalize(0);
  job.exit(0, 7);
  CHECK(job.server->notices.empty());
  CHECK(job.raised().empty());
  CHECK(has(job.logged("notice"),
            "rank 1 on fake0 exited with code 3 after PMIx_Init, without PMIx_Finalize; the others go on"));
}

TEST_CASE(
    "fault-tolerance: for who ended before it had a connection somebody stands in, unless it comes after all") {
  Served job(3, kTolerant, 1, {.late_connection = 0.05, .answer = 60});
  std::ofstream(job.directory + "/pmix-stand-in")
      << "#!/bin/sh\necho $PMIX_NAMESPACE.$PMIX_RANK > " << job.directory << "/stood-in\n";
  std::filesystem::permissions(job.directory + "/pmix-stand-in", std::filesystem::perms::owner_all);
  job.start();
  job.exit(0, 0);
  job.exit(1, 0);
  job.exit(2, 0);
  job.connect(1);  // the connection was under way
  pmix_proc_t lost = proc_of("nacre-1", 2);
  job.service->ends().connection_lost(lost);
  CHECK_FALSE(has(job.server->calls, "forget nacre-1.0"));
  REQUIRE(job.host.serve([&] { return has(job.server->calls, "forget nacre-1.0"); }));
  CHECK_FALSE(has(job.server->calls, "forget nacre-1.1"));
  CHECK_FALSE(has(job.server->calls, "forget nacre-1.2"));
  process_forgotten(PMIX_SUCCESS, new pmix_proc_t(proc_of("nacre-1", 0)));
  job.read();
  CHECK(job.server->calls.back() == "add_process nacre-1.0");
  REQUIRE(job.host.serve([&] { return std::filesystem::exists(job.directory + "/stood-in"); }));
  REQUIRE(job.host.serve([&] { return read_file(job.directory + "/stood-in").value_or("") == "nacre-1.0\n"; }));
  CHECK(job.raised().empty());
  // A second call has no effect.
  std::size_t calls = job.server->calls.size();
  process_forgotten(PMIX_SUCCESS, new pmix_proc_t(proc_of("nacre-1", 0)));
  job.read();
  CHECK(job.server->calls.size() == calls);
}

TEST_CASE("fault-tolerance: that nobody can stand in is said") {
  Served job(2, kTolerant, 1, {.late_connection = 0.01, .answer = 60});
  job.start();
  job.exit(0, 0);
  REQUIRE(job.host.serve([&] { return has(job.server->calls, "forget nacre-1.0"); }));
  job.server->errors["add_process"] = "no more";
  process_forgotten(PMIX_SUCCESS, new pmix_proc_t(proc_of("nacre-1", 0)));
  job.read();
  CHECK(job.logged("warn") == Texts{"no more; collective operations that wait for rank 0 will not end"});
}

TEST_CASE("fault-tolerance: if libpmix never forgets who died while connecting the job ends, and never with 0") {
  Served job(2, kTolerant, 1, {.late_connection = 0.01, .answer = 0.02});
  job.start();
  SECTION("by a signal") {
    job.die(0, SIGKILL);
    REQUIRE(job.host.serve([&] { return !job.host.exceptions.empty(); }));
    CHECK(job.raised()[0].starts_with("137: rank 0 died while it was connecting"));
  }
  SECTION("by an exit with 0") {
    job.exit(0, 0);
    REQUIRE(job.host.serve([&] { return !job.host.exceptions.empty(); }));
    CHECK(job.raised()[0].starts_with("1: rank 0 died while it was connecting"));
  }
  job.service->stop();
  CHECK(job.server->calls.back() == "abandon");
}

TEST_CASE("fault-tolerance: libpmix is told how many connections are left, once for each that is lost") {
  Served job(3, kTolerant);
  job.start();
  for (pmix_rank_t rank : {0, 1, 2}) job.connect(rank);
  pmix_proc_t first = proc_of("nacre-1", 1), second = proc_of("nacre-1", 0), other = proc_of("nacre-1", 9);
  job.service->ends().connection_lost(first);
  job.service->ends().connection_lost(other);
  CHECK_FALSE(has(job.server->calls, "count_again nacre-1 2"));  // libpmix has counted that process itself
  job.service->ends().connection_lost(first);
  CHECK(job.server->calls.back() == "count_again nacre-1 2");
  job.service->ends().connection_lost(second);
  job.service->ends().connection_lost(second);
  CHECK(job.server->calls.back() == "count_again nacre-1 1");
}

TEST_CASE("while the job is being ended who ends is no news") {
  Served job(3, kTolerant);
  job.start();
  for (pmix_rank_t rank : {0, 1, 2}) job.connect(rank);
  job.abort(0, 3);
  job.die(1, SIGTERM);
  job.exit(2, 0);
  CHECK(job.raised().size() == 1);
  CHECK(job.server->notices.empty());
  CHECK_FALSE(job.host.next_timer());  // no process is going to stand in
}

// ---- several nodes ---------------------------------------------------------------------------

TEST_CASE(
    "a lost node: with fault-tolerance its processes count as killed, but those that had ended; without it "
    "nothing") {
  bool tolerant = GENERATE(true, false);
  Served job(2, tolerant ? kTolerant : Json::object(), 3);
  job.start();
  PeerMessage ended{.kind = PeerMessage::Kind::ended, .shell = 1, .rank = 3, .texts = {"nacre-1"}};
  std::string bytes = encode(ended);
  flux_t* handle = flux_shell_get_flux(job.plugin->shell.get());
  flux_future_destroy(flux_event_publish_raw(handle, "nacre-pmix", 0, bytes.data(), bytes.size()));
  job.host.serve([&] { return job.service->peers().has_ended(3); });
  job.service->ends().shell_lost(1);
  job.service->ends().shell_lost(17);  // there is no such shell
  std::vector<pmix_rank_t> told;
  for (const auto& notice : job.server->notices) {
    CHECK(notice.exit_code == 128 + SIGKILL);
    if (notice.code == PMIX_EVENT_PROC_TERMINATED) told.push_back(notice.rank);
  }
  CHECK(told == (tolerant ? std::vector<pmix_rank_t>{2} : std::vector<pmix_rank_t>()));
  CHECK(job.service->peers().has_ended(2));
  CHECK_FALSE(job.service->peers().has_ended(4));
  CHECK(job.raised().empty());
}

TEST_CASE("fault-tolerance: the other nodes are told of one that is lost here") {
  Served job(2, kTolerant, 2);
  job.start();
  job.connect(1);
  job.said.clear();
  job.die(1, SIGKILL);
  std::size_t ended = 0, events = 0;
  REQUIRE(job.host.serve([&] { return !job.said.empty(); }));
  for (const std::string& text : job.said) {
    for (PeerMessage::Kind kind : {PeerMessage::Kind::ended, PeerMessage::Kind::event}) {
      PeerMessage message{.kind = kind, .shell = 0, .rank = 1, .texts = {}};
      std::string start =
          encode(message).substr(0, 1 + 8 + 4 + 4);  // its kind, of which start, who says it, to whom
      bool found = text.find(start) != std::string::npos && text.find("nacre-1") != std::string::npos;
      (kind == PeerMessage::Kind::ended ? ended : events) += found ? 1 : 0;
    }
  }
  CHECK(ended == 1);
  CHECK(events == 4);
}
