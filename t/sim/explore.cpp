// SPDX-License-Identifier: Apache-2.0
//
// Searches breadth first, so that a broken invariant is found in as few steps as possible. Of each seen state only
// 128 bits of a hash are kept, and the choice that led to it.
#include "explore.hpp"

#include <stdexcept>

#include "base/text.hpp"
#include "broken.hpp"
#include "explore_world.hpp"

namespace nacre::sim {
namespace {

struct Digest {
  std::uint64_t a = 0, b = 0;
  bool operator==(const Digest&) const = default;
};

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * b;
  z = (z ^ (z >> 32U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 29U);
}

Digest hashed(std::string_view bytes) {
  Digest out{0x243f6a8885a308d3U ^ bytes.size(), 0x13198a2e03707344U};
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::string_view piece = bytes.substr(i, sizeof word);
    std::copy(piece.begin(), piece.end(), reinterpret_cast<char*>(&word));  // NOLINT
    out.a = mixed(out.a ^ word, 0x9e3779b97f4a7c15U);
    out.b = mixed(out.b + word, 0xd6e8feb86659fd93U) ^ out.a;
  }
  return out;
}

// An open table of digests.
class Seen {
 public:
  // Adds a digest, and returns whether it is new.
  bool add(Digest digest) {
    if (digest == Digest{}) digest.b = 1;
    if (2 * (size_ + 1) > table_.size()) grow();
    return put(digest);
  }

 private:
  bool put(const Digest& digest) {
    for (std::size_t i = digest.a & (table_.size() - 1);; i = (i + 1) & (table_.size() - 1)) {
      if (table_[i] == digest) return false;
      if (!(table_[i] == Digest{})) continue;
      table_[i] = digest;
      ++size_;
      return true;
    }
  }
  void grow() {
    std::vector<Digest> before(table_.size() * 2);
    before.swap(table_);
    size_ = 0;
    for (const Digest& each : before) {
      if (!(each == Digest{})) put(each);
    }
  }

  std::vector<Digest> table_ = std::vector<Digest>(1 << 16U);
  std::size_t size_ = 0;
};

class Exploration {
 public:
  explicit Exploration(const Bounds& bounds) : bounds_(bounds), explorer_(bounds, nodes_) {}

  bool run();

 private:
  struct Reached {
    std::uint32_t from = 0, choice = 0;
  };
  struct Open {
    std::uint32_t state;
    std::string bytes;
  };

  bool expand(const Open& open);
  bool step(const Open& open, const Choice& choice, std::uint32_t number);
  void print(std::uint32_t state, const Choice& last, const std::string& broken);
  void report(double took) const;

  const Bounds& bounds_;
  Nodes nodes_;
  Explorer explorer_;
  Situation first_;
  Seen seen_;
  std::vector<Reached> reached_;
  std::deque<Open> open_;
  std::vector<Choice> choices_;
  std::string bytes_;
  std::uint64_t steps_ = 0, beyond_ = 0, rests_ = 0, longest_ = 0;
};

bool Exploration::run() {
  const auto start = std::chrono::steady_clock::now();
  explorer_.begin();
  first_ = explorer_.at;
  first_.write(bytes_);
  seen_.add(hashed(bytes_));
  reached_.push_back({});
  open_.push_back({0, bytes_});
  std::uint64_t level_ends = 1;
  for (; !open_.empty() && reached_.size() < bounds_.states; open_.pop_front()) {
    if (open_.front().state == level_ends) {
      ++longest_;
      level_ends = reached_.size();
    }
    if (!expand(open_.front())) return false;
  }
  report(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return open_.empty();
}

bool Exploration::expand(const Open& open) {
  explorer_.at.read(open.bytes);
  if (explorer_.is_beyond()) {
    ++beyond_;
    return true;
  }
  std::vector<Choice> choices;
  explorer_.choices(choices);
  for (std::uint32_t i = 0; i < choices.size(); ++i) {
    if (i > 0) explorer_.at.read(open.bytes);
    if (!step(open, choices[i], i)) return false;
  }
  return true;
}

bool Exploration::step(const Open& open, const Choice& choice, std::uint32_t number) {
  ++steps_;
  try {
    explorer_.carry_out(choice);
  } catch (const Broken& failure) {
    print(open.state, choice, failure.what);
    return false;
  } catch (const std::logic_error& failure) {
    print(open.state, choice, failure.what());
    return false;
  }
  rests_ += explorer_.was_at_rest;
  bytes_.clear();
  explorer_.at.write(bytes_);
  if (!seen_.add(hashed(bytes_))) return true;
  open_.push_back({static_cast<std::uint32_t>(reached_.size()), bytes_});
  reached_.push_back({open.state, number});
  return true;
}

void Exploration::print(std::uint32_t state, const Choice& last, const std::string& broken) {
  std::vector<std::uint32_t> way;
  for (; state != 0; state = reached_[state].from) way.push_back(reached_[state].choice);
  std::printf("A job of %u members, in which all is well. Then:\n\n", bounds_.members);
  explorer_.at = first_;
  explorer_.says = true;
  for (auto each = way.rbegin(); each != way.rend(); ++each) {
    explorer_.choices(choices_);
    explorer_.carry_out(choices_[*each]);
    std::string bytes;  // links in the order of the search
    explorer_.at.write(bytes);
    explorer_.at.read(bytes);
  }
  try {
    explorer_.carry_out(last);
  } catch (const Broken&) {  // printed below
  } catch (const std::logic_error&) {
  }
  std::printf("\nBROKEN: %s\n", broken.c_str());
}

void Exploration::report(double took) const {
  const char* all = open_.empty() ? "all of them" : "NOT ALL of them";
  std::printf(
      "%u members, %u terms, %u faults, %u events, %u delays: %zu states, %llu steps, up to %llu in a row, %llu "
      "beyond "
      "the terms, %llu times at rest; a node has %zu states, %llu calls of them, %llu pairs of equal ones "
      "compared: "
      "%s, in %.1f s: clean\n",
      bounds_.members, bounds_.terms, bounds_.faults, bounds_.events, bounds_.delays, reached_.size(),
      static_cast<unsigned long long>(steps_), static_cast<unsigned long long>(longest_),  // NOLINT
      static_cast<unsigned long long>(beyond_), static_cast<unsigned long long>(rests_),   // NOLINT
      nodes_.size(), static_cast<unsigned long long>(nodes_.calls),                        // NOLINT
      static_cast<unsigned long long>(nodes_.compared), all, took);                        // NOLINT
}

std::uint32_t count_of(std::string_view text) {
  auto value = parse_u64(text);
  require(value && *value <= UINT32_MAX, "not a number: " + std::string(text));
  return static_cast<std::uint32_t>(*value);
}

void choose_faults(Bounds& bounds, std::string_view names) {
  bounds.crashes = bounds.freezes = bounds.cuts = false;
  for (std::string_view each : split(names, ',')) {
    bool* fault = each == "crash" ? &bounds.crashes : each == "freeze" ? &bounds.freezes : &bounds.cuts;
    require(fault != &bounds.cuts || each == "cut", "not one of crash, freeze and cut: " + std::string(each));
    *fault = true;
  }
}

}  // namespace

bool run_exploration(const std::vector<std::string_view>& words) {
  Bounds bounds;
  for (std::string_view word : words) {
    std::string_view value = word.substr(std::min(word.find('=') + 1, word.size()));
    if (word.starts_with("--members=")) {
      bounds.members = count_of(value);
    } else if (word.starts_with("--terms=")) {
      bounds.terms = count_of(value);
    } else if (word.starts_with("--faults=")) {
      choose_faults(bounds, value);
    } else if (word.starts_with("--most-faults=")) {
      bounds.faults = count_of(value);
    } else if (word.starts_with("--events=")) {
      bounds.events = count_of(value);
    } else if (word.starts_with("--delays=")) {
      bounds.delays = count_of(value);
    } else if (word == "--arbiter") {
      bounds.arbiter = true;
    } else if (word.starts_with("--states=")) {
      bounds.states = count_of(value);
    } else {
      throw Broken{"unknown argument " + std::string(word) + "; see sim --help"};
    }
  }
  require(bounds.members >= 2 && bounds.members <= kMostExplored,
          fmt::format("--members: from 2 to {} can be explored", kMostExplored));
  return Exploration(bounds).run();
}

}  // namespace nacre::sim
