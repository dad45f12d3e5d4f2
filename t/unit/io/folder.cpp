// SPDX-License-Identifier: Apache-2.0
#include "io/folder.hpp"

#include <random>

#include "catch.hpp"

#include "value/idset.hpp"

using namespace nacre::io;  // NOLINT

namespace {

constexpr double kForever = 1e300;  // seconds

using Lines = std::vector<std::string>;

struct FolderFixture {
  Lines lines;  // since the last look, each as "stream label text", perhaps with the time
  std::vector<double> times;

  Folder::Emit emit() {
    return [this](const Batch& batch) {
      std::string all = std::string(batch.head).append(batch.body);
      if (all.find('\n') != all.size() - 1 || batch.continues || batch.open) FAIL("no whole line: " << all);
      std::string stream = batch.source->stream == Stream::err ? "err " : "";
      lines.push_back(stream + batch.source->label + all.substr(0, all.size() - 1));
      times.push_back(batch.time);
    };
  }
  void add(Folder& folder, std::uint32_t rank, std::string_view text, Stream stream = Stream::out,
           double time = 0) {
    Source source{rank, stream};
    folder.add({&source, time, {}, text, false, false}, emit());
  }
  void end(Folder& folder, std::uint32_t rank, Stream stream = Stream::out) {
    folder.end(Source{rank, stream}, emit());
  }
  Lines flushed(Folder& folder) {
    folder.expire(kForever, emit());
    return looked();
  }
  Lines looked() {
    times.clear();
    return std::exchange(lines, {});
  }
};

}  // namespace

TEST_CASE_METHOD(FolderFixture, "equal lines of all tasks are one line as soon as the last has come") {
  Folder folder(4);
  for (std::uint32_t rank : {2, 0, 3}) add(folder, rank, "same\n");
  CHECK(lines.empty());
  CHECK(folder.deadline() == 0.1);
  add(folder, 1, "same\n");
  CHECK(looked() == Lines{"[0-3]: same"});
  CHECK_FALSE(folder.deadline());
  add(folder, 1, "a\nb\n");
  for (std::uint32_t rank : {3, 0}) add(folder, rank, "a\nb\n");
  CHECK(lines.empty());
  add(folder, 2, "a\n");
  CHECK(looked() == Lines{"[0-3]: a"});
  add(folder, 2, "b\n");
  CHECK(looked() == Lines{"[0-3]: b"});
  CHECK(flushed(folder).empty());
}

TEST_CASE_METHOD(FolderFixture, "those that wrote a line may have other names than their ranks") {
  Folder folder(3, [](const std::vector<std::uint32_t>& ranks) { return "of " + std::to_string(ranks.size()); });
  for (std::uint32_t rank : {0, 2, 1}) add(folder, rank, "same\n");
  CHECK(looked() == Lines{"of 3: same"});
}

TEST_CASE_METHOD(FolderFixture, "a task that differs has a line of its own") {
  Folder folder(4);
  for (std::uint32_t rank : {0, 1, 3}) add(folder, rank, "same\n");
  add(folder, 2, "other\n");
  CHECK(looked() == Lines{"[0-1,3]: same"});
  CHECK(flushed(folder) == Lines{"2: other"});
}

TEST_CASE_METHOD(FolderFixture, "a line goes out when all tasks have written it or have gone past it") {
  Folder folder(3);
  add(folder, 0, "x\n");
  add(folder, 1, "y\n");
  add(folder, 1, "x\n");
  CHECK(lines.empty());
  add(folder, 2, "y\n");
  CHECK(looked() == Lines{"0: x"});
  add(folder, 2, "x\n");
  CHECK(lines.empty());
  add(folder, 0, "z\n");
  CHECK(looked() == Lines{"[1-2]: y", "[1-2]: x"});
  CHECK(flushed(folder) == Lines{"0: z"});
}

TEST_CASE_METHOD(FolderFixture, "each task's lines stay in their order") {
  Folder folder(2);
  add(folder, 0, "a\nb\na\n");
  add(folder, 1, "b\n");
  CHECK(looked() == Lines{"0: a", "[0-1]: b"});
  add(folder, 1, "a\n");
  CHECK(looked() == Lines{"[0-1]: a"});
  add(folder, 0, "b\na\n");
  add(folder, 1, "a\nb\n");
  CHECK(looked() == Lines{"0: b", "[0-1]: a"});
  CHECK(flushed(folder) == Lines{"1: b"});
}

TEST_CASE_METHOD(FolderFixture, "a line that a task writes twice is there twice") {
  Folder folder(2);
  add(folder, 0, "x\nx\nx\n");
  add(folder, 1, "x\n");
  CHECK(looked() == Lines{"[0-1]: x"});
  add(folder, 1, "x\ny\n");
  CHECK(looked() == Lines{"[0-1]: x", "0: x"});
  CHECK(flushed(folder) == Lines{"1: y"});
}

TEST_CASE_METHOD(FolderFixture, "nobody waits for a source that has ended") {
  Folder folder(3);
  add(folder, 0, "x\n");
  add(folder, 1, "x\n");
  end(folder, 2);
  CHECK(looked() == Lines{"[0-1]: x"});
  add(folder, 0, "last\n");
  end(folder, 0);
  CHECK(lines.empty());
  add(folder, 1, "last\n");
  CHECK(looked() == Lines{"[0-1]: last"});
  add(folder, 1, "alone\n");
  CHECK(looked() == Lines{"1: alone"});
  end(folder, 1);
  CHECK(flushed(folder).empty());
}

TEST_CASE_METHOD(FolderFixture, "the last source's end lets go of all") {
  Folder folder(2);
  add(folder, 0, "a\nb\n");
  end(folder, 0);
  CHECK(lines.empty());
  end(folder, 1);
  CHECK(looked() == Lines{"0: a", "0: b"});
}

TEST_CASE_METHOD(FolderFixture, "a source that ended after its line had gone is not counted") {
  Folder folder(3);
  add(folder, 0, "x\n");
  folder.expire(kForever, emit());
  end(folder, 0);
  CHECK(looked() == Lines{"0: x"});
  add(folder, 1, "y\n");
  CHECK(lines.empty());
  add(folder, 2, "y\n");
  CHECK(looked() == Lines{"[1-2]: y"});
}

TEST_CASE_METHOD(FolderFixture, "a late task makes a second line") {
  Folder folder(3);
  add(folder, 0, "x\n", Stream::out, 10);
  add(folder, 1, "x\n", Stream::out, 10.05);
  CHECK(folder.deadline() == 10 + Folder::kDelay);
  folder.expire(10.09, emit());
  CHECK(lines.empty());
  folder.expire(*folder.deadline(), emit());
  CHECK(looked() == Lines{"[0-1]: x"});
  add(folder, 2, "x\n", Stream::out, 10.2);
  CHECK(lines.empty());
  CHECK(flushed(folder) == Lines{"2: x"});
}

TEST_CASE_METHOD(FolderFixture, "lines expire one by one, with the time of the first who wrote them") {
  Folder folder(2);
  add(folder, 0, "a\n", Stream::out, 1);
  add(folder, 0, "b\n", Stream::out, 1.5);
  CHECK(folder.deadline() == 1 + Folder::kDelay);
  folder.expire(1.2, emit());
  CHECK(lines == Lines{"0: a"});
  CHECK(folder.deadline() == 1.5 + Folder::kDelay);
  add(folder, 1, "b\n", Stream::out, 1.55);
  CHECK(times == std::vector<double>{1, 1.5});
  CHECK(looked() == Lines{"0: a", "[0-1]: b"});
  CHECK_FALSE(folder.deadline());
  folder.expire(100, emit());
  CHECK(lines.empty());
}

TEST_CASE_METHOD(FolderFixture, "a window that overflows lets go of the oldest lines") {
  Folder folder(2);
  std::string big(Folder::kWindow / 2 - 1000, 'x');
  add(folder, 0, big + "1\n");
  add(folder, 0, big + "2\n");
  CHECK(lines.empty());
  add(folder, 0, std::string(3000, 'y') + "\n");
  CHECK((looked() == Lines{"0: " + big + "1"}));
  add(folder, 1, big + "2\n");
  CHECK((looked() == Lines{"[0-1]: " + big + "2"}));
  add(folder, 1, big + big + big + "\n");
  CHECK((looked() == Lines{"0: " + std::string(3000, 'y'), "1: " + big + big + big}));
  CHECK_FALSE(folder.deadline());
  add(folder, 0, "after\n");
  add(folder, 1, "after\n");
  CHECK(looked() == Lines{"[0-1]: after"});
}

TEST_CASE_METHOD(FolderFixture, "the two streams are folded apart, and stay in their order") {
  Folder folder(2);
  add(folder, 0, "x\n", Stream::out);
  add(folder, 0, "x\n", Stream::err);
  add(folder, 1, "x\n", Stream::err);
  CHECK(lines.empty());
  add(folder, 1, "x\n", Stream::out);
  CHECK(looked() == Lines{"[0-1]: x", "err [0-1]: x"});
  end(folder, 0, Stream::err);
  add(folder, 1, "alone\n", Stream::err);
  CHECK(looked() == Lines{"err 1: alone"});
  add(folder, 1, "both\n", Stream::out);
  CHECK(lines.empty());
  add(folder, 0, "both\n", Stream::out);
  CHECK(looked() == Lines{"[0-1]: both"});
}

TEST_CASE_METHOD(FolderFixture, "head and body are one text, and a line without an end gets one") {
  Folder folder(2);
  Source source{0, Stream::out};
  folder.add({&source, 0, "a\nb", "c\nd", false, false}, emit());
  add(folder, 1, "a\nbc\nd\n");
  CHECK(looked() == Lines{"[0-1]: a", "[0-1]: bc", "0: d"});
  CHECK(flushed(folder) == Lines{"1: d"});
}

TEST_CASE_METHOD(FolderFixture, "one task writes as many equal lines as it likes") {
  Folder folder(2);
  std::string many(5'000, '\n');
  add(folder, 0, many);
  add(folder, 1, many);
  CHECK((flushed(folder) == Lines(5'000, "[0-1]: ")));
}

TEST_CASE_METHOD(FolderFixture, "any lines in any order: what each task wrote is in what comes out, in order") {
  auto seed = GENERATE(range(0U, 30U));
  std::mt19937 random(seed);
  std::size_t tasks = 1 + random() % 8;
  unsigned variety = 1 + static_cast<unsigned>(random() % 6);
  Folder folder(tasks);
  using Key = std::pair<std::uint32_t, Stream>;
  std::map<Key, std::string> written;
  std::map<Key, std::string> read;
  std::map<Key, bool> ended;
  auto take = [&](const Batch& batch) {
    std::string label = batch.source->label.substr(0, batch.source->label.size() - 2);
    if (label.front() == '[') label = label.substr(1, label.size() - 2);
    auto ranks = nacre::value::Idset::parse(label).value();
    if (!ranks.contains(batch.source->rank)) FAIL(batch.source->rank << " is not in " << label);
    for (auto rank : ranks.ids()) read[{rank, batch.source->stream}] += batch.body;
  };
  for (int round = 0; round < 300; ++round) {
    double time = round * 0.01;
    Source source{static_cast<std::uint32_t>(random() % tasks), random() % 4 == 0 ? Stream::err : Stream::out};
    Key key{source.rank, source.stream};
    if (ended[key]) continue;
    if (random() % 100 == 0) {
      ended[key] = true;
      folder.end(source, take);
      continue;
    }
    std::string text;
    for (auto count = 1 + random() % 4; count > 0; --count) {
      text += std::string(random() % 80 == 0 ? 300'000 : 1, static_cast<char>('a' + random() % variety)) + '\n';
    }
    std::size_t split = random() % 2 == 0 ? 0 : random() % text.size();
    folder.add({&source, time, std::string_view(text).substr(0, split), std::string_view(text).substr(split)},
               take);
    written[key] += text;
    if (random() % 16 == 0) {
      folder.expire(time, take);
      if (folder.deadline()) CHECK(*folder.deadline() > time);
    }
  }
  folder.expire(kForever, take);
  CHECK((read == written));
  CHECK_FALSE(folder.deadline());
}
