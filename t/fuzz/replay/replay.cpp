// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target without libFuzzer:
//
//   fuzz_replay NAME CORPUS [--mutations N] [--seed S]
//
// each file of the folder CORPUS, then N mutations of them, the same ones for the same S. Before each run the input
// is written to fuzz_NAME.input in the working folder; it stays there if the run ends the program.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

// Of each target, as the build names it.
#define TARGET(name) extern "C" int fuzz_##name(const unsigned char* data, std::size_t size);
#include "targets.inc"
#undef TARGET

namespace {

struct Target {
  std::string_view name;
  int (*run)(const unsigned char* data, std::size_t size);
};

#define TARGET(name) Target{#name, fuzz_##name},
const Target kTargets[] = {
#include "targets.inc"
};
#undef TARGET

constexpr std::size_t kMaxInput = std::size_t{1} << 16;  // bytes of a mutation
constexpr std::uint64_t kMaxEdits = 4;                   // in a row, on one input

// Numbers at which parsers go wrong.
constexpr std::array<std::string_view, 16> kNumbers = {"0",
                                                       "1",
                                                       "-1",
                                                       "65536",
                                                       "16777216",
                                                       "16777217",
                                                       "2147483647",
                                                       "2147483648",
                                                       "4294967294",
                                                       "4294967295",
                                                       "01",
                                                       "4294967296",
                                                       "1e999",
                                                       "0.5",
                                                       "9223372036854775807",
                                                       "18446744073709551616"};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "replay: %s\n", message.c_str());
  std::exit(2);
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, std::uint64_t seed) : corpus_(corpus), random_(seed) {}

  std::string next() {
    std::string input = corpus_[below(corpus_.size())];
    for (std::uint64_t edits = 1 + below(kMaxEdits); edits > 0; --edits) edit(input);
    if (input.size() > kMaxInput) input.resize(kMaxInput);
    return input;
  }

 private:
  // The remainder, not a standard distribution: those differ between libraries, and so would the series.
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  char byte() { return static_cast<char>(below(256)); }

  void edit(std::string& input) {
    std::size_t at = below(input.size() + 1);
    std::size_t count = below(std::min<std::size_t>(input.size() - at, 16) + 1);
    switch (below(7)) {
      case 0: flip(input); break;
      case 1: input.insert(at, 1, byte()); break;
      case 2: input.erase(at, count); break;
      case 3: input.insert(below(input.size() + 1), input.substr(at, count)); break;
      case 4: splice(input, at); break;
      case 5: swap_number(input); break;
      case 6: borrow_byte(input); break;
    }
  }

  void flip(std::string& input) {
    if (input.empty()) return;
    char& c = input[below(input.size())];
    c = static_cast<char>(c ^ 1 << below(8));
  }

  // The head of this input and the tail of another one.
  void splice(std::string& input, std::size_t at) {
    const std::string& other = corpus_[below(corpus_.size())];
    input.resize(at);
    input += other.substr(below(other.size() + 1));
  }

  void swap_number(std::string& input) {
    constexpr std::string_view kDigits = "0123456789";
    std::size_t first = input.find_first_of(kDigits, below(input.size() + 1));
    if (first == std::string::npos) return;
    std::size_t end = std::min(input.find_first_not_of(kDigits, first), input.size());
    input.replace(first, end - first, kNumbers[below(kNumbers.size())]);
  }

  // A byte that the format is known to use.
  void borrow_byte(std::string& input) {
    const std::string& other = corpus_[below(corpus_.size())];
    if (input.empty() || other.empty()) return;
    input[below(input.size())] = other[below(other.size())];
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

// The input at hand, on disk, so that even one that kills the program is known afterwards.
class LastInput {
 public:
  explicit LastInput(const Target& target)
      : target_(target),
        path_("fuzz_" + std::string(target.name) + ".input"),
        fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail("cannot write " + path_);
  }
  ~LastInput() {
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  LastInput(const LastInput&) = delete;
  LastInput& operator=(const LastInput&) = delete;

  void run(const std::string& input) {
    auto size = static_cast<ssize_t>(input.size());
    if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, input.data(), input.size(), 0) != size)
      fail("cannot write " + path_);
    // A copy of its very size, so that a read beyond it is seen.
    std::vector<unsigned char> bytes(input.begin(), input.end());
    target_.run(bytes.data(), bytes.size());
  }

 private:
  const Target& target_;
  std::string path_;
  int fd_;
};

std::vector<std::string> read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    paths.push_back(it->path());
  }
  if (error) fail(folder.string() + ": " + error.message());
  if (paths.empty()) fail(folder.string() + ": no files");
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail("cannot read " + path.string());
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) fail("expected a number, got " + std::string(text));
  return value;
}

const Target& target_of(std::string_view name) {
  for (const Target& target : kTargets) {
    if (target.name == name) return target;
  }
  fail("no target " + std::string(name) + "; each is a file of t/fuzz");
}

constexpr const char* kUsage = "usage: NAME CORPUS [--mutations N] [--seed S]";

struct Options {
  std::string_view target;
  std::filesystem::path corpus;
  std::uint64_t mutations = 0;
  std::uint64_t seed = 1;
};

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view arg = argv[i];
    if ((arg == "--mutations" || arg == "--seed") && i + 1 < argc) {
      (arg == "--seed" ? options.seed : options.mutations) = number(argv[++i]);
    } else if (options.target.empty() && !arg.starts_with('-')) {
      options.target = arg;
    } else if (options.corpus.empty() && !arg.starts_with('-')) {
      options.corpus = arg;
    } else {
      fail(kUsage);
    }
  }
  if (options.corpus.empty()) fail(kUsage);
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  Options options = read_options(argc, argv);
  const Target& target = target_of(options.target);
  auto corpus = read_corpus(options.corpus);
  LastInput last(target);
  for (const std::string& input : corpus) last.run(input);
  Mutator mutator(corpus, options.seed);
  for (std::uint64_t i = 0; i < options.mutations; ++i) last.run(mutator.next());
  std::printf("%zu inputs and %llu mutations of them (seed %llu)\n", corpus.size(),
              static_cast<unsigned long long>(options.mutations), static_cast<unsigned long long>(options.seed));
}
