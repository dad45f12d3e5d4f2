// SPDX-License-Identifier: Apache-2.0
#include "value/hostlist.hpp"

#include <algorithm>
#include <random>

#include "catch.hpp"

#include "fewer.hpp"
#include "hostlist_of.hpp"

TEST_CASE("sorting and dropping repeats") {
  struct Row {
    const char* text;
    const char* sorted;
    const char* unique;
  };
  const Row rows[] = {
      {"", "", ""},
      {"foo,f,bar,baz", "bar,baz,f,foo", "bar,baz,f,foo"},
      {"[5-6],[3-4],[1-2,0]", "[0-6]", "[0-6]"},
      {"[0-20],12,15", "[0-12,12-15,15-20]", "[0-20]"},
      {"0,1,2,3,4,5,1,5", "[0-1,1-5,5]", "[0-5]"},
      {"bar1,bar2,foo1,foo,foo", "bar[1-2],foo,foo,foo1", "bar[1-2],foo,foo1"},
      {"foo[5-6],foo[4-7]", "foo[4-5,5-6,6-7]", "foo[4-7]"},
      {"foo[0-3],foo[0-3]", "foo[0,0-1,1-2,2-3,3]", "foo[0-3]"},
      {"foo10,foo9,foo100,foo1", "foo[1,9-10,100]", "foo[1,9-10,100]"},
      {"n2,n02,n1,n01", "n1,n2,n01,n02", "n1,n2,n01,n02"},
      {"n10-ib,n9-ib,n9-eth", "n9-eth,n[9-10]-ib", "n9-eth,n[9-10]-ib"},
      {"r2n1,r10n1,r1n10,r1n9", "r1n[9-10],r2n1,r10n1", "r1n[9-10],r2n1,r10n1"},
      {"a1[1-2],a12", "a1[1-2],a12", "a1[1-2]"},
      {"z,a1[1-2],a[11-12]", "a11,a11,a12,a12,z", "a[11-12],z"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    Hostlist list = list_of(row.text);
    list.sort();
    CHECK(list == list_of(row.sorted));
    CHECK(list_of(list.str()) == list);
    list = list_of(row.text);
    list.uniq();
    CHECK(list == list_of(row.unique));
    CHECK(list_of(list.str()) == list);
  }
  Hostlist list = list_of("n3,n1,n2,login");
  list.sort();
  CHECK(list.str() == "login,n[1-3]");
}

TEST_CASE("removing takes the first occurrence of each name") {
  struct Row {
    const char* text;
    const char* other;
    std::uint64_t removed;
    const char* left;
  };
  const Row rows[] = {
      {"foo[2-5]", "foo6", 0, "foo[2-5]"},
      {"foo[2-5]", "foo3", 1, "foo[2,4-5]"},
      {"foo[2-5],fooi", "fooi", 1, "foo[2-5]"},
      {"foo[2-5],fooi", "foo[1-2]", 1, "foo[3-5],fooi"},
      {"foo[0-7]", "foo[1,0,2-7]", 8, ""},
      {"foo[2-4]-eth2", "foo3-eth2", 1, "foo[2,4]-eth2"},
      {"a,b,a,b,a", "a", 1, "b,a,b,a"},
      {"a,b,a,b,a", "a,a", 2, "b,b,a"},
      {"a,b", "a,a,c", 1, "b"},
      {"n[08-11,09]", "n08,n09", 2, "n[10-11],n09"},
      {"a1[1-3]", "a12", 1, "a1[1,3]"},
      {"", "a", 0, ""},
  };
  for (const Row& row : rows) {
    INFO(row.text << " - " << row.other);
    Hostlist list = list_of(row.text);
    CHECK(list.remove(list_of(row.other)) == row.removed);
    CHECK(list.str() == row.left);
    CHECK(list == list_of(row.left));
  }
  Hostlist list = list_of("a,b");
  CHECK(list.remove(list) == 2);
  CHECK(list.empty());
}

TEST_CASE("random lists behave as vectors of names do") {
  std::mt19937 random(29);
  auto below = [&](std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  const Names stems = {"n", "n0", "n1", "x-", ""};
  const Names ends = {"", "", "", "-ib", "5", ".org"};
  auto random_names = [&](std::uint32_t most) {
    Names names;
    for (std::uint32_t count = below(most); count > 0; --count) {
      std::string number = std::to_string(below(13));
      if (below(3) == 0) number.insert(0, "0");
      names.push_back(stems[below(5)] + number + ends[below(6)]);
    }
    return names;
  };
  for (int round = 0; round < 500; ++round) {
    Names names = random_names(40);
    Names doomed = random_names(20);
    Hostlist list = list_of(names);
    REQUIRE(list.names() == names);
    REQUIRE(list_of(list.str()).names() == names);
    for (std::size_t i = 0; i < names.size(); ++i) {
      REQUIRE(list.nth(i) == names[i]);
      auto first = std::find(names.begin(), names.end(), names[i]) - names.begin();
      REQUIRE(list.find(names[i]) == static_cast<std::uint64_t>(first));
    }
    Hostlist rest = list;
    Names kept = names;
    std::uint64_t removed = 0;
    for (const std::string& name : doomed) {
      auto it = std::find(kept.begin(), kept.end(), name);
      if (it == kept.end()) continue;
      kept.erase(it);
      ++removed;
    }
    REQUIRE(rest.remove(list_of(doomed)) == removed);
    REQUIRE(rest.names() == kept);

    list.sort();
    Names sorted = list.names();
    REQUIRE(std::is_permutation(sorted.begin(), sorted.end(), names.begin(), names.end()));
    Names shuffled = names;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    Hostlist again = list_of(shuffled);
    again.sort();
    REQUIRE(again == list);
    list.uniq();
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    REQUIRE(list.names() == sorted);
    std::sort(names.begin(), names.end());
    REQUIRE(static_cast<std::size_t>(std::unique(names.begin(), names.end()) - names.begin()) == list.size());
    REQUIRE(list_of(list.str()) == list);
  }
}

TEST_CASE("very many names, compressible and not") {
  constexpr std::uint64_t kCount = nacre::kit::fewer<std::uint64_t>(100'000);
  const std::string half = std::to_string(kCount / 2);
  const std::string last = std::to_string(kCount - 1);
  Names names;
  for (std::uint64_t i = 0; i < kCount; ++i) names.push_back("node" + std::to_string(i));
  CHECK(list_of(names).str() == "node[0-" + last + "]");
  Hostlist shuffled = list_of("node[" + half + "-" + last + ",0-" + std::to_string(kCount / 2 - 1) + "]");
  shuffled.append(list_of("node[100-200]"));
  shuffled.uniq();
  CHECK(shuffled.str() == "node[0-" + last + "]");

  for (std::uint64_t i = 0; i < kCount; ++i) names[i] = "r" + std::to_string(i) + "-" + std::to_string(i * 7 % 13);
  Hostlist list = list_of(names);
  CHECK(list_of(list.str()) == list);
  auto positions = list.positions();
  CHECK(positions.size() == kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    if (positions[names[i]] != i || list.nth(i) != names[i]) FAIL(names[i]);
  }
  Names reversed(names.rbegin(), names.rend());
  Hostlist sorted = list_of(reversed);
  sorted.sort();
  CHECK(sorted == list);
  CHECK(list.remove(sorted) == kCount);
}
