// SPDX-License-Identifier: Apache-2.0
#include "plugin/questions.hpp"

#include "catch.hpp"

#include "fake_host.hpp"
#include "job_of_nodes.hpp"
#include "quiet_port.hpp"

using namespace nacre;  // NOLINT

namespace {

// Sends nothing: a test gives the answers of the other shells.
class LeaderHost final : public kit::FakeHost {
 public:
  explicit LeaderHost(std::uint32_t shells)
      : FakeHost(kit::jobspec_of(shells, 1, {"a"}, Json::object()), kit::resources_of(shells, 1)) {
    if (shells > 1) port = &quiet;
  }
  Result<void> announce(std::string_view topic, std::string_view bytes) override {
    if (is_cut_off) return Error{EPIPE, "cut off"};
    announcements.push_back(std::string(topic) + " " + std::string(bytes));
    return {};
  }

  kit::QuietPort quiet;
  bool is_cut_off = false;
  std::vector<std::string> announcements;
};

// The leader of a job of this many shells. Answers are put together as a text.
struct Leader {
  using Questions = plugin::OpenQuestions<std::string>;

  explicit Leader(std::uint32_t shells, std::size_t most = 4) : host(shells), questions(host, "unit.ask", most) {}

  Result<std::uint64_t> ask(const value::Idset& shells, double seconds = 60) {
    return questions.ask({shells, event::Seconds(seconds), "", [](auto number) { return std::to_string(number); },
                          [this](const auto& all) { done.push_back(all); }});
  }
  Result<std::uint64_t> ask() { return ask(questions.others()); }
  void put(std::uint64_t number, std::uint32_t shell, std::string_view text) {
    std::string* answer = questions.find(number, shell);
    REQUIRE(answer != nullptr);
    answer->append(text);
  }
  void answer(std::uint64_t number, std::uint32_t shell, std::string_view text) {
    put(number, shell, text);
    questions.complete(number, shell);
  }

  LeaderHost host;
  Questions questions;
  std::vector<Questions::Answered> done;
};

value::Idset idset(const char* text) { return value::Idset::parse(text).value(); }

}  // namespace

TEST_CASE("a question is announced with its number, and done when the last shell has answered") {
  Leader leader(3);
  CHECK(leader.questions.others() == idset("1-2"));
  REQUIRE(leader.ask().value() == 1);
  REQUIRE(leader.ask().value() == 2);
  CHECK(leader.host.announcements == std::vector<std::string>{"unit.ask 1", "unit.ask 2"});
  leader.put(1, 2, "b");
  leader.answer(2, 1, "x");
  leader.answer(1, 2, "c");
  CHECK(leader.done.empty());
  leader.answer(1, 1, "a");
  REQUIRE(leader.done.size() == 1);
  CHECK(leader.done[0].number == 1);
  CHECK(leader.done[0].answer == "bca");
  CHECK(leader.done[0].late.empty());
  leader.answer(2, 2, "y");
  REQUIRE(leader.done.size() == 2);
  CHECK(leader.done[1].answer == "xy");
}

TEST_CASE("nothing is taken of a shell that has answered, was not asked, or comes too late") {
  Leader leader(4);
  REQUIRE(leader.ask(idset("1-2")));
  CHECK(leader.questions.find(1, 3) == nullptr);
  CHECK(leader.questions.find(2, 1) == nullptr);
  leader.answer(1, 1, "a");
  CHECK(leader.questions.find(1, 1) == nullptr);
  leader.questions.complete(1, 1);
  leader.questions.complete(1, 3);
  CHECK(leader.done.empty());
  leader.answer(1, 2, "b");
  REQUIRE(leader.done.size() == 1);
  CHECK(leader.questions.find(1, 2) == nullptr);
  leader.questions.complete(1, 2);
  CHECK(leader.done.size() == 1);
}

TEST_CASE("shells that have not answered in time are late, and what others have sent is there") {
  Leader leader(4);
  REQUIRE(leader.ask(leader.questions.others(), 0.05));
  REQUIRE(leader.ask());
  leader.answer(1, 2, "b");
  leader.put(1, 3, "c");
  REQUIRE(leader.host.serve([&] { return !leader.done.empty(); }));
  REQUIRE(leader.done.size() == 1);
  CHECK(leader.done[0].number == 1);
  CHECK(leader.done[0].answer == "bc");
  CHECK(leader.done[0].late == idset("1,3"));
}

TEST_CASE("a shell that has gone is neither waited for nor asked again") {
  Leader leader(3);
  REQUIRE(leader.ask());
  REQUIRE(leader.ask());
  leader.answer(1, 1, "a");
  leader.questions.gone(2);
  REQUIRE(leader.done.size() == 1);
  CHECK(leader.done[0].number == 1);
  CHECK(leader.done[0].late.empty());
  CHECK(leader.questions.gone() == idset("2"));
  CHECK(leader.questions.others() == idset("1"));
  leader.questions.gone(1);
  CHECK(leader.done.size() == 2);
}

TEST_CASE("where nobody is to be asked nothing is announced, and the question is done at once") {
  Leader alone(1);
  CHECK(alone.questions.others().empty());
  REQUIRE(alone.ask().value() == 1);
  CHECK(alone.done.size() == 1);
  CHECK(alone.host.announcements.empty());
  Leader left(2);
  left.questions.gone(1);
  REQUIRE(left.ask());
  CHECK(left.done.size() == 1);
  CHECK(left.host.announcements.empty());
}

TEST_CASE("the leader is waited for like others, and not asked") {
  Leader alone(1);
  REQUIRE(alone.ask(idset("0")));
  CHECK(alone.host.announcements.empty());
  CHECK(alone.done.empty());
  alone.answer(1, 0, "own");
  REQUIRE(alone.done.size() == 1);
  CHECK(alone.done[0].answer == "own");
}

TEST_CASE("no more questions than the most are open, and one that is done makes room") {
  Leader leader(2, 2);
  REQUIRE(leader.ask());
  REQUIRE(leader.ask());
  auto refused = leader.ask();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == EBUSY);
  CHECK(refused.error().message == "the shells are asked by 2 others at the moment: try again");
  CHECK(leader.host.announcements.size() == 2);
  leader.answer(1, 1, "");
  CHECK(leader.ask());
}

TEST_CASE("a question that cannot be announced is an error, and not open") {
  Leader leader(2, 1);
  leader.host.is_cut_off = true;
  auto asked = leader.ask();
  REQUIRE_FALSE(asked);
  CHECK(asked.error().code == EPIPE);
  CHECK(leader.done.empty());
  leader.host.is_cut_off = false;
  CHECK(leader.ask());
}

TEST_CASE("questions that are dropped are never done") {
  Leader leader(2);
  REQUIRE(leader.ask(leader.questions.others(), 0.01));
  REQUIRE(leader.ask(leader.questions.others(), 0.01));
  REQUIRE(leader.ask(leader.questions.others(), 0.03));
  leader.put(2, 1, "two");
  std::string open;
  leader.questions.drop(1);
  leader.questions.each([&](const std::string& answer) { open += "[" + answer + "]"; });
  CHECK(open == "[two][]");
  leader.questions.drop(2);
  REQUIRE(leader.host.serve([&] { return !leader.done.empty(); }));
  CHECK(leader.done[0].number == 3);
  REQUIRE(leader.ask());
  leader.questions.drop_all();
  CHECK(leader.questions.find(4, 1) == nullptr);
  leader.questions.gone(1);
  CHECK(leader.done.size() == 1);
}

TEST_CASE("what gets the answer may ask again") {
  Leader leader(2);
  int rounds = 0;
  std::function<void()> again = [&] {
    Leader::Questions::Question question;
    question.shells = leader.questions.others();
    question.time = event::Seconds(60);
    question.text = [](auto number) { return std::to_string(number); };
    question.done = [&](const auto&) {
      if (++rounds < 3) again();
    };
    REQUIRE(leader.questions.ask(std::move(question)));
  };
  again();
  for (std::uint64_t number = 1; number <= 3; ++number) leader.answer(number, 1, "");
  CHECK(rounds == 3);
  leader.questions.gone(1);
  CHECK(rounds == 3);
}
