// SPDX-License-Identifier: Apache-2.0
//
// What notices of tasks' ends cost the leader: their size, and the time to make them. Build it with the release
// preset.
#include <random>

#include "exits/notice.hpp"

using namespace nacre::exits;  // NOLINT
using nacre::value::Idset;
using nacre::value::WaitStatus;

namespace {

constexpr int kRuns = 7;
constexpr std::uint32_t kCodes = 256;

using Ended = std::vector<std::pair<Idset, Record>>;  // what one shell, or a subtree of them, reports at once

double milliseconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

Record exit_code(std::uint32_t code) { return Record::of(WaitStatus::exited(static_cast<int>(code))); }

// Ranks first..last, each with a code at random.
Ended all_codes(std::uint32_t first, std::uint32_t last, std::mt19937& random) {
  std::vector<std::vector<Idset::Id>> ids(kCodes);
  for (std::uint32_t rank = first; rank <= last; ++rank) ids[random() % kCodes].push_back(rank);
  Ended out;
  for (std::uint32_t code = 0; code < kCodes; ++code) {
    if (!ids[code].empty()) out.emplace_back(Idset::of(ids[code]), exit_code(code));
  }
  return out;
}

// One task of a block fails, the others succeed.
Ended one_failure(std::uint32_t first, std::uint32_t last, std::mt19937& random) {
  auto failed = first + static_cast<std::uint32_t>(random() % (last - first + 1));
  return {{Idset::range(failed, failed), exit_code(3)},
          {Idset::range(first, last) - Idset::range(failed, failed), exit_code(0)}};
}

void take(Notifier& notifier, double now, const Ended& ended) {
  for (const auto& [ranks, record] : ended) notifier.record(now, ranks, record);
  notifier.drained(now, notifier.waiting());
}

void last_message(const char* what, std::uint32_t tasks, const Ended& ended) {
  std::vector<double> times;
  std::size_t bytes = 0;
  for (int run = 0; run < kRuns; ++run) {
    Notifier notifier({tasks, {}, tasks + 1});
    take(notifier, 0, ended);
    auto start = std::chrono::steady_clock::now();
    notifier.end(1, 1);
    bytes = notifier.next(0)->bytes();
    times.push_back(milliseconds(start));
  }
  fmt::print("{}: last message {} bytes, made in {:.3f} ms\n", what, bytes, median(times));
}

// Blocks of ranks come one after the other over ten seconds, in any order, and a client reads all. The leader's
// cpu.
void million(const char* what, std::uint32_t blocks, Ended (*make)(std::uint32_t, std::uint32_t, std::mt19937&)) {
  constexpr std::uint32_t kTasks = 1'000'000;
  std::mt19937 random(1);
  std::vector<Ended> all;
  for (std::uint32_t i = 0; i < blocks; ++i)
    all.push_back(make(kTasks / blocks * i, kTasks / blocks * (i + 1) - 1, random));
  std::shuffle(all.begin(), all.end(), random);
  auto start = std::chrono::steady_clock::now();
  Notifier notifier({kTasks, {}, 1});
  std::uint64_t seq = 0;
  std::uint64_t messages = 0;
  std::size_t bytes = 0;
  auto read = [&] {
    for (auto next = notifier.next(seq); next; next = notifier.next(seq)) {
      seq = next->seq;
      bytes += next->bytes();
      ++messages;
    }
  };
  for (std::uint32_t i = 0; i < blocks; ++i) {
    double now = 10.0 * i / blocks;
    take(notifier, now, all[i]);
    if (notifier.due() && *notifier.due() <= now) notifier.tick(now);
    read();
  }
  notifier.end(10, 1);
  read();
  fmt::print("{}: {:.0f} ms of cpu, {} messages, {} bytes\n", what, milliseconds(start), messages, bytes);
}

}  // namespace

int main() {
  std::mt19937 random(1);
  last_message("10,000 tasks of all codes", 10000, all_codes(0, 9999, random));
  Ended crash{{Idset::range(1, 1), Record::of(WaitStatus::killed(11))},
              {Idset::range(0, 9999) - Idset::range(1, 1), Record::victim(WaitStatus::killed(15))}};
  last_message("10,000 tasks, one crash", 10000, crash);
  Notifier news({10000, {}, 1});
  take(news, 0, crash);
  news.tick(1);
  fmt::print("10,000 tasks, one crash: message of news {} bytes\n", news.next(0)->bytes());
  million("1,000,000 tasks, a failure on each of 8,000 shells, each alone", 8000, one_failure);
  million("1,000,000 tasks of all codes, in 16 reports merged by the tree", 16, all_codes);
  return 0;
}
