// SPDX-License-Identifier: Apache-2.0
#include "doctor/pace.hpp"

#include <random>

#include "catch.hpp"

#include "base/json.hpp"
#include "doctor/findings.hpp"

using namespace nacre;
using doctor::NodePace;

namespace {

// Four tasks, each with its share of a cpu, and the share of time in which it was ready to run.
NodePace node(std::uint32_t shell, double cpu, double ready, double bytes = 0) {
  NodePace out;
  out.shell = shell;
  out.host = "n" + std::to_string(shell);
  for (std::uint32_t i = 0; i < 4; ++i) {
    doctor::TaskGroup group;
    group.ranks.insert(shell * 4 + i);
    group.cpu.add(cpu);
    group.ready.add(ready);
    if (bytes > 0) group.bytes.add(bytes + 100 * i);
    out.add(group);
  }
  return out;
}

std::string slow(const std::vector<NodePace>& nodes) {
  std::string out;
  for (const auto& each : doctor::slow_nodes(nodes)) out += (out.empty() ? "" : " ") + each.node->host;
  return out;
}

}  // namespace

TEST_CASE("a node whose tasks get far less of the cpu time that they could use is slow") {
  CHECK(slow({node(0, 1, 0), node(1, 0.4, 0.6)}) == "n1");
  CHECK(slow({node(0, 1, 0.02), node(1, 0.5, 0.5), node(2, 0.98, 0)}) == "n1");
  auto found = doctor::slow_nodes({node(0, 0.98, 0.02), node(1, 0.4, 0.6)});
  REQUIRE(found.size() == 1);
  CHECK(found[0].evidence ==
        "they get 40 % of the cpu time that they could use, those of the other nodes at least 98 %, so others use "
        "its cpus too");
}

TEST_CASE("no node is slow as all are, as none wants much, or as it is not clear") {
  CHECK(slow({}).empty());
  CHECK(slow({node(0, 0.4, 0.6)}).empty());
  CHECK(slow({node(0, 0.4, 0.6), node(1, 0.4, 0.6)}).empty());
  CHECK(slow({node(0, 1, 0), node(1, 0.1, 0.2)}).empty());        // node 1's tasks want little cpu
  CHECK(slow({node(0, 0.01, 0), node(1, 0.4, 0.6)}).empty());     // node 0's tasks want little cpu
  CHECK(slow({node(0, 0.85, 0.15), node(1, 0.5, 0.5)}).empty());  // node 0 is not well either
  CHECK(slow({node(0, 1, 0), node(1, 0.4, 0.6), node(2, 0.4, 0.6)}).empty());
  NodePace unknown = node(1, 0.4, 0);
  unknown.ready = {};
  CHECK(slow({node(0, 1, 0), unknown}).empty());
}

TEST_CASE("a node each of whose tasks has written far less than all others is slow") {
  CHECK(slow({node(0, 0, 0, 90'000), node(1, 0, 0, 40'000), node(2, 0, 0, 92'000)}) == "n1");
  auto found = doctor::slow_nodes({node(0, 0, 0, 90'000), node(1, 0, 0, 40'000), node(2, 0, 0, 92'000)});
  CHECK(found[0].evidence == "they have written 39 KiB each so far, those of the other nodes 88 to 90 KiB");
  CHECK(slow({node(0, 0, 0, 90'000), node(1, 0, 0, 40'000)}).empty());                         // two are too few
  CHECK(slow({node(0, 0, 0, 90'000), node(1, 0, 0, 80'000), node(2, 0, 0, 92'000)}).empty());  // not far
  CHECK(slow({node(0, 0, 0, 900), node(1, 0, 0, 100), node(2, 0, 0, 920)}).empty());           // too little
  CHECK(slow({node(0, 0, 0, 90'000), node(1, 0, 0, 40'000), node(2, 0, 0, 41'000)}).empty());  // too many
  CHECK(slow({node(0, 0, 0, 90'000), node(1, 0, 0, 40'000), node(2, 0, 0)}).empty());          // not known of all
  std::vector<NodePace> six;
  for (std::uint32_t i = 0; i < 6; ++i) six.push_back(node(i, 0, 0, i < 2 ? 30'000 : 90'000));
  CHECK(slow(six) == "n0 n1");
}

TEST_CASE("the verdict names the node and its ranks") {
  doctor::Examination examination;
  examination.tasks = 8;
  examination.interval = 1;
  examination.nodes = {node(0, 1, 0), node(1, 0.4, 0.6)};
  auto verdicts = doctor::verdicts(examination);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].json()["kind"] == "slow-node");
  CHECK(verdicts[0].ranks.str() == "4-7");
  CHECK(verdicts[0].text == "n1 is slow: its 4 tasks get on more slowly than others");
}

using doctor::PaceWindow;
using doctor::SlowFinder;
using doctor::SlowFinding;
using doctor::TaskPace;

namespace {

constexpr std::uint32_t kHosts = 4, kTasks = 4;  // of each host
constexpr double kWindow = 30;

// A job of made-up tasks: the measurements of each task in each window.
struct Job {
  std::mt19937 random;
  std::uint32_t hosts = kHosts;

  double noise(double share) { return std::exp(std::normal_distribution<double>(0, share)(random)); }
  bool happens(double share) { return std::bernoulli_distribution(share)(random); }
  // A task that counts `rate` steps a second, wants `busy` of a cpu, and gets the share `served` of that.
  TaskPace task(double rate, double busy, double served = 1) {
    TaskPace out;
    out.rate = rate * noise(0.05);
    const double wanted = busy * noise(0.05);
    out.cpu = wanted * served * (1 - 0.02 * noise(0.5));
    out.ready = wanted - *out.cpu;
    out.bytes = std::floor(*out.rate * kWindow * 80);
    return out;
  }
};
using Does = std::function<TaskPace(Job& job, std::uint32_t host, std::uint32_t rank, int window)>;

std::map<std::uint32_t, SlowFinder::Host> window_of(Job& job, const Does& does, int window) {
  std::map<std::uint32_t, SlowFinder::Host> out;
  for (std::uint32_t host = 0; host < job.hosts; ++host) {
    SlowFinder::Host& each = out[host];
    each.name = "n" + std::to_string(host);
    each.window.seconds = kWindow;
    for (std::uint32_t i = 0; i < kTasks; ++i) {
      TaskPace pace = does(job, host, host * kTasks + i, window);
      pace.rank = host * kTasks + i;
      if (pace.cpu) each.window.tasks.push_back(pace);
    }
  }
  return out;
}

// What is said within this many windows, a line each, with the window, from 1, before it.
std::vector<std::string> said(SlowFinder& finder, Job& job, const Does& does, int windows, int from = 1) {
  std::vector<std::string> out;
  for (int i = from; i < from + windows; ++i) {
    for (const SlowFinding& each : finder.add(window_of(job, does, i)))
      out.push_back(std::to_string(i) + ": " + each.text("step"));
  }
  return out;
}
std::vector<std::string> said(unsigned seed, const Does& does, int windows = 20) {
  SlowFinder finder;
  Job job{std::mt19937(seed)};
  return said(finder, job, does, windows);
}

// The share of the window in which a task works; then it waits for the slowest.
double synchronous(double own, double slowest) { return 0.95 * own / slowest; }

// Each rank's share of the work of the busiest rank, drawn anew for each job.
std::vector<double> shares_of_work(unsigned seed) {
  Job job{std::mt19937(seed + 1000)};
  std::vector<double> out(kHosts * kTasks);
  for (double& each : out) each = job.noise(0.3);
  const double most = *std::max_element(out.begin(), out.end());
  for (double& each : out) each /= most;
  return out;
}

std::string text_of(doctor::PaceMeasure measure, double own, double others, bool is_host, value::Idset ranks) {
  SlowFinding out;
  out.host = "n3";
  out.measure = measure;
  out.own = own;
  out.others = others;
  out.is_host = is_host;
  out.ranks = std::move(ranks);
  out.window = 30.02;
  return out.text("step");
}

// Checks healthy jobs of these seeds.
void check_healthy(unsigned first, unsigned last) {
  struct Kind {
    const char* name;
    std::function<Does(unsigned seed)> make;
  };
  const auto plain = [](auto does) { return [does](unsigned) { return Does(does); }; };
  const Kind kKinds[] = {
      {"each rank by itself, with noise",
       plain([](Job& job, auto, auto, int) { return job.task(0.2 * job.noise(0.2), 0.95); })},
      {"phases: compute, then all do i/o", plain([](Job& job, auto, auto, int window) {
         return window / 3 % 2 == 0 ? job.task(0.2, 0.95) : job.task(0.01, 0.1 * job.noise(0.5));
       })},
      {"one rank does i/o and the others wait for it now and then",
       plain([](Job& job, auto, auto rank, int window) {
         if (window % 4 != 0) return job.task(0.2, 0.9);
         return rank == 5 ? job.task(0.1, 0.2) : job.task(0.1, 0.4);
       })},
      {"rank 0 prints more, and computes more", plain([](Job& job, auto, auto rank, int) {
         TaskPace out = job.task(0.2, rank == 0 ? 0.98 : 0.55);
         if (rank == 0) *out.bytes += 500'000;
         return out;
       })},
      {"only rank 0 counts", plain([](Job& job, auto, auto rank, int) {
         TaskPace out = job.task(0.2, 0.9);
         if (rank != 0) out.rate.reset();
         return out;
       })},
      {"the start: hosts read their data one after the other", plain([](Job& job, auto host, auto, int window) {
         return window < 1 + static_cast<int>(host % 3) ? job.task(1e-6, 0.2 * job.noise(0.5))
                                                        : job.task(0.2, 0.95);
       })},
      {"the end: ranks end, one after the other", plain([](Job& job, auto, auto rank, int window) {
         if (static_cast<int>((rank * 7) % 16) < window - 5) return TaskPace();
         return job.task(0.2, 0.95);
       })},
      {"uneven by design: every rank has its own share of the work, and all wait",
       [](unsigned seed) {
         return Does([shares = shares_of_work(seed)](Job& job, auto, auto rank, int) {
           return job.task(0.2, synchronous(shares[rank], 1));
         });
       }},
      {"uneven by design: every other rank does twice the work", plain([](Job& job, auto, auto rank, int) {
         return rank % 2 == 0 ? job.task(0.2, 0.95) : job.task(0.2, 0.5);
       })},
      {"barriers: all spin in MPI, and any host is late now and then", plain([](Job& job, auto, auto, int window) {
         return job.task(0.2, 1, window % 2 == 0 && job.happens(0.1) ? 0.5 : 1);
       })},
      {"all hosts have more tasks than cpus",
       plain([](Job& job, auto, auto, int) { return job.task(0.2 * job.noise(0.1), 1, 0.5 * job.noise(0.1)); })},
      {"idle: all wait for what comes now and then",
       plain([](Job& job, auto, auto, int) { return job.task(0.001, 0.02 * job.noise(1)); })},
  };
  for (const Kind& kind : kKinds) {
    INFO(kind.name);
    for (unsigned seed = first; seed <= last; ++seed)
      CHECK(said(seed, kind.make(seed)) == std::vector<std::string>());
  }
}

void check_found(unsigned first, unsigned last) {
  struct Kind {
    const char* name;
    Does does;
    const char* starts;
  };
  const Kind kKinds[] = {
      {"each by itself, a host counts half as fast",
       [](Job& job, auto host, auto, int) { return job.task(host == 3 ? 0.08 : 0.16, 0.95); },
       "n3 is slow: its ranks 12-15 do "},
      {"all wait for a host that computes longer",
       [](Job& job, auto host, auto, int) { return job.task(0.1, synchronous(host == 3 ? 2 : 1, 2)); },
       "n3 is slow: its ranks 12-15 keep 0.9"},
      {"cpu.max: a host gets half of what it wants, and all wait for it",
       [](Job& job, auto host, auto, int) { return job.task(0.1, host == 3 ? 0.95 : 0.5, host == 3 ? 0.5 : 1); },
       "n3 is slow: its ranks 12-15 get "},
      {"the same where all spin in MPI",
       [](Job& job, auto host, auto, int) { return job.task(0.1, 1, host == 3 ? 0.5 : 1); },
       "n3 is slow: its ranks 12-15 get "},
      {"a task by itself counts half as fast",
       [](Job& job, auto, auto rank, int) { return job.task(rank == 9 ? 0.08 : 0.16, 0.95); },
       "rank 9 on n2 is slow: it does "},
      {"a task shares its core with another process",
       [](Job& job, auto, auto rank, int) { return job.task(0.1, 1, rank == 9 ? 0.5 : 1); },
       "rank 9 on n2 is slow: it gets "},
  };
  for (const Kind& kind : kKinds) {
    INFO(kind.name);
    for (unsigned seed = first; seed <= last; ++seed) {
      auto lines = said(seed, kind.does, 8);
      REQUIRE(lines.size() == 1);
      CHECK(lines[0].starts_with(std::string("3: ") + kind.starts));
      CHECK(lines[0].ends_with("(3 windows of 30 s)"));
    }
  }
}

}  // namespace

TEST_CASE("of healthy jobs nothing is said") { check_healthy(0, 1); }
TEST_CASE("a slow host or task, and one that is kept from running, is found within four windows") {
  check_found(0, 1);
}
TEST_CASE("the same of more jobs", "[long]") {
  check_healthy(2, 21);
  check_found(2, 21);
}

TEST_CASE("of two hosts, and where each has one task, a slow one is found") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    SlowFinder finder;
    Job job{std::mt19937(seed), 2};
    auto lines = said(
        finder, job, [](Job& of, auto host, auto, int) { return of.task(host == 0 ? 0.05 : 0.1, 0.9); }, 4);
    CHECK(lines.size() == 1);
    CHECK(lines.at(0).starts_with("3: n0 is slow: its ranks 0-3 do "));
    SlowFinder single;
    auto alone = [](Job& of, auto host, auto rank, int) {
      return rank % kTasks != 0 ? TaskPace() : of.task(0.1, host == 1 ? 0.95 : 0.4, host == 1 ? 0.4 : 1);
    };
    job.hosts = 3;
    lines = said(single, job, alone, 4);
    CHECK(lines.size() == 1);
    CHECK(lines.at(0).starts_with("3: n1 is slow: its rank 4 gets "));
  }
}

TEST_CASE("it is said once, and when it is over, three times at most") {
  SlowFinder finder;
  Job job{std::mt19937(1)};
  auto slow = [](Job& of, auto host, auto, int) { return of.task(host == 3 ? 0.08 : 0.16, 0.95); };
  auto well = [](Job& of, auto, auto, int) { return of.task(0.16, 0.95); };
  CHECK(said(finder, job, slow, 10).size() == 1);
  CHECK(said(finder, job, well, 2).empty());
  CHECK(said(finder, job, slow, 1).empty());
  CHECK(said(finder, job, well, 10) == std::vector<std::string>{"3: n3 is as fast as the others again"});
  for (int i = 0; i < 2; ++i) {
    CHECK(said(finder, job, slow, 10).size() == 1);
    CHECK(said(finder, job, well, 10).size() == 1);
  }
  CHECK(said(finder, job, slow, 10).empty());
}

TEST_CASE("that the others have become slower is not its end") {
  SlowFinder finder;
  Job job{std::mt19937(1)};
  auto slow = [](Job& of, auto host, auto, int) { return of.task(host == 3 ? 0.08 : 0.16, 0.95); };
  auto others_wait = [](Job& of, auto host, auto, int) {
    return host == 3 ? of.task(0.08, 0.95) : of.task(1e-6, 0.01);
  };
  CHECK(said(finder, job, slow, 10).size() == 1);
  CHECK(said(finder, job, others_wait, 10).empty());
}

TEST_CASE("a host of which a window is missing, or a task that has begun again, begins anew") {
  SlowFinder finder;
  Job job{std::mt19937(1)};
  auto slow = [](Job& of, auto host, auto, int window) {
    return host == 3 && window == 3 ? TaskPace() : of.task(host == 3 ? 0.08 : 0.16, 0.95);
  };
  auto lines = said(finder, job, slow, 10);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("6: "));
  finder.forget(3);  // another shell has its tasks
  CHECK(said(finder, job, slow, 2, 4).empty());
  CHECK(said(finder, job, slow, 1, 6).size() == 1);
}

TEST_CASE("shells of one host are told apart, and a host without a name is its shell") {
  SlowFinder finder;
  Job job{std::mt19937(1)};
  std::vector<SlowFinding> found;
  for (int i = 0; i < 3; ++i) {
    auto window = window_of(
        job, [](Job& of, auto host, auto, int) { return of.task(host == 3 ? 0.05 : 0.16, 0.9); }, i);
    for (auto& [shell, host] : window) host.name = "here";
    found = finder.add(window);
  }
  REQUIRE(found.size() == 1);
  CHECK(found[0].text("step").starts_with("here (shell 3) is slow: "));
  CHECK(found[0].json("step")["shell"] == 3);
}

TEST_CASE("GPUs that are idle while those of the others are not") {
  auto lines = said(1, [](Job& job, auto host, auto, int) {
    TaskPace out = job.task(0.1, 1);
    out.gpu = host == 2 ? 0.31 : 0.98;
    return out;
  });
  CHECK(lines ==
        std::vector<std::string>{"3: n2 is slow: the GPUs of its ranks 8-11 are in use for 31 % of the time, "
                                 "those of the others for 98 % (3 windows of 30 s)"});
}

TEST_CASE("what is found in words, and as JSON") {
  using Measure = doctor::PaceMeasure;
  const auto ranks = value::Idset::range(12, 15);
  CHECK(text_of(Measure::number, 4.1 / 60, 9.8 / 60, true, ranks) ==
        "n3 is slow: its ranks 12-15 do 4.1 steps/min, the others 9.8 (3 windows of 30 s)");
  CHECK(text_of(Measure::number, 0, 12, false, value::Idset::range(3, 3)) ==
        "rank 3 on n3 is slow: it does 0.0 steps/s, the others 12 (3 windows of 30 s)");
  CHECK(text_of(Measure::served, 0.48, 0.99, false, ranks) ==
        "ranks 12-15 on n3 are slow: they get 48 % of the cpu time that they could use, the others 99 % (3 windows "
        "of 30 s)");
  CHECK(
      text_of(Measure::busy, 0.97, 0.41, true, ranks) ==
      "n3 is slow: its ranks 12-15 keep 0.97 cpus busy each, the others 0.41, as they wait for them (3 windows of "
      "30 s)");
  CHECK(text_of(Measure::bytes, 30.02 * 1024, 30.02 * 10240, true, ranks) ==
        "n3 is slow: its ranks 12-15 write 1.0 KiB/s, the others 10 (3 windows of 30 s)");
  SlowFinding over;
  over.host = "n3";
  over.ranks = ranks;
  over.is_over = true;
  over.window = 30;
  CHECK(over.json("step") == Json{{"host", "n3"},
                                  {"shell", 0},
                                  {"ranks", "12-15"},
                                  {"of", "host"},
                                  {"slow", false},
                                  {"by", "number"},
                                  {"window", 30.0},
                                  {"word", "step"},
                                  {"text", "n3 is as fast as the others again"}});
}

TEST_CASE("a window comes back from its text, and what is none is an error") {
  PaceWindow window{30.5, {TaskPace{7, 0.5, 0.25, std::nullopt, 4096, 0.1}, TaskPace{8, {}, {}, 1, {}, {}}}};
  CHECK(window.text() ==
        R"({"seconds":30.5,"tasks":[[7,5000,2500,null,40960000,1000],[8,null,null,10000,null,null]]})");
  auto back = PaceWindow::parse(window.text());
  REQUIRE(back);
  CHECK(back->text() == window.text());
  for (const char* text : {"", "[]", R"({"seconds":0,"tasks":[]})", R"({"seconds":1,"tasks":[[1]]})",
                           R"({"seconds":1,"tasks":[[-1,0,0,0,0,0]]})"})
    CHECK_FALSE(PaceWindow::parse(text));
}
