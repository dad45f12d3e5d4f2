// SPDX-License-Identifier: Apache-2.0
#include "value/duration.hpp"

#include "catch.hpp"

using nacre::value::Duration;

namespace {

std::string error_of(std::string_view text) {
  INFO(text);
  auto duration = Duration::parse(text);
  REQUIRE_FALSE(duration);
  return duration.error().message;
}

double seconds(std::string_view text) {
  INFO(text);
  auto duration = Duration::parse(text);
  if (!duration) FAIL(duration.error().message);
  return duration->seconds();
}

std::string shown(double seconds) { return Duration::of_seconds(seconds).str(); }

}  // namespace

TEST_CASE("RFC 23's test vectors hold") {
  CHECK(seconds("2ms") == 0.002);
  CHECK(seconds("0.1s") == 0.1);
  CHECK(seconds("30") == 30);
  CHECK(seconds("1.2h") == 4320);
  CHECK(seconds("5m") == 300);
  CHECK(seconds("0s") == 0);
  CHECK(seconds("5d") == 432000);
  for (const char* text : {"inf", "INF", "infinity", "Infinity", "+inf"}) {
    CHECK(std::isinf(seconds(text)));
    CHECK(Duration::parse(text)->is_infinite());
    CHECK(*Duration::parse(text) == Duration::infinite());
  }
}

TEST_CASE("a duration's number has any form that strtod takes") {
  CHECK(seconds(".5") == 0.5);
  CHECK(seconds("5.") == 5);
  CHECK(seconds("+5s") == 5);
  CHECK(seconds("1e3ms") == 1);
  CHECK(seconds("1.5E+1m") == 900);
  CHECK(seconds("0x10") == 16);
  CHECK(seconds("0X1.8p1s") == 3);
  CHECK(seconds("0x1d") == 29);  // the d is a digit
  CHECK(seconds("1d") == 86400);
  CHECK(seconds("0.2ms") == 0.0002);
  CHECK(seconds("0.5h") == 1800);
  CHECK(seconds("0d") == 0);
}

TEST_CASE("what is no duration is refused") {
  std::string number = "expected a number with a unit (ms, s, m, h or d) or infinity";
  CHECK(error_of("") == "duration '': " + number);
  for (const char* text : {"s", "abc", " 5", "NaN", "nan", "NaNs", "nan(1)", "+-5", "++5", "+", ".", "e5"}) {
    CHECK(error_of(text) == "duration '" + std::string(text) + "': " + number);
  }
  for (const char* text : {"-1.", "-1", "-0", "-inf", "-"}) {
    CHECK(error_of(text) == "duration '" + std::string(text) + "': expected a duration that is not negative");
  }
  CHECK(error_of("1.0f") == "duration '1.0f': unknown unit 'f', expected ms, s, m, h or d");
  for (const char* text : {"1.0sec", "1 s", "1s ", "1S", "1M", "5 ", "1,5", "0x", "0xg", "1e", "1us", "1m30s"}) {
    CHECK(error_of(text).find("unknown unit") != std::string::npos);
  }
  for (const char* text : {"infd", "inf ", "infs", "infinites", "infinityms"}) {
    CHECK(error_of(text) == "duration '" + std::string(text) + "': infinity has no unit");
  }
  for (const char* text : {"1e999", "1e308d", "1e-999"}) {
    CHECK(error_of(text) == "duration '" + std::string(text) + "': the number is out of range");
  }
  CHECK(seconds("1" + std::string(Duration::kMaxText - 10, '0') + "e-240") > 0);
  CHECK(seconds(std::string(Duration::kMaxText - 1, '0') + "5") == 5);
  CHECK(error_of(std::string(Duration::kMaxText, '0') + "5").find(": longer than 256 bytes") != std::string::npos);
  CHECK(error_of(std::string("5\0s", 3)).find("unknown unit '\\x00s'") != std::string::npos);
}

TEST_CASE("a duration is shown in the largest unit that suits it") {
  CHECK(shown(0) == "0s");
  CHECK(shown(0.001) == "1ms");
  CHECK(shown(0.01) == "10ms");
  CHECK(shown(0.1) == "100ms");
  CHECK(shown(5) == "5s");
  CHECK(shown(5.1) == "5.1s");
  CHECK(shown(30) == "30s");
  CHECK(shown(62) == "62s");
  CHECK(shown(90) == "1.5m");
  CHECK(shown(100) == "100s");
  CHECK(shown(3600) == "1h");
  CHECK(shown(4500) == "1.25h");
  CHECK(shown(86400) == "1d");
  CHECK(shown(103680) == "1.2d");
  CHECK(shown(5400) == "1.5h");
  CHECK(Duration::infinite().str() == "infinity");
  CHECK(Duration().str() == "0s");
}

TEST_CASE("each duration's text parses back to the very same value") {
  constexpr double kMax = std::numeric_limits<double>::max();
  constexpr double kMin = std::numeric_limits<double>::min();
  for (double value : {0.1 + 0.2, 1.0 / 3, 1e-7, 123456.789012345, 1e22, kMax, kMin, 86400.0000001, 59.9996}) {
    INFO(value);
    CHECK(seconds(shown(value)) == value);
    CHECK(shown(value).size() < 30);
  }
}

TEST_CASE("durations are ordered by their length") {
  CHECK(Duration::of_seconds(59) < *Duration::parse("1m"));
  CHECK(*Duration::parse("60s") == *Duration::parse("1m"));
  CHECK(*Duration::parse("1e300d") < Duration::infinite());
}
