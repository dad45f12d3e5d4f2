// SPDX-License-Identifier: Apache-2.0
#include "io/batch.hpp"

#include <random>

#include "catch.hpp"

using namespace nacre::io;  // NOLINT

namespace {

struct Taken {
  std::string bytes;
  double time;
  bool continues;
  bool open;
  bool operator==(const Taken&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Taken& taken) {
  return out << "{'" << taken.bytes.substr(0, 60) << "', " << taken.bytes.size() << " bytes, " << taken.time
             << (taken.continues ? ", continues" : "") << (taken.open ? ", open" : "") << '}';
}
using All = std::vector<Taken>;

struct Fixture {
  Source source{3, Stream::err};
  All all;
  std::size_t most_at_once = 0;

  void add(Assembler& assembler, std::string_view bytes, double time = 0) {
    std::size_t before = all.size();
    assembler.add(bytes, time, take());
    most_at_once = std::max(most_at_once, all.size() - before);
  }
  void end(Assembler& assembler, double time = 0) { assembler.end(time, take()); }
  Assembler::Take take() {
    return [this](const Batch& batch) {
      if (batch.source != &source || batch.empty()) FAIL("a batch of nobody's or nothing");
      all.push_back({std::string(batch.head).append(batch.body), batch.time, batch.continues, batch.open});
    };
  }
};

std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

// Lines of up to `longest` bytes, each byte of any value.
std::string random_input(std::mt19937_64& random, std::size_t size, std::size_t longest) {
  std::string bytes(size, '\0');
  for (std::size_t at = 0; at + 8 <= size; at += 8) {
    std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, 8);
  }
  if (longest == 0) {
    std::replace(bytes.begin(), bytes.end(), '\n', '\0');
    return bytes;
  }
  for (std::size_t at = random() % longest; at < size; at += 1 + random() % longest) bytes[at] = '\n';
  return bytes;
}

void check_chain(const All& all, Buffering buffering, const std::string& input) {
  std::string joined;
  bool midline = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Taken& taken = all[i];
    bool ends = taken.bytes.back() == '\n';
    if (taken.continues != midline) FAIL("batch " << i << ": continues is wrong: " << taken);
    if (taken.open && ends) FAIL("batch " << i << " is open after a newline: " << taken);
    if (i + 1 < all.size() && !ends && !taken.open) FAIL("batch " << i << " should be open: " << taken);
    if (buffering != Buffering::none && taken.open && taken.bytes.size() <= Assembler::kMaxLine) {
      FAIL("batch " << i << " is open, but too short: " << taken);
    }
    midline = !ends;
    joined += taken.bytes;
  }
  CHECK(joined.size() == input.size());
  CHECK((joined == input));
}

}  // namespace

TEST_CASE_METHOD(Fixture, "line buffering passes on the whole lines and keeps the rest") {
  Assembler assembler(source, Buffering::line);
  add(assembler, "one", 1);
  add(assembler, "", 2);
  CHECK(all.empty());
  CHECK(assembler.kept() == 3);
  add(assembler, " line\ntwo\nthr", 3);
  CHECK(all == All{{"one line\ntwo\n", 3, false, false}});
  CHECK(assembler.kept() == 3);
  add(assembler, "ee\n", 4);
  add(assembler, "\n", 5);
  add(assembler, std::string_view("a\0b", 3), 6);
  end(assembler, 7);
  end(assembler, 8);
  CHECK(all == All{{"one line\ntwo\n", 3, false, false},
                   {"three\n", 4, false, false},
                   {"\n", 5, false, false},
                   {std::string("a\0b", 3), 7, false, false}});
  CHECK(assembler.kept() == 0);
}

TEST_CASE_METHOD(Fixture, "what was kept is the head of a batch and what came is its body") {
  Assembler assembler(source, Buffering::line);
  add(assembler, "kept ");
  std::string came = "came\nrest";
  assembler.add(came, 0, [&](const Batch& batch) {
    CHECK(batch.head == "kept ");
    CHECK(batch.body == "came\n");
    CHECK(batch.body.data() == came.data());
    CHECK(batch.size() == 10);
    CHECK(batch.last() == '\n');
  });
  assembler.end(0, [&](const Batch& batch) {
    CHECK(batch.head == "rest");
    CHECK(batch.body.empty());
    CHECK(batch.last() == 't');
  });
}

TEST_CASE_METHOD(Fixture, "the whole lines of a block can be had before it is full, and half a line stays") {
  Assembler assembler(source, Buffering::block);
  add(assembler, "one\ntw", 1);
  assembler.put_lines(2, take());
  assembler.put_lines(3, take());
  CHECK(all == All{{"one\n", 2, false, false}});
  add(assembler, "o\n", 4);
  end(assembler, 5);
  CHECK(all == All{{"one\n", 2, false, false}, {"two\n", 5, false, false}});
  Assembler lines(source, Buffering::line);
  add(lines, "half", 6);
  lines.put_lines(7, take());
  CHECK(all.size() == 2);
}

TEST_CASE_METHOD(Fixture, "without buffering each read is a batch") {
  Assembler assembler(source, Buffering::none);
  add(assembler, "a\nb", 1);
  add(assembler, "", 2);
  add(assembler, "c", 3);
  add(assembler, "d\n", 4);
  add(assembler, "e\n", 5);
  CHECK(assembler.kept() == 0);
  end(assembler, 6);
  CHECK(all ==
        All{{"a\nb", 1, false, true}, {"c", 3, true, true}, {"d\n", 4, true, false}, {"e\n", 5, false, false}});
}

TEST_CASE_METHOD(Fixture, "a line over the limit comes in parts that chain") {
  Assembler assembler(source, Buffering::line);
  std::string full(Assembler::kMaxLine, 'x');
  add(assembler, "first\n");
  add(assembler, full);
  CHECK(all.size() == 1);
  CHECK(assembler.kept() == Assembler::kMaxLine);
  add(assembler, "y");
  REQUIRE(all.size() == 2);
  CHECK((all[1] == Taken{full + "y", 0, false, true}));
  add(assembler, "z");
  add(assembler, "\nnext\n");
  REQUIRE(all.size() == 3);
  CHECK(all[2] == Taken{"z\nnext\n", 0, true, false});
  add(assembler, "a\n" + full + "b");
  REQUIRE(all.size() == 5);
  CHECK(all[3] == Taken{"a\n", 0, false, false});
  CHECK((all[4] == Taken{full + "b", 0, false, true}));
  add(assembler, "end");
  end(assembler);
  REQUIRE(all.size() == 6);
  CHECK(all[5] == Taken{"end", 0, true, false});
}

TEST_CASE_METHOD(Fixture, "block buffering holds until there is a block, then passes on whole lines") {
  Assembler assembler(source, Buffering::block);
  std::string lines = repeated("0123456789abcde\n", Assembler::kBlock / 16 - 1);
  add(assembler, lines, 1);
  add(assembler, "0123456789abcde", 2);
  CHECK(all.empty());
  CHECK(assembler.kept() == Assembler::kBlock - 1);
  SECTION("a newline in what comes") {
    add(assembler, "\n", 3);
    REQUIRE(all.size() == 1);
    CHECK((all[0] == Taken{lines + "0123456789abcde\n", 3, false, false}));
    CHECK(assembler.kept() == 0);
  }
  SECTION("a newline only in what is kept") {
    add(assembler, "f", 3);
    REQUIRE(all.size() == 1);
    CHECK((all[0] == Taken{lines, 3, false, false}));
    CHECK(assembler.kept() == 16);
    end(assembler, 4);
    REQUIRE(all.size() == 2);
    CHECK(all[1] == Taken{"0123456789abcdef", 4, false, false});
  }
  SECTION("an end") {
    end(assembler, 3);
    REQUIRE(all.size() == 1);
    CHECK((all[0] == Taken{lines + "0123456789abcde", 3, false, false}));
  }
}

TEST_CASE_METHOD(Fixture, "block buffering keeps a line that is longer than a block, up to the limit") {
  Assembler assembler(source, Buffering::block);
  std::string block(Assembler::kBlock, 'x');
  for (std::size_t i = 0; i < Assembler::kMaxLine / Assembler::kBlock; ++i) add(assembler, block);
  CHECK(all.empty());
  CHECK(assembler.kept() == Assembler::kMaxLine);
  add(assembler, "x");
  REQUIRE(all.size() == 1);
  CHECK(all[0].open);
  CHECK(all[0].bytes.size() == Assembler::kMaxLine + 1);
  add(assembler, "y\n");
  CHECK(assembler.kept() == 2);
  add(assembler, block + "\n");
  REQUIRE(all.size() == 2);
  CHECK((all[1] == Taken{"y\n" + block + "\n", 0, true, false}));
}

TEST_CASE_METHOD(Fixture, "any bytes in any chunks come out as they went in") {
  auto buffering = GENERATE(Buffering::none, Buffering::line, Buffering::block);
  auto longest = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{80}, std::size_t{200'000});
  auto chunk = GENERATE(std::size_t{3}, std::size_t{5000}, std::size_t{1'300'000});
  auto seed = static_cast<unsigned>(longest + chunk + static_cast<std::size_t>(buffering));
  INFO("buffering " << static_cast<int>(buffering) << ", longest " << longest << ", chunk " << chunk);
  std::mt19937_64 random(seed);
  std::string input = random_input(random, chunk < 100 ? 20'000 : 2'500'000, longest);
  Assembler assembler(source, buffering);
  std::string_view left = input;
  std::size_t most_kept = 0;
  while (!left.empty()) {
    std::string_view part = left.substr(0, random() % (chunk + 1));
    left.remove_prefix(part.size());
    add(assembler, part);
    most_kept = std::max(most_kept, assembler.kept());
  }
  end(assembler);
  CHECK(most_at_once <= 2);
  CHECK(most_kept <= Assembler::kMaxLine);
  if (buffering == Buffering::none) CHECK(most_kept == 0);
  check_chain(all, buffering, input);
  if (buffering != Buffering::block) return;
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    const Taken& taken = all[i];
    if (longest == 80 && taken.bytes.size() <= Assembler::kBlock - 80) FAIL("a small block: " << taken);
  }
}
