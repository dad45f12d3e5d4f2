// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher.hpp"

#include "catch.hpp"

using namespace nacre;
using launch::AlikeLines;

namespace {

using Lines = std::vector<std::string>;

struct Folded {
  Lines out;
  AlikeLines lines{[this](const std::string& line) { out.push_back(line); }};

  Folded& operator<<(const char* line) {
    lines.add(std::string(line) + '\n');
    return *this;
  }
  Lines all() {
    lines.flush();
    return out;
  }
};

}  // namespace

TEST_CASE("what several shells print alike comes once, with their ranks") {
  Folded folded;
  folded << "nacre-shell[2]: warn: x"
         << "nacre-shell[0]: warn: x"
         << "nacre-shell[1]: warn: y"
         << "nacre-shell[3]: warn: x";
  CHECK(folded.out.empty());
  CHECK(folded.all() == Lines{"nacre-shell[0,2-3]: warn: x\n", "nacre-shell[1]: warn: y\n"});
  CHECK(folded.lines.empty());
}

TEST_CASE("what has been put together below is put together further") {
  Folded folded;
  folded << "nacre-shell[3-4]: error: x"
         << "nacre-shell[1,5]: error: x";
  CHECK(folded.all() == Lines{"nacre-shell[1,3-5]: error: x\n"});
}

TEST_CASE("a shell that repeats itself is repeated") {
  Folded folded;
  folded << "nacre-shell[1]: warn: x"
         << "nacre-shell[2]: warn: x"
         << "nacre-shell[1]: warn: x";
  CHECK(folded.all() == Lines{"nacre-shell[1-2]: warn: x\n", "nacre-shell[1]: warn: x\n"});
}

TEST_CASE("all else passes at once, behind what is held") {
  for (const char* line : {"of a task", "nacre-shell: no rank", "nacre-shell[]: warn: x", "nacre-shell[x]: warn: y",
                           "nacre-shell[1] warn: x", "nacre-shell[2]: a notice", ""}) {
    Folded folded;
    folded << "nacre-shell[1]: warn: x" << line;
    CHECK(folded.out == Lines{"nacre-shell[1]: warn: x\n", std::string(line) + '\n'});
  }
}

TEST_CASE("what is held is bounded, and nothing is lost at the end") {
  Lines out;
  {
    AlikeLines lines([&](const std::string& line) { out.push_back(line); });
    for (std::size_t i = 0; i <= AlikeLines::kMostHeld; ++i)
      lines.add("nacre-shell[1]: fatal: " + std::to_string(i) + '\n');
    CHECK(out.size() == AlikeLines::kMostHeld);
  }
  CHECK(out.size() == AlikeLines::kMostHeld + 1);
  CHECK(out.back() == "nacre-shell[1]: fatal: 64\n");
}
