// SPDX-License-Identifier: Apache-2.0
#include "archive/create.hpp"

#include <unistd.h>

#include <map>

#include "tar.hpp"

using namespace nacre;
using namespace nacre::archive;

namespace {

using Variables = std::map<std::string, std::string>;

std::string directory_of(const Variables& variables) {
  auto store = ArchiveStore::of_environment([&](const char* name) -> std::optional<std::string> {
    auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  });
  return store ? store->directory() : store.error().message;
}

std::string name_error(const std::string& name) {
  auto checked = ArchiveStore::check_name(name);
  return checked ? "none" : checked.error().message;
}

std::string find_error(const ArchiveStore& store, const std::string& name) {
  auto found = store.find(name);
  return found ? "none" : found.error().message;
}

}  // namespace

TEST_CASE("where archives are follows from the environment") {
  CHECK(directory_of({{"NACRE_ARCHIVE_DIR", "/a"}, {"XDG_DATA_HOME", "/x"}, {"HOME", "/tmp"}}) == "/a");
  CHECK(directory_of({{"NACRE_ARCHIVE_DIR", ""}, {"XDG_DATA_HOME", "/x"}, {"HOME", "/tmp"}}) ==
        "/x/nacre/archives");
  CHECK(directory_of({{"HOME", "/tmp"}}) == "/tmp/.local/share/nacre/archives");
  CHECK(directory_of({{"NACRE_ARCHIVE_DIR", "a"}, {"HOME", "/tmp"}}) ==
        "NACRE_ARCHIVE_DIR: expected an absolute path, got 'a'");
  CHECK(directory_of({{"HOME", "/no/home"}}) == "HOME: '/no/home' is no directory: set NACRE_ARCHIVE_DIR");
  CHECK(directory_of({}) ==
        "the directory of archives is not known: NACRE_ARCHIVE_DIR, XDG_DATA_HOME and HOME are not set");
}

TEST_CASE("an archive's name is one part of a path, without its extension") {
  CHECK(name_error("main") == "none");
  CHECK(name_error("data.v2 final") == "none");
  CHECK(name_error("") == "archive name '': expected a name");
  CHECK(name_error("a/b") == "archive name 'a/b': expected a name without '/' and control characters");
  CHECK(name_error("a\nb") == "archive name 'a\\x0ab': expected a name without '/' and control characters");
  CHECK(name_error("..") == "archive name '..': expected a name that does not start with '.'");
  CHECK(name_error("a.tar.gz") == "archive name 'a.tar.gz': expected it without its extension: 'a'");
  CHECK(name_error("a.tar") == "archive name 'a.tar': expected it without its extension: 'a'");
  CHECK(name_error(std::string(200, 'a')) == "none");
  CHECK(name_error(std::string(201, 'a')).ends_with(": expected at most 200 bytes, got 201"));
}

TEST_CASE("an archive of the longest name can be made") {
  Folder folder;
  ArchiveStore store(folder.path());
  CreateOptions options;
  options.directory = folder.make("from");
  options.paths = {"."};
  CHECK(create(library(), store, std::string(200, 'a'), options, {}));
  CHECK(store.look_up(std::string(200, 'a'))->has_value());
}

TEST_CASE("archives are found by name, whatever their extension") {
  Folder folder;
  ArchiveStore store(folder.path());
  for (const char* name : {"b.tar.zst", "a.tar", "c.tar.gz", "d.tar.xz", "e.txt", ".hidden.tar"}) {
    REQUIRE_FALSE(folder.file(name, "").empty());
  }
  CHECK(*store.names() == std::vector<std::string>{"a", "b", "c", "d"});
  auto found = store.find("d");
  REQUIRE(found);
  CHECK(found->path == folder.path("d.tar.xz"));
  CHECK(found->compression == Compression::xz);
  CHECK_FALSE(store.look_up("e")->has_value());
}

TEST_CASE("the error of an archive that is not there says where it was looked for, and what is there") {
  Folder folder;
  ArchiveStore store(folder.path());
  CHECK(find_error(store, "x") == "no archive 'x' in " + folder.path() + " (there: no archives)");
  REQUIRE_FALSE(folder.file("a.tar", "").empty());
  CHECK(find_error(store, "x") == "no archive 'x' in " + folder.path() + " (there: only 'a')");
  REQUIRE_FALSE(folder.file("b.tar", "").empty());
  CHECK(find_error(store, "x") == "no archive 'x' in " + folder.path() + " (there: 'a', 'b')");
  for (char c = 'c'; c <= 'l'; ++c) REQUIRE_FALSE(folder.file(std::string(1, c) + ".tar", "").empty());
  CHECK(find_error(store, "x").ends_with("'i', 'j' and 2 more)"));
  CHECK(find_error(ArchiveStore(folder.path("none")), "x") ==
        "no archive 'x' in " + folder.path("none") + " (there: no archives)");
}

TEST_CASE("two archives of one name are an error") {
  Folder folder;
  REQUIRE_FALSE(folder.file("a.tar", "").empty());
  REQUIRE_FALSE(folder.file("a.tar.gz", "").empty());
  CHECK(find_error(ArchiveStore(folder.path()), "a") == "two archives are called 'a': " + folder.path("a.tar") +
                                                            " and " + folder.path("a.tar.gz") + "; remove one");
}

TEST_CASE("a new file is not there before it is committed, and gone if it never is") {
  Folder folder;
  {
    auto file = NewFile::create(folder.path("d/e/x"));
    REQUIRE(file);
    CHECK(::write(file->fd(), "text", 4) == 4);
    CHECK_FALSE(folder.has("d/e/x"));
    auto moved = std::move(*file);
    CHECK_FALSE(std::filesystem::is_empty(folder.path("d/e")));
  }
  CHECK(std::filesystem::is_empty(folder.path("d/e")));
  auto file = NewFile::create(folder.path("x"));
  REQUIRE(file);
  CHECK(::write(file->fd(), "text", 4) == 4);
  CHECK(file->commit(false));
  CHECK(folder.text("x") == "text");
  CHECK(folder.stat("x").st_nlink == 1);
}

TEST_CASE("of two that make one file, the second hears of the first, unless it is to replace it") {
  Folder folder;
  auto first = NewFile::create(folder.path("x"));
  auto second = NewFile::create(folder.path("x"));
  auto third = NewFile::create(folder.path("x"));
  REQUIRE((first && second && third));
  CHECK(::write(third->fd(), "third", 5) == 5);
  CHECK(first->commit(false));
  auto refused = second->commit(false);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == EEXIST);
  CHECK(third->commit(true));
  CHECK(folder.text("x") == "third");
}
