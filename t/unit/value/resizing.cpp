// SPDX-License-Identifier: Apache-2.0
#include "value/resizing.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using value::ShrinkOrder;

namespace {

Result<ShrinkOrder> read(const char* text, ShrinkOrder::Unknown members = ShrinkOrder::Unknown::refuse) {
  Json json = Json::parse(text);
  return ShrinkOrder::parse(JsonAt::root(json), members);
}

std::string why(const char* text) {
  auto order = read(text);
  return order ? "fine" : order.error().message;
}

}  // namespace

TEST_CASE("an order to shrink: its members, and back") {
  auto order = read(R"({"shells": "2-3", "signal": "USR1", "grace": "1.5s", "tasks": "refuse", "force": true})");
  REQUIRE(order);
  CHECK(order->shells.str() == "2-3");
  CHECK(order->signum == SIGUSR1);
  CHECK(order->grace == 1.5);
  CHECK(order->refuse_tasks);
  CHECK(order->force);
  Json json = order->json();
  CHECK(ShrinkOrder::parse(JsonAt::root(json), ShrinkOrder::Unknown::refuse)->json() == json);
  auto plain = read(R"({"hosts": "n[1-2]", "signal": 9, "grace": 0})");
  REQUIRE(plain);
  CHECK(plain->hosts.str() == "n[1-2]");
  CHECK(plain->signum == SIGKILL);
  CHECK(plain->grace == 0.0);
  CHECK_FALSE(plain->refuse_tasks);
  CHECK_FALSE(plain->force);
  CHECK(read(R"({"count": 3})")->count == 3);
  CHECK(read(R"({"count": 3})")->signum == SIGTERM);
  CHECK_FALSE(read(R"({"count": 3})")->grace);
}

TEST_CASE("what is no order to shrink is refused with the place") {
  const char* one_of = "expected one of shells, hosts and count";
  CHECK(why("{}") == one_of);
  CHECK(why(R"({"shells": "1", "hosts": "n1"})") == one_of);
  CHECK(why(R"({"shells": ""})") == "shells: names no shell");
  CHECK(why(R"({"hosts": ""})") == "hosts: names no host");
  CHECK(why(R"({"count": 0})").starts_with("count: expected "));
  CHECK(why(R"({"shells": 1})").starts_with("shells: expected "));
  CHECK(why(R"({"count": 1, "signal": "FOO"})") == R"(signal: expected a signal such as TERM, got "FOO")");
  CHECK(why(R"({"count": 1, "signal": 0})").starts_with("signal: expected "));
  CHECK(why(R"({"count": 1, "grace": -1})") == "grace: expected 0 to 86400 seconds, got -1");
  CHECK(why(R"({"count": 1, "grace": 86401})").starts_with("grace: expected 0 to 86400 seconds"));
  CHECK(why(R"({"count": 1, "grace": "infinity"})").starts_with("grace: expected a time that ends"));
  CHECK(why(R"({"count": 1, "tasks": "move"})") == R"(tasks: expected end or refuse, got "move")");
  CHECK(why(R"({"count": 1, "force": "x"})").starts_with("force: expected "));
  CHECK(why(R"({"count": 1, "host": "x"})").find("host") != std::string::npos);
  CHECK(read(R"({"count": 1, "more": "x"})", ShrinkOrder::Unknown::ignore));
}

TEST_CASE("the texts of an order to shrink") {
  ShrinkOrder order;
  order.count = 3;
  CHECK(order.json().dump() == R"({"count":3,"force":false,"signal":15,"tasks":"end"})");
  order = {};
  order.shells = value::Idset::range(1, 2);
  order.signum = 10;
  order.grace = 1.5;
  order.refuse_tasks = order.force = true;
  CHECK(order.json().dump() == R"({"force":true,"grace":1.5,"shells":"1-2","signal":10,"tasks":"refuse"})");
  order.shells = {};
  order.hosts.append("n1");
  CHECK(order.json().dump() == R"({"force":true,"grace":1.5,"hosts":"n1","signal":10,"tasks":"refuse"})");
  CHECK(why(R"({"count": 1, "host": "x"})") ==
        "host: unknown key; known: shells, hosts, count, signal, grace, tasks, force");
}

using value::GrowOrder;

namespace {

Result<GrowOrder> parse(const char* text) {
  Json json = Json::parse(text);
  return GrowOrder::parse(JsonAt::root(json));
}

}  // namespace

TEST_CASE("an order to grow names hosts or a count") {
  GrowOrder hosts = parse(R"({"hosts": "n[4-5],n4", "wait": 2.5, "all": true})").value();
  CHECK(hosts.hosts.str() == "n[4-5,4]");
  CHECK(hosts.wait == 2.5);
  CHECK(hosts.all);
  GrowOrder count = parse(R"({"count": 3, "later": 1})").value();
  CHECK(count.count == 3);
  CHECK_FALSE(count.wait);
  CHECK_FALSE(count.all);
}

TEST_CASE("an order to grow that cannot be carried out is refused") {
  for (const char* text :
       {"{}", R"({"hosts": "a", "count": 1})", R"({"hosts": ""})", R"({"hosts": "a["})", R"({"hosts": 1})",
        R"({"count": 0})", R"({"count": 4097})", R"({"hosts": "n[1-4097]"})", R"({"count": 1, "wait": 0})",
        R"({"count": 1, "wait": 86401})", R"({"count": 1, "all": "yes"})", "[]"}) {
    CAPTURE(text);
    CHECK_FALSE(parse(text));
  }
}
