// SPDX-License-Identifier: Apache-2.0
#include "wrong_clients.hpp"

#include <random>

#include "transport/tls.hpp"
#include "world.hpp"

namespace nacre::transport {
namespace {

std::string big_endian(std::size_t number, int bytes) {
  std::string out;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>((number >> shift) & 0xff);
  return out;
}

std::string counted(int bytes, const std::string& text) { return big_endian(text.size(), bytes) + text; }

}  // namespace

std::string hello_of_tls12() {
  std::string groups = std::string("\x00\x0a", 2) + counted(2, counted(2, std::string("\x00\x1d\x00\x17", 4)));
  std::string algorithms = std::string("\x00\x0d", 2) + counted(2, counted(2, std::string("\x04\x03\x08\x04", 4)));
  std::string body = "\x03\x03" + std::string(32, 'r') + counted(1, "") +
                     counted(2, std::string("\xc0\x2f\xc0\x2b\x00\x9c", 6)) + counted(1, std::string("\0", 1)) +
                     counted(2, groups + algorithms);
  return "\x16\x03\x01" + counted(2, "\x01" + counted(3, body));
}

std::string random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string out(size, '\0');
  for (char& byte : out) byte = static_cast<char>(random());
  return out;
}

std::string hello_with_secret(char letter, const std::string& job) {
  Secret secret = Secret::from_hex(std::string(2 * Secret::kSize, letter)).value();
  auto context = TlsContext::create(job, secret).value();
  auto tls = Tls::create(*context, Role::dials).value();
  REQUIRE_FALSE(tls->handshake().value());
  std::string out;
  tls->take_output(out);
  return out;
}

std::vector<std::string> wrong_words(bool to_unix) {
  std::string good = hello_with_secret('a', kJob);
  std::string changed = good;
  changed[good.size() - 1] = static_cast<char>(changed[good.size() - 1] ^ 1);  // of the bytes that prove the secret
  return {
      "GET / HTTP/1.1\r\nHost: here\r\n\r\n",
      "SSH-2.0-OpenSSH_9.2\r\n",
      std::string(5, '\0'),
      random_bytes(1, 1),
      random_bytes(300, 2),
      random_bytes(60000, 3),
      hello_of_tls12(),
      hello_with_secret('b', kJob),
      hello_with_secret('a', "another"),
      changed,
      good + random_bytes(500, 4),
      good.substr(0, good.size() / 2) + random_bytes(200, 5),
      std::string("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc", 9) + std::string(20000, 'x'),  // a hello of 16 KiB
      std::string("\x16\x03\x03\xff\xff", 5) + std::string(70000, 'x'),
      std::string("\x15\x03\x03\x00\x02\x02\x28", 7),                 // an alert
      std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x'),  // data without a handshake
      "nacre/1 " + std::string(to_unix ? "other" : kJob) + "\n" +
          std::string("\0\0\0\6\1hello", 10),  // as on a Unix socket
      std::string("\0\0\0\6\1hello", 10),      // a frame, at once
  };
}

}  // namespace nacre::transport
