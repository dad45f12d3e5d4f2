// SPDX-License-Identifier: Apache-2.0
#include "archive/extract.hpp"

#include <sys/stat.h>

#include "tar.hpp"

using namespace nacre;
using namespace nacre::archive;

namespace {

Contents read(const std::string& bytes) { return contents_of(Reader::of_memory(library(), bytes, "x.tar")); }

// What is said of an archive that has this in it after a harmless file.
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
