// SPDX-License-Identifier: Apache-2.0
#include "plugin/registration.hpp"

#include "catch.hpp"

using namespace nacre::plugin;  // NOLINT

namespace {

using List = CallbackList<int>;

// Like a plugin: its function uses its members, and goes with it.
struct Registered {
  Registered(List& list, std::string mark, std::string& notes)
      : own(std::make_unique<std::string>(std::move(mark))), registration(list.add([this, &notes](int value) {
          notes += *own + std::to_string(value) + " ";
          if (then) then();
        })) {}

  std::unique_ptr<std::string> own;
  std::function<void()> then;
  Registration registration;
};

}  // namespace

TEST_CASE("what is registered is called in order, until its registration ends") {
  std::string notes;
  List list;
  CHECK(list.empty());
  std::optional<Registered> a, b, c;
  a.emplace(list, "a", notes);
  b.emplace(list, "b", notes);
  c.emplace(list, "c", notes);
  list.call(1);
  b.reset();
  list.call(2);
  CHECK(notes == "a1 b1 c1 a2 c2 ");
  CHECK(a->registration.active());
  a.reset();
  c.reset();
  CHECK(list.empty());
  list.call(3);
  CHECK(notes == "a1 b1 c1 a2 c2 ");
}

TEST_CASE("a function that is called may end its own registration and those of others, and make more") {
  std::string notes;
  List list;
  std::optional<Registered> a, b, c, d;
  a.emplace(list, "a", notes);
  b.emplace(list, "b", notes);
  c.emplace(list, "c", notes);
  b->then = [&] {
    a.reset();  // called before
    c.reset();  // to be called
    d.emplace(list, "d", notes);
    b->registration = {};
    CHECK(b->own);
  };
  list.call(1);
  CHECK(notes == "a1 b1 ");
  list.call(2);
  CHECK(notes == "a1 b1 d2 ");
}

TEST_CASE("what a function has captured is there until it returns, though its registration has ended") {
  List list;
  std::string seen;
  Registration registration;
  registration = list.add([&registration, &seen, text = std::string(100, 'x')](int) {
    registration = {};
    seen = text;
  });
  list.call(1);
  CHECK(seen == std::string(100, 'x'));
  CHECK(list.empty());
}

TEST_CASE("calls within calls do not lose or repeat a function") {
  std::string notes;
  List list;
  std::optional<Registered> a, b;
  a.emplace(list, "a", notes);
  b.emplace(list, "b", notes);
  bool within = false;
  a->then = [&] {
    if (std::exchange(within, true)) return;
    list.call(2);
    b.reset();
  };
  list.call(1);
  CHECK(notes == "a1 a2 b2 ");
}

TEST_CASE("a registration may outlive its list, may be moved, and ends once") {
  std::string notes;
  Registration last;
  {
    List list;
    Registration first = list.add([&](int value) { notes += std::to_string(value); });
    Registration second = std::move(first);
    list.call(1);
    last = std::move(second);
    list.call(2);
    last = list.add([&](int value) { notes += "other " + std::to_string(value); });
    list.call(3);
    CHECK(last.active());
  }
  CHECK_FALSE(last.active());
  CHECK(notes == "12other 3");
}

TEST_CASE("an answer comes once, and to nobody whose registration has ended") {
  std::string notes;
  PendingAnswers<std::string> answers;
  auto note = [&](const std::string& answer) { notes += answer + " "; };
  auto one = answers.add(note);
  auto two = answers.add(note);
  auto three = answers.add(note);
  two.registration = {};
  three.receive("three");
  two.receive("two");
  CHECK(one.registration.active());
  one.receive("one");
  one.receive("again");
  CHECK(notes == "three one ");
  CHECK_FALSE(one.registration.active());
}

TEST_CASE("who gets an answer may ask anew, in the same place") {
  std::string notes;
  PendingAnswers<std::string> answers;
  Registration registration;
  std::function<void(std::string)> next;
  std::function<void()> ask = [&] {
    auto pending = answers.add([&](const std::string& answer) {
      if (notes.empty()) ask();
      notes += answer + " ";
    });
    registration = std::move(pending.registration);
    next = std::move(pending.receive);
  };
  ask();
  auto first = std::move(next);
  first("one");
  next("two");
  CHECK(notes == "one two ");
}
