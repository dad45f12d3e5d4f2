// SPDX-License-Identifier: Apache-2.0
//
// Roll calls in a job of several shells.

#include "fake_job.hpp"
#include "pmi/key_exchange.hpp"
#include "pmi_practice.hpp"

using namespace nacre;
using plugins::PmiOptions;
using plugins::Practice;
using plugins::reporting_after;
using value::WaitStatus;

namespace {

using Texts = std::vector<std::string>;

// Several shells with a doctor each, on two tasks each.
struct Clinic {
  explicit Clinic(std::uint32_t nodes, PmiOptions options = {}) : job(nodes, 2) {
    for (std::uint32_t shell = 0; shell < nodes; ++shell) {
      shells.push_back(std::make_unique<Practice>(job[shell], options));
    }
  }
  void begin() {
    for (auto& shell : shells) shell->begin();
  }
  Practice& operator[](std::uint32_t shell) { return *shells[shell]; }

  kit::FakeJob job;
  std::vector<std::unique_ptr<Practice>> shells;
};

}  // namespace

TEST_CASE("any shell may be asked; all answer, and shell 0 says it, in the order of the ranks") {
  Clinic clinic(3);
  clinic.begin();
  clinic[0].join(1);
  clinic[1].join(0);
  clinic[1].enter(0);
  REQUIRE(clinic.job[2].end_task(0, WaitStatus::exited(0)));
  std::uint32_t asked = GENERATE(0, 1, 2);
  clinic[asked].doctor->asked();
  CHECK(clinic[0].said().empty());
  clinic.job.deliver();
  CHECK(clinic[0].said() == Texts{"roll call of 6 tasks (SIGUSR2):", "  0,3: before PMI init: gone",
                                  "  1: after PMI init: gone", "  2: in PMI barrier 1",
                                  "  4: ended: exited with code 0", "  5: gone"});
  CHECK(clinic[1].said().empty());
  CHECK(clinic[2].said().empty());
  CHECK(clinic.job.unfinished().empty());
}

TEST_CASE("several that are asked, or are asked several times: a roll call for each") {
  Clinic clinic(2);
  clinic.begin();
  clinic[0].doctor->asked();
  clinic[1].doctor->asked();
  clinic[1].doctor->asked();
  clinic.job.deliver();
  CHECK(clinic[0].said().size() == 3 * 2);
  clinic[0].doctor->asked();
  clinic.job.deliver();
  CHECK(clinic[0].said() == Texts{"roll call of 4 tasks (SIGUSR2):", "  0-3: gone"});
  CHECK(clinic.job.unfinished().empty());
}

TEST_CASE("a shell whose tasks have ended may be asked, and gives its part") {
  Clinic clinic(2);
  clinic.begin();
  for (std::size_t task : {0, 1}) REQUIRE(clinic.job[0].end_task(task, WaitStatus::exited(0)));
  clinic[0].doctor->tasks_ended();
  std::uint32_t asked = GENERATE(0, 1);
  clinic[asked].doctor->asked();
  clinic.job.deliver();
  CHECK(clinic[0].said() ==
        Texts{"roll call of 4 tasks (SIGUSR2):", "  0-1: ended: exited with code 0", "  2-3: gone"});
}

TEST_CASE("who asks before all shells listen is answered when they do, once") {
  kit::FakeJob job(2, 2);
  Practice first(job[0]);
  first.doctor->asked();
  first.doctor->asked();
  job.deliver();
  CHECK(job.unfinished().empty());
  Practice second(job[1]);  // later than the other
  second.begin();
  first.begin();
  job.deliver();
  CHECK(first.said() == Texts{"roll call of 4 tasks (SIGUSR2):", "  0-3: gone"});
  CHECK(job.unfinished().empty());
}

TEST_CASE("a roll call that not all answer is said when they are lost, of those that are left") {
  Clinic clinic(3);
  clinic.begin();
  clinic[0].doctor->asked();
  clinic.job.stop(2);
  clinic.job.deliver();
  CHECK(clinic[0].said().empty());
  CHECK(clinic.job.unfinished().size() == 1);
  clinic.job.lose(2);
  CHECK(clinic[0].said() == Texts{"roll call of 4 tasks (SIGUSR2):", "  0-3: gone"});
}

TEST_CASE("nobody else answers: all others are lost") {
  Clinic clinic(3);
  clinic.begin();
  clinic.job.lose(1);
  clinic.job.lose(2);
  clinic[0].doctor->asked();
  clinic.job.deliver();
  CHECK(clinic[0].said() == Texts{"roll call of 2 tasks (SIGUSR2):", "  0-1: gone"});
}

TEST_CASE("a shell that is cut off says nothing") {
  Clinic clinic(2);
  clinic.begin();
  clinic[0].doctor->asked();
  clinic.job.stop(1);
  clinic.job.deliver();
  clinic.job.cut_off(0);
  CHECK(clinic[0].said().empty());
}

TEST_CASE("a barrier that several nodes wait in is reported once each time") {
  Clinic clinic(3, reporting_after(0.05));
  clinic.begin();
  for (std::uint32_t shell : {0, 2}) {
    clinic[shell].join(0);
    clinic[shell].enter(0);
    clinic[shell].doctor->barrier(true, 4);
  }
  auto report = [&] {
    for (std::uint32_t shell : {0, 2}) {
      std::size_t before = clinic.job.under_way();
      REQUIRE(clinic.job[shell].serve([&] { return clinic.job.under_way() > before; }));
    }
    clinic.job.deliver();
    return clinic[0].said();
  };
  Texts said = report();
  CHECK(said == Texts{"roll call of 6 tasks (a barrier has lasted 50ms):", "  0,4: in PMI barrier 1",
                      "  1,5: before PMI init: gone", "  2-3: gone"});
  // The next barrier is reported again, but not a number that was reported before.
  for (std::uint32_t shell : {0, 2}) clinic[shell].doctor->barrier(false, 4);
  for (std::uint32_t shell : {0, 2}) clinic[shell].doctor->barrier(true, 5);
  CHECK(report().size() == 4);
}

TEST_CASE("announcements that are no roll call, or of others, are passed over") {
  Clinic clinic(2);
  clinic.begin();
  for (const std::string& bytes :
       {std::string("?"), std::string(), pmi::encode_entries({}), pmi::encode_entries({{"a", "b"}, {"c", "d"}})}) {
    REQUIRE(clinic.job[1].announce("pmi.roll-call", bytes));
  }
  REQUIRE(clinic.job[1].announce("pmi.lost", pmi::encode_entries({{"1.1", "SIGUSR2"}})));
  clinic.job.deliver();
  CHECK(clinic[0].said().empty());
  CHECK(clinic.job.unfinished().empty());
}
