// SPDX-License-Identifier: Apache-2.0
#include "archive/extract.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "tar.hpp"

using namespace nacre;
using namespace nacre::archive;

namespace {

Contents read(const std::string& bytes) { return contents_of(Reader::of_memory(library(), bytes, "x.tar")); }

// The error for an archive that has this member after a harmless file.
std::string error_of(const Member& member) {
  Contents read_in = read(tar_of({{"good", '0', "hi", "", 0644}, member}));
  REQUIRE(read_in.entries.size() == 1);
  CHECK(read_in.entries[0].path == "good");
  return read_in.error;
}

}  // namespace

TEST_CASE("files, directories and links are read, with all that is kept of them") {
  Contents read_in = read(tar_of({{"./d/", '5', "", "", 0750},
                                  {"d/file", '0', "hello", "", 0640},
                                  {"d/link", '2', "", "../d/file", 0777},
                                  {"again", '1', "", "./d/file", 0640}}));
  CHECK(read_in.error.empty());
  REQUIRE(read_in.entries.size() == 4);
  const auto& [directory, file, link, again] =
      std::tie(read_in.entries[0], read_in.entries[1], read_in.entries[2], read_in.entries[3]);
  CHECK(directory.path == "d");
  CHECK(directory.type == Type::directory);
  CHECK(directory.mode == 0750);
  CHECK(file.path == "d/file");
  CHECK(file.type == Type::file);
  CHECK(file.mode == 0640);
  CHECK(file.size == 5);
  CHECK(file.mtime.tv_sec == 1600000000);
  CHECK(file.extents.empty());
  CHECK(read_in.texts[1] == "hello");
  CHECK(link.type == Type::symlink);
  CHECK(link.target == "../d/file");
  CHECK(again.type == Type::hard_link);
  CHECK(again.target == "d/file");
  CHECK(again.size == 0);
}

TEST_CASE("the directory itself is no entry") {
  Contents read_in = read(tar_of({{"./", '5', "", "", 0700}, {"a", '0', "", "", 0644}}));
  CHECK(read_in.error.empty());
  REQUIRE(read_in.entries.size() == 1);
  CHECK(read_in.entries[0].path == "a");
}

TEST_CASE("an archive without entries is one") {
  Contents read_in = read(std::string(2 * kTarBlock, '\0'));
  CHECK(read_in.error.empty());
  CHECK(read_in.entries.empty());
}

TEST_CASE("an entry that would leave the directory is refused, by name") {
  CHECK(error_of({"../evil", '0', "x", "", 0644}) == "x.tar: '../evil': refused: a path with a '..' part");
  CHECK(error_of({"a/../../evil", '0', "x", "", 0644}) ==
        "x.tar: 'a/../../evil': refused: a path with a '..' part");
  CHECK(error_of({"/etc/evil", '0', "x", "", 0644}) == "x.tar: '/etc/evil': refused: an absolute path");
  CHECK(error_of({"..", '5', "", "", 0755}) == "x.tar: '..': refused: a path with a '..' part");
  CHECK(error_of({"l", '2', "", "/etc", 0777}) ==
        "x.tar: 'l': refused: a symbolic link to '/etc', which is absolute");
  CHECK(error_of({"l", '2', "", "../..", 0777}) ==
        "x.tar: 'l': refused: a symbolic link to '../..', which leads outside");
  CHECK(error_of({"h", '1', "", "/etc/passwd", 0644}) ==
        "x.tar: 'h': refused: a hard link to '/etc/passwd': an absolute path");
  CHECK(error_of({"h", '1', "", "../x", 0644}) ==
        "x.tar: 'h': refused: a hard link to '../x': a path with a '..' part");
}

TEST_CASE("a path in a pax attribute is checked as one in the header is") {
  Contents read_in = read(tar_of({pax("path", "../evil"), {"good", '0', "x", "", 0644}}));
  CHECK(read_in.error == "x.tar: '../evil': refused: a path with a '..' part");
  read_in = read(tar_of({pax("linkpath", "/etc"), {"l", '2', "", "good", 0644}}));
  CHECK(read_in.error == "x.tar: 'l': refused: a symbolic link to '/etc', which is absolute");
}

TEST_CASE("devices, fifos and privileged files are refused, by name") {
  CHECK(error_of({"d", '3', "", "", 0644}) == "x.tar: 'd': refused: a character device");
  CHECK(error_of({"d", '4', "", "", 0644}) == "x.tar: 'd': refused: a block device");
  CHECK(error_of({"f", '6', "", "", 0644}) == "x.tar: 'f': refused: a fifo");
  CHECK(error_of({"s", '0', "", "", 04755}) ==
        "x.tar: 's': refused: a file with a set-user-ID or set-group-ID bit");
  CHECK(error_of({"s", '0', "", "", 02755}) ==
        "x.tar: 's': refused: a file with a set-user-ID or set-group-ID bit");
}

TEST_CASE("a directory loses bits other than permissions, silently: they are about a group that is not kept") {
  Contents read_in = read(tar_of({{"d", '5', "", "", 03775}}));
  REQUIRE(read_in.entries.size() == 1);
  CHECK(read_in.entries[0].mode == 0775);
}

TEST_CASE("an entry without a name is refused") {
  CHECK(error_of({".", '0', "x", "", 0644}) == "x.tar: '.': refused: it has no name");
  CHECK(error_of({"./", '2', "", "x", 0644}) == "x.tar: './': refused: it has no name");
}

TEST_CASE("names in UTF-8 and names that are no text are read as the bytes they are") {
  Contents read_in = read(tar_of({{"\xc3\xa4", '0', "", "", 0644},
                                  {"\xff\xfe", '0', "", "", 0644},
                                  pax("path",
                                      "gr\xc3\xbc\xc3\x9f"
                                      "e"),
                                  {"x", '0', "", "", 0644}}));
  CHECK(read_in.error.empty());
  REQUIRE(read_in.entries.size() == 3);
  CHECK(read_in.entries[0].path == "\xc3\xa4");
  CHECK(read_in.entries[1].path == "\xff\xfe");
  CHECK(read_in.entries[2].path ==
        "gr\xc3\xbc\xc3\x9f"
        "e");
}

TEST_CASE("an archive that was cut off is told from a whole one, wherever it was cut") {
  const std::string whole = tar_of({{"a", '0', std::string(600, 'a'), "", 0644}, {"b", '0', "b", "", 0644}});
  REQUIRE(read(whole).error.empty());
  for (std::size_t size = 1; size <= whole.size() - 2 * kTarBlock; ++size) {
    CAPTURE(size);
    REQUIRE_FALSE(read(whole.substr(0, size)).error.empty());
  }
  CHECK(read(whole.substr(0, whole.size() - 2 * kTarBlock)).error ==
        "x.tar: damaged or cut off: it has no end mark");
  CHECK(read(whole.substr(0, kTarBlock + 100)).error == "x.tar: damaged or cut off: Truncated tar archive");
}

TEST_CASE("a damaged header is an error") {
  std::string bytes = tar_of({{"a", '0', "a", "", 0644}, {"b", '0', "b", "", 0644}});
  bytes[2 * kTarBlock] = 'c';
  CHECK(read(bytes).error == "x.tar: damaged or cut off: Damaged tar archive");
}

TEST_CASE("what is no tar archive is told so") {
  const char* start = "x.tar: no tar archive (plain, gzip, zstd or xz), or a damaged one: ";
  for (const std::string& bytes : {std::string(), std::string("hello\n"), std::string(5000, '\x55'),
                                   std::string("PK\x03\x04zip", 7), std::string("\x1f\x8b", 2)}) {
    CHECK(read(bytes).error == start + std::string("Unrecognized archive format"));
  }
}

TEST_CASE("an archive of the most entries is read, and not one of one more") {
  Folder folder;
  std::string path = folder.file("x.tar", tar_of({{"a", '0', "", "", 0644}, {"b", '0', "", "", 0644}}));
  CHECK(contents_of(Reader::open(library(), path, 2)).error.empty());
  Contents one = contents_of(Reader::open(library(), path, 1));
  CHECK(one.entries.size() == 1);
  CHECK(one.error == path + ": more than 1 entries");
  CHECK(kMaxEntries == 16777216);
}

TEST_CASE("a file that cannot be opened, or is none, is an error") {
  Folder folder;
  CHECK(contents_of(Reader::open(library(), folder.path("none"))).error ==
        folder.path("none") + ": No such file or directory");
  CHECK(contents_of(Reader::open(library(), folder.path())).error == folder.path() + ": no regular file");
  REQUIRE(::mkfifo(folder.path("fifo").c_str(), 0600) == 0);
  CHECK(contents_of(Reader::open(library(), folder.path("fifo"))).error ==
        folder.path("fifo") + ": no regular file");
}

namespace fs = std::filesystem;

namespace {

// Sets the usual umask, whatever the tests were started with.
struct UsualUmask {
  UsualUmask() : before(::umask(0022)) {}
  ~UsualUmask() { ::umask(before); }
  UsualUmask(const UsualUmask&) = delete;
  UsualUmask& operator=(const UsualUmask&) = delete;
  mode_t before;
};

// An archive "x.tar" and a directory "to" to extract it to, beside which nothing may appear.
struct Extraction {
  explicit Extraction(const std::vector<Member>& members) : bytes(tar_of(members)) {
    options.directory = folder.make("to");
  }

  std::string run(const Watch& watch = {}) {
    auto reader = Reader::of_memory(library(), bytes, "x.tar");
    REQUIRE(reader);
    auto extracted = extract(*reader, options, watch);
    if (extracted) done = *extracted;
    return extracted ? "" : extracted.error().message;
  }

  // All that is in the folder, sorted.
  [[nodiscard]] std::vector<std::string> all() const {
    std::vector<std::string> names;
    for (const auto& each : fs::recursive_directory_iterator(folder.path())) {
      names.push_back(each.path().lexically_relative(folder.path()).native());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  UsualUmask umask;
  Folder folder;
  std::string bytes;
  ExtractOptions options;
  Progress done;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("an archive is extracted with permissions and times") {
  Extraction extraction({{"d", '5', "", "", 0550},
                         {"d/file", '0', "hello", "", 0640},
                         {"d/link", '2', "", "file", 0777},
                         {"again", '1', "", "d/file", 0640}});
  ::umask(0077);
  CHECK(extraction.run() == "");
  ::umask(0022);
  CHECK(extraction.done.entries == 4);
  CHECK(extraction.done.bytes == 5);
  const Folder& folder = extraction.folder;
  CHECK(folder.text("to/d/file") == "hello");
  CHECK(folder.stat("to/d/file").st_mode == (S_IFREG | 0640));
  CHECK(folder.stat("to/d/file").st_mtime == 1600000000);
  CHECK(folder.stat("to/d").st_mode == (S_IFDIR | 0550));
  CHECK(folder.stat("to/d").st_mtime == 1600000000);
  CHECK(fs::read_symlink(folder.path("to/d/link")) == "file");
  CHECK(folder.stat("to/d/link").st_mtime == 1600000000);
  CHECK(folder.stat("to/again").st_ino == folder.stat("to/d/file").st_ino);
}

TEST_CASE("directories that have no entry of their own are made; a late entry still counts") {
  Extraction extraction({{"a/b/c", '0', "x", "", 0644}, {"a", '5', "", "", 0700}});
  CHECK(extraction.run() == "");
  CHECK(extraction.folder.text("to/a/b/c") == "x");
  CHECK(extraction.folder.stat("to/a").st_mode == (S_IFDIR | 0700));
  CHECK(extraction.folder.stat("to/a").st_mtime == 1600000000);
  CHECK(extraction.folder.stat("to/a/b").st_mode == (S_IFDIR | 0755));
}

TEST_CASE("a directory that was there keeps its permissions, unless overwriting was asked for") {
  Extraction extraction({{"d", '5', "", "", 0700}});
  REQUIRE(::mkdir(extraction.folder.path("to/d").c_str(), 0755) == 0);
  CHECK(extraction.run() == "");
  CHECK(extraction.folder.stat("to/d").st_mode == (S_IFDIR | 0755));
  extraction.options.existing = Existing::replace;
  CHECK(extraction.run() == "");
  CHECK(extraction.folder.stat("to/d").st_mode == (S_IFDIR | 0700));
}

TEST_CASE("directories that are closed to everybody come out so, for a user whom permissions bind too") {
  uid_t user = ::geteuid();
  if (user == 0) REQUIRE(::seteuid(65534) == 0);
  {
    Extraction extraction({{"d", '5', "", "", 0000}, {"d/e", '5', "", "", 0000}, {"d/e/f", '0', "x", "", 0000}});
    CHECK(extraction.run() == "");
    CHECK(extraction.folder.stat("to/d").st_mode == S_IFDIR);
    REQUIRE(::chmod(extraction.folder.path("to/d").c_str(), 0700) == 0);
    CHECK(extraction.folder.stat("to/d/e").st_mode == S_IFDIR);
    REQUIRE(::chmod(extraction.folder.path("to/d/e").c_str(), 0700) == 0);
    CHECK(extraction.folder.stat("to/d/e/f").st_mode == S_IFREG);
  }
  REQUIRE(::seteuid(user) == 0);
}

TEST_CASE("a directory keeps the set-group-ID bit that it inherits") {
  Extraction extraction({{"d", '5', "", "", 0770}});
  REQUIRE(::chmod(extraction.folder.path("to").c_str(), 02755) == 0);
  CHECK(extraction.run() == "");
  CHECK(extraction.folder.stat("to/d").st_mode == (S_IFDIR | S_ISGID | 0770));
}

TEST_CASE("only what matches the pattern is extracted") {
  Extraction extraction(
      {{"d", '5', "", "", 0755}, {"d/a.dat", '0', "a", "", 0644}, {"d/b.txt", '0', "b", "", 0644}});
  extraction.options.pattern = "*.dat";
  CHECK(extraction.run() == "");
  CHECK(extraction.done.entries == 1);
  CHECK(extraction.all() == Names{"to", "to/d", "to/d/a.dat"});
}

TEST_CASE("a file that is there already is an error, and stays as it was") {
  for (Member member : {Member{"a", '0', "new", "", 0644}, Member{"a", '2', "", "b", 0777}}) {
    Extraction extraction({member});
    REQUIRE_FALSE(extraction.folder.file("to/a", "old").empty());
    CHECK(extraction.run() == "x.tar: 'a': exists already, and overwriting was not asked for");
    CHECK(extraction.folder.text("to/a") == "old");
  }
}

TEST_CASE("overwriting makes a new file: other names of the old one keep its content") {
  Extraction extraction({{"a", '0', "new", "", 0644}});
  REQUIRE_FALSE(extraction.folder.file("outside", "old").empty());
  fs::create_hard_link(extraction.folder.path("outside"), extraction.folder.path("to/a"));
  extraction.options.existing = Existing::replace;
  CHECK(extraction.run() == "");
  CHECK(extraction.folder.text("to/a") == "new");
  CHECK(extraction.folder.text("outside") == "old");
}

TEST_CASE("overwriting replaces a link, and does not follow it") {
  Extraction extraction({{"a", '0', "new", "", 0644}});
  REQUIRE_FALSE(extraction.folder.file("outside", "old").empty());
  fs::create_symlink("../outside", extraction.folder.path("to/a"));
  CHECK(extraction.run() == "x.tar: 'a': exists already, and overwriting was not asked for");
  extraction.options.existing = Existing::replace;
  CHECK(extraction.run() == "");
  CHECK(extraction.folder.text("to/a") == "new");
  CHECK(extraction.folder.text("outside") == "old");
}

TEST_CASE("overwriting never replaces a directory, nor a file by one") {
  Extraction extraction({{"a", '0', "new", "", 0644}});
  REQUIRE_FALSE(extraction.folder.make("to/a").empty());
  extraction.options.existing = Existing::replace;
  CHECK(extraction.run() == "x.tar: 'a': Is a directory");
  Extraction other({{"a", '5', "", "", 0755}});
  REQUIRE_FALSE(other.folder.file("to/a", "old").empty());
  other.options.existing = Existing::replace;
  CHECK(other.run() == "x.tar: 'a': Not a directory");
  CHECK(other.folder.text("to/a") == "old");
}

TEST_CASE("nothing is written through a link that the archive brought") {
  // The link itself is harmless. A file "l/x" would land in "d".
  Extraction extraction({{"d", '5', "", "", 0755}, {"l", '2', "", "d", 0777}, {"l/x", '0', "evil", "", 0644}});
  CHECK(extraction.run() == "x.tar: 'l': refused: a symbolic link stands where a directory is to be");
  CHECK(extraction.all() == Names{"to", "to/d", "to/l"});
}

TEST_CASE("nothing is written through a link that was there before, by any kind of entry") {
  for (Member member :
       {Member{"l/x", '0', "evil", "", 0644}, Member{"l/x", '5', "", "", 0755}, Member{"l/x", '2', "", "y", 0777},
        Member{"l/y/x", '0', "evil", "", 0644}, Member{"l", '5', "", "", 0700}}) {
    for (Existing existing : {Existing::refuse, Existing::replace}) {
      Extraction extraction({member});
      REQUIRE_FALSE(extraction.folder.make("outside").empty());
      fs::create_directory_symlink("../outside", extraction.folder.path("to/l"));
      extraction.options.existing = existing;
      CHECK(extraction.run() == "x.tar: 'l': refused: a symbolic link stands where a directory is to be");
      CHECK(extraction.all() == Names{"outside", "to", "to/l"});
      CHECK(extraction.folder.stat("outside").st_mode == (S_IFDIR | 0755));
    }
  }
}

TEST_CASE("a hard link leads to a regular file below the directory, or is refused") {
  auto run = [](const Member& member, bool behind_link = false) {
    Extraction extraction({{"d", '5', "", "", 0755},
                           {"d/file", '0', "x", "", 0644},
                           {"l", '2', "", "d", 0777},
                           {"to_file", '2', "", "d/file", 0777},
                           member});
    REQUIRE_FALSE(extraction.folder.file("secret", "secret").empty());
    if (behind_link) fs::create_directory_symlink("..", extraction.folder.path("to/up"));
    std::string error = extraction.run();
    CHECK_FALSE(extraction.folder.has("to/h"));
    return error;
  };
  CHECK(run({"h", '1', "", "none", 0644}) == "x.tar: 'h': refused: a hard link to 'none', which is not there");
  CHECK(run({"h", '1', "", "d", 0644}) == "x.tar: 'h': refused: a hard link to 'd', which is no regular file");
  CHECK(run({"h", '1', "", "l", 0644}) == "x.tar: 'h': refused: a hard link to 'l', which is no regular file");
  CHECK(run({"h", '1', "", "to_file", 0644}) ==
        "x.tar: 'h': refused: a hard link to 'to_file', which is no regular file");
  CHECK(run({"h", '1', "", "h", 0644}) == "x.tar: 'h': refused: a hard link to 'h', which is itself");
  CHECK(run({"h", '1', "", ".", 0644}) == "x.tar: 'h': refused: a hard link to '', which is not there");
  CHECK(run({"h", '1', "", "up/secret", 0644}, true) ==
        "x.tar: 'h': refused: a hard link to 'up/secret', which is behind a symbolic link");
}

TEST_CASE("a file after a hard link of its name does not write into what the link led to") {
  Extraction extraction({{"h", '1', "", "kept", 0644}, {"h", '0', "evil", "", 0644}});
  REQUIRE_FALSE(extraction.folder.file("to/kept", "kept").empty());
  CHECK(extraction.run() == "x.tar: 'h': exists already, and overwriting was not asked for");
  extraction.options.existing = Existing::replace;
  CHECK(extraction.run() == "");
  CHECK(extraction.folder.text("to/kept") == "kept");
  CHECK(extraction.folder.text("to/h") == "evil");
}

TEST_CASE("what an archive refuses, it refuses before it is written; what came before stays") {
  Extraction extraction({{"good", '0', "x", "", 0644}, {"../evil", '0', "x", "", 0644}});
  CHECK(extraction.run() == "x.tar: '../evil': refused: a path with a '..' part");
  CHECK(extraction.all() == Names{"to", "to/good"});
}

TEST_CASE("of an archive that was cut off within a file, that file does not stay") {
  Extraction extraction({{"a", '0', "a", "", 0644}, {"b", '0', std::string(2000, 'b'), "", 0644}});
  extraction.bytes.resize(4 * kTarBlock);
  CHECK(extraction.run() == "x.tar: damaged or cut off: Truncated tar archive");
  CHECK(extraction.all() == Names{"to", "to/a"});
}

TEST_CASE("content up to the limit is extracted, and not a byte more") {
  Extraction extraction({{"a", '0', "aaaa", "", 0644}, {"b", '0', "bbbb", "", 0644}});
  extraction.options.max_bytes = 8;
  CHECK(extraction.run() == "");
  Extraction other({{"a", '0', "aaaa", "", 0644}, {"b", '0', "bbbb", "", 0644}});
  other.options.max_bytes = 7;
  CHECK(other.run() == "x.tar: 'b': more content than 7 bytes (--max-size)");
  CHECK(other.all() == Names{"to", "to/a"});
}

TEST_CASE("content that came before counts, and the option to raise is named") {
  Extraction extraction({{"a", '0', "aaaa", "", 0644}});
  extraction.options.max_bytes = 7;
  extraction.options.bytes_before = 4;
  extraction.options.limited_by = "the-option";
  CHECK(extraction.run() == "x.tar: 'a': more content than 7 bytes (the-option)");
  CHECK(extraction.all() == Names{"to"});
}

TEST_CASE("all or nothing: what was extracted goes with the rest, and nothing else does") {
  std::vector<Member> members{{"d", '5', "", "", 0755},           {"d/a", '0', "aaaa", "", 0644},
                              {"d/link", '2', "", "a", 0777},     {"hard", '1', "", "d/a", 0644},
                              {"way/to/b", '0', "b", "", 0644},   {"there/c", '0', "c", "", 0644},
                              {"over", '0', "too much", "", 0644}};
  Extraction extraction(members);
  CHECK(extraction.folder.make("to/there/mine").ends_with("mine"));
  extraction.options.max_bytes = 13;
  extraction.options.all_or_nothing = true;
  CHECK(extraction.run() == "x.tar: 'over': more content than 13 bytes (--max-size)");
  CHECK(extraction.all() == Names{"to", "to/there", "to/there/mine"});
  extraction.options.max_bytes = 14;
  CHECK(extraction.run() == "");
  CHECK(extraction.all().size() == 12);

  Extraction refused({{"a", '0', "a", "", 0644}, {"there/mine", '0', "b", "", 0644}});
  CHECK(refused.folder.make("to/there/mine").ends_with("mine"));
  refused.options.all_or_nothing = true;
  CHECK(refused.run().ends_with("'there/mine': exists already, and overwriting was not asked for"));
  CHECK(refused.all() == Names{"to", "to/there", "to/there/mine"});
}

TEST_CASE("all or nothing: an interruption leaves what is complete") {
  Extraction extraction({{"a", '0', "a", "", 0644}, {"b", '0', "b", "", 0644}});
  extraction.options.all_or_nothing = true;
  CHECK(extraction.run({{}, [](const Progress& progress) { return progress.bytes < 2; }}) == "x.tar: interrupted");
  CHECK(extraction.all() == Names{"to", "to/a"});
}

TEST_CASE("an extraction stops when it is told to, and leaves no incomplete file") {
  Extraction extraction({{"a", '0', "a", "", 0644}, {"b", '0', "b", "", 0644}});
  std::vector<std::string> seen;
  Watch watch;
  watch.on_entry = [&](const ArchiveEntry& entry) { seen.push_back(entry.path); };
  watch.go_on = [](const Progress& progress) { return progress.bytes < 2; };
  CHECK(extraction.run(watch) == "x.tar: interrupted");
  CHECK(seen == Names{"a", "b"});
  CHECK(extraction.all() == Names{"to", "to/a"});
}

TEST_CASE("a directory to extract to has to be there; it may be named through a link") {
  Extraction extraction({{"a", '0', "a", "", 0644}});
  extraction.options.directory = extraction.folder.path("none");
  CHECK(extraction.run() == "cannot extract to: " + extraction.folder.path("none") + ": No such file or directory");
  fs::create_directory_symlink("to", extraction.folder.path("link"));
  extraction.options.directory = extraction.folder.path("link");
  CHECK(extraction.run() == "");
  CHECK(extraction.folder.text("to/a") == "a");
}
