// SPDX-License-Identifier: Apache-2.0
//
// Which libraries of MPI a PmiDoctor sees in tasks, and its messages about them.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "pmi_practice.hpp"

using namespace nacre;
using plugins::PmiOptions;
using plugins::Practice;

namespace {

using Texts = std::vector<std::string>;

// A file of this name that this process has mapped, as if it were linked with it.
struct MappedLibrary {
  explicit MappedLibrary(const std::string& name) {
    std::string made = "/tmp/doctor-XXXXXX";
    REQUIRE(::mkdtemp(made.data()) != nullptr);
    directory = made;
    int fd = ::open((directory / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0);
    REQUIRE(::ftruncate(fd, kSize) == 0);
    mapped = ::mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE, fd, 0);
    ::close(fd);
    REQUIRE(mapped != MAP_FAILED);
  }
  ~MappedLibrary() {
    ::munmap(mapped, kSize);
    std::filesystem::remove_all(directory);
  }
  static constexpr std::size_t kSize = 4096;
  std::filesystem::path directory;
  void* mapped = nullptr;
};

}  // namespace

TEST_CASE("a library of MPI in a task, and no init: each task was a job of its own") {
  struct Case {
    std::string library;
    std::string remedy;
  };
  for (const Case& each : {Case{"libmpich.so.12", "MPICH starts by PMI-1: -o pmi=simple, which is the default"},
                           Case{"libopen-rte.so.40", "Open MPI starts by PMIx: -o pmi=pmix"},
                           Case{"libmpi_unknown.so.1", "see nacre-pmi(7) for what each MPI needs"}}) {
    MappedLibrary library(each.library);
    for (std::uint32_t tasks : {1, 2}) {
      kit::FakeHost host(tasks);
      Practice job(host, {}, true, {{0, ::getpid()}});
      job.begin();
      job.pass(0.15);
      job.doctor->tasks_ended();
      CHECK(job.said("warn") ==
            Texts{fmt::format("rank 0 has {} and has not called PMI init: {}; {} (see more with -o pmi.explain)",
                              each.library, tasks == 1 ? "it is a job of its own" : "each task is a job of its own",
                              each.remedy)});
    }
  }
}

TEST_CASE("nothing is said of libraries where init was called, or PMIx is offered") {
  MappedLibrary library("libmpich.so.12");
  bool with_init = GENERATE(true, false);
  PmiOptions options;
  options.pmix = !with_init;
  kit::FakeHost host(2);
  Practice job(host, options, true, {{0, ::getpid()}});
  job.begin();
  if (with_init) job.join(1);
  job.pass(0.15);
  job.doctor->tasks_ended();
  CHECK(job.said("warn").empty());
}

TEST_CASE("pmi.explain: who has spoken which protocol, and which libraries were seen, when the tasks have ended") {
  MappedLibrary library("libmpich.so.12");
  PmiOptions options;
  options.explain = true;
  kit::FakeHost host(4);
  Practice job(host, options, true, {{1, ::getpid()}});
  job.begin();
  job.join(0);
  job.say(0, "cmd=finalize");
  job.join(1);
  job.say(2, "cmd=init pmi_version=3 pmi_subversion=0");
  job.pass(0.15);
  job.doctor->tasks_ended();
  CHECK(job.said() == Texts{"0: PMI-1, 0 barriers, finalized; no MPI library seen",
                            "1: PMI-1, 0 barriers, not finalized; libmpich.so.12",
                            "2: asked for PMI 3.0, which is not offered; no MPI library seen",
                            "3: no PMI init; no MPI library seen"});
}
