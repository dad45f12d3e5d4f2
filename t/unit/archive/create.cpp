// SPDX-License-Identifier: Apache-2.0
#include "archive/create.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "archive/extract.hpp"
#include "fewer.hpp"
#include "tar.hpp"

using namespace nacre;
using namespace nacre::archive;

namespace {

UniqueFd new_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  REQUIRE(fd);
  return fd;
}

ArchiveEntry file_of(std::uint64_t size) {
  ArchiveEntry entry;
  entry.path = "a";
  entry.size = size;
  return entry;
}

}  // namespace

TEST_CASE("compressions have names and extensions") {
  CHECK(name_of(Compression::none) == "none");
  CHECK(extension_of(Compression::none) == ".tar");
  CHECK(extension_of(Compression::gzip) == ".tar.gz");
  CHECK(extension_of(Compression::zstd) == ".tar.zst");
  CHECK(extension_of(Compression::xz) == ".tar.xz");
  for (Compression each : kCompressions) CHECK(compression_named(name_of(each)) == each);
  CHECK_FALSE(compression_named("zip"));
}

TEST_CASE("more content than an entry has room for is an error") {
  Folder folder;
  UniqueFd fd = new_file(folder.path("x"));
  auto writer = Writer::create(library(), fd.get(), Compression::none);
  REQUIRE(writer);
  REQUIRE(writer->begin(file_of(3)));
  auto written = writer->write(0, "four");
  REQUIRE_FALSE(written);
  CHECK(written.error().message == "more content than the entry has room for");
}

TEST_CASE("an archive that is abandoned within a file is not filled up") {
  for (Compression compression : {Compression::none, Compression::zstd}) {
    Folder folder;
    UniqueFd fd = new_file(folder.path("x"));
    {
      auto writer = Writer::create(library(), fd.get(), compression);
      REQUIRE(writer);
      REQUIRE(writer->begin(file_of(std::uint64_t{64} << 20)));
      REQUIRE(writer->write(0, "start"));
    }
    CHECK(folder.stat("x").st_size < 10000);
  }
}

TEST_CASE("the checksum is read even where the last of the content fills libarchive's buffer") {
  constexpr std::size_t kBuffer = std::size_t{128} << 10;
  std::string noise;
  for (unsigned x = 1; noise.size() < kBuffer - 3 * kTarBlock;) {
    noise += static_cast<char>((x = x * 1103515245 + 12345) >> 16);
  }
  Folder folder;
  for (Compression compression : {Compression::none, Compression::zstd}) {
    UniqueFd fd = new_file(folder.path(name_of(compression)));
    auto writer = Writer::create(library(), fd.get(), compression);
    REQUIRE(writer);
    REQUIRE(writer->begin(file_of(noise.size())));
    REQUIRE(writer->write(0, noise));
    REQUIRE(writer->end());
    REQUIRE(writer->finish());
  }
  REQUIRE(folder.stat("none").st_size == kBuffer);
  std::string bytes = folder.text("zstd");
  REQUIRE(contents_of(Reader::of_memory(library(), bytes, "x")).error.empty());
  bytes[bytes.size() / 2] ^= 1;
  CHECK_FALSE(contents_of(Reader::of_memory(library(), bytes, "x")).error.empty());
}

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

namespace fs = std::filesystem;

namespace {

using IfExists = CreateOptions::IfExists;
using Names = std::vector<std::string>;

// A tree "from" to be put into archives of the store "store".
struct Creation {
  Creation() {
    options.directory = folder.make("from");
    options.paths = {"."};
  }

  std::string run(const Watch& watch = {}) {
    auto created = create(library(), store, "main", options, watch);
    if (created) done = *created;
    return created ? "" : created.error().message;
  }

  // The archive as it was read back.
  [[nodiscard]] Contents contents() const {
    auto found = store.find("main");
    REQUIRE(found);
    return contents_of(Reader::open(library(), found->path));
  }
  [[nodiscard]] Names names() const {
    Names out;
    for (const ArchiveEntry& entry : contents().entries) out.push_back(entry.path);
    return out;
  }

  // The names in the store's directory, also of temporary files.
  [[nodiscard]] Names stored() const {
    Names out;
    if (!folder.has("store")) return out;
    for (const auto& each : fs::directory_iterator(folder.path("store"))) out.push_back(each.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }

  void extract_to(const std::string& directory) const {
    auto found = store.find("main");
    REQUIRE(found);
    auto reader = Reader::open(library(), found->path);
    REQUIRE(reader);
    ExtractOptions to;
    to.directory = directory;
    auto extracted = extract(*reader, to, {});
    INFO((extracted ? "" : extracted.error().message));
    REQUIRE(extracted);
  }

  Folder folder;
  ArchiveStore store{folder.path("store")};
  CreateOptions options;
  Progress done;
};

void write_sparse(const std::string& path, off_t size, off_t at, std::string_view text) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0644);
  REQUIRE(fd >= 0);
  CHECK(::ftruncate(fd, size) == 0);
  CHECK(::pwrite(fd, text.data(), text.size(), at) == static_cast<ssize_t>(text.size()));
  ::close(fd);
}

}  // namespace

TEST_CASE("a tree goes into an archive and comes out as it was") {
  for (Compression compression : kCompressions) {
    Creation creation;
    CAPTURE(name_of(compression));
    const Folder& folder = creation.folder;
    REQUIRE_FALSE(folder.make("from/d/e").empty());
    REQUIRE_FALSE(folder.file("from/d/file", std::string(300000, 'x') + "end").empty());
    REQUIRE_FALSE(folder.file("from/gr\xc3\xbc\xc3\x9f", "umlaut").empty());
    REQUIRE_FALSE(folder.file("from/\xff", "no text").empty());
    REQUIRE_FALSE(folder.file("from/empty", "").empty());
    fs::create_symlink("../empty", folder.path("from/d/link"));
    fs::create_hard_link(folder.path("from/d/file"), folder.path("from/other"));
    REQUIRE(::chmod(folder.path("from/d/file").c_str(), 0751) == 0);
    REQUIRE(::chmod(folder.path("from/d").c_str(), 0500) == 0);
    const timespec times[2] = {{0, UTIME_OMIT}, {1234567890, 987654321}};
    REQUIRE(::utimensat(AT_FDCWD, folder.path("from/d/file").c_str(), times, 0) == 0);

    creation.options.compression = compression;
    REQUIRE(creation.run() == "");
    CHECK(creation.stored() == Names{"main" + std::string(extension_of(compression))});
    CHECK(creation.done.entries == 8);
    CHECK(creation.done.bytes == 300003 + 6 + 7);
    creation.extract_to(folder.make("to"));

    CHECK(folder.text("to/d/file") == folder.text("from/d/file"));
    CHECK(folder.text("to/gr\xc3\xbc\xc3\x9f") == "umlaut");
    CHECK(folder.text("to/\xff") == "no text");
    CHECK(folder.stat("to/empty").st_size == 0);
    CHECK(fs::read_symlink(folder.path("to/d/link")) == "../empty");
    CHECK(folder.stat("to/other").st_ino == folder.stat("to/d/file").st_ino);
    CHECK(folder.stat("to/d/file").st_mode == (S_IFREG | 0751));
    CHECK(folder.stat("to/d/file").st_mtim.tv_sec == 1234567890);
    CHECK(folder.stat("to/d/file").st_mtim.tv_nsec == 987654321);
    CHECK(folder.stat("to/d").st_mode == (S_IFDIR | 0500));
    CHECK(fs::is_directory(folder.path("to/d/e")));
  }
}

TEST_CASE("the order in an archive is that of names, whatever the file system's is") {
  Creation creation;
  REQUIRE_FALSE(creation.folder.make("from/b").empty());
  for (const char* name : {"from/c", "from/b/z", "from/b/a", "from/a"}) {
    REQUIRE_FALSE(creation.folder.file(name, "").empty());
  }
  REQUIRE(creation.run() == "");
  CHECK(creation.names() == Names{"a", "b", "b/a", "b/z", "c"});
}

TEST_CASE("holes stay holes: in the archive, and where it is extracted") {
  constexpr off_t kSize = off_t{6} << 20;
  Creation creation;
  const Folder& folder = creation.folder;
  write_sparse(folder.path("from/middle"), kSize, off_t{3} << 20, "text");
  write_sparse(folder.path("from/start"), kSize, 0, "text");
  write_sparse(folder.path("from/end"), kSize, kSize - 4, "text");
  write_sparse(folder.path("from/none"), kSize, 0, "");
  creation.options.compression = Compression::none;
  REQUIRE(creation.run() == "");
  CHECK(folder.stat("store/main.tar").st_size < 100000);
  creation.options.if_exists = IfExists::append;  // a copy also keeps them
  creation.options.paths = {};
  REQUIRE(creation.run() == "");
  CHECK(folder.stat("store/main.tar").st_size < 100000);
  creation.extract_to(folder.make("to"));
  for (const std::string name : {"middle", "start", "end", "none"}) {
    CAPTURE(name);
    CHECK(folder.stat("to/" + name).st_size == kSize);
    CHECK(folder.stat("to/" + name).st_blocks * 512 < 100000);
  }
  CHECK(folder.text("to/middle") == folder.text("from/middle"));
  CHECK(folder.text("to/start") == folder.text("from/start"));
  CHECK(folder.text("to/end") == folder.text("from/end"));
}

TEST_CASE("what cannot be stored is named, and there is no archive") {
  auto error = [](const std::function<void(const std::string& path)>& make) {
    Creation creation;
    make(creation.folder.path("from/x"));
    std::string message = creation.run();
    CHECK(creation.stored().empty());
    return message;
  };
  const std::string only = "; only files, directories and symbolic links can be stored";
  CHECK(error([](const std::string& path) { ::mkfifo(path.c_str(), 0600); }) == "'x': a fifo" + only);
  CHECK(error([](const std::string& path) {
          int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
          sockaddr_un address{AF_UNIX, {}};
          path.copy(address.sun_path, sizeof address.sun_path - 1);
          REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
          ::close(fd);
        }) == "'x': a socket" + only);
  CHECK(error([](const std::string& path) { fs::create_symlink("/etc/passwd", path); }) ==
        "'x': a symbolic link to '/etc/passwd', which is absolute");
  CHECK(error([](const std::string& path) { fs::create_symlink("../x", path); }) ==
        "'x': a symbolic link to '../x', which leads outside");
  CHECK(error([](const std::string& path) {
          std::ofstream(path) << "x";
          ::chmod(path.c_str(), 04755);
        }) == "'x': a set-user-ID or set-group-ID bit, which no archive carries");
}

TEST_CASE("a path that is not there, absolute, or above the directory is an error") {
  Creation creation;
  creation.options.paths = {"none"};
  CHECK(creation.run() == "'none': No such file or directory");
  creation.options.paths = {"/etc"};
  CHECK(creation.run() == "'/etc': an absolute path; expected one below the directory of -C");
  creation.options.paths = {"a/../../b"};
  CHECK(creation.run() == "'a/../../b': a path with a '..' part; expected one below the directory of -C");
  creation.options.directory = creation.folder.path("none");
  creation.options.paths = {"."};
  CHECK(creation.run() == creation.folder.path("none") + ": No such file or directory");
  CHECK(creation.stored().empty());
}

TEST_CASE("an archive that is there is not touched without being asked for") {
  Creation creation;
  REQUIRE_FALSE(creation.folder.file("from/a", "a").empty());
  REQUIRE(creation.run() == "");
  REQUIRE_FALSE(creation.folder.file("from/b", "b").empty());
  CHECK(creation.run() == creation.folder.path("store/main.tar.zst") + ": exists already");
  CHECK(creation.names() == Names{"a"});
  creation.options.if_exists = IfExists::replace;
  CHECK(creation.run() == "");
  CHECK(creation.names() == Names{"a", "b"});
}

TEST_CASE("replacing an archive by one of another compression leaves one of them") {
  Creation creation;
  REQUIRE_FALSE(creation.folder.file("from/a", "a").empty());
  REQUIRE(creation.run() == "");
  creation.options.if_exists = IfExists::replace;
  creation.options.compression = Compression::xz;
  REQUIRE(creation.run() == "");
  CHECK(creation.stored() == Names{"main.tar.xz"});
}

TEST_CASE("appending keeps what is there, and adds to it") {
  Creation creation;
  const Folder& folder = creation.folder;
  REQUIRE_FALSE(folder.make("from/d").empty());
  REQUIRE_FALSE(folder.file("from/d/a", "a").empty());
  creation.options.compression = Compression::gzip;
  REQUIRE(creation.run() == "");
  REQUIRE_FALSE(folder.file("from/b", "b").empty());
  fs::remove(folder.path("from/d/a"));
  REQUIRE_FALSE(folder.file("from/d/c", "c").empty());
  creation.options.if_exists = IfExists::append;
  creation.options.compression.reset();
  REQUIRE(creation.run() == "");
  CHECK(creation.stored() == Names{"main.tar.gz"});
  CHECK(creation.names() == Names{"d", "d/a", "b", "d/c"});
  CHECK(creation.contents().texts == Names{"", "a", "b", "c"});
  CHECK(creation.done.entries == 4);
}

TEST_CASE("appending to no archive makes one") {
  Creation creation;
  REQUIRE_FALSE(creation.folder.file("from/a", "a").empty());
  creation.options.if_exists = IfExists::append;
  CHECK(creation.run() == "");
  CHECK(creation.stored() == Names{"main.tar.zst"});
}

TEST_CASE("a path that is in the archive already is an error, and the archive stays") {
  Creation creation;
  REQUIRE_FALSE(creation.folder.file("from/a", "a").empty());
  REQUIRE(creation.run() == "");
  REQUIRE_FALSE(creation.folder.file("from/a", "new").empty());
  creation.options.if_exists = IfExists::append;
  CHECK(creation.run() == "'a': in the archive already");
  CHECK(creation.contents().texts == Names{"a"});
  CHECK(creation.stored() == Names{"main.tar.zst"});
  creation.options.paths = {"a", "./a"};
  creation.options.if_exists = IfExists::replace;
  CHECK(creation.run() == "'a': in the archive already");
}

TEST_CASE("appending to a damaged archive is an error, and it stays") {
  Creation creation;
  REQUIRE_FALSE(creation.folder.make("store").empty());
  REQUIRE_FALSE(creation.folder.file("store/main.tar", tar_of(Member{"a", '0', "a", "", 0644})).empty());
  creation.options.if_exists = IfExists::append;
  CHECK(creation.run() == creation.folder.path("store/main.tar") + ": damaged or cut off: it has no end mark");
  CHECK(creation.stored() == Names{"main.tar"});
}

TEST_CASE("an archive that lies in the tree does not go into itself") {
  Creation creation;
  REQUIRE_FALSE(creation.folder.file("from/a", "a").empty());
  creation.store = ArchiveStore(creation.folder.path("from"));
  REQUIRE(creation.run() == "");
  CHECK(creation.names() == Names{"a"});
}

TEST_CASE("a creation that is told to stop leaves nothing") {
  for (Compression compression : kCompressions) {
    Creation creation;
    CAPTURE(name_of(compression));
    creation.options.compression = compression;
    REQUIRE_FALSE(creation.folder.file("from/a", std::string(10, 'a')).empty());
    REQUIRE_FALSE(creation.folder.file("from/b", std::string(10, 'b')).empty());
    Names seen;
    Watch watch;
    watch.on_entry = [&](const ArchiveEntry& entry) { seen.push_back(entry.path); };
    watch.go_on = [](const Progress& progress) { return progress.entries < 2; };
    CHECK(creation.run(watch) == "interrupted");
    CHECK(seen == Names{"a", "b"});
    CHECK(creation.stored().empty());
  }
}

TEST_CASE("a file that changes while it is read is an error") {
  for (const char* change : {"grow", "shrink"}) {
    Creation creation;
    std::string path = creation.folder.file("from/a", std::string(3 << 20, 'a'));
    Watch watch;
    watch.go_on = [&](const Progress& progress) {
      if (progress.bytes > 0) CHECK(::truncate(path.c_str(), change[0] == 'g' ? 4 << 20 : 1 << 20) == 0);
      return true;
    };
    CHECK(creation.run(watch) ==
          (change[0] == 'g' ? "'a': changed while it was read" : "'a': shrank while it was read"));
    CHECK(creation.stored().empty());
  }
}

TEST_CASE("each flipped bit of an archive is noticed with zstd, where its frames have checksums") {
  Creation creation;
  std::string noise;
  for (unsigned i = 0, x = 1; i < 3000; ++i) noise += static_cast<char>((x = x * 1103515245 + 12345) >> 16);
  REQUIRE_FALSE(creation.folder.file("from/a", noise).empty());
  REQUIRE(creation.run() == "");
  const std::string good = creation.folder.text("store/main.tar.zst");
  REQUIRE(good.size() > 3000);
  std::size_t unnoticed = 0;
  for (std::size_t at = 0; at < good.size(); at += kit::step(10)) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    Contents contents = contents_of(Reader::of_memory(library(), bad, "x.tar"));
    if (contents.error.empty() && contents.texts != Names{noise}) FAIL("a flipped bit at " << at);
    unnoticed += contents.error.empty() ? 1 : 0;
  }
  // Changes with no effect on what is read: in the checksum behind the end mark, and in unused bits of headers.
  CHECK(unnoticed < 10);
}

TEST_CASE("an archive that was cut off is noticed with each compression") {
  for (Compression compression : kCompressions) {
    Creation creation;
    CAPTURE(name_of(compression));
    REQUIRE_FALSE(creation.folder.file("from/a", std::string(3000, 'a')).empty());
    creation.options.compression = compression;
    REQUIRE(creation.run() == "");
    const std::string good = creation.folder.text("store/main" + std::string(extension_of(compression)));
    REQUIRE(contents_of(Reader::of_memory(library(), good, "x")).error.empty());
    for (std::size_t size : {good.size() / 4, good.size() / 2, good.size() * 3 / 4}) {
      CAPTURE(size);
      CHECK_FALSE(contents_of(Reader::of_memory(library(), good.substr(0, size), "x")).error.empty());
    }
  }
}

TEST_CASE("a full disk is told, and leaves no archive") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  for (Compression compression : {Compression::none, Compression::zstd}) {
    Creation creation;
    REQUIRE_FALSE(creation.folder.file("from/a", std::string(1 << 20, 'a')).empty());
    creation.options.compression = compression;
    rlimit small{compression == Compression::none ? 100000 : rlim_t{20}, before.rlim_max};
    auto handler = std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    std::string error = creation.run();
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    std::signal(SIGXFSZ, handler);
    CHECK(error.find("File too large") != std::string::npos);
    CHECK(creation.stored().empty());
  }
}
