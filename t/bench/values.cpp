// SPDX-License-Identifier: Apache-2.0
//
// How long idsets of a million ids and hostlists of 100,000 names take: one line an operation, the median of seven
// runs. Build it with the release preset.
#include <random>

#include "value/hostlist.hpp"
#include "value/idset.hpp"

using nacre::value::Hostlist;
using nacre::value::Idset;

namespace {

constexpr std::size_t kRuns = 7;
constexpr std::uint32_t kIds = 1'000'000;
constexpr std::uint32_t kHosts = 100'000;

// What each operation returns is added up and printed: none of it can be left out by the compiler.
std::uint64_t checksum = 0;  // NOLINT: of this program only

template <typename Operation>
void bench(const std::string& name, std::size_t size, Operation operation) {
  std::array<double, kRuns> times{};
  for (double& time : times) {
    auto start = std::chrono::steady_clock::now();
    checksum += operation();
    time = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  std::printf("%-44s %10zu %10.3f\n", name.c_str(), size, times[kRuns / 2]);
}

template <typename T>
T parsed(const std::string& text) {
  auto value = T::parse(text);
  if (value) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.error().message.c_str());
  std::exit(1);
}

void bench_idset(const std::string& kind, const std::vector<Idset::Id>& ids) {
  auto name = [&](std::string_view operation) { return "idset, " + kind + ": " + std::string(operation); };
  const Idset set = Idset::of(ids);
  const Idset other = Idset::range(kIds / 3, kIds) | Idset::of(std::vector<Idset::Id>{1, 5, 9});
  const std::string text = set.str();
  bench(name("build"), ids.size(), [&] { return Idset::of(ids).size(); });
  bench(name("str"), ids.size(), [&] { return set.str().size(); });
  bench(name("parse"), ids.size(), [&] { return parsed<Idset>(text).size(); });
  bench(name("intersect"), ids.size(), [&] { return (set & other).size(); });
  bench(name("unite"), ids.size(), [&] { return (set | other).size(); });
  bench(name("subtract"), ids.size(), [&] { return (set - other).size(); });
  bench(name("ids"), ids.size(), [&] { return set.ids().size(); });
  bench(name("contains, each id"), ids.size(), [&] {
    return static_cast<std::uint64_t>(
        std::count_if(ids.begin(), ids.end(), [&](auto id) { return set.contains(id); }));
  });
  bench(name("next, from first to last"), ids.size(), [&] {
    std::uint64_t count = 0;
    for (auto id = set.first(); id; id = set.next(*id)) ++count;
    return count;
  });
}

void bench_idsets() {
  std::vector<Idset::Id> ids(kIds);
  std::iota(ids.begin(), ids.end(), 0);
  bench_idset("contiguous", ids);
  bench("idset, contiguous: insert one by one", kIds, [&] {
    Idset set;
    for (Idset::Id id : ids) set.insert(id);
    return set.size();
  });
  std::shuffle(ids.begin(), ids.end(), std::mt19937(1));
  bench_idset("shuffled", ids);
  for (std::uint32_t i = 0; i < kIds; ++i) ids[i] = 2 * i;
  bench_idset("alternating", ids);
}

void bench_hostlist(const std::string& kind, const std::vector<std::string>& names) {
  auto name = [&](std::string_view operation) { return "hostlist, " + kind + ": " + std::string(operation); };
  auto build = [](const std::vector<std::string>& from) {
    Hostlist list;
    for (const std::string& each : from) list.append(each);
    return list;
  };
  const Hostlist list = build(names);
  const Hostlist half = build({names.begin() + kHosts / 4, names.end() - kHosts / 4});
  std::vector<std::string> mixed = names;
  std::shuffle(mixed.begin(), mixed.end(), std::mt19937(1));
  const Hostlist shuffled = build(mixed);
  const std::string text = list.str();
  bench(name("build"), names.size(), [&] { return build(names).size(); });
  bench(name("str"), names.size(), [&] { return list.str().size(); });
  bench(name("parse"), names.size(), [&] { return parsed<Hostlist>(text).size(); });
  bench(name("names"), names.size(), [&] { return list.names().size(); });
  bench(name("find, the last"), 1, [&] { return *list.find(names.back()); });
  bench(name("nth, each"), names.size(), [&] {
    std::uint64_t sum = 0;
    for (std::uint64_t n = 0; n < list.size(); ++n) sum += list.nth(n)->size();
    return sum;
  });
  bench(name("sort"), names.size(), [&] {
    Hostlist copy = list;
    copy.sort();
    return copy.size();
  });
  bench(name("sort, shuffled"), names.size(), [&] {
    Hostlist copy = shuffled;
    copy.sort();
    return copy.size();
  });
  bench(name("uniq, twice the list"), 2 * names.size(), [&] {
    Hostlist copy = list;
    copy.append(list);
    copy.uniq();
    return copy.size();
  });
  bench(name("remove half"), names.size(), [&] {
    Hostlist copy = list;
    return copy.remove(half);
  });
}

void bench_hostlists() {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < kHosts; ++i) names.push_back("node" + std::to_string(i));
  bench_hostlist("compressible", names);
  for (std::uint32_t i = 0; i < kHosts; ++i)
    names[i] = "rack" + std::to_string(i) + "-" + std::to_string(i * 7919 % 977);
  bench_hostlist("not compressible", names);
}

}  // namespace

int main() {
  std::printf("%-44s %10s %10s\n", "operation", "size", "ms");
  bench_idsets();
  bench_hostlists();
  std::printf("checksum %llu\n", static_cast<unsigned long long>(checksum));
}
