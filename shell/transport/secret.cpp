// SPDX-License-Identifier: Apache-2.0
#include "transport/secret.hpp"

#include <fcntl.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "transport/openssl.hpp"

namespace nacre::transport {
namespace {

constexpr std::size_t kDigits = Secret::kSize * 2;
constexpr std::size_t kMostBlanks = 64;  // bytes around the digits

// A buffer on the stack that is wiped at the end.
struct Line {
  std::array<char, kDigits + kMostBlanks> bytes{};
  std::size_t size = 0;
  ~Line() { ::explicit_bzero(bytes.data(), bytes.size()); }
  [[nodiscard]] std::string_view view() const { return {bytes.data(), size}; }
};

int digit_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

// Cannot fail with this value.
void leave_no_core_file() { ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

// Reads what the digits take, and then byte by byte, as a task's input may follow the newline.
Result<void> read_line(int fd, Line& line) {
  while (line.size < line.bytes.size()) {
    char* end = line.bytes.data() + line.size;
    ssize_t got = ::read(fd, end, line.size < kDigits ? kDigits - line.size : 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, "cannot read the secret");
    if (got == 0) return {};
    char* newline = std::find(end, end + got, '\n');
    line.size += static_cast<std::size_t>(newline - end);
    if (newline != end + got) return {};
  }
  return {};
}

Result<void> check_private(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) < 0) return system_error(errno, "cannot be looked at");
  if (!S_ISREG(status.st_mode)) return invalid("the secret has to be in a regular file");
  if (status.st_uid != ::geteuid()) {
    return Error{
        EPERM,
        fmt::format("belongs to user {}; the secret has to be in a file of user {}, the user of this process",
                    status.st_uid, ::geteuid())};
  }
  if ((status.st_mode & 077) != 0) {
    return Error{EPERM,
                 fmt::format("has mode {:04o}, so that others may touch it; chmod 0600, and take a new secret",
                             status.st_mode & 07777U)};
  }
  return {};
}

Result<void> check_mounted(int fd) {
  struct statvfs mount {};
  struct stat status {};
  if (::fstatvfs(fd, &mount) < 0 || ::fstat(fd, &status) < 0) return system_error(errno, "cannot be looked at");
  const bool is_ours = status.st_uid == 0 || status.st_uid == ::geteuid();
  if ((mount.f_flag & ST_RDONLY) == 0 || !is_ours || !S_ISREG(status.st_mode)) return check_private(fd);
  if ((status.st_mode & 022) == 0) return {};
  return Error{EPERM, fmt::format("has mode {:04o}, so that others may write it", status.st_mode & 07777U)};
}

}  // namespace

Secret::Secret() { leave_no_core_file(); }

Secret::Secret(Secret&& other) noexcept : bytes_(other.bytes_) {
  ::explicit_bzero(other.bytes_.data(), other.bytes_.size());
}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    bytes_ = other.bytes_;
    ::explicit_bzero(other.bytes_.data(), other.bytes_.size());
  }
  return *this;
}

Result<Secret> Secret::generate() {
  Secret secret;
  std::size_t filled = 0;
  while (filled < kSize) {
    ssize_t got = ::getrandom(secret.bytes_.data() + filled, kSize - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, "no random bytes for the job's secret");
    filled += static_cast<std::size_t>(got);
  }
  return secret;
}

Result<Secret> Secret::from_hex(std::string_view text) {
  text = trim(text);
  if (text.size() != kDigits) {
    return invalid(fmt::format("a secret has {} hexadecimal digits; here are {} characters", kDigits, text.size()));
  }
  Secret secret;
  for (std::size_t i = 0; i < kSize; ++i) {
    int high = digit_value(text[2 * i]);
    int low = digit_value(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return invalid(fmt::format("a secret has {} hexadecimal digits; one of these characters is none", kDigits));
    }
    secret.bytes_[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return secret;
}

Result<Secret> Secret::from_file(const std::string& path) {
  // Opens neither a link to another file nor waits for the writer of a fifo.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!fd && errno == ELOOP) return invalid(path + ": is a symbolic link; name the file itself");
  if (!fd) return system_error(errno, path);
  CHECK_OK(in(path, check_private(fd.get())));
  return in(path, from_descriptor(fd.get()));
}

Result<Secret> Secret::from_mounted_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return system_error(errno, path);
  CHECK_OK(in(path, check_mounted(fd.get())));
  return in(path, from_descriptor(fd.get()));
}

Result<Secret> Secret::from_descriptor(int fd) {
  leave_no_core_file();
  Line line;
  CHECK_OK(read_line(fd, line));
  return from_hex(line.view());
}

Secret Secret::copy() const {
  Secret same;
  same.bytes_ = bytes_;
  return same;
}

Result<std::string> Secret::derive(std::string_view purpose) const {
  OpenSsl ssl = TRY(OpenSsl::load());
  std::array<unsigned char, kSize> digest{};
  unsigned int size = kSize;
  const auto* text = reinterpret_cast<const unsigned char*>(purpose.data());
  if (ssl.HMAC(ssl.EVP_sha256(), bytes_.data(), kSize, text, purpose.size(), digest.data(), &size) == nullptr)
    return invalid("libcrypto.so.3 cannot make an HMAC");
  std::string out;
  for (unsigned char each : digest) out += fmt::format("{:02x}", each);
  return out;
}

std::string Secret::hex() const {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  out.reserve(kDigits + 1);  // room for a newline: growing would leave a copy behind
  for (unsigned char byte : bytes_) {
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

void wipe(std::string& text) {
  text.resize(text.capacity());
  ::explicit_bzero(text.data(), text.size());
  text.clear();
}

// ---- digest -----------------------------------------------------------------------------

Result<std::string> sha256(std::string_view bytes) {
  constexpr std::size_t kSize = 32;
  OpenSsl ssl = TRY(OpenSsl::load());
  std::string out(kSize, '\0');
  unsigned int size = kSize;
  auto* to = reinterpret_cast<unsigned char*>(out.data());
  if (ssl.EVP_Digest(bytes.data(), bytes.size(), to, &size, ssl.EVP_sha256(), nullptr) == 1 && size == kSize)
    return out;
  return invalid("libcrypto.so.3 cannot make a SHA-256");
}

}  // namespace nacre::transport
