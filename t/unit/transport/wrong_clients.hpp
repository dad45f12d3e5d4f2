// SPDX-License-Identifier: Apache-2.0
//
// What those send who are no shell of this job.
#pragma once

#include <string>
#include <vector>

namespace nacre::transport {

std::string hello_of_tls12();  // the first message of a client that knows TLS 1.2 only
std::string random_bytes(std::size_t size, unsigned seed);
std::string hello_with_secret(char letter, const std::string& job);  // that of a shell which has this secret
// All kinds of first words, none of which proves anything to one who listens on TCP; `to_unix`: on a Unix socket.
std::vector<std::string> wrong_words(bool to_unix = false);

}  // namespace nacre::transport
