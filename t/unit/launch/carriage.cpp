// SPDX-License-Identifier: Apache-2.0
#include "launch/record.hpp"

#include <random>

#include "catch.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::launch;  // NOLINT

namespace {

const std::string kToken = "0123456789abcdef0123456789abcdef";

struct Reader {
  explicit Reader(bool is_labelled = false) : reader(kToken, callbacks(), is_labelled) {}
  CarriageReader::Callbacks callbacks() {
    CarriageReader::Callbacks out;
    out.on_other = [this](std::string_view bytes) { other += bytes; };
    out.on_message = [this](std::string_view channel, std::string_view message) {
      messages.push_back(std::string(channel) + ":" + std::string(message));
    };
    out.on_loss = [this] { ++losses; };
    return out;
  }

  std::string other;
  std::vector<std::string> messages;
  int losses = 0;
  CarriageReader reader;
};

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& each : lines) out += each;
  return out;
}

std::string all_bytes(std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < size; ++i) out += static_cast<char>(i * 7 % 256);
  return out;
}

}  // namespace

TEST_CASE("a message comes as it was sent, in lines of at most 900 bytes") {
  for (std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{800}, std::size_t{5000}, std::size_t{100000}}) {
    CarriageWriter writer(kToken);
    std::string message = all_bytes(size);
    std::vector<std::string> lines = writer.lines("exit-notify", message);
    for (const std::string& each : lines) {
      CHECK(each.size() <= CarriageWriter::kMaxLine);
      CHECK(each.find('\n') == each.size() - 1);
      CHECK(each.find('\x1e') == 0);
    }
    Reader reader;
    reader.reader.take(joined(lines));
    CHECK(reader.messages == std::vector<std::string>{"exit-notify:" + message});
    CHECK(reader.other.empty());
  }
}

TEST_CASE("lines may begin anywhere, and all else is passed on unchanged, however the bytes come") {
  std::mt19937 random(7);
  CarriageWriter writer(kToken);
  std::string stream;
  std::string other;
  std::vector<std::string> messages;
  for (int i = 0; i < 200; ++i) {
    std::string text = i % 3 == 0 ? all_bytes(random() % 300) : std::string(random() % 50, 'x');
    if (i % 5 == 0) text += "\x1e" + kToken.substr(0, random() % kToken.size()) + "!";
    other += text;
    stream += text;
    std::string message = all_bytes(random() % 2000);
    stream += joined(writer.lines("c", message));
    messages.push_back("c:" + message);
  }
  for (std::size_t most : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, stream.size()}) {
    Reader reader;
    for (std::size_t at = 0; at < stream.size(); at += most) reader.reader.take(stream.substr(at, most));
    reader.reader.end();
    CHECK(reader.other == other);
    CHECK(reader.messages == messages);
    CHECK(reader.losses == 0);
  }
}

TEST_CASE("what is no line is passed on at once, but for the start of one, at the end too") {
  Reader reader;
  reader.reader.take("prompt> ");
  CHECK(reader.other == "prompt> ");
  reader.reader.take(
      "a\x1e"
      "0123x");
  CHECK(reader.other ==
        "prompt> a\x1e"
        "0123x");
  reader.reader.take("\x1e" + kToken + " 1 c ");
  CHECK(reader.other.size() == 15);
  reader.reader.end();
  CHECK(reader.other.substr(15) == "\x1e" + kToken + " 1 c ");
}

TEST_CASE("lines of another token are no lines") {
  CarriageWriter forger("f123456789abcdef0123456789abcdef");
  std::string forged = joined(forger.lines("c", "forged"));
  Reader reader;
  reader.reader.take(forged);
  CHECK(reader.other == forged);
  CHECK(reader.messages.empty());
}

TEST_CASE("the next leader's line begins anew, and is no loss; of another one it would be") {
  for (const char* channel : {"leads", "report"}) {
    Reader reader;
    CarriageWriter lost(kToken), next(kToken);
    reader.reader.take(joined(lost.lines("joined", "")));
    reader.reader.take(lost.lines("report", all_bytes(5000)).front());  // the rest of this message never comes
    const NextLeader leader{"node1", "12"};
    reader.reader.take(joined(next.lines(channel, leader.message())));
    const bool is_leads = std::string_view(channel) == Carriage::kLeads;
    CHECK(reader.losses == (is_leads ? 0 : 1));
    CHECK(reader.messages.size() == (is_leads ? 2 : 1));
    if (is_leads) CHECK(reader.messages[1] == R"(leads:{"allocation":"12","host":"node1"})");
  }
  Reader reader;  // one that would lead says so between the lines of the leader
  CarriageWriter leader(kToken), other(kToken);
  const std::vector<std::string> parts = leader.lines("report", all_bytes(5000));
  reader.reader.take(parts.front());
  reader.reader.take(joined(other.lines("wanted", "{}")));
  for (std::size_t i = 1; i < parts.size(); ++i) reader.reader.take(parts[i]);
  CHECK(reader.messages == std::vector<std::string>{"wanted:{}", "report:" + all_bytes(5000)});
  CHECK(reader.losses == 0);
  CHECK(NextLeader::parse(R"({"allocation":"12","host":"node1"})").value().host == "node1");
  for (const char* wrong : {R"({"allocation":"12","host":"-w"})", R"({"allocation":"","host":"n"})", "{", "[]"})
    CHECK_FALSE(NextLeader::parse(wrong));
}

TEST_CASE("messages of two channels do not mix, and follow each other") {
  CarriageWriter writer(kToken);
  Reader reader;
  reader.reader.take(joined(writer.lines("a", "one")));
  reader.reader.take(joined(writer.lines("b", all_bytes(3000))));
  reader.reader.take(joined(writer.lines("a", "two")));
  CHECK(reader.messages == std::vector<std::string>{"a:one", "b:" + all_bytes(3000), "a:two"});
}

TEST_CASE("a line that is missing or broken is noticed, and the next message comes whole") {
  CarriageWriter writer(kToken);
  std::vector<std::string> first = writer.lines("c", std::string(3000, 'm'));
  std::string second = joined(writer.lines("c", "second"));
  std::string third = joined(writer.lines("c", "third"));
  REQUIRE(first.size() == 4);
  for (std::size_t broken = 0; broken < first.size(); ++broken) {
    for (int how = 0; how < 3; ++how) {
      std::vector<std::string> lines = first;
      std::string& line = lines[broken];
      if (how == 0) line.clear();
      if (how == 1) line.insert(line.size() / 2, "nacre-shell[2]: error\n");
      if (how == 2) line[line.size() / 2] ^= 1;
      Reader reader;
      reader.reader.take(joined(lines) + second + third);
      INFO(broken << ", " << how);
      CHECK(reader.losses >= 1);
      CHECK(reader.messages.back() == "c:third");
      CHECK(std::count(reader.messages.begin(), reader.messages.end(), "c:" + std::string(3000, 'm')) == 0);
      for (const std::string& each : reader.messages) CHECK((each == "c:second" || each == "c:third"));
      if (how == 1) CHECK(reader.other.find("nacre-shell[2]: error\n") != std::string::npos);
    }
  }
}

TEST_CASE("a carriage in the launch record is checked") {
  Carriage carriage = Carriage::with_new_token().value();
  CHECK(carriage.token != Carriage::with_new_token()->token);
  CHECK(carriage.check());
  carriage.channels.assign(Carriage::kMaxChannels, "exit-notify");
  CHECK(carriage.check());
  carriage.channels.emplace_back("one-more");
  CHECK_FALSE(carriage.check());
  carriage.channels = {"exit-notify"};
  for (const char* bad : {"", "a b", "A", "x\n", "a-name-that-is-longer-than-32-bytes"}) {
    Carriage wrong = carriage;
    wrong.channels.push_back(bad);
    CHECK_FALSE(wrong.check());
  }
  carriage.token[3] = 'g';
  CHECK_FALSE(carriage.check());
}

TEST_CASE("of labelled lines, those of messages leave nothing, and what precedes one is a line of its own") {
  CarriageWriter writer(kToken);
  const auto message = [&](const std::string& text) {
    std::string out;
    for (const std::string& each : writer.lines("c", text)) out += " 3: " + each;
    return out;
  };
  std::string stream = " 3: one\n" + message("first") + " 3: cut" + writer.lines("c", "").front();
  stream += "12: \n" + message(all_bytes(2000)) + "srun: error: 7: 8\n 3: 4: 5\n 3:x\n  :\n 12 : 1\n\n" +
            message("last") + "12: ";
  const std::string other = " 3: one\n 3: cut\n12: \nsrun: error: 7: 8\n 3: 4: 5\n 3:x\n  :\n 12 : 1\n\n12: ";
  for (std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{100}, stream.size()}) {
    Reader reader(true);
    for (std::size_t at = 0; at < stream.size(); at += size)
      reader.reader.take(std::string_view(stream).substr(at, size));
    reader.reader.end();
    CHECK(reader.other == other);
    CHECK(reader.messages == std::vector<std::string>{"c:first", "c:", "c:" + all_bytes(2000), "c:last"});
    CHECK(reader.losses == 0);
  }
}

TEST_CASE("what may be a label waits for the next byte, all else of labelled lines comes at once") {
  Reader reader(true);
  reader.reader.take("3: ");
  CHECK(reader.other.empty());
  reader.reader.take("a");
  CHECK(reader.other == "3: a");
  reader.reader.take("12");
  CHECK(reader.other == "3: a12");
}
