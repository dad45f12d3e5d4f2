// SPDX-License-Identifier: Apache-2.0
#include "value/hostlist.hpp"

#include <random>

#include "catch.hpp"

#include "fewer.hpp"

// Hostlists for tests, from text or names.

using nacre::value::Hostlist;
using Names = std::vector<std::string>;

inline Hostlist list_of(std::string_view text) {
  INFO(text.substr(0, 100));
  auto list = Hostlist::parse(text);
  if (!list) FAIL(list.error().message);
  return *list;
}

inline Hostlist list_of(const Names& names) {
  Hostlist list;
  for (const std::string& name : names) list.append(name);
  return list;
}

namespace {

nacre::Error hostlist_error(std::string_view text) {
  INFO(text.substr(0, 100));
  auto list = Hostlist::parse(text);
  REQUIRE_FALSE(list);
  return list.error();
}

}  // namespace

TEST_CASE("RFC 29's test vectors expand to their names") {
  struct Row {
    const char* text;
    Names names;
  };
  const Row rows[] = {
      {"", {}},
      {"foox,fooy,fooz", {"foox", "fooy", "fooz"}},
      {"[1-3,5-6]", {"1", "2", "3", "5", "6"}},
      {"foo[1-5]", {"foo1", "foo2", "foo3", "foo4", "foo5"}},
      {"foo[0-4]-eth2", {"foo0-eth2", "foo1-eth2", "foo2-eth2", "foo3-eth2", "foo4-eth2"}},
      {"foo1,foo1,foo1", {"foo1", "foo1", "foo1"}},
      {"[00-02]", {"00", "01", "02"}},
      {"[00-2]", {"00", "01", "02"}},
      {"foo[1,1,2,1]", {"foo1", "foo1", "foo2", "foo1"}},
      // In its text.
      {"[5,4,10,11,12,13]", {"5", "4", "10", "11", "12", "13"}},
      {"[5,4,11-13]", {"5", "4", "11", "12", "13"}},
      {"[005,4,11-13]", {"005", "004", "011", "012", "013"}},
      {"[2,2,2]", {"2", "2", "2"}},
      {"host[0-10,12]",
       {"host0", "host1", "host2", "host3", "host4", "host5", "host6", "host7", "host8", "host9", "host10",
        "host12"}},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    Hostlist list = list_of(row.text);
    CHECK(list.names() == row.names);
    CHECK(list.size() == row.names.size());
    CHECK(list.empty() == row.names.empty());
    CHECK(list == list_of(row.names));
    CHECK(list_of(list.str()) == list);
  }
}

TEST_CASE("a hostlist prints compressed, in its order") {
  struct Row {
    const char* text;
    const char* compressed;
  };
  const Row rows[] = {
      {"", ""},
      {"foo-1a-2,foo-1a-3", "foo-1a-[2-3]"},
      {"foo1,foo2,foo3,fooi", "foo[1-3],fooi"},
      {"foo1,fooi,foo2,foo3", "foo1,fooi,foo[2-3]"},
      {"fooi,foo1,foo2,foo3,foo5,foo7,foo8", "fooi,foo[1-3,5,7-8]"},
      {"1,2,3,4,5,9", "[1-5,9]"},
      {"14636", "14636"},
      {"foo[3]", "foo3"},
      {"foo[3]-x", "foo3-x"},
      {"foo3,foo2,foo1", "foo[3,2,1]"},
      {"foo1,foo1", "foo[1,1]"},
      {"foox,foox", "foox,foox"},
      // Padding.
      {"n08,n09,n10,n11", "n[08-11]"},
      {"n098,n099,n100,n101", "n[098-101]"},
      {"n8,n9,n10", "n[8-10]"},
      {"n08,n10", "n[08,10]"},
      {"n10,n08", "n10,n08"},
      {"m08,n10,n09", "m08,n10,n09"},
      {"n08,n9", "n08,n9"},
      {"n09,n010", "n09,n010"},
      {"n0,n1,n00,n01", "n[0-1],n[00-01]"},
      {"n[10-11,09]", "n[10-11],n09"},
      {"n[1,02,3]", "n1,n02,n3"},
      {"n[01-09,100]", "n[01-09,100]"},
      // The number may stand within a name.
      {"foo[1,3]-bar", "foo[1,3]-bar"},
      {"[00-3]p", "[00-03]p"},
      {"n1.site2.org,n2.site2.org,n3.site2.org", "n[1-3].site2.org"},
      {"n1-ib,n2-ib", "n[1-2]-ib"},
      {"login.site1.org,login.site2.org", "login.site1.org,login.site2.org"},
      {"10.0.0.1,10.0.0.2", "10.0.0.[1-2]"},
      {"a[1-2]9", "a[1-2]9"},
      // Empty expressions have no names.
      {",1,2,,3,", "[1-3]"},
      {",", ""},
      // Any printable character but the special ones.
      {"-,=~\"'{}!,n-[1-2]", "-,=~\"'{}!,n-[1-2]"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    Hostlist list = list_of(row.text);
    CHECK(list.str() == row.compressed);
    CHECK(list_of(row.compressed) == list);
  }
}

TEST_CASE("a malformed hostlist is refused with the part that is wrong") {
  struct Row {
    const char* text;
    const char* message;
  };
  const Row rows[] = {
      {"foo[", "'foo[': '[' without ']'"},
      {"a,foo[1-2,b", "'foo[1-2,b': '[' without ']'"},
      {"foo]", "'foo]': ']' without '['"},
      {"foo1],b", "'foo1]': ']' without '['"},
      {"foo[1]]", "'foo[1]]': ']' without '['"},
      {"foo[[1]]", "'foo[[1]]': ']' without '['"},
      {"foo[1][2]", "'foo[1][2]': expected one pair of brackets, got two"},
      {"r[1-2]n[3-4]", "'r[1-2]n[3-4]': expected one pair of brackets, got two"},
      {"foo[]", "'foo[]': expected a number, got nothing"},
      {"foo[1,]", "'foo[1,]': expected a number, got nothing"},
      {"foo[1,,2]", "'foo[1,,2]': expected a number, got nothing"},
      {"foo[-1]", "'foo[-1]': expected a number, got nothing"},
      {"foo[1-]", "'foo[1-]': expected a number, got nothing"},
      {"foo[1-2-3]", "'foo[1-2-3]': expected a number, got '2-3'"},
      {"foo[a]", "'foo[a]': expected a number, got 'a'"},
      {"foo[+1]", "'foo[+1]': expected a number, got '+1'"},
      {"foo[1, 2]", "'foo[1, 2]': expected a number, got ' 2'"},
      {"foo[5-2]", "'foo[5-2]': the range '5-2' goes backwards"},
      {"foo[1-02]", "'foo[1-02]': the range '1-02' has leading zeros at its end only"},
      {"foo, bar", "' bar': expected printable ASCII without blanks"},
      {"foo bar", "'foo bar': expected printable ASCII without blanks"},
      {"foo\n", "'foo\\x0a': expected printable ASCII without blanks"},
      {"foo\x7f", "'foo\\x7f': expected printable ASCII without blanks"},
      {"fo\xc3\xb6", "'fo\xc3\xb6': expected printable ASCII without blanks"},
      {"foo[1] ", "'foo[1] ': expected printable ASCII without blanks"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    nacre::Error error = hostlist_error(row.text);
    CHECK(error.message == "hostlist: " + std::string(row.message));
    CHECK(error.code == EINVAL);
  }
  CHECK_FALSE(Hostlist::parse(std::string_view("a\0b", 3)));
}

TEST_CASE("a hostlist has at most kMaxHosts names") {
  STATIC_REQUIRE(Hostlist::kMaxHosts == 1048576);
  CHECK(list_of("n[0-1048575]").size() == Hostlist::kMaxHosts);
  CHECK(list_of("n[1-1000000],m[1-48576]").size() == Hostlist::kMaxHosts);
  for (const char* text : {"n[0-1048576]", "n[0-1048575],m", "n[0-1048575],m[1]", "n[0-1048575,7]",
                           "[0-99999999999]", "n[0-999999999999999999]", "n[1-1000000],m[1-48577]"}) {
    nacre::Error error = hostlist_error(text);
    CHECK(error.code == E2BIG);
    CHECK_THAT(error.message, Catch::Matchers::EndsWith(": more than 1048576 names"));
  }
}

TEST_CASE("a number in brackets has at most kMaxDigits digits") {
  CHECK(list_of("n[999999999999999998-999999999999999999]").size() == 2);
  CHECK(list_of("n[000000000000000001]").nth(0) == "n000000000000000001");
  nacre::Error error = hostlist_error("n[1000000000000000000]");
  CHECK(error.code == ERANGE);
  CHECK_THAT(error.message, Catch::Matchers::EndsWith("a number has at most 18 digits, got '1000000000000000000'"));
  // A longer number in a name is just text.
  CHECK(list_of("n99999999999999999999999").nth(0) == "n99999999999999999999999");
  CHECK(list_of("n[1-3]").find("n99999999999999999999999") == std::nullopt);
  CHECK(list_of("n[1-3]").find("n00000000000000000000002") == std::nullopt);
  Names names = {"n999999999999999999", "n1000000000000000000", "n1000000000000000001"};
  CHECK(list_of("n999999999999999999,n1000000000000000000,n1000000000000000001").names() == names);
}

TEST_CASE("a name has at most kMaxName bytes") {
  std::string longest(Hostlist::kMaxName, 'a');
  CHECK(list_of(longest).nth(0) == longest);
  nacre::Error error = hostlist_error(longest + "b");
  CHECK(error.code == ENAMETOOLONG);
  CHECK_THAT(error.message, Catch::Matchers::EndsWith("a name has at most 255 bytes, got 256"));
  std::string prefix(250, 'p');
  CHECK(list_of(prefix + "[1-999]xy").size() == 999);
  CHECK(hostlist_error(prefix + "[1-1000]xy").code == ENAMETOOLONG);
  CHECK(hostlist_error(prefix + "[0001]xy").code == ENAMETOOLONG);
}

TEST_CASE("a hostlist's text has at most kMaxText bytes") {
  std::string text(Hostlist::kMaxText, 'a');
  text.replace(0, 2, "],");
  CHECK(hostlist_error(text).message == "hostlist: ']': ']' without '['");
  nacre::Error error = hostlist_error(text + "a");
  CHECK(error.code == E2BIG);
  CHECK(error.message == "hostlist: expected at most 67108864 bytes, got 67108865");
}

TEST_CASE("a name is found at its first position") {
  struct Row {
    const char* text;
    const char* name;
    std::optional<std::uint64_t> at;
  };
  const std::optional<std::uint64_t> none;
  const Row rows[] = {
      {"tst0", "tst", none},
      {"tst0,tst", "tst", 1},
      {"tst,tst0", "tst", 0},
      {"tst", "tst0", none},
      {"foo[1-5]-eth0", "foo3-eth0", 2},
      {"foo[1-5]", "foo3-eth0", none},
      {"[0-5]", "3", 3},
      {"[0-5]i", "0", none},
      {"i[0-5]", "i00", none},
      {"i[00-05]", "i0", none},
      {"i[00-05]", "i04", 4},
      {"i[08-11]", "i10", 2},
      {"i[08-11]", "i010", none},
      {"f00[7-8]", "f007", 0},
      {"f00[7-8,10]", "f0010", 2},
      {"f0010001[07-08]", "f001000108", 1},
      {"a[1-3]5", "a25", 1},
      {"a[1-3]5", "a5", none},
      {"corn-p2", "corn2", none},
      {"b,a[1-3],b,a2", "a2", 2},
      {"a[1-3]", "", none},
      {"a[1-3]", "a", none},
      {"a[1-3]", "a99999999999999999999", none},
      {"", "a", none},
  };
  for (const Row& row : rows) {
    INFO(row.text << " " << row.name);
    Hostlist list = list_of(row.text);
    CHECK(list.find(row.name) == row.at);
  }
}

TEST_CASE("the n-th name") {
  Hostlist list = list_of("a[1-3],b,c[08-10]x");
  CHECK(list.nth(0) == "a1");
  CHECK(list.nth(2) == "a3");
  CHECK(list.nth(3) == "b");
  CHECK(list.nth(4) == "c08x");
  CHECK(list.nth(6) == "c10x");
  CHECK_FALSE(list.nth(7));
  CHECK_FALSE(Hostlist().nth(0));
}

TEST_CASE("names and lists are appended") {
  Hostlist list;
  list.append("n1");
  list.append("n2");
  list.append(list_of("n[3-4],m"));
  CHECK(list.str() == "n[1-4],m");
  list.append(list);
  CHECK(list.str() == "n[1-4],m,n[1-4],m");
  Hostlist rotated = list_of("n[2-3],n1");
  rotated.append(rotated);
  CHECK(rotated.names() == Names{"n2", "n3", "n1", "n2", "n3", "n1"});
}

TEST_CASE("lists are equal if their names are, in order") {
  CHECK(list_of("a1[2-3]") == list_of("a[12-13]"));
  CHECK(list_of("a[1-2]5,b") == list_of("a15,a25,b"));
  CHECK_FALSE(list_of("a1,a2") == list_of("a2,a1"));
  CHECK_FALSE(list_of("a1") == list_of("a01"));
  CHECK_FALSE(list_of("a1,a1") == list_of("a1"));
  CHECK(Hostlist() == list_of(""));
}

TEST_CASE("a part of a list") {
  Hostlist list = list_of("n[0-9],login,m[1-3]");
  auto part = [&](std::uint64_t n, std::uint64_t length) { return list.part(n, length).str(); };
  CHECK(part(0, 14) == "n[0-9],login,m[1-3]");
  CHECK(part(3, 2) == "n[3-4]");
  CHECK(part(8, 4) == "n[8-9],login,m1");
  CHECK(part(10, 1) == "login");
  CHECK(part(12, 99) == "m[2-3]");
  CHECK(part(12, UINT64_MAX) == "m[2-3]");
  CHECK(part(5, 0).empty());
  CHECK(part(14, 1).empty());
  CHECK(part(UINT64_MAX, UINT64_MAX).empty());
  CHECK(list.part(8, 4).nth(2) == "login");
}

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
  for (std::uint64_t i = 0; i < kCount; ++i) {
    if (list.nth(i) != names[i]) FAIL(names[i]);
  }
  Names reversed(names.rbegin(), names.rend());
  Hostlist sorted = list_of(reversed);
  sorted.sort();
  CHECK(sorted == list);
  CHECK(list.remove(sorted) == kCount);
}
