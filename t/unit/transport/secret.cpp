// SPDX-License-Identifier: Apache-2.0
#include "transport/secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/file.hpp"
#include "world.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

namespace {

const std::string kDigitsOfOne = "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100";

std::string write_with_mode(const kit::TemporaryFolder& folder, const std::string& text, mode_t mode) {
  std::string path = folder.path("secret");
  std::ofstream(path) << text;
  REQUIRE(::chmod(path.c_str(), mode) == 0);
  return path;
}

}  // namespace

TEST_CASE("a secret as text") {
  Secret secret = Secret::from_hex(" " + kDigitsOfOne + "\n").value();
  CHECK(secret.bytes()[1] == 0x11);
  CHECK(secret.bytes()[16] == 0xff);
  CHECK(secret.hex() == "00112233445566778899aabbccddeeffffeeddccbbaa99887766554433221100");
  CHECK(secret.copy().hex() == secret.hex());
  auto bad = GENERATE(as<std::string>(), "", "0011", kDigitsOfOne.substr(1), kDigitsOfOne + "0",
                      kDigitsOfOne.substr(1) + "g", kDigitsOfOne.substr(1) + "\x80");
  Result<Secret> refused = Secret::from_hex(bad);
  REQUIRE_FALSE(refused);
  CHECK(contains(refused.error().message, "64 hexadecimal digits"));
  if (bad.size() > 4) CHECK_FALSE(contains(refused.error().message, bad.substr(0, 4)));  // never shown
}

TEST_CASE("secrets are made at random") {
  Secret one = Secret::generate().value();
  Secret two = Secret::generate().value();
  CHECK(one.hex() != two.hex());
  CHECK(one.hex() != std::string(64, '0'));
}

TEST_CASE("a secret that was moved from is wiped, and so is text") {
  Secret one = Secret::generate().value();
  std::string hex = one.hex();
  Secret two = std::move(one);
  CHECK(two.hex() == hex);
  CHECK(one.hex() == std::string(64, '0'));  // NOLINT: that it is so is what is tested
  one = std::move(two);
  CHECK(one.hex() == hex);
  CHECK(two.hex() == std::string(64, '0'));  // NOLINT
  std::string text = hex;
  text.resize(40);
  const char* memory = text.data();
  wipe(text);
  CHECK(text.empty());
  CHECK(std::string(memory, 40) == std::string(40, '\0'));
}

TEST_CASE("a secret in a file") {
  kit::TemporaryFolder folder;
  Secret secret = Secret::generate().value();
  CHECK(Secret::from_file(write_with_mode(folder, secret.hex() + "\n", 0600)).value().hex() == secret.hex());
  CHECK(Secret::from_file(write_with_mode(folder, kDigitsOfOne, 0400)).has_value());
}

TEST_CASE("a secret that others may read is refused") {
  kit::TemporaryFolder folder;
  auto mode = GENERATE(as<mode_t>(), 0644, 0640, 0604, 0620, 0601, 0610);
  std::string path = write_with_mode(folder, kDigitsOfOne, mode);
  Result<Secret> refused = Secret::from_file(path);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == EPERM);
  CHECK(refused.error().message ==
        fmt::format("{}: has mode {:04o}, so that others may touch it; chmod 0600, and take a new secret", path,
                    mode));
}

TEST_CASE("what is no file of a secret is refused with its name") {
  kit::TemporaryFolder folder;
  std::string path = folder.path("secret");
  CHECK(Secret::from_file(path).error().message == path + ": No such file or directory");
  CHECK(contains(Secret::from_file(folder.path("")).error().message, "has to be in a regular file"));
  write_with_mode(folder, kDigitsOfOne, 0600);
  REQUIRE(::symlink(path.c_str(), folder.path("link").c_str()) == 0);
  CHECK(contains(Secret::from_file(folder.path("link")).error().message, "is a symbolic link"));
  REQUIRE(::mkfifo(folder.path("fifo").c_str(), 0600) == 0);
  CHECK(contains(Secret::from_file(folder.path("fifo")).error().message, "has to be in a regular file"));
  write_with_mode(folder, "short", 0600);
  CHECK(contains(Secret::from_file(path).error().message, path + ": a secret has 64 hexadecimal digits"));
  write_with_mode(folder, std::string(100000, 'a'), 0600);
  CHECK(contains(Secret::from_file(path).error().message, path + ": a secret has 64 hexadecimal digits"));
  if (::geteuid() == 0) {
    REQUIRE(::chown(path.c_str(), 1, 1) == 0);
    CHECK(contains(Secret::from_file(path).error().message, "belongs to user 1;"));
  }
}

TEST_CASE("a mounted secret may be a link; where it can be written it is as private as others") {
  kit::TemporaryFolder folder;
  std::string path = write_with_mode(folder, kDigitsOfOne, 0600);
  REQUIRE(::symlink(path.c_str(), folder.path("link").c_str()) == 0);
  CHECK(Secret::from_mounted_file(folder.path("link")).has_value());
  CHECK(Secret::from_mounted_file(folder.path("none")).error().message ==
        folder.path("none") + ": No such file or directory");
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  CHECK(contains(Secret::from_mounted_file(path).error().message, "has mode 0644, so that others may touch it"));
}

TEST_CASE("a secret from a descriptor leaves what follows it") {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  Secret secret = Secret::generate().value();
  REQUIRE(write_all(pipe.write.get(), secret.hex() + "\ninput of a task") == 0);
  pipe.write.reset();
  CHECK(Secret::from_descriptor(pipe.read.get()).value().hex() == secret.hex());
  char rest[64];
  CHECK(::read(pipe.read.get(), rest, sizeof rest) == 15);
  CHECK_FALSE(Secret::from_descriptor(pipe.read.get()));  // the end
}

TEST_CASE("a secret from a descriptor that ends too early is not waited for") {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  REQUIRE(write_all(pipe.write.get(), "abc\n") == 0);
  auto secret = Secret::from_descriptor(pipe.read.get());
  REQUIRE_FALSE(secret);
  CHECK(secret.error().message == "a secret has 64 hexadecimal digits; here are 3 characters");
}

TEST_CASE("digests are those of FIPS 180-2") {
  auto hex = [](std::string_view bytes) {
    std::string out;
    std::string digest = sha256(bytes).value();
    for (unsigned char byte : digest) {
      constexpr const char* kDigits = "0123456789abcdef";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
    return out;
  };
  CHECK(hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
