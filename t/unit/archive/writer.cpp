// SPDX-License-Identifier: Apache-2.0
#include "archive/create.hpp"

#include <fcntl.h>

#include "base/unique_fd.hpp"
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
