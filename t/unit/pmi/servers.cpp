// SPDX-License-Identifier: Apache-2.0
//
// What the PMI-1 servers of others answer, servers/*.txt: the client takes each of them as meant. A line is one of
//
//   # a comment
//   ? REQUEST ARGUMENTS   what the client is asked for
//   > what it says
//   < what the server answers
//   = what is read of the answer: a value or a number
//   ! the error that is made of it
//
// Behind the last line of an exchange the session is over if the request was finalize, and only then.
#include <filesystem>
#include <fstream>

#include "base/text.hpp"
#include "pmi/client.hpp"
#include "world.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::pmi;  // NOLINT

namespace {

class Exchange {
 public:
  void run(const std::filesystem::path& path) {
    std::ifstream file(path);
    REQUIRE(file);
    std::string text;
    for (int number = 1; std::getline(file, text); ++number) {
      INFO(path.filename().string() << ":" << number << ": " << text);
      if (!text.empty() && text[0] != '#') take(text[0], text.substr(std::min<std::size_t>(2, text.size())));
    }
    INFO("the end of " << path.filename().string());
    check_read("");
    CHECK(session_.is_over());
  }

 private:
  void take(char sign, const std::string& text) {
    if (sign == '?') {
      check_read("");
      CHECK_FALSE(session_.is_over());
      ask(text);
    } else if (sign == '>') {
      REQUIRE(said_ == text + "\n");
    } else if (sign == '<') {
      answer(text);
    } else {
      REQUIRE((sign == '=' || sign == '!'));
      check_read(sign + (" " + text));
    }
  }

  void ask(const std::string& text) {
    std::vector<std::string_view> words = split(text, ' ');
    words.resize(3);
    const std::map<std::string_view, std::function<Result<std::string>()>> requests = {
        {"init", [&] { return session_.init(); }},
        {"get_maxes", [&] { return session_.get_maxes(); }},
        {"get_kvsname", [&] { return session_.get_kvsname(); }},
        {"get_universe_size", [&] { return session_.get_universe_size(); }},
        {"get_appnum", [&] { return session_.get_appnum(); }},
        {"put", [&] { return session_.put(words[1], words[2]); }},
        {"get", [&] { return session_.get(words[1]); }},
        {"barrier", [&] { return session_.barrier(); }},
        {"publish", [&] { return session_.publish(words[1], words[2]); }},
        {"lookup", [&] { return session_.lookup(words[1]); }},
        {"unpublish", [&] { return session_.unpublish(words[1]); }},
        {"finalize", [&] { return session_.finalize(); }},
    };
    auto request = requests.find(words[0]);
    REQUIRE(request != requests.end());
    auto said = request->second();
    REQUIRE(said);
    said_ = *said;
  }

  void answer(const std::string& text) {
    auto reply = session_.receive(text + "\n");
    if (!reply) {
      read_ = "! " + reply.error().message;
      return;
    }
    REQUIRE(*reply);
    const std::string& request = (**reply).request;
    if (request == "get_maxes") {
      const auto& maxes = *session_.maxes();
      read_ = fmt::format("= {} {} {}", maxes.name, maxes.key, maxes.value);
    } else if (request == "get_appnum" || request == "get_universe_size") {
      read_ = fmt::format("= {}", (**reply).number);
    } else if (!(**reply).text.empty()) {
      read_ = "= " + (**reply).text;
    }
  }

  void check_read(const std::string& expected) { REQUIRE(std::exchange(read_, "") == expected); }

  ClientSession session_;
  std::string said_;
  std::string read_;  // of the last answer, and not compared yet
};

}  // namespace

TEST_CASE("client: the answers of others' servers") {
  const std::string folder = NACRE_SOURCE_DIR "/t/unit/pmi/servers";
  for (const std::string name : {"flux", "hydra-4.0", "hydra-4.1", "hydra-4.3", "hydra-5.0", "slurm"}) {
    DYNAMIC_SECTION(name) { Exchange().run(folder + "/" + name + ".txt"); }
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 6);
}
