// SPDX-License-Identifier: Apache-2.0
#include "job/environment.hpp"

#include "catch.hpp"

using nacre::job::Environment;

namespace {

std::vector<std::string> lines(const Environment& env) {
  std::vector<std::string> out;
  auto block = env.block();
  REQUIRE_FALSE(block.empty());
  REQUIRE(block.back() == nullptr);
  for (std::size_t i = 0; i + 1 < block.size(); ++i) out.emplace_back(block[i]);
  return out;
}

// The lines by all(), which must agree with block().
std::vector<std::string> lines_of_all(const Environment& env) {
  std::vector<std::string> out;
  for (const auto& [name, value] : env.all()) out.push_back(std::string(name) + "=" + std::string(value));
  return out;
}

using Lines = std::vector<std::string>;

std::string refusal(std::string_view name, std::string_view value) {
  auto result = Environment::check(name, value);
  return result ? "accepted" : result.error().message;
}

}  // namespace

TEST_CASE("variables are set, changed and unset") {
  Environment env;
  CHECK(lines(env).empty());
  env.set("A", "1");
  env.set("B", "");
  env.set("C", "x=y");
  CHECK(env.get("A") == "1");
  CHECK(env.get("B") == "");
  CHECK(env.get("C") == "x=y");
  CHECK_FALSE(env.get("D"));
  CHECK_FALSE(env.get("A=1"));
  env.set("A", "a much longer value than fits into the text that was there before");
  env.unset("B");
  env.unset("D");
  CHECK_FALSE(env.get("B"));
  CHECK(lines(env) == Lines{"A=a much longer value than fits into the text that was there before", "C=x=y"});
  env.set("B", "again");
  CHECK(env.get("B") == "again");
  CHECK(lines_of_all(env) == lines(env));
}

TEST_CASE("a value may come from the variable itself") {
  Environment env;
  env.set("PATH", "/bin:/usr/bin:/usr/local/bin");
  env.set("PATH", *env.get("PATH"));
  CHECK(env.get("PATH") == "/bin:/usr/bin:/usr/local/bin");
  env.unset(env.all()[0].first);
  CHECK(env.all().empty());
}

TEST_CASE("a layer inherits, overrides in place, adds at the end and hides") {
  Environment base;
  base.set("A", "1");
  base.set("B", "2");
  base.set("C", "3");
  Environment layer = Environment::over(base);
  CHECK(lines(layer) == Lines{"A=1", "B=2", "C=3"});
  layer.set("D", "4");
  layer.set("B", "20");
  layer.unset("A");
  layer.unset("NONE");
  CHECK(lines(layer) == Lines{"B=20", "C=3", "D=4"});
  CHECK(lines_of_all(layer) == lines(layer));
  CHECK_FALSE(layer.get("A"));
  CHECK(layer.get("B") == "20");
  CHECK(layer.get("C") == "3");
  layer.set("A", "10");
  CHECK(lines(layer) == Lines{"A=10", "B=20", "C=3", "D=4"});
  CHECK(lines(base) == Lines{"A=1", "B=2", "C=3"});
}

TEST_CASE("what the base sets later is seen, unless the layer has its own") {
  Environment base;
  Environment layer = Environment::over(base);
  layer.unset("X");
  layer.set("Y", "mine");
  base.set("X", "1");
  base.set("Y", "2");
  base.set("Z", "3");
  CHECK(lines(layer) == Lines{"Y=mine", "Z=3"});
}

TEST_CASE("what the base has unset, a layer can set") {
  Environment base;
  base.set("A", "1");
  base.set("B", "2");
  base.unset("A");
  Environment layer = Environment::over(base);
  CHECK(lines(layer) == Lines{"B=2"});
  layer.set("A", "3");
  CHECK(lines(layer) == Lines{"A=3", "B=2"});
}

TEST_CASE("a layer over a layer") {
  Environment base;
  base.set("A", "1");
  base.set("B", "2");
  Environment middle = Environment::over(base);
  middle.set("A", "10");
  middle.set("M", "m");
  middle.unset("B");
  Environment top = Environment::over(middle);
  CHECK(lines(top) == Lines{"A=10", "M=m"});
  top.set("A", "100");
  top.set("B", "200");
  top.unset("M");
  top.set("T", "t");
  CHECK(lines(top) == Lines{"A=100", "B=200", "T=t"});
  CHECK(lines_of_all(top) == lines(top));
  CHECK(lines(middle) == Lines{"A=10", "M=m"});
}

TEST_CASE("an environment can be moved") {
  Environment first;
  for (int i = 0; i < 100; ++i) first.set("N" + std::to_string(i), std::to_string(i));
  Environment second = std::move(first);
  CHECK(second.get("N42") == "42");
  second.set("N42", "changed");
  Environment third;
  third.set("OLD", "1");
  third = std::move(second);
  CHECK(third.get("N42") == "changed");
  CHECK_FALSE(third.get("OLD"));
  CHECK(third.all().size() == 100);
}

TEST_CASE("100,000 variables, and layers that cost only what they change") {
  Environment base;
  for (int i = 0; i < 100000; ++i) base.set("NAME" + std::to_string(i), std::to_string(i));
  std::vector<Environment> layers;
  for (int i = 0; i < 4096; ++i) {
    layers.push_back(Environment::over(base));
    layers.back().set("RANK", std::to_string(i));
    layers.back().set("NAME99999", "own");
  }
  CHECK(layers[4095].get("RANK") == "4095");
  CHECK(layers[7].get("NAME99999") == "own");
  CHECK(base.get("NAME99999") == "99999");
  auto block = layers[7].block();
  REQUIRE(block.size() == 100002);
  CHECK(std::string(block[99999]) == "NAME99999=own");
  CHECK(std::string(block[100000]) == "RANK=7");
}

TEST_CASE("names and values that the kernel could not take") {
  CHECK(refusal("A", "") == "accepted");
  CHECK(refusal("a-b.c d", "x=y\n") == "accepted");
  CHECK(refusal("", "x") == "expected a variable's name, got ''");
  CHECK(refusal("A=", "x") == "expected a variable's name, without '=' and NUL, got 'A='");
  CHECK(refusal("=", "x") == "expected a variable's name, without '=' and NUL, got '='");
  CHECK(refusal({"A\0B", 3}, "x") == "expected a variable's name, without '=' and NUL, got 'A\\x00B'");
  CHECK(refusal("A", {"\0", 1}) == "expected a value without NUL for 'A', got '\\x00'");
}
