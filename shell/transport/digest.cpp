// SPDX-License-Identifier: Apache-2.0
#include "transport/digest.hpp"

#include "transport/openssl.hpp"

namespace nacre::transport {

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
