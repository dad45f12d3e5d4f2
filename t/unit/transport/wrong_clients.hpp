// SPDX-License-Identifier: Apache-2.0
//
// First words of clients that are no shells of this job.
#pragma once

#include <string>
#include <vector>

namespace nacre::transport {

std::string hello_of_tls12();  // the first message of a client that knows TLS 1.2 only
std::string random_bytes(std::size_t size, unsigned seed);
std::string hello_with_secret(char letter, const std::string& job);  // the first message of a shell with this
                                                                     // secret
// All kinds of first words that prove nothing to a listener on TCP; `to_unix`: on a Unix socket.
std::vector<std::string> wrong_words(bool to_unix = false);

}  // namespace nacre::transport
